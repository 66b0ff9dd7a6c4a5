"""Which parts of the sorted keys can be in a file or a row group, by its bounds alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl
import pyarrow as pa

from lakebed.core.actions import AddFile
from lakebed.core.schema import Field, Struct
from lakebed.core.schema_arrow import type_to_arrow
from lakebed.core.statistics import parse_stats
from lakebed.engine.resolving.kernel import plain
from lakebed.storage.footer import RowGroup


def holding_groups(groups: Sequence[RowGroup], keys: pl.DataFrame, key: Struct, by: Sequence[str]) -> list[RowGroup]:
    """The row groups that may hold one of the sorted keys; one without bounds may."""
    columns = [
        (
            [group.bounds.mins.get((field.physical_name,)) for group in groups],
            [group.bounds.maxs.get((field.physical_name,)) for group in groups],
        )
        for field in key
    ]
    return [group for group, held in zip(groups, _held(columns, keys, key, by), strict=True) if held]


def holding_files(files: Sequence[AddFile], keys: pl.DataFrame, key: Struct, by: Sequence[str]) -> list[AddFile]:
    """The files that may hold one of the sorted keys, by the log's statistics."""
    if not files:
        return []
    return [add for add, held in zip(files, _held(_logged(files, key), keys, key, by), strict=True) if held]


def overlapping_files(files: Sequence[AddFile], low: int, high: int, key: Struct) -> list[AddFile]:
    """The files that may hold a key of one column between two whole numbers, by the log's statistics."""
    if not files:
        return []
    ((lowest, highest),) = _logged(files, key)
    (field,) = key
    held = (bound_series(highest, field) >= low) & (bound_series(lowest, field) <= high)
    return [add for add, inside in zip(files, held.fill_null(True), strict=True) if inside]


def _logged(files: Sequence[AddFile], key: Struct) -> list[tuple[Any, Any]]:
    """The lowest and highest values of the key columns, file by file."""
    stats = parse_stats([add.stats for add in files], key, [(field.name,) for field in key])
    unknown = pa.nulls(len(files))
    return [(stats.mins.get((f.name,), unknown), stats.maxs.get((f.name,), unknown)) for f in key]


def _held(columns: Sequence[tuple[Any, Any]], keys: pl.DataFrame, key: Struct, by: Sequence[str]) -> list[bool]:
    """Whether a key lies in the bounds, for each place. Unknown bounds hold everything."""
    sides = [
        (bound_series(low, field), bound_series(high, field)) for (low, high), field in zip(columns, key, strict=True)
    ]
    low, high = sides[0]
    start = keys[by[0]].search_sorted(low, "left").to_list()
    stop = keys[by[0]].search_sorted(high, "right").to_list()
    known = (low.is_not_null() & high.is_not_null()).to_list()
    constant = (low == high).to_list()
    held = []
    for at in range(len(low)):
        if not known[at]:
            held.append(True)
        elif start[at] >= stop[at] or len(by) == 1 or not constant[at]:
            held.append(start[at] < stop[at])
        else:
            held.append(_narrowed(keys.slice(start[at], stop[at] - start[at]), sides, by, at))
    return held


def _narrowed(keys: pl.DataFrame, sides: Sequence[tuple[pl.Series, pl.Series]], by: Sequence[str], at: int) -> bool:
    """The same by the further columns: keys that agree in the first ones are sorted by the next."""
    for name, (low, high) in zip(by[1:], sides[1:], strict=True):
        lowest, highest = low.slice(at, 1), high.slice(at, 1)
        if lowest.has_nulls() or highest.has_nulls():
            return True
        start = keys[name].search_sorted(lowest, "left").item()
        stop = keys[name].search_sorted(highest, "right").item()
        if start >= stop:
            return False
        if lowest.item() != highest.item():
            return True
        keys = keys.slice(start, stop - start)
    return True


def bound_series(values: Any, field: Field) -> pl.Series:
    """Bounds of a key column as the kernels see keys."""
    kind = type_to_arrow(field.type)
    column = values.cast(kind) if isinstance(values, pa.Array) else pa.array(values, kind)
    series = pl.Series("bound", column)
    return series.to_frame().select(plain(pl.col("bound"), series.dtype)).to_series()
