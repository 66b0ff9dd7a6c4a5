"""Which row groups of a data file may hold qualifying rows: the others are not read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from lakebed.core.predicate import Node, may_match
from lakebed.core.predicate.nodes import Column, walk
from lakebed.core.schema import Field, Struct
from lakebed.core.schema_arrow import type_to_arrow
from lakebed.core.statistics import FileStats
from lakebed.storage.footer import RowGroup
from lakebed.storage.parquet_reader import ParquetFileReader


def matching_groups(reader: ParquetFileReader, stored: Struct, predicate: Node | None) -> list[RowGroup] | None:
    """The row groups in which ``predicate`` may be true, by the file's own statistics; None if that may be all.

    ``stored`` are the columns of the file that the predicate may look at. Only top-level columns that have today's
    type in the file are compared.
    """
    if predicate is None or reader.num_row_groups < 2:
        return None
    paths = {node.path for node in walk(predicate) if isinstance(node, Column)}
    found = {f.name: f.type for f in reader.schema}
    fields = [f for f in stored if (f.name,) in paths and found.get(f.physical_name) == type_to_arrow(f.type)]
    if not fields:
        return None
    groups = reader.row_groups([f.physical_name for f in fields])
    kept = may_match(predicate, _stats(groups, fields)).to_pylist()
    return None if all(kept) else [group for group, may in zip(groups, kept, strict=True) if may]


def _stats(groups: Sequence[RowGroup], fields: Sequence[Field]) -> FileStats:
    def column(field: Field, values: list[Any]) -> pa.Array:
        return pa.array(values, type_to_arrow(field.type))

    return FileStats(
        count=len(groups),
        num_records=pa.array([group.num_rows for group in groups], pa.int64()),
        mins={(f.name,): column(f, [g.bounds.mins.get((f.physical_name,)) for g in groups]) for f in fields},
        maxs={(f.name,): column(f, [g.bounds.maxs.get((f.physical_name,)) for g in groups]) for f in fields},
        null_counts={
            (f.name,): pa.array([g.bounds.null_counts.get((f.physical_name,)) for g in groups], pa.int64())
            for f in fields
        },
    )
