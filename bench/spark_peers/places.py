"""Where the inputs are; known to those who make them and to those who read them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Places:
    """The folders of one set of inputs."""

    root: Path

    @property
    def base(self) -> Path:
        """The rows of a table before anything is changed."""
        return self.root / "base"

    def batch(self, kind: str, number: int) -> Path:
        """One batch of rows that are written later."""
        return self.root / kind / f"{number:04}"

    def expected(self, name: str) -> Path:
        """The rows that must be live at the end of something."""
        return self.root / "expected" / name
