"""Predicates from outside: SQL text and Arrow expressions become nodes."""

from __future__ import annotations

from typing import Any, TypeAlias

import pyarrow.compute as pc

from lakebed.core.errors import PredicateError
from lakebed.core.predicate.nodes import TRUE, Node
from lakebed.core.predicate.parse_arrow import parse_arrow
from lakebed.core.predicate.sql_conditions import CONDITIONS
from lakebed.core.predicate.sql_reader import Reader
from lakebed.core.predicate.sql_tree import syntax_tree
from lakebed.core.predicate.sql_values import VALUES
from lakebed.core.schema import BOOLEAN, Struct
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


def _read(text: str, schema: Struct, *, condition: bool) -> Node:
    reader = Reader(schema, {**CONDITIONS, **VALUES})
    try:
        tree = syntax_tree(text)
        return reader.boolean(tree) if condition else reader.read(tree)
    except RecursionError as error:
        raise PredicateError("the predicate is nested too deeply", fix="use IN for long lists") from error
