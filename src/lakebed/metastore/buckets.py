"""How full the buckets of a primary-key table are, counted by the database."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Select, and_, bindparam, case, func, or_, select, union_all

from lakebed.metastore import schema
from lakebed.metastore.part import Part, find_head, known_version

_FILES = schema.files.c
_VECTORS = schema.vectors.c


def _at_version(table: Any) -> Any:
    ended = or_(table.removed_version.is_(None), table.removed_version > bindparam("version"))
    return and_(table.added_version <= bindparam("version"), ended)


_COUNTS: Select[Any] = (
    select(
        _FILES.partition_id,
        schema.partitions.c.key,
        _FILES.bucket,
        func.count().label("files"),
        func.sum(case((_FILES.unsettled, 1), else_=0)).label("unsettled"),
        func.coalesce(func.sum(_FILES.num_records), 0).label("stored"),
        func.coalesce(func.sum(_VECTORS.cardinality), 0).label("dead"),
        func.sum(_FILES.size).label("bytes"),
    )
    .select_from(schema.files)
    .join(
        schema.partitions,
        and_(schema.partitions.c.table_num == _FILES.table_num, schema.partitions.c.id == _FILES.partition_id),
    )
    .outerjoin(
        schema.vectors,
        and_(_VECTORS.table_num == _FILES.table_num, _VECTORS.file_id == _FILES.id, _at_version(_VECTORS)),
    )
    .where(_FILES.table_num == bindparam("num"), _FILES.bucket.is_not(None), _at_version(_FILES))
    .group_by(_FILES.partition_id, schema.partitions.c.key, _FILES.bucket)
    .order_by(_FILES.partition_id, _FILES.bucket)
)


# A sum has no index. Without statistics SQLite takes a bound on the version for more telling than the mark.
_UNSETTLED = select(_FILES.id).where(
    _FILES.table_num == bindparam("num"), _FILES.unsettled, _FILES.added_version + 0 <= bindparam("version")
)
# Two conditions that the index can tell, where one with an OR would look at all that ever was unsettled.
_ANY_UNSETTLED = union_all(
    _UNSETTLED.where(_FILES.removed_version.is_(None)),
    _UNSETTLED.where(_FILES.removed_version > bindparam("version")),
).limit(1)


@dataclass(frozen=True)
class BucketRows:
    """What one bucket number holds in one partition."""

    partition_id: int
    partition_key: str
    bucket: int
    rows: int
    """Rows that no vector has marked as dead; all rows of unsettled files count."""
    dead: int
    files: int
    unsettled: int
    """How many of the files are unsettled."""
    bytes: int


class Buckets(Part):
    """The part of the metastore that counts buckets."""

    def bucket_rows(self, table_id: str, version: int | None = None) -> list[BucketRows]:
        """The buckets of a version (the newest by default) that have files, by partition and number.

        Raises NotFoundError for the table and the version.
        """

        def work(connection: Connection) -> list[BucketRows]:
            head = find_head(connection, table_id)
            where = {"num": head.num, "version": known_version(connection, head, version)}
            return [
                BucketRows(
                    partition_id=row.partition_id,
                    partition_key=row.key,
                    bucket=row.bucket,
                    rows=int(row.stored) - int(row.dead),
                    dead=int(row.dead),
                    files=row.files,
                    unsettled=int(row.unsettled),
                    bytes=int(row.bytes),
                )
                for row in connection.execute(_COUNTS, where)
            ]

        return self._database.read(work)

    def has_unsettled(self, table_id: str, version: int | None = None) -> bool:
        """Whether any file of a version (the newest by default) is unsettled.

        Raises NotFoundError for the table and the version.
        """

        def work(connection: Connection) -> bool:
            head = find_head(connection, table_id)
            where = {"num": head.num, "version": known_version(connection, head, version)}
            return connection.execute(_ANY_UNSETTLED, where).first() is not None

        return self._database.read(work)
