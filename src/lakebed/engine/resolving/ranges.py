"""Ranges of the key, so that the changed keys of one range fit into memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from lakebed.core.actions import AddFile
from lakebed.engine.resolving.bounds import bound_series
from lakebed.engine.resolving.key_file import SIZE, KeyFile, open_keys
from lakebed.engine.resolving.order import ResolveOrder
from lakebed.storage.footer import RowGroup

_PACKED = 32
# Every file has so many keys in a range that decide where it ends: files of one batch all have the same keys' range.
_FINENESS = 4


@dataclass(frozen=True)
class KeyRange:
    """The keys from ``low`` on and before ``high``, frames of one plain key each; None has no end."""

    low: pl.DataFrame | None = None
    high: pl.DataFrame | None = None

    def groups(self, file: KeyFile) -> Sequence[RowGroup]:
        """The row groups of a file that may have keys of the range."""
        key = file.stored.select(file.keys)
        lead, lead_field = file.keys[0], next(iter(key))
        held = pl.Series([True] * len(file.groups), dtype=pl.Boolean)
        path = (lead_field.physical_name,)
        if self.low is not None:
            highest = bound_series([g.bounds.maxs.get(path) for g in file.groups], lead_field)
            held &= (highest >= self.low[lead]).fill_null(True)
        if self.high is not None:
            lowest = bound_series([g.bounds.mins.get(path) for g in file.groups], lead_field)
            held &= (lowest <= self.high[lead]).fill_null(True)
        return [group for group, inside in zip(file.groups, held, strict=True) if inside]

    def filter(self, rows: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
        """The rows with keys of the range."""
        if self.low is not None:
            rows = rows.filter(~_before(self.low, by))
        if self.high is not None:
            rows = rows.filter(_before(self.high, by))
        return rows


def key_ranges(order: ResolveOrder, files: Sequence[AddFile]) -> list[KeyRange]:
    """Ranges that cover all keys, each with about ``key_bytes`` of the files' keys or less; mostly there is one."""
    if _surely_few(order, files):
        return [KeyRange()]
    sizes: list[pl.DataFrame] = []
    sequence = bool(order.key.sequence)
    total = 0
    for add in files:
        with open_keys(order, add, sequence=sequence, kind=False) as file:
            total += file.num_bytes
    if total <= order.key_bytes:
        return [KeyRange()]
    step = order.key_bytes // (_FINENESS * len(files))
    for add in files:
        with open_keys(order, add, sequence=sequence, kind=False) as file:
            sizes.append(file.spaced_keys(step))
    return _cut(pl.concat(sizes), order.key_bytes, order.layout.keys)


def _surely_few(order: ResolveOrder, files: Sequence[AddFile]) -> bool:
    """Whether the log alone tells that the keys fit, so that no footer need be read."""
    # Sorted keys are packed tightly, but hardly ever beyond this factor.
    return sum(add.size for add in files) * _PACKED <= order.key_bytes


def _cut(starts: pl.DataFrame, limit: int, by: Sequence[str]) -> list[KeyRange]:
    """Ranges that begin where enough has been collected; ``starts`` are keys, and the sizes that they stand for."""
    ordered = starts.group_by(by).agg(pl.col(SIZE).sum()).sort(by)
    number = ((pl.col(SIZE).cum_sum() - pl.col(SIZE)) // limit).alias("range")
    firsts = ordered.with_columns(number).unique("range", keep="first", maintain_order=True).select(by)
    cuts = [firsts.slice(at, 1) for at in range(1, firsts.height)]
    return [KeyRange(low, high) for low, high in zip([None, *cuts], [*cuts, None], strict=True)]


def _before(cut: pl.DataFrame, by: Sequence[str]) -> pl.Expr:
    """Whether a row's key is smaller than that of the cut, column by column from the left."""
    smaller = pl.lit(False)
    for name in reversed(by):
        value = pl.lit(cut[name])
        smaller = (pl.col(name) < value) | ((pl.col(name) == value) & smaller)
    return smaller
