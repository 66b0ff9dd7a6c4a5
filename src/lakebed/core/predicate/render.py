"""Predicate nodes as SQL text: for people, for the commit's history, and to be parsed again.

``parse(render(node), schema)`` is the same node, but for parts that only Arrow understands.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterator
from decimal import Decimal as Exact

from lakebed.core.predicate.coercion import adapt, number
from lakebed.core.predicate.nodes import (
    And,
    Arithmetic,
    Case,
    Cast,
    Coalesce,
    Column,
    Compare,
    Function,
    In,
    IsNull,
    Like,
    Literal,
    Negate,
    Node,
    Not,
    Opaque,
    Or,
    RLike,
)
from lakebed.core.predicate.words import quote_word
from lakebed.core.schema import BINARY, BOOLEAN, DATE, FLOAT, STRING, TIMESTAMP, Decimal, Type
from lakebed.core.schema_ddl import type_ddl
from lakebed.core.type_groups import FLOATS, TIMESTAMPS


def render(node: Node) -> str:
    """The node as one line of SQL.

    >>> from lakebed.core.schema import LONG
    >>> render(And((IsNull(Column(("a",), LONG)), Compare("<", Column(("b",), LONG), Literal(0, LONG)))))
    'a IS NULL AND b < 0'
    """
    match node:
        case Column():
            return ".".join(map(quote_word, node.path))
        case Literal():
            return _literal(node)
        case And() | Or():
            word = " AND " if isinstance(node, And) else " OR "
            return word.join(_inner(t) if isinstance(t, And | Or) else render(t) for t in node.terms)
        case Compare():
            return f"{_side(node.left, node.right)} {node.op} {_side(node.right, node.left)}"
        case Arithmetic():
            return f"{_inner(node.left)} {node.op} {_inner(node.right)}"
        case In():
            listed = ", ".join(_side(v, node.operand) if v.value is not None else "NULL" for v in node.values)
            return f"{_inner(node.operand)} IN ({listed})"
        case Case():
            arms = "".join(f" WHEN {render(c)} THEN {render(v)}" for c, v in node.branches)
            return f"CASE{arms} ELSE {render(node.default)} END"
        case Coalesce():
            return f"coalesce({', '.join(map(render, node.args))})"
        case Function():
            return f"{node.name}({', '.join(map(render, node.args))})"
        case Opaque():
            return f"arrow({_text(str(node.expression))})"
        case _:
            return _unary(node)


def _unary(node: Not | IsNull | Like | RLike | Negate | Cast) -> str:
    match node:
        case Not(operand=IsNull(operand=operand)):
            return f"{_inner(operand)} IS NOT NULL"
        case Not():
            return f"NOT {_inner(node.operand)}"
        case IsNull():
            return f"{_inner(node.operand)} IS NULL"
        case Like():
            return f"{_inner(node.operand)} LIKE {_text(node.pattern)}"
        case RLike():
            return f"{_inner(node.operand)} RLIKE {_text(node.pattern)}"
        case Negate():
            return f"-({render(node.operand)})"
        case Cast():
            return f"CAST({render(node.operand)} AS {type_ddl(node.type)})"


_ATOMS = (Column, Literal, Coalesce, Function, Cast, Case, Opaque, Negate)


def _inner(node: Node) -> str:
    return render(node) if isinstance(node, _ATOMS) else f"({render(node)})"


def _side(node: Node, other: Node) -> str:
    """One operand; a number that the other operand's type will convert anyway needs no cast."""
    if isinstance(node, Literal) and not isinstance(other, Literal) and isinstance(node.value, int | float | Exact):
        for plain in _plain_numbers(node):
            if adapt(number(plain), other.type) == node:
                return plain
    return _inner(node)


def _plain_numbers(literal: Literal) -> Iterator[str]:
    value = literal.value
    if isinstance(value, bool) or (isinstance(value, float) and not math.isfinite(value)):
        return
    if isinstance(value, float):
        if value.is_integer() and abs(value) < 1e15:
            yield str(int(value))
        elif "e" not in repr(value):
            yield repr(value)
    else:
        yield format(value, "f") if isinstance(value, Exact) else str(value)


def _literal(literal: Literal) -> str:
    value, kind = literal.value, literal.type
    if value is None:
        return "NULL" if kind == BOOLEAN else f"CAST(NULL AS {type_ddl(kind)})"
    if kind == BOOLEAN:
        return "true" if value else "false"
    if kind == STRING:
        return _text(value)
    if kind == BINARY:
        return f"X'{value.hex().upper()}'"
    if kind == DATE:
        return f"DATE '{value.isoformat()}'"
    if kind in TIMESTAMPS:
        return _timestamp(value, kind)
    return _float(value, kind) if kind in FLOATS else _exact(value, literal)


def _timestamp(value: dt.datetime, kind: Type) -> str:
    text = value.replace(tzinfo=None).isoformat(" ")
    return f"TIMESTAMP '{text}Z'" if kind == TIMESTAMP else f"TIMESTAMP_NTZ '{text}'"


def _float(value: float, kind: Type) -> str:
    if not math.isfinite(value):
        return f"CAST('{value!r}' AS {type_ddl(kind)})"
    # The exponent is what makes a number in SQL text a double.
    text = repr(value) if "e" in repr(value) else f"{value!r}E0"
    return f"CAST({text} AS FLOAT)" if kind == FLOAT else text


def _exact(value: int | Exact, literal: Literal) -> str:
    if isinstance(literal.type, Decimal):
        text = format(Exact(value).quantize(Exact(1).scaleb(-literal.type.scale)), "f")
    else:
        text = str(value)
    return text if number(text) == literal else f"CAST({text} AS {type_ddl(literal.type)})"


def _text(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
