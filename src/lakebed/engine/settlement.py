"""What settling one unit does to the files of a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pyroaring import BitMap64

from lakebed.core.actions import AddFile, FileKey, RemoveFile
from lakebed.engine.unit import Unit


@dataclass
class Matched:
    """One unit after its keys have been matched."""

    unit: Unit
    leaving: list[AddFile] = field(default_factory=list)
    """Files without a row that matters any more."""
    staying: list[tuple[AddFile, BitMap64]] = field(default_factory=list)
    """Files of the table that change, and pending ones, each with all its dead rows."""
    fresh: list[tuple[AddFile, BitMap64]] = field(default_factory=list)
    """New files with merged or rewritten rows."""
    deleted: int = 0
    """Rows that were not merged, since they are deleted in the same commit."""


UnitFiles = tuple[Unit, Sequence[AddFile]]


def size_of(item: UnitFiles) -> int:
    """The bytes of the files of a unit."""
    return sum(add.size for add in item[1])


def made_for(matched: Matched) -> list[str]:
    """The paths of the files that were made for it."""
    return [add.file_path for add, _ in matched.fresh]


@dataclass(frozen=True)
class Settlement:
    """The outcome of settling, or of compacting, the files of one unit."""

    unit: Unit
    removes: Mapping[FileKey, RemoveFile] = field(hash=False)
    """Files of the table that leave, or come back among ``adds`` with another vector."""
    adds: Mapping[str, AddFile] = field(hash=False)
    """By path: files that enter or change."""
    dropped: frozenset[str] = frozenset()
    """Pending files that do not enter: none of their rows is alive, or all are in other files now."""
    written: tuple[str, ...] = ()
    """Files that were made for it."""
    metrics: Mapping[str, int] = field(default_factory=dict, hash=False)
