"""What a Parquet footer tells about the values in the file, without reading them."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.types as pat

Path = tuple[str, ...]
"""A column's physical name, or a column's and its struct members' names."""


@dataclass(frozen=True, slots=True)
class Leaf:
    """A column, or a member of a struct, that is no struct itself.

    ``columns`` counts the Parquet columns that hold it, from ``index`` on: one, or more for a map.
    """

    path: Path
    type: pa.DataType
    index: int
    columns: int

    @property
    def has_bounds(self) -> bool:
        """Whether a smallest and a largest value of it make sense."""
        return not (pat.is_nested(self.type) or pat.is_null(self.type) or _is_binary(self.type))


@dataclass(frozen=True, slots=True)
class Bounds:
    """The values of some leaves: ``mins`` and ``maxs`` lack what is not known."""

    mins: dict[Path, Any] = field(default_factory=dict)
    maxs: dict[Path, Any] = field(default_factory=dict)
    null_counts: dict[Path, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RowGroup:
    """A part of a file that can be read or skipped alone; ``start`` is its first row's position.

    ``num_bytes`` is the size of the columns that were asked for, encoded but not compressed.
    """

    index: int
    start: int
    num_rows: int
    bounds: Bounds
    num_bytes: int = 0


def leaves(schema: pa.Schema) -> list[Leaf]:
    """The leaves of a file's schema, in order.

    >>> schema = pa.schema([("id", pa.int64()), ("at", pa.struct([("x", pa.int8()), ("y", pa.int8())]))])
    >>> [leaf.path for leaf in leaves(schema)]
    [('id',), ('at', 'x'), ('at', 'y')]
    """
    found: list[Leaf] = []
    _walk(schema, (), 0, found)
    return found


def _walk(fields: Any, prefix: Path, index: int, found: list[Leaf]) -> int:
    for one in fields:
        path = (*prefix, one.name)
        if pat.is_struct(one.type):
            index = _walk(one.type, path, index, found)
        else:
            width = _width(one.type)
            found.append(Leaf(path, one.type, index, width))
            index += width
    return index


def _width(kind: pa.DataType) -> int:
    if pat.is_map(kind):
        return _width(kind.key_type) + _width(kind.item_type)
    if pat.is_struct(kind):
        return sum(_width(f.type) for f in kind)
    if pat.is_nested(kind):
        return _width(kind.value_type)
    return 1


def indexed(schema: pa.Schema, wanted: int | Collection[str]) -> list[Leaf]:
    """The leaves to keep statistics of: the first ``wanted`` (all if negative), or columns by name."""
    every = leaves(schema)
    if isinstance(wanted, int):
        return every if wanted < 0 else every[:wanted]
    return [leaf for leaf in every if leaf.path[0] in wanted]


def file_bounds(metadata: pq.FileMetaData, of: Sequence[Leaf], without: Collection[Path] = ()) -> Bounds:
    """The bounds of these leaves over all row groups; ``without`` are leaves to take no bounds of."""
    merged = Bounds()
    groups = [metadata.row_group(i) for i in range(metadata.num_row_groups)]
    for leaf in of:
        if leaf.columns > 1 or pat.is_nested(leaf.type):
            continue
        parts = [_LeafBounds.read(group, leaf) for group in groups]
        if all(part.null_count is not None for part in parts):
            merged.null_counts[leaf.path] = sum(part.null_count or 0 for part in parts)
        valued = [part for part in parts if not part.only_nulls]
        if leaf.path in without or not valued or any(part.low is None for part in valued):
            continue
        merged.mins[leaf.path] = min(part.low for part in valued)
        merged.maxs[leaf.path] = max(part.high for part in valued)
    return merged


def row_groups(
    metadata: pq.FileMetaData, schema: pa.Schema, columns: Collection[str] | None = None
) -> Iterator[RowGroup]:
    """The row groups of a file with their bounds: of all columns, or only of those with these physical names.

    A footer does not tell whether there is a NaN, and NaN counts as the largest value: floating-point
    columns have a lower bound only.
    """
    start = 0
    wanted = [leaf for leaf in leaves(schema) if columns is None or leaf.path[0] in columns]
    every = [leaf for leaf in wanted if leaf.has_bounds or _is_binary(leaf.type)]
    for index in range(metadata.num_row_groups):
        group, bounds = metadata.row_group(index), Bounds()
        for leaf in every:
            part = _LeafBounds.read(group, leaf)
            if part.null_count is not None:
                bounds.null_counts[leaf.path] = part.null_count
            if part.low is not None:
                bounds.mins[leaf.path] = part.low
                if not pat.is_floating(leaf.type):
                    bounds.maxs[leaf.path] = part.high
        sizes = (group.column(i).total_uncompressed_size for f in wanted for i in range(f.index, f.index + f.columns))
        yield RowGroup(index, start, group.num_rows, bounds, sum(sizes))
        start += group.num_rows


@dataclass(frozen=True, slots=True)
class _LeafBounds:
    low: Any
    high: Any
    null_count: int | None
    only_nulls: bool

    @classmethod
    def read(cls, group: pq.RowGroupMetaData, leaf: Leaf) -> _LeafBounds:
        column = group.column(leaf.index)
        statistics = column.statistics
        if statistics is None:
            return cls(None, None, None, group.num_rows == 0)
        nulls = statistics.null_count if statistics.has_null_count else None
        low = high = None
        if statistics.has_min_max and (leaf.has_bounds or _is_binary(leaf.type)):
            low, high = _values(statistics)
        return cls(low, high, nulls, nulls == group.num_rows)


def _values(statistics: pq.Statistics) -> tuple[Any, Any]:
    """The decoded bounds; nothing where Python has no such value or the bytes are no text."""
    try:
        low, high = statistics.min, statistics.max
    except (OverflowError, ValueError):
        return None, None
    if any(isinstance(v, float) and math.isnan(v) for v in (low, high)):
        return None, None
    return low, high


def _is_binary(kind: pa.DataType) -> bool:
    return bool(pat.is_binary(kind) or pat.is_large_binary(kind) or pat.is_fixed_size_binary(kind))
