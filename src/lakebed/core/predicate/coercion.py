"""Types of operands: what a literal means next to a column, and which casts a comparison needs.

The rules are Spark's in ANSI mode with two deviations, both towards fewer surprises: text is never
compared with a number by silently casting one of them, and a literal is converted to the column's type
when that is exact, so that file statistics apply.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal as Exact
from decimal import InvalidOperation

from lakebed.core.errors import PredicateError
from lakebed.core.predicate.nodes import MAX_PRECISION, Cast, Literal, Node
from lakebed.core.schema import (
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INTEGER,
    LONG,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    VOID,
    Decimal,
    Type,
)
from lakebed.core.schema_ddl import type_ddl
from lakebed.core.type_groups import FLOATS, INTEGERS, TIMESTAMPS, single


def is_integer(kind: Type) -> bool:
    """Whether the type holds whole numbers of a fixed width."""
    return kind in INTEGERS


def is_numeric(kind: Type) -> bool:
    """Whether the type holds numbers."""
    return is_integer(kind) or kind in FLOATS or isinstance(kind, Decimal)


def fits(value: int, kind: Type) -> bool:
    """Whether the whole number is in the range of the integer type."""
    limit = 1 << (INTEGERS[kind][0] - 1)
    return -limit <= value < limit


def number(text: str) -> Literal:
    """The literal that a number in SQL text is: int, bigint, decimal or (with an exponent) double.

    >>> number("1.50").type
    Decimal(precision=3, scale=2)
    """
    if "e" in text.lower():
        return Literal(float(text), DOUBLE)
    value = Exact(text)
    exponent = value.as_tuple().exponent
    scale = -exponent if isinstance(exponent, int) and exponent < 0 else 0
    if "." not in text:
        for kind in (INTEGER, LONG):
            if fits(int(value), kind):
                return Literal(int(value), kind)
    digits = max(len(value.as_tuple().digits), scale)
    if digits > MAX_PRECISION:
        raise PredicateError(
            f"the number {text} has {digits} digits",
            expected=f"at most {MAX_PRECISION}",
            fix="write it with an exponent, as a double",
        )
    return Literal(value, Decimal(digits, scale))


def adapt(literal: Literal, kind: Type) -> Literal | None:
    """The literal as ``kind`` when that keeps its value, else None; text becomes a date or a timestamp.

    Raises PredicateError when text is not a date or timestamp but should be.

    >>> adapt(Literal(5, INTEGER), LONG)
    Literal(value=5, type=Primitive(name='long'))
    """
    if literal.value is None:
        return Literal(None, kind)
    if literal.type == kind:
        return literal
    if is_numeric(literal.type) and is_numeric(kind):
        return _adapt_number(literal, kind)
    if kind == DATE and literal.type == STRING:
        return Literal(parse_date(literal.value), DATE)
    if kind in TIMESTAMPS:
        moment = _moment(literal, kind)
        return None if moment is None else Literal(moment, kind)
    return None


def _adapt_number(literal: Literal, kind: Type) -> Literal | None:
    value = literal.value
    if kind in FLOATS:
        try:
            wide = float(value)
        except OverflowError:
            return None
        # Spark rounds to double; a 32-bit column is widened instead, unless the literal is exact in 32 bits.
        if kind == FLOAT and (single(wide) != wide or Exact(wide) != value):
            return None
        return Literal(wide, kind)
    if isinstance(value, float) and not value.is_integer():
        return None
    exact = Exact(value)
    if isinstance(kind, Decimal):
        if isinstance(value, float):
            return None
        shifted = exact.scaleb(kind.scale)
        whole = shifted == shifted.to_integral_value()
        return Literal(exact, kind) if whole and abs(shifted) < 10**kind.precision else None
    whole = exact == exact.to_integral_value()
    return Literal(int(exact), kind) if whole and fits(int(exact), kind) else None


def _moment(literal: Literal, kind: Type) -> dt.datetime | None:
    if literal.type == STRING:
        moment = parse_timestamp(literal.value)
    elif literal.type == DATE:
        moment = dt.datetime.combine(literal.value, dt.time(), dt.UTC)
    elif literal.type in TIMESTAMPS:
        moment = literal.value.replace(tzinfo=dt.UTC)
    else:
        return None
    return moment if kind == TIMESTAMP else moment.replace(tzinfo=None)


def parse_date(text: str) -> dt.date:
    """The date in ``YYYY-MM-DD``; raises PredicateError for anything else."""
    try:
        if len(text.strip()) != 10:
            raise ValueError(text)
        return dt.date.fromisoformat(text.strip())
    except ValueError as error:
        raise PredicateError(f"{text!r} is not a date", expected="YYYY-MM-DD") from error


def parse_timestamp(text: str) -> dt.datetime:
    """The moment in UTC that ISO 8601 text names; without a zone the text is UTC, a date is its midnight.

    >>> parse_timestamp("2026-11-15 10:00:00+02:00").isoformat()
    '2026-11-15T08:00:00+00:00'
    """
    try:
        moment = dt.datetime.fromisoformat(text.strip())
        return moment.replace(tzinfo=dt.UTC) if moment.tzinfo is None else moment.astimezone(dt.UTC)
    except (ValueError, OverflowError) as error:
        raise PredicateError(
            f"{text!r} is not a timestamp", expected="YYYY-MM-DD hh:mm:ss[.ffffff][Z|+hh:mm]"
        ) from error


def unify(left: Node, right: Node, context: Callable[[], str]) -> tuple[Node, Node]:
    """Both operands with one type; ``context`` names the place in the error that is raised if none fits."""
    if left.type == right.type:
        # Two bare NULLs: any type does.
        return (Literal(None, STRING), Literal(None, STRING)) if left.type == VOID else (left, right)
    if isinstance(right, Literal) and (adapted := adapt(right, left.type)) is not None:
        return left, adapted
    if isinstance(left, Literal) and (adapted := adapt(left, right.type)) is not None:
        return adapted, right
    kind = common_type(left.type, right.type)
    if kind is None:
        raise PredicateError(
            f"{context()}: {type_ddl(left.type)} and {type_ddl(right.type)} do not compare",
            fix=_hint(left, right),
        )
    return convert(left, kind), convert(right, kind)


def common_type(a: Type, b: Type) -> Type | None:
    """The type that holds the values of both, or None."""
    if a == b:
        return a
    if is_numeric(a) and is_numeric(b):
        return _common_number(a, b)
    pair = {a, b}
    if DATE in pair and pair & set(TIMESTAMPS):
        return TIMESTAMP if TIMESTAMP in pair else TIMESTAMP_NTZ
    return TIMESTAMP if pair == set(TIMESTAMPS) else None


def _common_number(a: Type, b: Type) -> Type | None:
    if a in FLOATS or b in FLOATS:
        return DOUBLE
    if is_integer(a) and is_integer(b):
        return a if INTEGERS[a] > INTEGERS[b] else b
    x, y = as_decimal(a), as_decimal(b)
    scale = max(x.scale, y.scale)
    precision = max(x.precision - x.scale, y.precision - y.scale) + scale
    return Decimal(precision, scale) if precision <= MAX_PRECISION else None


def as_decimal(kind: Type) -> Decimal:
    """The decimal type that holds every value of an integer type; a decimal type is itself."""
    return kind if isinstance(kind, Decimal) else Decimal(INTEGERS[kind][1], 0)


def convert(node: Node, kind: Type) -> Node:
    """The node as ``kind``, by a cast where it is something else; literals are converted now."""
    if node.type == kind:
        return node
    if isinstance(node, Literal):
        return cast_literal(node, kind)
    if not castable(node.type, kind):
        raise PredicateError(f"a {type_ddl(node.type)} cannot be cast to {type_ddl(kind)}")
    return Cast(node, kind)


def castable(source: Type, target: Type) -> bool:
    """Whether a column of ``source`` can be cast: only casts whose result is the same in every engine."""
    if is_numeric(source) and is_numeric(target):
        return True
    if source == STRING:
        return is_integer(target) or target in (DATE, DOUBLE, FLOAT)
    if target == STRING:
        return is_integer(source) or source in (DATE, BOOLEAN)
    if source == BOOLEAN:
        return is_integer(target)
    temporal = (DATE, *TIMESTAMPS)
    return source in temporal and target in temporal


def cast_literal(literal: Literal, kind: Type) -> Literal:
    """An explicit cast of a constant; raises PredicateError when the type cannot hold it.

    >>> cast_literal(Literal("7", STRING), LONG).value
    7
    """
    adapted = adapt(literal, kind)
    if adapted is not None:
        return adapted
    try:
        value = _cast_value(literal, kind)
    except (ValueError, OverflowError, InvalidOperation) as error:
        raise PredicateError(f"{literal.value!r} is no {type_ddl(kind)}") from error
    if value is None:
        raise PredicateError(f"a {type_ddl(literal.type)} cannot be cast to {type_ddl(kind)}")
    return value


def _cast_value(literal: Literal, kind: Type) -> Literal | None:
    value, source = literal.value, literal.type
    if kind in FLOATS and (source == STRING or is_numeric(source)):
        wide = float(value)
        return Literal(single(wide) if kind == FLOAT else wide, kind)
    if isinstance(kind, Decimal) and (source == STRING or is_numeric(source)):
        exact = Exact(repr(value) if isinstance(value, float) else value)
        rounded = exact.quantize(Exact(1).scaleb(-kind.scale), rounding="ROUND_HALF_UP")
        if abs(rounded.scaleb(kind.scale)) >= 10**kind.precision:
            raise OverflowError(value)
        return Literal(rounded, kind)
    if is_integer(kind) and (source in (STRING, BOOLEAN) or is_numeric(source)):
        whole = int(value)
        if not fits(whole, kind):
            raise OverflowError(value)
        return Literal(whole, kind)
    if kind == STRING and (is_integer(source) or source in (DATE, BOOLEAN)):
        return Literal(str(value).lower() if source == BOOLEAN else str(value), STRING)
    if kind == DATE and source in TIMESTAMPS:
        return Literal(value.date(), DATE)
    return None


def _hint(left: Node, right: Node) -> str:
    kinds = {left.type, right.type}
    text = next((n.value for n in (left, right) if isinstance(n, Literal) and n.type == STRING), None)
    if text is not None and any(is_numeric(k) for k in kinds):
        return f"write the number without quotes: {text}" if _is_number(text) else "compare with a number"
    if BINARY in kinds and text is not None:
        return "write binary as X'…'"
    if BOOLEAN in kinds:
        return "compare a boolean with true or false"
    return "cast one side explicitly"


def _is_number(text: str) -> bool:
    try:
        return Exact(text).is_finite()
    except InvalidOperation:
        return False
