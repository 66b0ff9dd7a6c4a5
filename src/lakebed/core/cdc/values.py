"""The values of a column, out of messages into Arrow."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal as Exact
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from lakebed.core.cdc.encoding import Declared, Encoding
from lakebed.core.schema import BINARY, DATE, STRING, TIMESTAMP, TIMESTAMP_NTZ, Array, Decimal, Map, Struct, Type
from lakebed.core.schema_arrow import type_to_arrow
from lakebed.core.temporal_text import read_dates, read_moments

_TO_MICROS = {Encoding.MILLIS: (1000, 1), Encoding.MICROS: (1, 1), Encoding.NANOS: (1, 1000)}
_TIME_TO_MICROS = {Encoding.TIME_MILLIS: (1000, 1), Encoding.TIME_MICROS: (1, 1), Encoding.TIME_NANOS: (1, 1000)}
_NO_DATE = r"^0000-00-00( 00:00:00(\.0+)?)?$"
"""MySQL's date that is none."""
UNAVAILABLE = "__debezium_unavailable_value"
"""What Debezium has for a large value of PostgreSQL that an update has not touched."""


class UnfitError(ValueError):
    """Values that cannot be read; the text says why."""


@dataclass(frozen=True)
class Column:
    """How the values of one column are read."""

    target: Type
    declared: Declared
    time_zone: str = "UTC"
    """Of timestamps that have no zone of their own."""

    def read(self, values: Sequence[Any]) -> tuple[pa.Array, dict[int, str]]:
        """The values as a column, and what is wrong with those that are null in it for that reason, by number.

        >>> from lakebed.core.schema import INTEGER
        >>> found, wrong = Column(INTEGER, Declared(None)).read([1, "2", None, "x"])
        >>> found.to_pylist(), list(wrong)
        ([1, 2, None, None], [3])
        """
        parts, wrong = _leniently(list(values), self._converted, 0)
        kind = type_to_arrow(self.target)
        return pa.chunked_array([pa.array([], kind), *parts], kind).combine_chunks(), wrong

    def _converted(self, values: list[Any]) -> pa.Array:
        if not any(value is not None for value in values):
            return pa.nulls(len(values), type_to_arrow(self.target))
        if isinstance(self.target, Array | Map | Struct):
            return pa.array(_plain(values), type_to_arrow(self.target))
        found = self._of_encoding(values)
        target = type_to_arrow(self.target)
        return found if found.type == target else found.cast(target)

    def _of_encoding(self, values: list[Any]) -> pa.Array:
        encoding = self.declared.encoding
        if encoding is Encoding.PLAIN:
            return self._plainly(_scalars(values))
        if encoding in (Encoding.UNSCALED, Encoding.SCALED):
            return _decimals(values, self.declared)
        if encoding is Encoding.BASE64:
            return self._bytes(pl.Series(values, dtype=pl.String).str.decode("base64").to_arrow().cast(pa.binary()))
        if encoding is Encoding.LATIN1:
            return pa.array([None if v is None else str(v).encode("latin-1") for v in values], pa.binary())
        return self._of_time(_scalars(values), encoding)

    def _bytes(self, found: pa.Array) -> pa.Array:
        if self.target not in (BINARY, STRING):
            raise UnfitError("it is bytes")
        return found

    def _of_time(self, found: pa.Array, encoding: Encoding) -> pa.Array:
        """Numbers that count from a moment; texts are read as such."""
        if not _is_whole(found.type):
            if encoding is Encoding.UNKNOWN_DECIMAL:
                raise UnfitError("no schema tells whether it is text or base64: pass decimals='text' or 'base64'")
            return self._plainly(found)
        if encoding is Encoding.UNKNOWN_UNIT:
            raise UnfitError("no schema tells the unit of the number: pass timestamps='millis', 'micros' or 'nanos'")
        if encoding is Encoding.UNKNOWN_DECIMAL:
            return self._plainly(found)
        if self.target not in (STRING, DATE, TIMESTAMP, TIMESTAMP_NTZ):
            return found
        if encoding is Encoding.DAYS:
            return found.cast(pa.int32()).cast(pa.date32())
        if encoding in _TIME_TO_MICROS:
            return _clock(_scaled(found, *_TIME_TO_MICROS[encoding]))
        return self._zoned(_scaled(found, *_TO_MICROS[encoding]).cast(pa.timestamp("us")))

    def _zoned(self, local: pa.Array) -> pa.Array:
        """Timestamps without a zone, as the target has them."""
        if self.target != TIMESTAMP or self.time_zone == "UTC":
            return local
        moments = pc.assume_timezone(local, self.time_zone, ambiguous="earliest", nonexistent="latest")
        return moments.cast(type_to_arrow(TIMESTAMP))

    def _plainly(self, found: pa.Array) -> pa.Array:
        """Numbers and texts that mean what they say."""
        if _is_whole(found.type):
            return found.cast(pa.string()) if isinstance(self.target, Decimal) else found
        if self.target == DATE:
            days = pc.replace_substring_regex(_dated(found), r"[ T]00:00:00(\.0+)?Z?$", "")
            return read_dates(days)
        if self.target in (TIMESTAMP, TIMESTAMP_NTZ):
            return self._moments(_dated(found))
        return found

    def _moments(self, texts: pa.Array) -> pa.Array:
        if self.time_zone == "UTC" or self.target != TIMESTAMP:
            return read_moments(texts, self.target)
        own = pc.fill_null(pc.match_substring_regex(texts, r"(Z|[+-]\d\d:?\d\d)$"), False)
        local = read_moments(pc.if_else(own, None, texts), TIMESTAMP_NTZ)
        return pc.if_else(own, read_moments(pc.if_else(own, texts, None), TIMESTAMP), self._zoned(local))


def _leniently(
    values: list[Any], convert: Callable[[list[Any]], pa.Array], first: int
) -> tuple[list[pa.Array], dict[int, str]]:
    """The converted values, without those that cannot be: what fails is halved until it is one value."""
    try:
        return [convert(values)], {}
    except (pa.ArrowException, pl.exceptions.PolarsError, ValueError, OverflowError, TypeError) as error:
        if len(values) == 1:
            return [convert([None])], {first: f"{_shown(values[0])}: {_reason(error)}"}
        half = len(values) // 2
        left, right = _leniently(values[:half], convert, first), _leniently(values[half:], convert, first + half)
        return [*left[0], *right[0]], {**left[1], **right[1]}


def _shown(value: Any) -> str:
    text = repr(str(value) if isinstance(value, Exact) else value)
    return text if len(text) <= 60 else text[:57] + "..."


def _reason(error: Exception) -> str:
    return str(error) if isinstance(error, UnfitError) else str(error).partition("\n")[0]


def _scalars(values: list[Any]) -> pa.Array:
    """Whole numbers if all are, else texts: numbers as they were written, and what is nested as JSON."""
    kinds = set(map(type, values))
    if kinds <= {int, type(None)}:
        try:
            return pa.array(values, pa.int64())
        except OverflowError:
            pass
    if kinds <= {str, type(None)}:
        return pa.array(values, pa.string())
    return pa.array([_text(value) for value in values], pa.string())


def _text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | dict):
        return json.dumps(value, default=float, ensure_ascii=False)
    return str(value)


def _plain(values: list[Any]) -> list[Any]:
    """Nested values with numbers that Arrow takes; one that came as text is read."""
    made = [json.loads(value) if isinstance(value, str) else value for value in values]
    found: list[Any] = json.loads(json.dumps(made, default=float))
    return found


def _is_whole(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind))


def _dated(texts: pa.Array) -> pa.Array:
    return pc.if_else(pc.fill_null(pc.match_substring_regex(texts, _NO_DATE), False), None, texts)


def _scaled(found: pa.Array, factor: int, divisor: int) -> pa.Array:
    return pc.multiply_checked(found, factor) if divisor == 1 else _floored(found, divisor)


def _floored(found: pa.Array, divisor: int) -> pa.Array:
    return (pl.Series(found) // divisor).to_arrow()


def _clock(micros: pa.Array) -> pa.Array:
    """Times of day as texts; MySQL's may be negative, and longer than a day.

    >>> _clock(pa.array([1, -3_600_000_000, 838 * 3_600_000_000])).to_pylist()
    ['00:00:00.000001', '-01:00:00', '838:00:00']
    """
    time = pl.col("t").abs()
    second = 1_000_000

    def digits(part: pl.Expr, count: int) -> pl.Expr:
        return part.cast(pl.String).str.zfill(count)

    fraction = pl.when(time % second > 0).then(pl.lit(".") + digits(time % second, 6)).otherwise(pl.lit(""))
    clock = pl.concat_str(
        pl.when(pl.col("t") < 0).then(pl.lit("-")).otherwise(pl.lit("")),
        digits(time // (3600 * second), 2), pl.lit(":"), digits(time // (60 * second) % 60, 2), pl.lit(":"),
        digits(time // second % 60, 2), fraction,
    )  # fmt: skip
    return pl.DataFrame({"t": micros}).select(clock.alias("t"))["t"].to_arrow().cast(pa.string())


def _decimals(values: list[Any], declared: Declared) -> pa.Array:
    """Exact numbers whose digits are bytes, the highest first, in base64."""
    if declared.encoding is Encoding.SCALED:
        return pa.array([None if v is None else _scaled_text(v) for v in values], pa.string())
    if not set(map(type, values)) <= {str, type(None)}:
        raise UnfitError("expected base64")
    hexed = pl.DataFrame({"h": pl.Series(values, dtype=pl.String).str.decode("base64").bin.encode("hex")})
    if hexed.select((pl.col("h").str.len_bytes() > 32).any()).item():
        raise UnfitError("it has more digits than a DECIMAL")
    sign = pl.col("h").str.slice(0, 1).is_in(list("89abcdef"))
    padded = pl.when(sign).then(pl.col("h").str.pad_start(32, "f")).otherwise(pl.col("h").str.pad_start(32, "0"))
    whole = hexed.select(padded.str.decode("hex").bin.reinterpret(dtype=pl.Int128, endianness="big"))["h"]
    if declared.scale < 0:
        whole = whole * 10**-declared.scale
    digits = whole.cast(pl.Decimal(38, 0)).to_arrow()
    return _shifted(digits, max(declared.scale, 0))


def _shifted(digits: pa.Array, scale: int) -> pa.Array:
    """The same digits with some of them behind the point."""
    return pa.Array.from_buffers(
        pa.decimal128(38, scale), len(digits), digits.buffers(), digits.null_count, digits.offset
    )


def _scaled_text(value: Any) -> str:
    import base64

    if not isinstance(value, dict) or not isinstance(value.get("value"), str):
        raise UnfitError("expected a scale and a value")
    whole = int.from_bytes(base64.b64decode(value["value"], validate=True), "big", signed=True)
    # Arithmetic would round to the digits of the context; this does not.
    return str(Exact(f"{whole}E{-int(value.get('scale', 0))}"))
