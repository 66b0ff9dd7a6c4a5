"""Canal's flat messages, also as TiCDC writes them: several rows in one, all values as texts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from lakebed.core.cdc.change import DELETE, INSERT, NOTHING, Change, MalformedError, Message, Wanted
from lakebed.core.cdc.encoding import Declared
from lakebed.core.cdc.mysql_types import declared_in
from lakebed.core.cdc.positions import place

_ROWS = ("INSERT", "UPDATE", "DELETE")
_PASSED_OVER = ("TIDB_WATERMARK", "QUERY", "CREATE", "ALTER", "ERASE", "RENAME", "CINDEX", "DINDEX", "INIT_DDL")


class Canal:
    """Reads the messages of one column; it remembers the last types, since most are equal to them."""

    def __init__(self) -> None:
        self._types: Any = None
        self._declared = NOTHING

    def changes(self, message: Message, wanted: Wanted) -> Iterator[Change]:
        """The changes that a message tells of. Raises MalformedError."""
        kind = message.get("type")
        if wanted.is_other(message.get("database"), message.get("table")):
            return
        if kind == "TRUNCATE":
            raise MalformedError("the source's table was truncated, which no row can tell: overwrite the table")
        if kind in _PASSED_OVER or message.get("isDdl") is True:
            return
        if kind not in _ROWS:
            raise MalformedError(f"'type' is {kind!r}; expected {', '.join(_ROWS)}")
        rows, old = message.get("data"), message.get("old")
        if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
            raise MalformedError("'data' is no list of rows")
        if old is not None and (not isinstance(old, list) or len(old) != len(rows)):
            raise MalformedError("'old' has not as many rows as 'data'")
        declared = self._known((message.get("mysqlType"), message.get("sqlType")))
        begin = place_of(message, by_time=wanted.by_time)
        for at, row in enumerate(rows):
            position = f"{begin}.{at:06}"
            if kind == "UPDATE":
                before = old[at] if old is not None else None
                yield from wanted.update({**row, **before} if before else None, row, position, declared)
            else:
                yield Change(INSERT if kind == "INSERT" else DELETE, row, position + ".1", declared)

    def _known(self, types: Any) -> Mapping[str, Declared]:
        if types != self._types:
            self._types, self._declared = types, declared_in(*types)
        return self._declared


def place_of(message: Message, *, by_time: bool) -> str:
    """When the source made the change, and when Canal told of it: Canal does not tell where the log has it.

    Canal counts its messages (``id``) anew when it is restarted, so that they come last. TiCDC tells the commit.
    """
    commit = message.get("_tidb")
    if isinstance(commit, dict) and "commitTs" in commit:
        return place(commit["commitTs"])
    return place(message.get("es"), message.get("ts"), message.get("id"))
