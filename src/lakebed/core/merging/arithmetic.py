"""Steps of numbers that whole columns cannot do exactly: wide decimals, and products with rows taken back."""

from __future__ import annotations

import decimal
import math
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import polars as pl
import pyarrow as pa

from lakebed.core.errors import DataError
from lakebed.core.merging.functions import WHOLE_NUMBERS, Function
from lakebed.core.merging.spec import FieldRule
from lakebed.core.schema import LONG, Decimal
from lakebed.core.schema_ddl import type_ddl

# More digits than two decimals of 38 can make, so that only the column's type decides what fits.
_EXACT = decimal.Context(prec=100, rounding=decimal.ROUND_HALF_UP)

Step = Callable[[Any, Any], Any]
Values = TypeVar("Values", list[Any], pl.Series)

_UNFIT = (pl.exceptions.InvalidOperationError, pa.ArrowInvalid, OverflowError)


def plus(before: decimal.Decimal | None, value: decimal.Decimal | None) -> decimal.Decimal | None:
    """The sum; a null adds nothing.

    >>> plus(None, decimal.Decimal("1.5"))
    Decimal('1.5')
    """
    if before is None or value is None:
        return value if before is None else before
    return _EXACT.add(before, value)


def minus(before: decimal.Decimal | None, value: decimal.Decimal | None) -> decimal.Decimal | None:
    """The sum with a value taken back.

    >>> minus(None, decimal.Decimal("1.5"))
    Decimal('-1.5')
    """
    return before if value is None else plus(before, -value)


def times(rule: FieldRule) -> Step:
    """The product, rounded half up to the column's scale; a null changes nothing."""

    def step(before: Any, value: Any) -> Any:
        if before is None or value is None:
            return value if before is None else before
        return _scaled(_EXACT.multiply(before, value), rule) if isinstance(rule.type, Decimal) else before * value

    return step


def divided_by(rule: FieldRule) -> Step:
    """The product with a value taken back; null stays null. Raises DataError for a zero among whole numbers."""

    def step(before: Any, value: Any) -> Any:
        if before is None or value is None:
            return before
        if isinstance(value, float):
            return _float_ratio(before, value)
        if value == 0:
            raise zero_taken_back(rule)
        if isinstance(rule.type, Decimal):
            return _scaled(_EXACT.divide(before, value), rule)
        # Towards zero, as in Java and Spark.
        quotient = abs(before) // abs(value)
        return quotient if (before < 0) == (value < 0) else -quotient

    return step


def zero_taken_back(rule: FieldRule, problems: tuple[str, ...] = ()) -> DataError:
    """The error for a product of whole numbers or decimals that a zero is taken back from."""
    return DataError(
        f"a zero cannot be taken back from the product of column {rule.name!r}",
        problems,
        fix=f"set 'fields.{rule.name}.ignore-retract' to true",
    )


def _float_ratio(before: float, value: float) -> float:
    if value != 0:
        return before / value
    if before == 0 or math.isnan(before):
        return math.nan
    return math.copysign(math.inf, before) * math.copysign(1.0, value)


def _scaled(value: decimal.Decimal, rule: FieldRule) -> decimal.Decimal:
    assert isinstance(rule.type, Decimal)
    return value.quantize(decimal.Decimal(1).scaleb(-rule.type.scale), context=_EXACT)


class UnfitError(Exception):
    """A result that its column's type cannot hold; ``at`` is its place among the results."""

    def __init__(self, rule: FieldRule, at: int) -> None:
        super().__init__(rule, at)
        self.rule = rule
        self.at = at


def fitted(values: Values, convert: Callable[[Values], pa.Array], rule: FieldRule) -> pa.Array:
    """The values in the column's type. Raises UnfitError for the first one that does not fit."""
    try:
        return convert(values)
    except _UNFIT as error:
        low, high = 0, len(values)
        while high - low > 1:
            middle = (low + high) // 2
            try:
                convert(values[low:middle])
                low = middle
            except _UNFIT:
                high = middle
        raise UnfitError(rule, low) from error


def overflow(rule: FieldRule, key: Mapping[str, Any]) -> DataError:
    """The error for a result that the column's type cannot hold."""
    function = rule.function.value if rule.function is not None else "value"
    wider = _wider(rule)
    delete = "delete the row by its key"
    return DataError(
        f"the {function} of column {rule.name!r} does not fit into {type_ddl(rule.type)}",
        (f"for the key {dict(key)}",),
        fix=f"widen the column to {wider}, or {delete}" if wider else delete,
    )


def _wider(rule: FieldRule) -> str | None:
    """The type that a column can become although what waits to be merged does not fit into its own."""
    if isinstance(rule.type, Decimal):
        return type_ddl(Decimal(38, rule.type.scale)) if rule.type.precision < 38 else None
    if rule.type == LONG:
        return type_ddl(Decimal(38, 0)) if rule.function is Function.SUM else None
    return type_ddl(LONG) if rule.type in WHOLE_NUMBERS else None
