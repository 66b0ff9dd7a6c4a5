"""All tables at a glance, counted by the database. Importing this needs the database and nothing that reads files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Select, case, func, select

from lakebed.metastore import schema
from lakebed.metastore.part import Part

_TABLES = schema.tables.c
_FILES = schema.files.c
_VECTORS = schema.vectors.c
_VERSIONS = schema.versions.c

_STORED = (
    select(
        _FILES.table_num,
        func.count().label("files"),
        func.sum(_FILES.size).label("bytes"),
        func.sum(_FILES.num_records).label("stored"),
        func.count(_FILES.num_records).label("counted"),
        func.sum(case((_FILES.unsettled, 1), else_=0)).label("unsettled"),
    )
    .where(_FILES.removed_version.is_(None))
    .group_by(_FILES.table_num)
    .subquery()
)
_DEAD = (
    select(_VECTORS.table_num, func.sum(_VECTORS.cardinality).label("dead"))
    .where(_VECTORS.removed_version.is_(None))
    .group_by(_VECTORS.table_num)
    .subquery()
)
_UNPUBLISHED = (
    select(_VERSIONS.table_num, func.count().label("unpublished"))
    .where(_VERSIONS.body.is_not(None))
    .group_by(_VERSIONS.table_num)
    .subquery()
)
_ALL: Select[Any] = (
    select(
        _TABLES.id,
        _TABLES.namespace,
        _TABLES.name,
        _TABLES.location,
        _TABLES.version,
        _TABLES.timestamp,
        *(func.coalesce(_STORED.c[name], 0).label(name) for name in ("files", "bytes", "stored", "counted")),
        func.coalesce(_STORED.c.unsettled, 0).label("unsettled"),
        func.coalesce(_DEAD.c.dead, 0).label("dead"),
        func.coalesce(_UNPUBLISHED.c.unpublished, 0).label("unpublished"),
    )
    .select_from(schema.tables)
    .outerjoin(_STORED, _STORED.c.table_num == _TABLES.num)
    .outerjoin(_DEAD, _DEAD.c.table_num == _TABLES.num)
    .outerjoin(_UNPUBLISHED, _UNPUBLISHED.c.table_num == _TABLES.num)
)


@dataclass(frozen=True)
class Overview:
    """A table's newest version in a few numbers."""

    table_id: str
    namespace: str
    name: str
    location: str
    version: int
    timestamp: int
    """When the newest version landed, in milliseconds."""
    files: int
    bytes: int
    rows: int | None
    """Rows that no vector has marked as dead, all rows of unsettled files included; None where a file has no count."""
    dead: int
    unsettled: int
    """How many of the files are unsettled."""
    unpublished: int
    """How many versions the open log does not have yet."""

    def __str__(self) -> str:
        return f"{self.namespace}.{self.name}"


class Overviews(Part):
    """The part of the metastore that sums up all tables."""

    def overviews(self, namespace: str | None = None) -> list[Overview]:
        """The tables of all namespaces, or of one, by name."""
        query = _ALL if namespace is None else _ALL.where(_TABLES.namespace == namespace)

        def work(connection: Connection) -> list[Overview]:
            return sorted((_overview(row) for row in connection.execute(query)), key=str)

        return self._database.read(work)


def _overview(row: Any) -> Overview:
    return Overview(
        table_id=row.id,
        namespace=row.namespace,
        name=row.name,
        location=row.location,
        version=row.version,
        timestamp=row.timestamp,
        files=int(row.files),
        bytes=int(row.bytes),
        rows=int(row.stored) - int(row.dead) if row.counted == row.files else None,
        dead=int(row.dead),
        unsettled=int(row.unsettled),
        unpublished=int(row.unpublished),
    )
