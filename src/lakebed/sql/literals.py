"""Python values as constants of SQL's syntax trees."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

from sqlglot import exp

from lakebed.core.errors import SqlError


def literal(value: Any) -> exp.Expression:
    """The constant that a value is. Raises SqlError for what none can be.

    >>> literal("it's").sql("spark"), literal(-2.5).sql("spark")
    ("'it\\\\'s'", "CAST('-2.5' AS DOUBLE)")
    """
    if value is None:
        return exp.null()
    if isinstance(value, bool):
        return exp.Boolean(this=value)
    if isinstance(value, int):
        return exp.Literal.number(value) if value >= 0 else exp.Neg(this=exp.Literal.number(-value))
    if isinstance(value, str):
        return exp.Literal.string(value)
    if isinstance(value, float):
        return _cast(repr(value), "DOUBLE")
    if isinstance(value, Decimal) and value.is_finite():
        scale = max(0, -int(value.as_tuple().exponent))
        digits = max(len(value.as_tuple().digits), scale)
        return _cast(format(value, "f"), f"DECIMAL({digits}, {scale})")
    if isinstance(value, bytes):
        return exp.HexString(this=value.hex())
    if isinstance(value, datetime):
        return _moment(value)
    if isinstance(value, date):
        return _cast(value.isoformat(), "DATE")
    raise SqlError(
        f"a parameter cannot be {type(value).__name__}",
        expected="a number, text, bytes, a truth value, a date, a time or None",
    )


def _moment(value: datetime) -> exp.Expression:
    if value.tzinfo is None:
        return _cast(value.isoformat(" "), "TIMESTAMP_NTZ")
    return _cast(value.astimezone(UTC).replace(tzinfo=None).isoformat(" ") + "+00:00", "TIMESTAMP")


def _cast(text: str, kind: str) -> exp.Expression:
    return exp.cast(exp.Literal.string(text), exp.DataType.build(kind, dialect="spark"))
