"""VALUES whose rows are constants: they need no engine, and no job of Spark."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from typing import Any

import pyarrow as pa
from sqlglot import exp

from lakebed.core.errors import LakebedError
from lakebed.core.predicate.coercion import convert, is_integer
from lakebed.core.predicate.nodes import Literal
from lakebed.core.predicate.parse import read_tree
from lakebed.core.schema import BOOLEAN, DATE, STRING, VOID, Decimal, Struct, Type
from lakebed.core.schema_arrow import type_to_arrow
from lakebed.core.type_groups import FLOATS
from lakebed.sql.context import Context
from lakebed.sql.cursor import Cursor, Span
from lakebed.sql.references import parse_tokens
from lakebed.table import Table

_NO_COLUMNS = Struct(())


class _NotConstantError(Exception):
    """Carries out that an engine has to compute a value."""


def constant_rows(context: Context, span: Span, table: Table, columns: Sequence[str]) -> pa.Table | None:
    """The rows of ``VALUES (…), (…)`` in the types of these columns; None if it is another query.

    Also None where a value is not a plain constant of its column's kind, or the rows are too short or too long.
    """
    cursor = Cursor(context.source, context.parameters, span.first, span.last)
    if not cursor.take("VALUES"):
        return None
    schema = table._point().metadata.schema
    kinds = [schema[name].type for name in columns]
    found: list[list[Any]] = [[] for _ in columns]
    try:
        while True:
            _row(context, cursor, kinds, found)
            if not cursor.take(","):
                break
    except (LakebedError, _NotConstantError):
        return None
    if not cursor.at_end:
        return None
    arrays = [pa.array(values, type_to_arrow(kind)) for values, kind in zip(found, kinds, strict=True)]
    return pa.table(arrays, names=list(columns))


def _row(context: Context, cursor: Cursor, kinds: Sequence[Type], found: list[list[Any]]) -> None:
    bare = len(kinds) == 1 and not cursor.sees("(")
    parts = [cursor.expression(",")] if bare else cursor.listed(lambda: cursor.expression(","))
    if len(parts) != len(kinds):
        raise _NotConstantError
    for part, kind, values in zip(parts, kinds, found, strict=True):
        values.append(_value(context, part, kind))


def _value(context: Context, span: Span, kind: Type) -> Any:
    source = context.source
    first, last = source.words[span.first].token, source.words[span.last - 1].token
    tree = parse_tokens(source, source.tokens[first : last + 1])
    if tree.find(exp.Column, exp.Query) is not None:
        raise _NotConstantError
    node = read_tree(tree, _NO_COLUMNS, context.parameters, condition=False)
    if not isinstance(node, Literal) or not _is_plain(node, kind):
        raise _NotConstantError
    fitting = convert(node, kind)
    if not isinstance(fitting, Literal):
        raise _NotConstantError
    return fitting.value


def _is_plain(node: Literal, kind: Type) -> bool:
    """Whether the value is of the column's kind already, so that nobody could convert it otherwise."""
    if node.type in (VOID, kind):
        return True
    if is_integer(node.type):
        return is_integer(kind) or kind in FLOATS or isinstance(kind, Decimal)
    if isinstance(node.type, Decimal):
        return kind in FLOATS or (isinstance(kind, Decimal) and kind.scale >= node.type.scale)
    if node.type in FLOATS:
        return kind in FLOATS
    if node.type == STRING:
        return kind == DATE and _is_date(str(node.value))
    return node.type == BOOLEAN and kind == BOOLEAN


def _is_date(text: str) -> bool:
    try:
        return len(text) == 10 and bool(date.fromisoformat(text))
    except ValueError:
        return False
