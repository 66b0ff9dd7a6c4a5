"""Functions that work on whole columns: what each row brings in, how a group of them becomes one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import cast

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from lakebed.core.merging.arithmetic import fitted
from lakebed.core.merging.functions import WHOLE_NUMBERS, Function
from lakebed.core.merging.lanes import UNDER, Lane
from lakebed.core.merging.rows import KEY_NUMBER, RETRACT, ROW, STATE
from lakebed.core.merging.spec import FieldRule
from lakebed.core.schema import DOUBLE, FLOAT, Decimal, Primitive

Finish = Callable[[pl.Series], pa.Array]


@dataclass(frozen=True)
class Vector:
    """One column of a grouping: an expression over the lane's rows, and what makes values of the result."""

    expression: pl.Expr
    inputs: Mapping[str, pl.Series]
    """What the expression reads beside the lane's own columns, aligned with the lane's rows."""
    finish: Finish


def vector(lane: Lane, rule: FieldRule) -> Vector:
    """The column's function over the lane."""
    if rule.function is None:
        return _latest(lane, rule, skip_nulls=not lane.grouped)
    return _MAKERS[rule.function](lane, rule)


def newest(lane: Lane, name: str) -> Vector:
    """The value of the lane's last row, whatever its kind: for the sequence columns of a group."""
    return Vector(pl.col(ROW).last(), {}, taken(lane, name))


def evaluate(lane: Lane, vectors: Mapping[str, Vector]) -> dict[str, pa.Array]:
    """The values of all columns, one per key; null for a key without rows in the lane.

    Raises UnfitError, with the number of a key, for a value that its column's type cannot hold.
    """
    frame = lane.frame.with_columns(series.alias(name) for v in vectors.values() for name, series in v.inputs.items())
    grouped = frame.group_by(KEY_NUMBER, maintain_order=True).agg(
        v.expression.alias(f"out {name}") for name, v in vectors.items()
    )
    every = pl.DataFrame({KEY_NUMBER: pl.Series(range(lane.keys), dtype=lane.frame.schema[KEY_NUMBER])})
    aligned = every.join(grouped, on=KEY_NUMBER, how="left", maintain_order="left")
    return {name: v.finish(aligned[f"out {name}"]) for name, v in vectors.items()}


def values_of(lane: Lane, name: str) -> pl.Series:
    """The column's values in the order of the lane; only for types that polars has."""
    return pl.Series(name, lane.source[name]).gather(lane.frame[ROW])


def valid_of(lane: Lane, name: str) -> pl.Series:
    """Which rows of the lane have a value, for any type."""
    return pl.Series(pc.is_valid(lane.source[name])).gather(lane.frame[ROW])


def taken(lane: Lane, name: str) -> Finish:
    """Takes the values of the rows that a grouping chose; null where it chose none."""
    column = lane.source[name]
    return lambda rows: _one_chunk(column.take(rows.to_arrow()))


def _one_chunk(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _latest(lane: Lane, rule: FieldRule, *, skip_nulls: bool) -> Vector:
    chosen = pl.when(pl.col(RETRACT)).then(None).otherwise(pl.col(ROW)) if lane.has_retracts else pl.col(ROW)
    if not skip_nulls:
        return Vector(chosen.filter(lane.used(rule)).last(), {}, taken(lane, rule.name))
    valid = f"valid {rule.name}"
    inputs = {valid: valid_of(lane, rule.name)}
    return Vector(chosen.filter(lane.used(rule) & pl.col(valid)).last(), inputs, taken(lane, rule.name))


def _earliest(lane: Lane, rule: FieldRule, *, skip_nulls: bool) -> Vector:
    if not skip_nulls:
        # A key that begins with a row taken back begins with a null, as it would in a commit of its own.
        chosen = pl.when(pl.col(RETRACT)).then(None).otherwise(pl.col(ROW))
        return Vector(chosen.filter(~(pl.col(UNDER) & pl.col(RETRACT))).first(), {}, taken(lane, rule.name))
    valid = f"valid {rule.name}"
    chosen = pl.col(ROW).filter(lane.used(rule) & pl.col(valid)).first()
    return Vector(chosen, {valid: valid_of(lane, rule.name)}, taken(lane, rule.name))


def _sum(lane: Lane, rule: FieldRule) -> Vector:
    values = values_of(lane, rule.name)
    wide = values.cast(_wide(rule))
    name = f"in {rule.name}"
    signed = pl.col(name)
    if lane.has_retracts:
        # Numbers of 128 bits have no negation in polars, but a difference.
        signed = pl.when(RETRACT).then(pl.lit(0, dtype=wide.dtype) - signed).otherwise(signed)
    used = signed.filter(lane.used(rule))
    return Vector(pl.when(used.count() > 0).then(used.sum()), {name: wide}, _narrowed(lane, rule))


def _product(lane: Lane, rule: FieldRule) -> Vector:
    name = f"in {rule.name}"
    used = pl.col(name).filter(lane.used(rule))
    if rule.type in (FLOAT, DOUBLE):
        inputs = {name: values_of(lane, rule.name)}
        return Vector(pl.when(used.count() > 0).then(used.product()), inputs, _narrowed(lane, rule))
    exact = used.drop_nulls().cast(pl.Int128).product()
    # Whole numbers wrap beyond 128 bits; how large the product is can be told from floats.
    rough = used.drop_nulls().cast(pl.Float64).product().abs()
    bounded = pl.when(rough >= 2.0**100).then(pl.lit(2**100, dtype=pl.Int128)).otherwise(exact)
    inputs = {name: values_of(lane, rule.name)}
    return Vector(pl.when(used.count() > 0).then(bounded), inputs, _narrowed(lane, rule))


def _wide(rule: FieldRule) -> pl.DataType | type[pl.DataType]:
    if isinstance(rule.type, Decimal):
        return pl.Decimal(38, rule.type.scale)
    return pl.Int128 if rule.type in WHOLE_NUMBERS else pl.Float64


def _narrowed(lane: Lane, rule: FieldRule) -> Finish:
    """Puts results back into the column's type. Raises UnfitError for one that has no place in it."""
    kind = lane.source.schema.field(rule.name).type

    def convert(series: pl.Series) -> pa.Array:
        if isinstance(rule.type, Primitive) and rule.type in WHOLE_NUMBERS:
            series = series.cast(pl.Int64)
        return _one_chunk(series.to_arrow()).cast(kind)

    return lambda series: fitted(series, convert, rule)


def _count(lane: Lane, rule: FieldRule) -> Vector:
    name = f"in {rule.name}"
    values = values_of(lane, rule.name).cast(pl.Int64)
    one = pl.when(pl.col(name).is_null()).then(0).otherwise(pl.when(RETRACT).then(-1).otherwise(1))
    counted = pl.when(STATE).then(pl.col(name)).otherwise(one)
    return Vector(counted.filter(lane.used(rule)).sum(), {name: values}, _narrowed(lane, rule))


def _extreme(lane: Lane, rule: FieldRule) -> Vector:
    name = f"in {rule.name}"
    used = pl.col(name).filter(lane.used(rule))
    if rule.function is Function.MIN:
        best = used.min()
    else:
        # NaN is the greatest number, as in Spark and Java.
        best = used.nan_max() if rule.type in (FLOAT, DOUBLE) else used.max()
    kind = lane.source.schema.field(rule.name).type
    inputs = {name: values_of(lane, rule.name)}
    return Vector(best, inputs, lambda series: _one_chunk(series.to_arrow()).cast(kind))


def _boolean(lane: Lane, rule: FieldRule) -> Vector:
    name = f"in {rule.name}"
    used = pl.col(name).filter(lane.used(rule))
    whole = used.all(ignore_nulls=True) if rule.function is Function.BOOL_AND else used.any(ignore_nulls=True)
    inputs = {name: values_of(lane, rule.name)}
    return Vector(pl.when(used.count() > 0).then(whole), inputs, lambda series: _one_chunk(series.to_arrow()))


def _listagg(lane: Lane, rule: FieldRule) -> Vector:
    name = f"in {rule.name}"
    used = pl.col(name).filter(lane.used(rule))
    text = pl.col(name).filter(lane.used(rule) & (pl.col(name) != "")).str.join(rule.delimiter)
    kind = lane.source.schema.field(rule.name).type
    inputs = {name: values_of(lane, rule.name)}
    return Vector(pl.when(used.count() > 0).then(text), inputs, lambda series: _one_chunk(series.to_arrow()).cast(kind))


def _collect(lane: Lane, rule: FieldRule) -> Vector:
    valid = f"valid {rule.name}"
    chosen = pl.col(ROW).filter(lane.used(rule) & pl.col(valid))

    def finish(rows: pl.Series) -> pa.Array:
        return collected(lane, rule, rows)

    return Vector(chosen, {valid: valid_of(lane, rule.name)}, finish)


def collected(lane: Lane, rule: FieldRule, rows: pl.Series) -> pa.Array:
    """The arrays of the chosen rows put together, per key; null for a key without any."""
    chosen = pl.DataFrame({"at": range(len(rows)), ROW: rows}).explode(ROW).drop_nulls(ROW)
    lists = _one_chunk(lane.source[rule.name].take(chosen[ROW].to_arrow()))
    sizes = pl.Series("size", pc.list_value_length(lists))
    flat = pc.list_flatten(lists)
    elements = chosen.select(pl.col("at").repeat_by(sizes).explode(empty_as_null=False))["at"]
    if rule.distinct:
        pairs = pl.DataFrame({"at": elements, "value": cast(pl.Series, pl.from_arrow(flat))})
        kept = pairs.with_row_index("n").unique(subset=["at", "value"], keep="first", maintain_order=True)
        flat, elements = flat.take(kept["n"].to_arrow()), kept["at"]
    counts = pl.DataFrame({"at": elements}).group_by("at").len()
    lengths = pl.DataFrame({"at": range(len(rows))}).join(counts, on="at", how="left", maintain_order="left")
    offsets = pa.array([0, *lengths["len"].fill_null(0).cum_sum()], pa.int32())
    missing = (rows.list.len().fill_null(0) == 0).to_arrow()
    kind = lane.source.schema.field(rule.name).type
    return pa.ListArray.from_arrays(offsets, flat, type=kind, mask=missing)


def passed(lane: Lane, rule: FieldRule) -> Vector:
    """The only value of a key, for functions that go row by row as soon as there are two."""
    return _latest(lane, rule, skip_nulls=True)


_MAKERS: Mapping[Function, Callable[[Lane, FieldRule], Vector]] = {
    Function.SUM: _sum,
    Function.PRODUCT: _product,
    Function.COUNT: _count,
    Function.MIN: _extreme,
    Function.MAX: _extreme,
    Function.FIRST_VALUE: lambda lane, rule: _earliest(lane, rule, skip_nulls=False),
    Function.LAST_VALUE: lambda lane, rule: _latest(lane, rule, skip_nulls=False),
    Function.FIRST_NON_NULL_VALUE: lambda lane, rule: _earliest(lane, rule, skip_nulls=True),
    Function.LAST_NON_NULL_VALUE: lambda lane, rule: _latest(lane, rule, skip_nulls=True),
    Function.BOOL_AND: _boolean,
    Function.BOOL_OR: _boolean,
    Function.LISTAGG: _listagg,
    Function.COLLECT: _collect,
    Function.MERGE_MAP: passed,
    Function.NESTED_UPDATE: passed,
    Function.HLL_SKETCH: passed,
    Function.THETA_SKETCH: passed,
}
