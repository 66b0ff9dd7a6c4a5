"""Which Arrow values become which column type without loss, and how.

Some pairs of types are always safe (``int16`` to BIGINT), some depend on the values (nanoseconds to
microseconds); those come with a test that finds the values that would change.
"""

from __future__ import annotations

import decimal
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from lakebed.core.schema import (
    BINARY,
    BYTE,
    DATE,
    DOUBLE,
    FLOAT,
    INTEGER,
    LONG,
    SHORT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    Decimal,
    Primitive,
    Type,
)
from lakebed.core.schema_arrow import type_to_arrow

Mask: TypeAlias = Callable[[pa.Array], pa.Array]

_INTEGER_BITS = {BYTE: 8, SHORT: 16, INTEGER: 32, LONG: 64}
_DIGITS = {pa.int8(): 3, pa.int16(): 5, pa.int32(): 10, pa.int64(): 19,
           pa.uint8(): 3, pa.uint16(): 5, pa.uint32(): 10, pa.uint64(): 20}  # fmt: skip
_MICROS = {"s": 1_000_000, "ms": 1_000, "us": 1}
_DAY_MILLIS = 86_400_000
_MAX_LONG = 2**63 - 1
_MAX_DAYS = _MAX_LONG // (_DAY_MILLIS * 1_000)


@dataclass(frozen=True, slots=True)
class Conversion:
    """How values of one Arrow type become those of a column.

    ``steps`` are the types to cast through, in order. ``loses`` is true where a value would change;
    None says that no value can. ``why`` tells what such a value has.
    """

    steps: tuple[pa.DataType, ...]
    loses: Mask | None = None
    why: str = ""
    safe: bool = True

    def apply(self, array: pa.Array) -> pa.Array:
        """The converted values."""
        for step in self.steps:
            array = array.cast(step, safe=self.safe)
        return array


def conversion(found: pa.DataType, expected: Type) -> Conversion | None:
    """How a single value of an Arrow type becomes one of a column type, or None if it must not.

    >>> conversion(pa.int16(), LONG).steps
    (DataType(int64),)
    >>> conversion(pa.int64(), INTEGER) is None
    True
    """
    if not isinstance(expected, Primitive | Decimal):
        return None
    target = type_to_arrow(expected)
    if found.equals(target):
        return Conversion(())
    if pat.is_integer(found):
        return _from_integer(found, expected, target)
    if pat.is_decimal(found):
        return _from_decimal(found, expected)
    if pat.is_date(found):
        return _from_date(found, expected, target)
    if pat.is_timestamp(found):
        return _from_timestamp(found, expected, target)
    exact = (
        (expected == DOUBLE and (pat.is_float32(found) or pat.is_float16(found)))
        or (expected == FLOAT and pat.is_float16(found))
        or (expected == STRING and _is_text(found))
        or (expected == BINARY and _is_bytes(found))
    )
    return Conversion((target,)) if exact else None


def stored_conversion(found: pa.DataType, expected: Type) -> Conversion | None:
    """As ``conversion``, for values of a data file: it may hold what other writers are known to store.

    Spark's old INT96 timestamps are read without a zone and in nanoseconds but are instants; and small
    integers are sometimes stored as int32.

    >>> stored_conversion(pa.timestamp("ns"), TIMESTAMP).steps
    (TimestampType(timestamp[us]), TimestampType(timestamp[us, tz=UTC]))
    """
    exact = conversion(found, expected)
    if pat.is_timestamp(found) and expected in (TIMESTAMP, TIMESTAMP_NTZ):
        if found.tz is None and expected == TIMESTAMP:
            return Conversion((pa.timestamp("us"), pa.timestamp("us", "UTC")), safe=False)
        return None if exact is None else Conversion(exact.steps, safe=False)
    if exact is None and pat.is_integer(found) and expected in _INTEGER_BITS:
        return Conversion((type_to_arrow(expected),))
    return exact


def hint(found: pa.DataType, expected: Type) -> str:
    """What a user can do about a type that does not fit.

    >>> hint(pa.int64(), INTEGER)
    'a value may not fit; cast it with cast(pa.int32()), or widen the column'
    """
    if expected == TIMESTAMP and pat.is_timestamp(found):
        return (
            "without a zone it is not known which instants these are; "
            "say it with pyarrow.compute.assume_timezone(column, 'UTC')"
        )
    if expected == TIMESTAMP_NTZ and pat.is_timestamp(found):
        return "it has a zone; keep the wall clock with pyarrow.compute.local_timestamp(column)"
    if pat.is_integer(found) and expected in _INTEGER_BITS:
        return f"a value may not fit; cast it with cast(pa.{type_to_arrow(expected)}()), or widen the column"
    if pat.is_float64(found) and expected == FLOAT:
        return "digits would be lost; cast it with cast(pa.float32()), or widen the column"
    if isinstance(expected, Decimal) and pat.is_floating(found):
        return f"floats are not exact; cast it with cast({type_to_arrow(expected)!s})"
    return "cast it to that type before the write"


def _from_integer(found: pa.DataType, expected: Type, target: pa.DataType) -> Conversion | None:
    bits = found.bit_width + (1 if pat.is_unsigned_integer(found) else 0)
    if expected in _INTEGER_BITS:
        return Conversion((target,)) if bits <= _INTEGER_BITS[expected] else None
    if expected == DOUBLE:
        return Conversion((target,)) if bits <= 33 else None
    if not isinstance(expected, Decimal):
        return None
    digits, whole = _DIGITS[found], expected.precision - expected.scale
    # Arrow wants room for every value of the integer type before it looks at the values.
    steps = (pa.decimal256(digits + expected.scale, expected.scale), target)
    if whole >= digits:
        return Conversion(steps)
    return Conversion(steps, _beyond(10**whole - 1, found), f"more than {whole} digits before the point")


def _from_decimal(found: pa.DataType, expected: Type) -> Conversion | None:
    if not isinstance(expected, Decimal) or max(found.precision, found.precision - found.scale) > 38:
        return None
    precision, scale = expected.precision, expected.scale
    whole, found_whole = precision - scale, found.precision - found.scale
    wide = pa.decimal256(76, max(scale, found.scale))
    steps = (wide, pa.decimal128(precision, scale))
    if whole >= found_whole and scale >= found.scale:
        return Conversion(steps)

    def loses(array: pa.Array) -> pa.Array:
        values = array.cast(wide)
        lost = pc.not_equal(pc.round(values, ndigits=scale, round_mode="towards_zero"), values)
        if whole < found_whole:
            limit = pa.scalar(decimal.Decimal(10) ** whole, wide)
            lost = pc.or_(lost, pc.greater_equal(pc.abs(values), limit))
        return lost

    return Conversion(steps, loses, f"more digits than DECIMAL({precision},{scale}) has")


def _from_date(found: pa.DataType, expected: Type, target: pa.DataType) -> Conversion | None:
    if expected not in (DATE, TIMESTAMP_NTZ):
        return None
    steps = (pa.date32(),) if expected == DATE else (pa.date32(), target)
    why = "a time of day, or a year out of range"
    if pat.is_date32(found):
        return Conversion(steps, lambda array: _beyond(_MAX_DAYS, pa.int32())(array.view(pa.int32())), why)
    days = 2**31 - 1 if expected == DATE else _MAX_DAYS

    def loses(array: pa.Array) -> pa.Array:
        millis = array.view(pa.int64())
        far = _beyond(days * _DAY_MILLIS, pa.int64())(millis)
        return pc.or_(far, _no_multiple(millis, _DAY_MILLIS))

    return Conversion(steps, loses, why)


def _from_timestamp(found: pa.DataType, expected: Type, target: pa.DataType) -> Conversion | None:
    if expected != (TIMESTAMP_NTZ if found.tz is None else TIMESTAMP):
        return None
    if found.unit == "us":
        return Conversion((target,))
    if found.unit == "ns":
        return Conversion(
            (target,),
            lambda array: _no_multiple(array.view(pa.int64()), 1_000),
            "nanoseconds, and the column has microseconds; round with pyarrow.compute.floor_temporal",
        )
    limit = _MAX_LONG // _MICROS[found.unit]
    return Conversion(
        (target,), lambda array: _beyond(limit, pa.int64())(array.view(pa.int64())), "a year out of range"
    )


def _beyond(limit: int, kind: pa.DataType) -> Mask:
    """A test for integers above the limit or below its negative."""

    def mask(array: pa.Array) -> pa.Array:
        above = pc.greater(array, pa.scalar(limit, kind))
        if pat.is_unsigned_integer(kind):
            return above
        return pc.or_(above, pc.less(array, pa.scalar(-limit, kind)))

    return mask


def _no_multiple(integers: pa.Array, unit: int) -> pa.Array:
    factor = pa.scalar(unit, pa.int64())
    return pc.not_equal(pc.multiply(pc.divide(integers, factor), factor), integers)


def _is_text(kind: pa.DataType) -> bool:
    return bool(pat.is_string(kind) or pat.is_large_string(kind) or pat.is_string_view(kind))


def _is_bytes(kind: pa.DataType) -> bool:
    return bool(
        pat.is_binary(kind) or pat.is_large_binary(kind) or pat.is_binary_view(kind) or pat.is_fixed_size_binary(kind)
    )
