"""Functions that go row by row: collections with an identity of their own, and rows taken back from products.

Only the keys that need it come here; see ``stepped_keys``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl
import pyarrow as pa

from lakebed.core.merging import arithmetic, containers, sketches
from lakebed.core.merging.functions import COMMUTES, SKETCHES, Function
from lakebed.core.merging.lanes import Lane
from lakebed.core.merging.rows import KEY_NUMBER, LATE, POSITION, RETRACT, ROW
from lakebed.core.merging.spec import FieldRule
from lakebed.core.schema import Array, Decimal, Primitive

Step = Callable[[Any, Any], Any]

SAFE_DIGITS = 29
"""Up to this precision a sum of a thousand million decimals stays within the 38 digits of a column's sum."""

_NORMALISES = (Function.COLLECT, Function.NESTED_UPDATE)
"""Functions that change even a single value: elements become distinct, rows of a nested key one."""
_TAKES_STEPS = (Function.PRODUCT, Function.COLLECT)
"""Functions that only go row by row when a row is taken back."""


@dataclass(frozen=True)
class Steps:
    """How one more value comes in, and how one is taken back; None is a null."""

    add: Step
    take: Step


def never_whole(rule: FieldRule) -> bool:
    """Whether two values of the column can only be merged in steps."""
    decimal = isinstance(rule.type, Decimal)
    if rule.function is Function.SUM:
        return isinstance(rule.type, Decimal) and rule.type.precision > SAFE_DIGITS
    if rule.function is Function.PRODUCT:
        return decimal
    if rule.function is Function.LISTAGG:
        return rule.distinct
    if rule.function is Function.COLLECT:
        return rule.distinct and _has_nested_elements(rule)
    return rule.function in (Function.MERGE_MAP, Function.NESTED_UPDATE) or rule.function in SKETCHES


def stepped_keys(lane: Lane, rule: FieldRule) -> pl.Series | None:
    """The keys whose values of this column are merged in steps; None if there are none."""
    if rule.function is None or (rule.function in COMMUTES and not never_whole(rule)):
        return None
    used = lane.frame.filter(lane.used(rule)) if lane.has_late or lane.has_retracts else lane.frame
    if rule.function in _NORMALISES and never_whole(rule):
        keys = used[KEY_NUMBER].unique()
    elif never_whole(rule):
        many = used.group_by(KEY_NUMBER).agg(pl.len().alias("n"), pl.col(RETRACT).any().alias("r"))
        keys = many.filter((pl.col("n") > 1) | pl.col("r"))[KEY_NUMBER]
    elif lane.has_retracts:
        # Taking back in the middle of a group's order changes what is there, whatever comes before it.
        inside = pl.col(RETRACT) if rule.function in _TAKES_STEPS else pl.col(RETRACT) & pl.col(LATE)
        keys = used.filter(inside)[KEY_NUMBER].unique()
    else:
        return None
    return keys.sort() if len(keys) else None


def stepped(lane: Lane, rule: FieldRule, keys: pl.Series) -> pa.Array:
    """The values of these keys, in their order. Raises UnfitError for one that the column's type cannot hold."""
    steps = _steps(rule)
    mine = lane.frame.filter(lane.used(rule) & pl.col(KEY_NUMBER).is_in(keys.implode())).sort(POSITION)
    values = lane.source[rule.name].take(mine[ROW].to_arrow()).to_pylist()
    merged: dict[int, Any] = {}
    for key, late, retract, value in zip(mine[KEY_NUMBER], mine[LATE], mine[RETRACT], values, strict=True):
        before = merged.get(key)
        if retract:
            merged[key] = steps.take(before, value)
        else:
            merged[key] = steps.add(value, before) if late else steps.add(before, value)
    kind = lane.source.schema.field(rule.name).type
    try:
        return arithmetic.fitted([merged.get(key) for key in keys], lambda some: pa.array(some, kind), rule)
    except arithmetic.UnfitError as unfit:
        raise arithmetic.UnfitError(rule, keys[unfit.at]) from unfit


def _has_nested_elements(rule: FieldRule) -> bool:
    return isinstance(rule.type, Array) and not isinstance(rule.type.element, (Primitive, Decimal))


def _steps(rule: FieldRule) -> Steps:
    if rule.function in SKETCHES:
        return _union_steps(rule.function)
    return _STEPS[rule.function](rule)  # type: ignore[index]


def _union_steps(function: Function) -> Steps:
    def add(before: bytes | None, value: bytes | None) -> bytes | None:
        if before is None or value is None:
            return value if before is None else before
        return sketches.union(function, before, value)

    def take(before: bytes | None, value: bytes | None) -> bytes | None:
        raise AssertionError("rows that cannot be taken back are refused before")

    return Steps(add, take)


_STEPS: Mapping[Function, Callable[[FieldRule], Steps]] = {
    Function.LAST_VALUE: lambda rule: Steps(lambda before, value: value, lambda before, value: None),
    Function.LAST_NON_NULL_VALUE: lambda rule: Steps(
        lambda before, value: before if value is None else value,
        lambda before, value: before if value is None else None,
    ),
    Function.SUM: lambda rule: Steps(arithmetic.plus, arithmetic.minus),
    Function.PRODUCT: lambda rule: Steps(arithmetic.times(rule), arithmetic.divided_by(rule)),
    Function.LISTAGG: lambda rule: Steps(containers.joined(rule.delimiter), _kept),
    Function.COLLECT: lambda rule: Steps(containers.appended(rule.distinct), containers.without),
    Function.MERGE_MAP: lambda rule: Steps(containers.map_with, containers.map_without),
    Function.NESTED_UPDATE: lambda rule: Steps(
        containers.rows_with(rule.nested_key, rule.count_limit), containers.rows_without(rule.nested_key)
    ),
}


def _kept(before: Any, value: Any) -> Any:
    return before
