"""What the parts of the metastore share: the database, and finding a table's row in it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, RowMapping, bindparam, select

from lakebed.core.actions import Metadata, Protocol
from lakebed.core.errors import NotFoundError
from lakebed.metastore import schema
from lakebed.metastore.connection import Database
from lakebed.metastore.rows import load_metadata, load_protocol

_SCHEMAS_KEPT = 512


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

    def __str__(self) -> str:
        return f"{self.namespace}.{self.name}"


def head_of(row: RowMapping) -> Head:
    """A row of the tables table as a head."""
    values: dict[str, Any] = dict(row)
    values["table_id"] = values.pop("id")
    return Head(**values)


class SchemaCache:
    """Metadata and protocol by table number and version: they never change, and every commit needs them.

    No lock, which a fork could find taken: single operations of a dict are atomic.
    """

    def __init__(self) -> None:
        self._kept: dict[tuple[int, int], tuple[Metadata, Protocol]] = {}

    def get(self, connection: Connection, num: int, version: int) -> tuple[Metadata, Protocol]:
        """Those that the table has since ``version``, which must be one that changed either."""
        found = self._kept.get((num, version))
        if found is None:
            row = connection.execute(_SCHEMA, {"num": num, "version": version}).one()
            found = load_metadata(row.metadata), load_protocol(row.protocol)
            if len(self._kept) >= _SCHEMAS_KEPT:
                self._kept.clear()
            self._kept[num, version] = found
        return found


_SCHEMA = select(schema.schemas.c.metadata, schema.schemas.c.protocol).where(
    schema.schemas.c.table_num == bindparam("num"), schema.schemas.c.version == bindparam("version")
)
_HEAD = select(schema.tables).where(schema.tables.c.id == bindparam("table_id"))
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
        self._schemas = SchemaCache()


def find_head(connection: Connection, table_id: str, *, lock: bool = False) -> Head:
    """The table's row, locked against other commits if asked for. Raises NotFoundError."""
    row = connection.execute(_HEAD.with_for_update() if lock else _HEAD, {"table_id": table_id}).mappings().first()
    if row is None:
        raise NotFoundError(f"there is no table with id {table_id}", fix="it may have been dropped; look it up by name")
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
