"""The range of a read of changes: from a version, which it leaves out, to a version, which it takes in."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime

from lakebed.core.change_rows import EARLIEST, LATEST
from lakebed.core.errors import InputError, NotFoundError
from lakebed.core.instant import to_millis
from lakebed.engine.draft import Handle

Bound = int | str | datetime | date


@dataclass(frozen=True)
class Span:
    """The changes after version ``start`` and up to version ``end``."""

    start: int | None
    """None: the range begins with the whole snapshot of version ``first``."""
    end: int
    first: int
    """The oldest version that changes are told of."""
    expired: bool = False
    """What was asked for has expired: all of version ``end`` stands for it."""

    def __str__(self) -> str:
        begin = f"the whole of version {self.first}" if self.start is None else f"version {self.start}"
        return f"after {begin} up to version {self.end}"

    @property
    def versions(self) -> range:
        """The versions whose changes are told, but that of a snapshot."""
        return range(self.first + 1 if self.start is None else self.first, self.end + 1)


def find_span(handle: Handle, start: Bound, end: Bound | None, *, on_expired: str) -> Span:
    """The range that is asked for.

    A whole number is a version; a time, or text that is neither ``earliest`` nor ``latest`` nor the name of a tag, is
    the version that was the newest then. Raises InputError, and NotFoundError that names what is left.
    """
    newest = handle.metastore.head(handle.table_id)
    last = newest if end is None else _version(handle, end, newest)
    handle.metastore.state(handle.table_id, last)
    if start == EARLIEST:
        first = handle.metastore.begins(handle.table_id)
        if first > last:
            raise _backwards(handle, first, last)
        return Span(None, last, first)
    try:
        begun = _version(handle, start, newest)
        if begun <= last:
            handle.metastore.state(handle.table_id, begun)
    except NotFoundError as error:
        if on_expired == "error" or (isinstance(start, str) and not _is_time(start)):
            raise _expired(error) from error
        return Span(None, last, last, expired=True)
    if begun > last:
        raise _backwards(handle, begun, last)
    return Span(begun, last, begun + 1)


def _version(handle: Handle, bound: Bound, newest: int) -> int:
    if isinstance(bound, bool) or not isinstance(bound, int | str | date):
        raise InputError(
            f"table {handle.name}: this is no end of a range of versions",
            expected="a version, a time, a tag, 'earliest' or 'latest'",
            found=repr(bound),
        )
    if isinstance(bound, int):
        return bound
    if isinstance(bound, str):
        if bound == LATEST:
            return newest
        if bound == EARLIEST:
            return handle.metastore.begins(handle.table_id)
        tagged = {tag.name: tag.version for tag in handle.metastore.tags(handle.table_id)}
        if bound in tagged:
            return tagged[bound]
        if not _is_time(bound):
            return handle.metastore.tag(handle.table_id, bound).version
    return handle.metastore.version_at(handle.table_id, to_millis(bound))


def _is_time(text: str) -> bool:
    try:
        to_millis(text)
    except InputError:
        return False
    return True


def _backwards(handle: Handle, start: int, end: int) -> InputError:
    return InputError(
        f"table {handle.name}: a range of changes ends before it begins",
        expected="a start that is not after the end",
        found=f"version {start} to version {end}",
    )


def _expired(error: NotFoundError) -> NotFoundError:
    """The same error, saying what else can be done."""
    fix = error.fix or "begin with one of these, with 'earliest', or pass on_expired='snapshot'"
    return NotFoundError(error.what, expected=error.expected, found=error.found, fix=fix)
