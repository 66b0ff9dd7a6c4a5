"""Whether two rows are the same, for changes: by what they mean, not by how they happen to be stored."""

from __future__ import annotations

from collections.abc import Iterable

import polars as pl
import pyarrow as pa


def differ(old: pa.Table, new: pa.Table, columns: Iterable[str]) -> pa.Array:
    """Whether the rows of the same number differ anywhere.

    Two nulls are the same, and so are two NaN, and two maps with the same entries in another order.
    """
    differs = pl.repeat(False, old.num_rows, dtype=pl.Boolean, eager=True)
    for name in columns:
        differs |= _comparable(old.column(name)).ne_missing(_comparable(new.column(name)))
    return differs.to_arrow()


def _comparable(column: pa.ChunkedArray) -> pl.Series:
    """The values, so that what means the same compares as equal."""
    values = pl.Series("values", column)
    if not _holds_map(column.type):
        return values
    # polars before 2 has no maps, but lists of entries; as these they are stored everywhere.
    return values.to_physical().to_frame().select(_in_order(pl.col("values"), column.type)).to_series()


def _holds_map(kind: pa.DataType) -> bool:
    return pa.types.is_map(kind) or any(_holds_map(kind.field(at).type) for at in range(kind.num_fields))


def _in_order(values: pl.Expr, kind: pa.DataType) -> pl.Expr:
    """The values with the entries of each map in the order of their keys."""
    if not _holds_map(kind):
        return values
    if pa.types.is_struct(kind):
        # By names of our own: polars takes some names for patterns.
        names = [f"f{at}" for at in range(kind.num_fields)]
        renamed = values.struct.rename_fields(names)
        parts = [_in_order(renamed.struct.field(name), f.type).alias(name) for name, f in zip(names, kind, strict=True)]
        ordered = pl.struct(parts)
    elif not pa.types.is_map(kind):
        ordered = values.list.eval(_in_order(pl.element(), kind.value_type))
    elif _holds_map(kind.item_type):
        value = _in_order(pl.element().struct.field("value"), kind.item_type).alias("value")
        ordered = values.list.eval(pl.element().struct.with_fields(value)).list.eval(pl.element().sort())
    else:
        ordered = values.list.eval(pl.element().sort())
    return pl.when(values.is_not_null()).then(ordered)
