"""The files of a snapshot, as columns: a million of them are a few Arrow arrays, not a million objects."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from sqlalchemy import Column, ColumnElement, Connection, Select, Table, literal_column, or_, select, union_all
from sqlalchemy.sql.expression import CompoundSelect

from lakebed.core.actions import AddFile, DeletionVector
from lakebed.core.errors import InputError
from lakebed.metastore import schema
from lakebed.metastore.bulk import arrow_type, fetch_arrow
from lakebed.metastore.changes import Partitions, load_partitions
from lakebed.metastore.part import Head, Part, find_head, known_version
from lakebed.metastore.rows import OWN

_FEW = 500
_ADDS_AT_ONCE = 4096
_PLANNING = (
    "id", "path", "partition_id", "size", "num_records", "default_row_commit_version", "bucket", "unsettled",
)  # fmt: skip
_DETAILS = ("base_row_id", "modification_time", "data_change", "added_version", "tags", "extra")
_PLACE = ("storage_type", "path_or_inline_dv", "start", "size_in_bytes", "cardinality")
_VECTOR = ("file_id", *_PLACE, "data_change", *OWN)


@dataclass(frozen=True)
class FileSet:
    """The files of one version, or of some of its partitions and buckets.

    ``data`` has a row per file: path (URI-encoded), partition_id, size, num_records, base_row_id,
    default_row_commit_version, bucket (null without a primary key), unsettled; dv_storage_type,
    dv_path_or_inline_dv, dv_start, dv_size_in_bytes, dv_cardinality, null without a vector; stats if asked for;
    and, with details, id, modification_time, data_change, added_version, tags and extra (JSON texts).
    """

    table_id: str
    version: int
    data: pa.Table = field(hash=False)
    partitions: Partitions = field(hash=False)
    """Partition values, by physical column name, of every ``partition_id`` in ``data``."""

    def __len__(self) -> int:
        return int(self.data.num_rows)

    def filter(self, mask: Any) -> FileSet:
        """The files for which ``mask`` (a boolean Arrow array) is true."""
        return FileSet(self.table_id, self.version, self.data.filter(mask), self.partitions)

    def adds(self) -> Iterator[AddFile]:
        """The files as the actions that were committed. Raises InputError if details were left out."""
        missing = [name for name in _DETAILS if name not in self.data.column_names]
        if missing:
            raise InputError("this file set was loaded for planning only", fix="load it with details=True")
        for batch in self.data.to_batches(max_chunksize=_ADDS_AT_ONCE):
            columns = batch.to_pydict()
            names = list(columns)
            for values in zip(*columns.values(), strict=True):
                yield self._add(dict(zip(names, values, strict=True)))

    def _add(self, row: Mapping[str, Any]) -> AddFile:
        extra = json.loads(row["extra"]) if row["extra"] else {}
        return AddFile(
            path=row["path"],
            partition_values=self.partitions[row["partition_id"]],
            size=row["size"],
            modification_time=row["modification_time"],
            data_change=row["data_change"],
            stats=row.get("stats"),
            tags=None if row["tags"] is None else json.loads(row["tags"]),
            deletion_vector=_vector(row),
            base_row_id=row["base_row_id"],
            default_row_commit_version=row["default_row_commit_version"],
            clustering_provider=extra.pop("clusteringProvider", None),
            extra=extra,
        )


def _vector(row: Mapping[str, Any]) -> DeletionVector | None:
    if row["dv_storage_type"] is None:
        return None
    return DeletionVector(
        row["dv_storage_type"],
        row["dv_path_or_inline_dv"],
        row["dv_size_in_bytes"],
        row["dv_cardinality"],
        row["dv_start"],
    )


class Files(Part):
    """The part of the metastore that lists files."""

    def files(
        self,
        table_id: str,
        version: int | None = None,
        *,
        partitions: Collection[int] | None = None,
        buckets: Collection[int] | None = None,
        stats: bool = True,
        details: bool = True,
    ) -> FileSet:
        """The files of a version (the newest by default), of all or some partitions and buckets.

        ``stats=False`` and ``details=False`` leave out what planning by partition does not need, which is
        most of the time and memory. Raises NotFoundError for the table and the version.
        """

        def work(connection: Connection) -> FileSet:
            head = find_head(connection, table_id)
            at = known_version(connection, head, version)
            return load_files(connection, head, at, partitions, buckets, stats=stats, details=details)

        return self._database.read(work)

    def partitions(self, table_id: str) -> Partitions:
        """The values of every partition that the table ever had, by number."""

        def work(connection: Connection) -> Partitions:
            return load_partitions(connection, find_head(connection, table_id).num, None)

        return self._database.read(work)


def load_files(
    connection: Connection,
    head: Head,
    version: int,
    partitions: Collection[int] | None = None,
    buckets: Collection[int] | None = None,
    *,
    stats: bool = True,
    details: bool = True,
) -> FileSet:
    """The files of a version, with their vectors."""
    some = _Wanted.of(partition_id=partitions, bucket=buckets)
    names = [*_PLANNING, *(_DETAILS if details else ()), *(("stats",) if stats else ())]
    vectors = None
    if not some:
        vectors = _vectors(connection, head, version)
        if vectors.num_rows == 0 and not details:
            names.remove("id")
    columns = [schema.files.c[name] for name in names]
    scan = not some and _is_most(connection, head)
    data = fetch_arrow(connection, _at_version(columns, head, version, some, scan=scan), _arrow_schema(columns))
    for wanted in some:
        data = wanted.filter(data)
    if vectors is None:
        vectors = _vectors(connection, head, version, data["id"])
    data = _with_vectors(data, vectors)
    numbers = None if partitions is None else sorted(set(partitions))
    return FileSet(head.table_id, version, data, load_partitions(connection, head.num, numbers))


class _Wanted(NamedTuple):
    """The values that a column may have; few of them are a condition of the query, more a filter of its rows."""

    name: str
    values: list[int]

    @classmethod
    def of(cls, **values: Collection[int] | None) -> list[_Wanted]:
        """Those of the conditions that are set."""
        return [cls(name, sorted(set(some))) for name, some in values.items() if some is not None]

    def condition(self, table: Table) -> list[ColumnElement[bool]]:
        return [table.c[self.name].in_(self.values)] if len(self.values) <= _FEW else []

    def filter(self, data: pa.Table) -> pa.Table:
        if len(self.values) <= _FEW:
            return data
        return data.filter(pc.is_in(data[self.name], pa.array(self.values, pa.int64())))


def _is_most(connection: Connection, head: Head) -> bool:
    """Whether most file rows of a SQLite metastore are this table's: then reading them all in the order of the
    disk takes two thirds of the time of finding them by an index."""
    if connection.dialect.name != "sqlite":
        return False
    rows = connection.exec_driver_sql(f"SELECT max(rowid) FROM {schema.files.name}").scalar()
    return 2 * head.next_file_id > (rows or 0)


def _at_version(
    columns: list[Column[Any]], head: Head, version: int, some: Sequence[_Wanted] = (), *, scan: bool = False
) -> Select[Any] | CompoundSelect[Any]:
    """The rows of a table that are part of a version: live ones, and those that were removed later.

    ``scan`` keeps SQLite from using an index.
    """
    table = columns[0].table
    if scan:
        of_table = literal_column(f"+{table.name}.table_num") == head.num
        alive = or_(table.c.removed_version.is_(None), table.c.removed_version > version)
        return select(*columns).where(of_table, table.c.added_version <= version, alive)
    conditions = [condition for wanted in some for condition in wanted.condition(table)]
    # A sum has no index. Without statistics SQLite takes a bound on the version for more telling than the bucket.
    added = table.c.added_version + 0 if conditions else table.c.added_version
    shared = [table.c.table_num == head.num, added <= version, *conditions]
    live: Select[Any] = select(*columns).where(*shared, table.c.removed_version.is_(None))
    later: Select[Any] = select(*columns).where(*shared, table.c.removed_version > version)
    return union_all(live, later)


def _arrow_schema(columns: list[Column[Any]]) -> pa.Schema:
    return pa.schema([(column.name, arrow_type(column)) for column in columns])


def _vectors(connection: Connection, head: Head, version: int, files: pa.ChunkedArray | None = None) -> pa.Table:
    """The vectors of a version; at least those of ``files``, if these are few."""
    columns = [schema.vectors.c[name] for name in _VECTOR]
    some = [] if files is None or len(files) > _FEW else _Wanted.of(file_id=files.to_pylist())
    return fetch_arrow(connection, _at_version(columns, head, version, some), _arrow_schema(columns))


def _with_vectors(data: pa.Table, vectors: pa.Table) -> pa.Table:
    """Each file with its vector; what the vector changed of its file replaces the file's own."""
    if vectors.num_rows == 0:
        for name in _PLACE:
            data = data.append_column(f"dv_{name}", pa.nulls(data.num_rows, vectors.schema.field(name).type))
        return data
    mine = vectors.take(pc.index_in(data["id"], vectors["file_id"].combine_chunks()))
    for name in (*OWN, "data_change"):
        if name in data.column_names:
            data = data.set_column(data.column_names.index(name), name, pc.coalesce(mine[name], data[name]))
    for name in _PLACE:
        data = data.append_column(f"dv_{name}", mine[name])
    return data
