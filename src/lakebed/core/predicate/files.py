"""Pruning of the log's file actions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import pyarrow as pa

from lakebed.core.actions import AddFile, Metadata
from lakebed.core.partition import decode_values
from lakebed.core.predicate.nodes import Column, Node, walk
from lakebed.core.predicate.prune import may_match, must_match
from lakebed.core.statistics import FileStats, parse_stats


def file_stats(node: Node, files: Sequence[AddFile], metadata: Metadata) -> FileStats:
    """What the log says of the columns that the node reads, one entry per file."""
    wanted = {part.path for part in walk(node) if isinstance(part, Column)}
    partitioned = [f for f in metadata.partition_schema if any(path[0] == f.name for path in wanted)]
    values = {
        field.name: decode_values([file.partition_values.get(field.physical_name) for file in files], field.type)
        for field in partitioned
    }
    data = {path for path in wanted if path[0] not in values}
    stats = parse_stats([file.stats for file in files], metadata.schema, data)
    return stats.with_partitions(values)


def may_match_files(node: Node, files: Iterable[AddFile], metadata: Metadata) -> list[AddFile]:
    """The files that may hold a qualifying row, in their order."""
    return _select(node, list(files), metadata, may_match)


def must_match_files(node: Node, files: Iterable[AddFile], metadata: Metadata) -> list[AddFile]:
    """The files of which every row qualifies for certain, in their order."""
    return _select(node, list(files), metadata, must_match)


def _select(
    node: Node,
    files: list[AddFile],
    metadata: Metadata,
    test: Callable[[Node, FileStats], pa.BooleanArray],
) -> list[AddFile]:
    keep = test(node, file_stats(node, files, metadata))
    return [file for file, kept in zip(files, keep.to_pylist(), strict=True) if kept]
