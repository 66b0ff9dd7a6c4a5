"""Small public records that calls return."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from lakebed.core.errors import InputError


@dataclass(frozen=True)
class Commit:
    """One version of a table: what made it, and when."""

    table: str
    version: int
    timestamp: datetime
    """When it landed, in UTC; no two versions of a table have the same."""
    operation: str
    commit_id: str
    parameters: Mapping[str, str] = field(default_factory=dict, hash=False)
    metrics: Mapping[str, int] = field(default_factory=dict, hash=False)
    published: bool = True
    """The open log has it."""
    repeated: bool = False
    """This very transaction of the application had landed before; nothing was added."""


@dataclass(frozen=True)
class Maintenance:
    """What a settle or a compaction did."""

    table: str
    operation: str
    version: int | None
    """The last version that it made, be it by settling first; None if there was nothing to do, or all was skipped."""
    buckets: int
    """How many buckets (or partitions of a table without a key) were worked on."""
    skipped: tuple[str, ...] = ()
    """Those that others changed meanwhile; the next run finds them."""
    metrics: Mapping[str, int] = field(default_factory=dict, hash=False)


@dataclass(frozen=True)
class Copied:
    """What loading files did."""

    table: str
    version: int | None
    """The version that it made; None if all files had been loaded before."""
    files: tuple[str, ...]
    """The files that were loaded, in their order."""
    skipped: tuple[str, ...]
    """Those that had been loaded before."""
    rows: int
    """The rows of the files that were loaded."""


@dataclass(frozen=True)
class Tag:
    """A name for a version."""

    name: str
    version: int
    created: datetime
    retain_until: datetime | None = None
    """Until then the version's files are kept; None for ever."""


@dataclass(frozen=True)
class Consumer:
    """A named reader of changes."""

    name: str
    version: int
    """It has read all changes up to this version; those after it are kept for it."""
    updated: datetime
    until: datetime
    """Until then; a consumer that goes on reading moves it on."""
    whole: bool = False
    """It has read nothing yet, and begins with all rows of that version."""


@dataclass(frozen=True)
class Expired:
    """What an expiry did."""

    table: str
    versions: int
    """How many versions were forgotten."""
    earliest: int
    """From this version on every version is left; older ones only if a tag or a reader holds them."""


@dataclass(frozen=True)
class Vacuumed:
    """What a vacuum removed, or, as a dry run, would remove."""

    table: str
    dry_run: bool
    versions: int
    """How many versions expired."""
    files: pa.Table = field(hash=False, repr=False)
    """``path``, ``size`` and ``reason`` of each file, by path. The reason is ``no version needs it`` for a file of
    versions that expired now, ``orphan`` for one that no version has that the table remembers: mostly what a
    killed writer left, and ``list of a scan`` for what Spark read the table by."""
    failed: Mapping[str, str] = field(default_factory=dict, hash=False)
    """Files that could not be deleted, and why; the next vacuum tries again."""

    @property
    def paths(self) -> list[str]:
        """The paths of the files, below the table's location."""
        found: list[str] = self.files["path"].to_pylist()
        return found

    @property
    def bytes(self) -> int:
        """The size of all the files."""
        return sum(self.files["size"].to_pylist())


def moment(milliseconds: int) -> datetime:
    """Milliseconds since the epoch as a UTC time."""
    return datetime.fromtimestamp(milliseconds / 1000, UTC)


def numbers(metrics: Mapping[str, Any]) -> dict[str, int]:
    """The counts of a commit's metrics; the open log keeps them as text."""
    return {name: int(text) for name, text in metrics.items() if str(text).lstrip("-").isdecimal()}


def column_names(given: object, argument: str) -> tuple[str, ...]:
    """The names of columns, of one or of several. Raises InputError that says which ``argument`` is wrong.

    >>> column_names("dt", "drop="), column_names(["id", "dt"], "drop=")
    (('dt',), ('id', 'dt'))
    """
    if isinstance(given, str):
        return (given,)
    names = tuple(given) if isinstance(given, Iterable) else ()
    if not isinstance(given, Iterable) or not all(isinstance(name, str) for name in names):
        raise InputError(f"{argument} is a list of column names", expected="text, like ['id', 'dt']", found=repr(given))
    return names


def comment_text(comment: object) -> str | None:
    """The comment itself if it is text or None. Raises InputError: other readers of the log trip over numbers."""
    if comment is not None and not isinstance(comment, str):
        raise InputError("a comment is text", found=repr(comment))
    return comment


def check_whole(number: object, what: str) -> int:
    """The number itself if it is a whole one from 0. Raises InputError that says ``what`` should be one."""
    if type(number) is not int or number < 0:
        raise InputError(f"{what} is a whole number from 0", found=repr(number))
    return number
