"""Predicates as conditions of Spark that are true for exactly the same rows.

What Spark computes otherwise than Arrow, or otherwise from one session to the next (arithmetic, functions, lossy casts,
regular expressions), has no counterpart here: rows are then read by the Arrow scan, which evaluates it itself.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal as Exact
from functools import reduce
from typing import TYPE_CHECKING

from lakebed.core.predicate.casts import is_lossless
from lakebed.core.predicate.nodes import (
    And,
    Case,
    Cast,
    Coalesce,
    Column,
    Compare,
    In,
    IsNull,
    Like,
    Literal,
    Node,
    Not,
    Or,
    disjunction,
    walk,
)
from lakebed.core.schema import BINARY, BOOLEAN, STRING, TIMESTAMP, TIMESTAMP_NTZ, Decimal, Primitive
from lakebed.core.schema_ddl import type_ddl
from lakebed.core.type_groups import FLOATS

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn

_TRANSLATED = (Column, Literal, Compare, And, Or, Not, IsNull, In, Like, Cast, Case, Coalesce)


def untranslatable(node: Node) -> Node | None:
    """A part of the predicate that Spark would not compute alike; None if there is none.

    >>> from lakebed.core.predicate import parse, render
    >>> from lakebed.core.schema_ddl import from_ddl
    >>> schema = from_ddl("id BIGINT, name STRING")
    >>> untranslatable(parse("id = 7 AND name LIKE 'a%'", schema)) is None
    True
    >>> render(untranslatable(parse("id + 1 = 7", schema)))
    'id + CAST(1 AS BIGINT)'
    """
    return next((part for part in walk(node) if not _is_alike(part)), None)


def _is_alike(node: Node) -> bool:
    if not isinstance(node, _TRANSLATED) or not isinstance(node.type, Primitive | Decimal):
        return False
    if isinstance(node, IsNull) and not isinstance(node.operand.type, Primitive | Decimal):
        return isinstance(node.operand, Column)
    # A day begins when it does in the session's time zone.
    return not isinstance(node, Cast) or (is_lossless(node.operand.type, node.type) and node.type != TIMESTAMP)


def condition(node: Node) -> SparkColumn:
    """The predicate as a condition on columns of the table's names; only for what is translatable."""
    from pyspark.sql import functions as F

    match node:
        case Column():
            return F.col(".".join(map(quoted, node.path)))
        case Literal():
            return _literal(node)
        case And():
            return reduce(lambda left, right: left & right, map(condition, node.terms))
        case Or():
            return reduce(lambda left, right: left | right, map(condition, node.terms))
        case Compare():
            return _compare(node)
        case In():
            return _in(node)
        case Case():
            return _case(node)
        case Coalesce():
            return F.coalesce(*map(condition, node.args))
        case Not():
            return ~condition(node.operand)
        case IsNull():
            return condition(node.operand).isNull()
        case Like():
            return condition(node.operand).like(node.pattern)
        case Cast():
            return condition(node.operand).cast(type_ddl(node.type))
    raise AssertionError(f"not translatable: {node}")


def quoted(name: str) -> str:
    """A column's name in Spark's SQL.

    >>> quoted("a`b")
    '`a``b`'
    """
    return "`" + name.replace("`", "``") + "`"


_OPERATORS: dict[str, Callable[[SparkColumn, SparkColumn], SparkColumn]] = {
    "=": lambda a, b: a == b,
    "<>": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
    "<=>": lambda a, b: a.eqNullSafe(b),
}


def _compare(node: Compare) -> SparkColumn:
    from pyspark.sql import functions as F

    left, right = condition(node.left), condition(node.right)
    compared = _OPERATORS[node.op](left, right)
    if node.left.type not in FLOATS:
        return compared
    # To Spark NaN is equal to itself and above all else; to IEEE, and to Arrow, it is unequal to everything.
    unordered = F.lit(node.op == "<>")
    either = F.isnan(left) | F.isnan(right)
    if node.op == "<=>":
        return F.when(either, unordered).otherwise(compared)
    known = left.isNotNull() & right.isNotNull()
    return F.when(known, F.when(either, unordered).otherwise(compared))


def _in(node: In) -> SparkColumn:
    if node.operand.type in FLOATS:
        return condition(disjunction(*(Compare("=", node.operand, value) for value in node.values)))
    return condition(node.operand).isin([_literal(value) for value in node.values])


def _case(node: Case) -> SparkColumn:
    from pyspark.sql import functions as F

    first, *others = [(condition(test), condition(value)) for test, value in node.branches]
    chosen = F.when(*first)
    for test, value in others:
        chosen = chosen.when(test, value)
    return chosen.otherwise(condition(node.default))


def _literal(literal: Literal) -> SparkColumn:
    from pyspark.sql import functions as F

    value, kind = literal.value, literal.type
    if value is None or kind in (STRING, BINARY, BOOLEAN):
        return F.lit(value).cast(type_ddl(kind))
    if kind == TIMESTAMP:
        return F.timestamp_micros(F.lit((value - _EPOCH) // timedelta(microseconds=1)))
    if kind == TIMESTAMP_NTZ:
        return F.lit(value.isoformat(" ")).cast("TIMESTAMP_NTZ")
    if kind in FLOATS:
        return F.lit(_SPELLED.get(repr(value), repr(value))).cast(type_ddl(kind))
    return F.lit(format(value, "f") if isinstance(value, Exact) else str(value)).cast(type_ddl(kind))


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SPELLED = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}
