"""Planning: which files of a version may hold qualifying rows. Partitions and buckets first, then statistics."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc

from lakebed.core.actions import Metadata
from lakebed.core.commit import partition_key
from lakebed.core.partition import decode_values
from lakebed.core.predicate import Node, may_match
from lakebed.core.predicate.nodes import Column, walk
from lakebed.core.schema import Field
from lakebed.core.statistics import FileStats, parse_stats
from lakebed.engine.key_buckets import key_buckets
from lakebed.metastore import FileSet, Metastore

FILES_SCHEMA = pa.schema(
    [
        ("path", pa.string()),
        ("partition", pa.string()),
        ("size", pa.int64()),
        ("rows", pa.int64()),
        ("dead_rows", pa.int64()),
        ("added_version", pa.int64()),
        ("bucket", pa.int64()),
        ("unsettled", pa.bool_()),
    ]
)

Partitions = Mapping[int, Mapping[str, str | None]]


def plan(
    metastore: Metastore,
    table_id: str,
    version: int,
    metadata: Metadata,
    predicate: Node | None,
    *,
    whole: bool = True,
) -> FileSet:
    """The live files of ``version`` that may hold a row for which ``predicate`` is true.

    ``metadata`` is the one that the predicate was parsed with. ``whole=False`` leaves out what is not needed to
    name and count the files.
    """
    if predicate is None:
        return metastore.files(table_id, version, stats=whole, details=whole)
    paths = {node.path for node in walk(predicate) if isinstance(node, Column)}
    partitioned = [f for f in metadata.partition_schema if (f.name,) in paths]
    data = {path for path in paths if path[0] not in metadata.partition_columns}
    kept = _matching_partitions(predicate, partitioned, metastore.partitions(table_id)) if partitioned else None
    files = metastore.files(
        table_id,
        version,
        partitions=kept,
        buckets=key_buckets(predicate, metadata),
        stats=whole or bool(data),
        details=whole,
    )
    if not data or len(files) == 0:
        return files
    stats = parse_stats(files.data["stats"].to_pylist(), metadata.schema, data)
    values = _values(partitioned, files.partitions)
    of_file = files.data["partition_id"].combine_chunks()
    numbers = pa.array(files.partitions.keys(), pa.int64())
    rows = pc.index_in(of_file, numbers)
    known = stats.with_partitions({name: column.take(rows) for name, column in values.items()})
    return files.filter(may_match(predicate, known))


def _matching_partitions(predicate: Node, fields: Iterable[Field], partitions: Partitions) -> list[int]:
    """The numbers of the partitions in which the predicate may be true, whatever the other columns hold."""
    known = FileStats(len(partitions)).with_partitions(_values(fields, partitions))
    kept = may_match(predicate, known).to_pylist()
    return [number for number, may in zip(partitions, kept, strict=True) if may]


def _values(fields: Iterable[Field], partitions: Partitions) -> dict[str, pa.Array]:
    """The typed value of each partition column, one entry per partition."""
    return {
        f.name: decode_values([values.get(f.physical_name) for values in partitions.values()], f.type) for f in fields
    }


def describe(files: FileSet) -> pa.Table:
    """Files as a table for people: columns all the way, no object per file."""
    numbers = pa.array(files.partitions.keys(), pa.int64())
    keys = pa.array([partition_key(values) for values in files.partitions.values()], pa.string())
    data = files.data
    return pa.table(
        [
            _decoded(data["path"]),
            keys.take(pc.index_in(data["partition_id"].combine_chunks(), numbers)),
            data["size"],
            data["num_records"],
            pc.fill_null(data["dv_cardinality"], 0),
            data["default_row_commit_version"],
            data["bucket"],
            data["unsettled"],
        ],
        schema=FILES_SCHEMA,
    )


def _decoded(paths: pa.ChunkedArray) -> pa.ChunkedArray:
    """URI-encoded paths as the file system knows them; only those with an escape cost anything."""
    paths = paths.cast(pa.string())
    escaped = pc.match_substring(paths, "%")
    if not pc.any(escaped).as_py():
        return paths
    plain = pa.array([unquote(path) for path in paths.filter(escaped).to_pylist()], pa.string())
    return pc.replace_with_mask(paths.combine_chunks(), escaped.combine_chunks(), plain)
