"""Queries that are made of parts of a statement: each part remembers where the user wrote it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from lakebed.sql.cursor import Cursor, Name, Span
from lakebed.sql.source import Piece, Source


@dataclass
class Composition:
    """A text that grows."""

    origin: Source
    _parts: list[str] = field(default_factory=list)
    _pieces: list[Piece] = field(default_factory=list)
    _length: int = 0

    def add(self, *parts: str | Span | Name) -> Composition:
        """Add text of our own, or parts of the statement."""
        for part in parts:
            text = part if isinstance(part, str) else self.origin.slice(part.start, part.end)
            if not isinstance(part, str):
                self._pieces.append(Piece(self._length, self._length + len(text), part.start))
            self._parts.append(text)
            self._length += len(text)
        return self

    def source(self) -> tuple[Source, Span]:
        """What it has become, and all of it as a part."""
        made = Source.of("".join(self._parts))
        made = replace(made, statement=self.origin.written, pieces=tuple(self._pieces))
        return made, Cursor(made).rest()
