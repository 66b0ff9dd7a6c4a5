"""What a query wants of a table: columns and conditions that keep files and columns from being read at all.

The engine that runs the query computes all conditions itself. A hint may only leave out rows that it would drop as
well: comparisons with constants, on columns that every engine compares alike, which are never true for a null.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlglot import exp

from lakebed.core.errors import LakebedError
from lakebed.core.predicate import Node, conjunction
from lakebed.core.predicate.nodes import And, Column, Compare, In, IsNull, Like, Literal, Or, walk
from lakebed.core.predicate.parse import read_tree
from lakebed.core.schema import BOOLEAN, BYTE, DATE, INTEGER, LONG, SHORT, STRING, Decimal, Struct
from lakebed.sql.references import Query, Reference

_ALIKE = (BYTE, SHORT, INTEGER, LONG, STRING, DATE, BOOLEAN)
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_KNOWN = (Column, Literal, Compare, In, Like, And, Or, IsNull)
_TERMS = (
    exp.EQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.In, exp.Between, exp.Like, exp.Or, exp.And, exp.Paren, exp.Column,
    exp.Identifier, exp.Literal, exp.Neg, exp.Placeholder, exp.Is, exp.Null, exp.Not, exp.Boolean,
    exp.Cast, exp.DataType,
)  # fmt: skip


@dataclass(frozen=True)
class Hint:
    """What is wanted of one table at one place of a query."""

    columns: tuple[str, ...] | None
    """None for all."""
    where: Node | None


def hint(query: Query, reference: Reference, schema: Struct, parameters: Mapping[str, Any]) -> Hint:
    """What the query wants of the table at that place."""
    block = _block(reference)
    if block is None or not len(schema):
        return Hint(None, None)
    return Hint(_columns(query, reference, block, schema), _where(reference, block, schema, parameters))


def _block(reference: Reference) -> exp.Select | None:
    """The SELECT that reads the table; None where that cannot be told."""
    above = reference.node.parent
    if not isinstance(above, exp.From | exp.Join):
        return None
    return above.parent if isinstance(above.parent, exp.Select) else None


def _columns(query: Query, reference: Reference, block: exp.Select, schema: Struct) -> tuple[str, ...] | None:
    natural = any(str(join.args.get("method") or "").upper() == "NATURAL" for join in block.find_all(exp.Join))
    stars = any(not isinstance(star.parent, exp.Count) for star in block.find_all(exp.Star))
    if natural or stars or reference.node.args.get("pivots"):
        return None
    named = {part.name.casefold() for part in query.tree.find_all(exp.Identifier)}
    wanted = tuple(f.name for f in schema if f.name.casefold() in named)
    return wanted or schema.names[:1]


def _where(reference: Reference, block: exp.Select, schema: Struct, parameters: Mapping[str, Any]) -> Node | None:
    condition = block.args.get("where")
    if condition is None or reference.is_sampled or reference.node.args.get("pivots"):
        return None
    alone = not block.args.get("joins") and not block.args.get("laterals")
    called = (reference.alias or reference.parts[-1]).casefold()
    found = []
    for term in _terms(condition.this):
        node = _safe(term, called, alone, schema, parameters)
        if node is not None:
            found.append(node)
    return conjunction(*found) if found else None


def _terms(tree: exp.Expression) -> Sequence[exp.Expression]:
    terms: list[exp.Expression] = []
    waiting = [tree]
    while waiting:
        one = waiting.pop()
        if isinstance(one, exp.And):
            waiting += [one.expression, one.this]
        elif isinstance(one, exp.Paren) and isinstance(one.this, exp.And | exp.Paren):
            waiting.append(one.this)
        else:
            terms.append(one)
    return terms


def _safe(term: exp.Expression, called: str, alone: bool, schema: Struct, parameters: Mapping[str, Any]) -> Node | None:
    """The condition, if the table's own rows decide it, and every engine decides alike."""
    if not all(isinstance(part, _TERMS) for part in term.walk()):
        return None
    own = term.copy()
    for column in own.find_all(exp.Column):
        qualified = [part.name.casefold() for part in column.parts[:-1]]
        if not (qualified[-1:] == [called] and len(qualified) == 1) and not (alone and not qualified):
            return None
        if schema.find(column.name) is None:
            return None
        column.set("table", None)
    try:
        node = read_tree(own, schema, parameters)
    except LakebedError:
        return None  # the engine says what is wrong with it, if anything is
    return node if _is_alike(node, alone) and _texts_are_plain(own, schema) else None


def _is_alike(node: Node, alone: bool) -> bool:
    for part in walk(node):
        if not isinstance(part, _KNOWN) or (isinstance(part, Compare) and part.op in ("<=>", "<>")):
            return False
        if isinstance(part, IsNull) and not alone:
            return False
        if isinstance(part, Column) and part.type not in _ALIKE and not isinstance(part.type, Decimal):
            return False
    return True


def _texts_are_plain(term: exp.Expression, schema: Struct) -> bool:
    """Whether texts are only compared with columns of text, or, as dates, with dates."""
    found = {known.type for column in term.find_all(exp.Column) if (known := schema.find(column.name)) is not None}
    texts = [literal.name for literal in term.find_all(exp.Literal) if literal.is_string]
    if not texts or found == {STRING}:
        return True
    return found == {DATE} and all(_DATE.fullmatch(text) for text in texts)
