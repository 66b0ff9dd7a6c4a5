"""What the parts of the metastore share: the database, and finding a table's row in it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, RowMapping, bindparam, select

from lakebed.core.errors import NotFoundError
from lakebed.metastore import schema
from lakebed.metastore.cache import Cache
from lakebed.metastore.connection import Database


@dataclass(frozen=True)
class Head:
    """A table's row: who it is, and everything that the next commit must know of the head."""

    num: int
    table_id: str
    namespace: str
    name: str
    location: str
    created: int
    version: int
    timestamp: int
    schema_version: int
    next_row_id: int
    next_file_id: int
    next_partition_id: int
    published: bool = False
    """Whether the open log has the head; told only to those who lock the row to commit."""

    def __str__(self) -> str:
        return f"{self.namespace}.{self.name}"


def head_of(row: RowMapping) -> Head:
    """A row of the tables table as a head."""
    values: dict[str, Any] = dict(row)
    values["table_id"] = values.pop("id")
    values["published"] = bool(values.get("published", False))
    return Head(**values)


_HEAD = select(schema.tables).where(schema.tables.c.id == bindparam("table_id"))
_LOCKED_HEAD = _HEAD.with_for_update()
_FIRST = (
    select(schema.versions.c.version)
    .where(schema.versions.c.table_num == bindparam("num"))
    .order_by(schema.versions.c.version)
    .limit(1)
)


class Part:
    """One part of the metastore's interface."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._cache = Cache()


def find_head(connection: Connection, table_id: str, *, lock: bool = False) -> Head:
    """The table's row, locked against other commits if asked for. Raises NotFoundError."""
    row = connection.execute(_LOCKED_HEAD if lock else _HEAD, {"table_id": table_id}).mappings().first()
    if row is None:
        raise NotFoundError(
            f"this table was dropped (its id was {table_id})", fix="get it anew with lake.table(name), or create it"
        )
    return head_of(row)


def known_version(connection: Connection, head: Head, version: int | None) -> int:
    """``version``, or the head's if None. Raises NotFoundError, saying which versions there are."""
    if version is None or version == head.version:
        return head.version
    first = connection.execute(_FIRST, {"num": head.num}).scalar_one()
    if not first <= version <= head.version:
        raise NotFoundError(
            f"table {head} has no version {version}", expected=f"a version from {first} to {head.version}"
        )
    return version
