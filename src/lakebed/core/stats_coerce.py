"""Bounds as the statistics' JSON has them, made bounds of the column's type: wider where in doubt."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal as Exact
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakebed.core.schema import BOOLEAN, DATE, DOUBLE, FLOAT, STRING, Decimal, Type
from lakebed.core.schema_arrow import type_to_arrow
from lakebed.core.temporal_text import read_dates, read_moments
from lakebed.core.type_groups import INTEGERS, TIMESTAMPS, single

# Some writers pass decimals through 64-bit floats, which keep this many digits exactly.
_EXACT_DIGITS = 15
_DIGITS = 38
# What writers cut off a timestamp, in microseconds.
_CUT = 999
_JSON: dict[Type, pa.DataType] = {
    **dict.fromkeys(INTEGERS, pa.int64()),
    FLOAT: pa.float32(), DOUBLE: pa.float64(), BOOLEAN: pa.bool_(),
    **dict.fromkeys((STRING, DATE, *TIMESTAMPS), pa.string()),
}  # fmt: skip


def json_type(kind: Type) -> pa.DataType | None:
    """The Arrow type to read a JSON bound as; None for types without bounds."""
    if isinstance(kind, Decimal):
        return pa.decimal128(_DIGITS, kind.scale)
    return _JSON.get(kind)


def lenient_value(value: Any, kind: pa.DataType) -> Any:
    """A parsed JSON value if it is one of the Arrow type (of ``json_type``), else None."""
    if isinstance(value, bool) or pa.types.is_boolean(kind):
        return value if isinstance(value, bool) and pa.types.is_boolean(kind) else None
    if pa.types.is_string(kind):
        return value if isinstance(value, str) and not _broken(value) else None
    if pa.types.is_decimal(kind):
        return _exact(value, kind.scale)
    if not isinstance(value, int | Exact):
        return None
    if pa.types.is_integer(kind):
        whole = value == int(value) and -(2**63) <= value < 2**63
        return int(value) if whole else None
    try:
        number = float(value)
    except OverflowError:
        return None
    return single(number) if pa.types.is_float32(kind) else number


def _broken(text: str) -> bool:
    return any("\ud800" <= character <= "\udfff" for character in text)


def _exact(value: Any, scale: int) -> Exact | None:
    try:
        exact = Exact(value)
        shifted = exact.scaleb(scale)
        return exact if shifted == shifted.to_integral_value() and abs(shifted) < 10**_DIGITS else None
    except (ArithmeticError, ValueError, TypeError):
        return None


def coerce_bounds(found: pa.Array, kind: Type, *, upper: bool) -> pa.Array:
    """The bounds as the column's type; an entry that is none becomes unknown."""
    if kind == DATE:
        return _each(found, read_dates, pa.date32())
    if kind in TIMESTAMPS:
        return _widen_moments(_each(found, lambda t: read_moments(t, kind), type_to_arrow(kind)), upper)
    if kind in (FLOAT, DOUBLE):
        return pc.if_else(pc.is_finite(found), found, pa.scalar(None, found.type))
    if isinstance(kind, Decimal) and kind.precision > _EXACT_DIGITS:
        found = _each(found, lambda d: _widen_decimals(d, upper), found.type)
    target = type_to_arrow(kind)
    return _each(found, lambda values: values.cast(target), target)


def _each(found: pa.Array, convert: Callable[[pa.Array], pa.Array], kind: pa.DataType) -> pa.Array:
    """The whole column converted, or, if an entry prevents that, every entry on its own."""
    try:
        return convert(found)
    except (pa.ArrowException, ValueError):
        return pa.concat_arrays([_alone(found.slice(at, 1), convert, kind) for at in range(len(found))])


def _alone(entry: pa.Array, convert: Callable[[pa.Array], pa.Array], kind: pa.DataType) -> pa.Array:
    try:
        return convert(entry)
    except (pa.ArrowException, ValueError):
        return pa.nulls(1, kind)


def _widen_moments(found: pa.Array, upper: bool) -> pa.Array:
    ticks = found.cast(pa.int64())
    if upper:
        ticks = pc.add(ticks, _CUT)
    else:
        # Before 1970 a writer that cuts towards zero moves a minimum up.
        ticks = pc.if_else(pc.less(ticks, 0), pc.subtract(ticks, _CUT), ticks)
    return ticks.cast(found.type)


def _widen_decimals(found: pa.Array, upper: bool) -> pa.Array:
    """Allow for a rounding to the nearest float, in whole units of the last digit."""
    scale = found.type.scale
    doubt = pc.multiply(pc.abs(found).cast(pa.float64()), 10.0**scale * 2.0**-52)
    # 38 digits times 2**-52 leave fewer than 24; twice as wide a type has room for all that follows.
    units = pc.floor(doubt).cast(pa.decimal256(24, 0))
    unit = pa.scalar(Exact(1).scaleb(-scale), pa.decimal256(scale + 1, scale))
    shifted = pc.add_checked if upper else pc.subtract_checked
    exact = found.cast(pa.decimal256(_DIGITS + 1, scale))
    return shifted(exact, pc.multiply_checked(units, unit)).cast(found.type)
