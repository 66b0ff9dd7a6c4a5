"""Bounds of one column in the statistics' JSON: written so that a reader may rely on them."""

from __future__ import annotations

import datetime as dt
import json
import math
from decimal import Decimal as Exact
from typing import Any

import pyarrow as pa

Path = tuple[str, ...]

PREFIX = 32
_SURROGATES = range(0xD800, 0xE000)
_LAST = 0x10FFFF


def bound_to_json(value: Any, *, upper: bool) -> str | None:
    """The JSON text of a bound, or None when it must be left out.

    >>> bound_to_json("z" * 40, upper=True) == '"' + "z" * 31 + '{"'
    True
    """
    if isinstance(value, pa.Scalar):
        value = _plain(value)
    match value:
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case float():
            return repr(value) if math.isfinite(value) else None
        case Exact():
            return format(value, "f") if value.is_finite() else None
        case str():
            cut = cut_upper(value) if upper else value[:PREFIX]
            return None if cut is None else _text(cut)
        case dt.datetime():
            return _timestamp(value)
        case dt.date():
            return f'"{value.isoformat()}"'
    return None


def _plain(value: pa.Scalar) -> Any:
    if pa.types.is_float32(value.type) and value.is_valid:
        # The shortest text that reads back as the same 32 bits; Python would show 64.
        return float(value.cast(pa.string()).as_py())
    if pa.types.is_timestamp(value.type) and value.is_valid:
        micros = value.cast(pa.timestamp("us", value.type.tz), safe=False)
        return _moment(micros)
    try:
        return value.as_py()
    except (ValueError, OverflowError):
        return None


def _moment(value: pa.Scalar) -> dt.datetime | None:
    epoch = dt.datetime(1970, 1, 1, tzinfo=dt.UTC if value.type.tz else None)
    try:
        return epoch + dt.timedelta(microseconds=value.value)
    except OverflowError:
        return None


def _text(value: str) -> str | None:
    try:
        value.encode()
    except UnicodeEncodeError:
        return None
    return json.dumps(value, ensure_ascii=False)


def _timestamp(value: dt.datetime) -> str:
    zone = "Z" if value.tzinfo is not None else ""
    moment = value.astimezone(dt.UTC).replace(tzinfo=None) if value.tzinfo is not None else value
    return f'"{moment.isoformat(timespec="milliseconds")}{zone}"'


def cut_upper(text: str) -> str | None:
    """The text if it is short, else a short text that is greater; None if there is none.

    >>> cut_upper("a" * 40) == "a" * 31 + "b"
    True
    """
    if len(text) <= PREFIX:
        return text
    for last in range(PREFIX - 1, -1, -1):
        following = ord(text[last]) + 1
        if following in _SURROGATES:
            following = _SURROGATES.stop
        if following <= _LAST:
            return text[:last] + chr(following)
    return None
