"""Predicates from outside: SQL text and Arrow expressions become nodes."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime
from decimal import Decimal as Exact
from typing import Any, TypeAlias

import pyarrow.compute as pc
from sqlglot import exp

from lakebed.core.errors import PredicateError
from lakebed.core.predicate.coercion import number
from lakebed.core.predicate.nodes import TRUE, Literal, Node
from lakebed.core.predicate.parse_arrow import parse_arrow
from lakebed.core.predicate.sql_conditions import CONDITIONS
from lakebed.core.predicate.sql_reader import Reader, place, refuse
from lakebed.core.predicate.sql_tree import syntax_tree
from lakebed.core.predicate.sql_values import VALUES
from lakebed.core.schema import BINARY, BOOLEAN, DATE, DOUBLE, STRING, TIMESTAMP, TIMESTAMP_NTZ, VOID, Struct, Type
from lakebed.core.schema_ddl import type_ddl

# str | pyarrow.compute.Expression | Node | None; pyarrow has no type information.
Predicate: TypeAlias = Any


def parse(predicate: Predicate, schema: Struct) -> Node:
    """The condition that ``predicate`` puts on rows of ``schema``; None means every row.

    Raises PredicateError for text that is no condition on these columns, with the place and a way out.

    >>> from lakebed.core.schema import Field, LONG
    >>> parse("amount < 0", Struct((Field("amount", LONG),)))
    Compare(op='<', left=Column(path=('amount',), type=Primitive(name='long')), \
right=Literal(value=0, type=Primitive(name='long')))
    """
    if predicate is None:
        return TRUE
    if isinstance(predicate, pc.Expression):
        return parse_arrow(predicate, schema)
    if isinstance(predicate, str):
        return _read(predicate, schema, condition=True)
    if isinstance(predicate, Node):
        if predicate.type != BOOLEAN:
            raise PredicateError("the predicate is no condition", expected="BOOLEAN", found=type_ddl(predicate.type))
        return predicate
    raise PredicateError(
        "the predicate cannot be read",
        expected="SQL text, a pyarrow.compute expression or None",
        found=type(predicate).__name__,
    )


def parse_value(text: str, schema: Struct) -> Node:
    """The value that a SQL expression computes from rows of ``schema``, of any type; raises PredicateError.

    >>> from lakebed.core.schema import Field, LONG
    >>> parse_value("amount * 2", Struct((Field("amount", LONG),))).type
    Primitive(name='long')
    """
    return _read(text, schema, condition=False)


def read_tree(tree: exp.Expression, schema: Struct, parameters: Mapping[str, Any], *, condition: bool = True) -> Node:
    """What a syntax tree means for rows of ``schema``: a condition, or else any value. Raises PredicateError."""
    reader = _reader(schema, parameters)
    return reader.boolean(tree) if condition else reader.read(tree)


def constant(value: Any) -> Literal:
    """A Python value as a constant of a predicate. Raises PredicateError for what none can be.

    >>> constant(5).type, constant("x").type
    (Primitive(name='integer'), Primitive(name='string'))
    """
    if isinstance(value, int) and not isinstance(value, bool):
        return number(str(value))
    if isinstance(value, Exact) and value.is_finite():
        return number(format(value, "f"))
    if isinstance(value, datetime):
        return Literal(value, TIMESTAMP if value.tzinfo is not None else TIMESTAMP_NTZ)
    kind = next((kind for known, kind in _CONSTANTS if isinstance(value, known)), None)
    if kind is None:
        raise PredicateError(
            f"a parameter cannot be {type(value).__name__}",
            expected="a number, text, bytes, a truth value, a date, a time or None",
        )
    return Literal(value, kind)


_CONSTANTS: tuple[tuple[type, Type], ...] = (
    (bool, BOOLEAN), (float, DOUBLE), (str, STRING), (bytes, BINARY), (date, DATE), (type(None), VOID),
)  # fmt: skip


def _reader(schema: Struct, parameters: Mapping[str, Any]) -> Reader:
    def bound(_: Reader, tree: exp.Expression) -> Node:
        if not parameters:
            raise refuse(tree)
        if tree.name not in parameters:
            raise PredicateError(f"no value is given for the parameter {place(tree)}")
        return constant(parameters[tree.name])

    return Reader(schema, {**CONDITIONS, **VALUES, exp.Placeholder: bound})


def _read(text: str, schema: Struct, *, condition: bool) -> Node:
    try:
        return read_tree(syntax_tree(text), schema, {}, condition=condition)
    except RecursionError as error:
        raise PredicateError("the predicate is nested too deeply", fix="use IN for long lists") from error
