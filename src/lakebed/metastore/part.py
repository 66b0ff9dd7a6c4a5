"""What the parts of the metastore share: the database, and finding a table's row in it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, RowMapping, bindparam, exists, func, select

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
    partition_epoch: int
    condemned: bool
    """Whether vacuum has condemned files of the table."""
    published: bool = False
    """Whether the open log has the head; told only to those who lock the row to commit."""

    def __str__(self) -> str:
        return f"{self.namespace}.{self.name}"


def head_of(row: RowMapping) -> Head:
    """A row of the tables table as a head."""
    values: dict[str, Any] = dict(row)
    values["table_id"] = values.pop("id")
    values["published"] = bool(values.get("published", False))
    values["condemned"] = bool(values["condemned"])
    return Head(**values)


_HEAD = select(schema.tables).where(schema.tables.c.id == bindparam("table_id"))
_LOCKED_HEAD = _HEAD.with_for_update()
_VERSIONS = schema.versions.c
_OF_TABLE = _VERSIONS.table_num == bindparam("num")
_KNOWN = select(_VERSIONS.version).where(_OF_TABLE, _VERSIONS.version == bindparam("version"))
_earlier = schema.versions.alias("earlier")
# Where the last run of versions without a gap begins.
_RUN = select(func.max(_VERSIONS.version)).where(
    _OF_TABLE,
    ~exists().where(_earlier.c.table_num == _VERSIONS.table_num, _earlier.c.version == _VERSIONS.version - 1),
)
_BEFORE_RUN = (
    select(_VERSIONS.version)
    .where(_OF_TABLE, _VERSIONS.version < bindparam("run"))
    .order_by(_VERSIONS.version.desc())
    .limit(20)
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
    if connection.execute(_KNOWN, {"num": head.num, "version": version}).first() is None:
        expired = " any more: it has expired" if 0 <= version < head.version else ""
        raise NotFoundError(f"table {head} has no version {version}{expired}", expected=versions_left(connection, head))
    return version


def first_of_run(connection: Connection, head: Head) -> int:
    """Where the last run of versions without a gap begins."""
    return int(connection.execute(_RUN, {"num": head.num}).scalar_one())


def versions_left(connection: Connection, head: Head) -> str:
    """The versions that can be read, in words: the newest ones, and older ones that tags or readers keep."""
    run = first_of_run(connection, head)
    older = sorted(connection.execute(_BEFORE_RUN, {"num": head.num, "run": run}).scalars())
    kept = f", or one of {', '.join(map(str, older))}" if older else ""
    return f"a version from {run} to {head.version}{kept}"
