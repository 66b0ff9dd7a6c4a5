"""Casts of columns, as Arrow expressions with the meaning that Spark's ANSI mode gives them."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from lakebed.core.predicate.coercion import as_decimal, is_integer
from lakebed.core.predicate.nodes import MAX_PRECISION
from lakebed.core.schema import DATE, DOUBLE, STRING, Decimal, Type
from lakebed.core.schema_arrow import type_to_arrow
from lakebed.core.type_groups import FLOATS, INTEGERS, TIMESTAMPS


def is_lossless(source: Type, target: Type) -> bool:
    """Whether every value of ``source`` has exactly one counterpart in ``target``, in the same order.

    >>> from lakebed.core.schema import INTEGER, LONG
    >>> is_lossless(INTEGER, LONG), is_lossless(LONG, INTEGER)
    (True, False)
    """
    if source == target:
        return True
    if is_integer(source) and is_integer(target):
        return INTEGERS[source] < INTEGERS[target]
    if target == DOUBLE and (source in FLOATS or is_integer(source)):
        return source in FLOATS or INTEGERS[source][0] <= 32
    if isinstance(target, Decimal) and (is_integer(source) or isinstance(source, Decimal)):
        kind = as_decimal(source)
        return target.scale >= kind.scale and target.precision - target.scale >= kind.precision - kind.scale
    return source == DATE and target in TIMESTAMPS


def keeps_order(source: Type, target: Type) -> bool:
    """Whether a larger value never becomes a smaller one, so that bounds stay bounds after the cast."""
    if is_lossless(source, target):
        return True
    # The nearest double of a bigint, and the day of a timestamp.
    return (is_integer(source) and target == DOUBLE) or (source in TIMESTAMPS and target == DATE)


def build_cast(operand: pc.Expression, source: Type, target: Type) -> pc.Expression:
    """The cast of an expression; Arrow raises for values that the target cannot hold."""
    arrow = type_to_arrow(target)
    if target in FLOATS:
        trimmed = pc.utf8_trim_whitespace(operand) if source == STRING else operand
        return trimmed.cast(options=pc.CastOptions(arrow, allow_float_truncate=True))
    if is_integer(target):
        if source in FLOATS or isinstance(source, Decimal):
            operand = pc.trunc(operand)
        elif source == STRING:
            operand = pc.utf8_trim_whitespace(operand)
        return operand.cast(arrow)
    if isinstance(target, Decimal):
        return _to_decimal(operand, source, target).cast(arrow)
    return operand.cast(arrow)


def _to_decimal(operand: pc.Expression, source: Type, target: Decimal) -> pc.Expression:
    if is_integer(source):
        # Arrow wants room for every value of the integer type first, and checks the values after.
        digits = as_decimal(source).precision
        return operand.cast(pa.decimal128(min(MAX_PRECISION, digits + target.scale), target.scale))
    if isinstance(source, Decimal) and source.scale > target.scale:
        return pc.round(operand, target.scale, "half_towards_infinity")
    return operand
