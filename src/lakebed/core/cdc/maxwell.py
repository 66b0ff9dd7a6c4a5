"""The messages of Maxwell's daemon."""

from __future__ import annotations

from collections.abc import Collection

from lakebed.core.cdc.change import DELETE, INSERT, NOTHING, Change, MalformedError, Message, Wanted, image_in
from lakebed.core.cdc.positions import log_file, place

_PASSED_OVER = ("bootstrap-start", "bootstrap-complete", "heartbeat")
_STATEMENTS = ("table-", "database-")


class Maxwell:
    """Reads the messages of one column."""

    def changes(self, message: Message, wanted: Wanted) -> Collection[Change]:
        """The changes that a message tells of. Raises MalformedError."""
        kind = message.get("type")
        if not isinstance(kind, str):
            raise MalformedError("'type' is missing")
        if kind in _PASSED_OVER or kind.startswith(_STATEMENTS):
            return ()
        if wanted.is_other(message.get("database"), message.get("table")):
            return ()
        position = place_of(message, by_time=wanted.by_time)
        match kind:
            case "insert" | "bootstrap-insert":
                return (Change(INSERT, image_in(message, "data"), position + ".1", NOTHING),)
            case "update":
                after = image_in(message, "data")
                old = message.get("old")
                return wanted.update({**after, **old} if isinstance(old, dict) else None, after, position, NOTHING)
            case "delete":
                return (Change(DELETE, image_in(message, "data"), position + ".1", NOTHING),)
        raise MalformedError(f"'type' is {kind!r}; expected insert, update, delete or bootstrap-insert")


def place_of(message: Message, *, by_time: bool) -> str:
    """Where the binary log has the change, if Maxwell tells it (``output_binlog_position``), else its time.

    >>> place_of({"position": "master.000006:800911", "xoffset": 2}, by_time=False)
    '00000000000000000006.00000000000000800911.00000000000000000002'
    """
    if message.get("type") == "bootstrap-insert":
        return ""  # it was read meanwhile: what the log tells of the row counts
    file, colon, at = str(message.get("position") or "").rpartition(":")
    # Since version 1.20 the last heartbeat may follow, in brackets.
    if colon and not at.isdecimal():
        file, colon, at = file.rpartition(":")
    if not colon or by_time:
        time = (message.get("ts"), message.get("xid"), message.get("xoffset"))
        return place(*time) if not colon else place(time[0], log_file(file), at, message.get("xoffset"))
    return place(log_file(file), at, message.get("xoffset"))
