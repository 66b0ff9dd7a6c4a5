"""A contender's process, seen from the benchmark."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

from bench.peers.contenders import Contender

_ROOT = Path(__file__).resolve().parents[2]


@dataclass
class Taken:
    """What one contender took for one phase."""

    seconds: list[float] = field(default_factory=list)
    cpu: float = 0.0
    peak: float = 0.0
    """The most memory of its process, in GiB, the rows it was given or gave included."""
    totals: list[float] = field(default_factory=list)
    """If the whole was done several times: what it took each time. Seconds are then the least for each request."""

    def add(self, answer: dict[str, Any]) -> None:
        """Count one more answer in."""
        self.seconds.append(answer["seconds"])
        self.cpu += answer["cpu"]
        self.peak = max(self.peak, answer["peak"])

    @property
    def total(self) -> float:
        """All seconds together."""
        return sum(self.seconds)

    @property
    def best(self) -> float:
        """The least."""
        return min(self.seconds)


class Process:
    """A worker that waits for requests; it ends with the context."""

    def __init__(self, contender: Contender, verb: str, folder: Path, warm: Path) -> None:
        self.contender = contender
        order = {"contender": contender.name, "verb": verb, "folder": str(folder), "warm": str(warm)}
        self._process = subprocess.Popen(
            [contender.python, "-m", "bench.peers.worker", json.dumps(order)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=_ROOT,
        )

    def ask(self, **request: Any) -> dict[str, Any]:
        """The answer to one request. Raises RuntimeError if the worker failed."""
        assert self._process.stdin is not None
        os.sync()  # what others have written and not flushed must not be on this one's bill
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        answer: dict[str, Any] = self._answer()
        return answer

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the process of {self.contender.name} has failed; its error is above")
        return json.loads(line)

    def __enter__(self) -> Process:
        """Wait until it is ready, so that no process warms up while another one is measured."""
        try:
            self._answer()
        except BaseException:
            self._process.kill()
            self._process.communicate()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self._process.kill()
        self._process.communicate()
