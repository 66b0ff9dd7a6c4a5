"""Debezium's messages, with and without the schema that Kafka Connect's JSON converter puts around them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from lakebed.core.cdc.change import DELETE, INSERT, NOTHING, Change, MalformedError, Message, Wanted, image_in
from lakebed.core.cdc.connect_types import declared_in
from lakebed.core.cdc.encoding import Declared
from lakebed.core.cdc.positions import log_file, place

_OPERATIONS = "c (create), r (read), u (update), d (delete)"


class Debezium:
    """Reads the messages of one column; it remembers the last schema, since most are equal to it."""

    def __init__(self) -> None:
        self._schema: Any = None
        self._declared = NOTHING

    def changes(self, message: Message, wanted: Wanted) -> Collection[Change]:
        """The changes that a message tells of. Raises MalformedError."""
        payload: Any = message
        declared = NOTHING
        if "payload" in message:
            payload = message["payload"]
            declared = self._known(message.get("schema"))
            if payload is None:  # what a tombstone becomes with schemas
                return ()
        if not isinstance(payload, dict):
            raise MalformedError("'payload' is no object")
        source = payload.get("source")
        source = source if isinstance(source, dict) else {}
        if wanted.is_other(source.get("db"), source.get("schema"), source.get("table")):
            return ()
        return self._told(payload, place_of(source, payload, by_time=wanted.by_time), declared, wanted)

    def _told(
        self, payload: Message, position: str, declared: Mapping[str, Declared], wanted: Wanted
    ) -> Collection[Change]:
        match payload.get("op"):
            case "c" | "r":
                return (Change(INSERT, image_in(payload, "after"), position + ".1", declared),)
            case "u":
                before = payload.get("before")
                after = image_in(payload, "after")
                return wanted.update(before if isinstance(before, dict) else None, after, position, declared)
            case "d":
                return (Change(DELETE, image_in(payload, "before"), position + ".1", declared),)
            case "t":
                raise MalformedError("the source's table was truncated, which no row can tell: overwrite the table")
            case "m":  # a message of the database's own, of no table
                return ()
            case None if "ddl" in payload or "status" in payload or payload.keys() == {"ts_ms"}:
                return ()  # a change of the schema, the border of a transaction, a heartbeat
            case other:
                raise MalformedError(f"'op' is {other!r}; expected {_OPERATIONS}")

    def _known(self, schema: Any) -> Mapping[str, Declared]:
        if schema != self._schema:
            self._schema, self._declared = schema, declared_in(schema)
        return self._declared


def place_of(source: Message, payload: Message, *, by_time: bool) -> str:
    """Where the source's log has the change, by what the connector tells of it.

    Times of MySQL are those at which statements began, and need not grow with the log.
    """
    if "pos" in source:  # MySQL, MariaDB
        parts: tuple[Any, ...] = (log_file(source.get("file")), source["pos"], source.get("row"))
    elif "change_lsn" in source or "commit_lsn" in source:  # SQL Server, Db2
        parts = (source.get("commit_lsn"), source.get("change_lsn"), source.get("event_serial_no"))
    elif "lsn" in source:  # PostgreSQL
        parts = (source["lsn"],)
    elif "scn" in source:  # Oracle
        parts = (source["scn"], source.get("ssn"))
    else:
        return place(_nanoseconds(source) or _nanoseconds(payload))
    return place(_nanoseconds(source), *parts) if by_time else place(*parts)


def _nanoseconds(part: Message) -> int | None:
    for name, factor in (("ts_ns", 1), ("ts_us", 1000), ("ts_ms", 1_000_000)):
        found = part.get(name)
        if isinstance(found, int):
            return found * factor
    return None
