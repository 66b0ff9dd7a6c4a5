"""Filters that Spark pushes down, as predicates."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from decimal import Decimal as Exact
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lakebed.core.predicate.like import quote
from lakebed.core.predicate.nodes import Column, Compare, In, IsNull, Like, Literal, Node, Not
from lakebed.core.schema import STRING, TIMESTAMP, Decimal, Primitive, Struct, Type
from lakebed.core.schema_arrow import type_to_arrow
from lakebed.core.type_groups import FLOATS

if TYPE_CHECKING:
    from pyspark.sql.datasource import Filter

_COMPARISONS = {
    "EqualTo": "=", "EqualNullSafe": "<=>", "GreaterThan": ">", "GreaterThanOrEqual": ">=", "LessThan": "<",
    "LessThanOrEqual": "<=",
}  # fmt: skip
_PATTERNS = {"StringStartsWith": "{}%", "StringEndsWith": "%{}", "StringContains": "%{}%"}


def taken(filters: Iterable[Filter], schema: Struct) -> tuple[list[Node], list[Filter]]:
    """The filters as predicates that are true for the same rows, and those that are Spark's to evaluate."""
    nodes: list[Node] = []
    left: list[Filter] = []
    for one in filters:
        node = to_node(one, schema)
        if node is None:
            left.append(one)
        else:
            nodes.append(node)
    return nodes, left


def to_node(one: Any, schema: Struct) -> Node | None:
    """The filter as a predicate; None if Lakebed does not compute it exactly as Spark does."""
    kind = type(one).__name__
    if kind == "Not":
        inner = to_node(one.child, schema)
        return None if inner is None else Not(inner)
    column = _column(one.attribute, schema)
    if column is None:
        return None
    if kind in ("IsNull", "IsNotNull"):
        return IsNull(column) if kind == "IsNull" else Not(IsNull(column))
    if kind == "In":
        values = [_literal(value, column.type) for value in one.value]
        known = tuple(value for value in values if value is not None)
        return In(column, known) if values and len(known) == len(values) else None
    if kind in _PATTERNS:
        exact = column.type == STRING and isinstance(one.value, str)
        return Like(column, _PATTERNS[kind].format(quote(one.value))) if exact else None
    literal = _literal(one.value, column.type)
    return None if kind not in _COMPARISONS or literal is None else Compare(_COMPARISONS[kind], column, literal)


def _column(path: tuple[str, ...], schema: Struct) -> Column | None:
    """The column of that path. Spark orders NaN otherwise than Arrow does, so that floats are none."""
    kind: Type = schema
    names: list[str] = []
    for name in path:
        found = kind.find(name) if isinstance(kind, Struct) else None
        if found is None:
            return None
        names.append(found.name)
        kind = found.type
    plain = isinstance(kind, Primitive | Decimal) and kind not in FLOATS
    return Column(tuple(names), kind) if plain else None


def _literal(value: object, kind: Type) -> Literal | None:
    """A value that Spark compares with a column, as one of the column's type; None if it is none."""
    if value is None:
        return None
    if kind == TIMESTAMP:
        aware = isinstance(value, dt.datetime) and value.tzinfo is not None
        return Literal(value.astimezone(dt.UTC), kind) if aware else None  # type: ignore[attr-defined]
    try:
        exact = pa.scalar(value, type_to_arrow(kind)).as_py()
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return None
    same = type(exact) is type(value) and exact == value
    return Literal(Exact(exact) if isinstance(kind, Decimal) else exact, kind) if same else None
