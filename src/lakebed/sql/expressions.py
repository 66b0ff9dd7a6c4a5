"""Expressions in statements that change rows, as the table API computes them, where that is what Spark would compute.

What it does not know (functions, subqueries), or computes otherwise, is left to the engine that runs queries.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from sqlglot import exp

from lakebed.core.errors import LakebedError
from lakebed.core.predicate import Node
from lakebed.core.predicate.casts import is_lossless
from lakebed.core.predicate.expression import can_fail
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
    Not,
    Or,
    walk,
)
from lakebed.core.predicate.parse import read_tree
from lakebed.core.schema import TIMESTAMP, TIMESTAMP_NTZ, Decimal, Field, Primitive, Struct
from lakebed.core.type_groups import FLOATS
from lakebed.sql.context import Context
from lakebed.sql.cursor import Span
from lakebed.sql.nan import with_nan
from lakebed.sql.references import parse_tokens

_ALIKE = (Column, Literal, Compare, And, Or, Not, IsNull, In, Like, Cast, Case, Coalesce, Arithmetic, Negate, Function)
_FUNCTIONS = ("concat", "length", "abs")


@dataclass(frozen=True)
class Side:
    """One of the rows that an expression can look at."""

    called: str
    """What its columns are qualified with for the table API; empty where they stand alone."""
    schema: Struct
    names: tuple[tuple[str, ...], ...]
    """What the statement may qualify them with."""


@dataclass(frozen=True)
class Scope:
    """The rows that an expression can look at."""

    context: Context = field(repr=False)
    sides: tuple[Side, ...]

    @property
    def schema(self) -> Struct:
        """The columns as the table API knows them."""
        if len(self.sides) == 1 and not self.sides[0].called:
            return self.sides[0].schema
        return Struct(tuple(Field(side.called, side.schema) for side in self.sides))

    def read(self, span: Span, *, condition: bool = True) -> Node | None:
        """What the expression means; None if the table API does not compute it, or not as Spark does."""
        source = self.context.source
        first, last = source.words[span.first].token, source.words[span.last - 1].token
        try:
            tree = parse_tokens(source, source.tokens[first : last + 1])
            if tree.find(exp.Query, exp.Star) is not None:
                return None
            spelled = _respelled(tree, self.sides)
            if spelled is None:
                return None
            node = read_tree(spelled, self.schema, self.context.parameters, condition=condition)
        except (LakebedError, RecursionError):
            return None
        if self.context.session is None:
            return with_nan(node)
        return node if is_alike(node) and (self.context.is_ansi or not can_fail(node)) else None


def is_alike(node: Node) -> bool:
    """Whether Spark, in its default settings, computes the same.

    >>> from lakebed.core.predicate import parse
    >>> from lakebed.core.schema_ddl import from_ddl
    >>> schema = from_ddl("id INT, ratio DOUBLE, name STRING")
    >>> [is_alike(parse(text, schema)) for text in ("id + 1 > 7", "ratio > 1", "upper(name) = 'A'")]
    [True, False, False]
    """
    return all(_part_is_alike(part) for part in walk(node))


def _part_is_alike(part: Node) -> bool:
    if not isinstance(part, _ALIKE):
        return False
    if isinstance(part, Compare | In):
        compared = part.left if isinstance(part, Compare) else part.operand
        return compared.type not in FLOATS  # NaN
    if isinstance(part, Arithmetic | Negate):
        return isinstance(part.type, Primitive)  # Spark has rules of its own for the digits of decimals
    if isinstance(part, Cast):
        times = (TIMESTAMP, TIMESTAMP_NTZ)  # the session's time zone decides
        fixed = is_lossless(part.operand.type, part.type) and not isinstance(part.type, Decimal)
        return fixed and part.type not in times and part.operand.type not in times
    if isinstance(part, Literal):
        return part.type != TIMESTAMP
    return not isinstance(part, Function) or part.name in _FUNCTIONS


def _respelled(tree: exp.Expression, sides: Sequence[Side]) -> exp.Expression | None:
    """The tree with every column as the table API spells it; None if one is unknown, or is in both rows."""
    root = exp.Paren(this=tree)
    for column in list(root.find_all(exp.Column)):
        parts = [part.name for part in column.parts]
        found = [path for side in sides for path in _paths(parts, side)]
        if len(found) != 1:
            return None
        made: exp.Expression = exp.Column(this=exp.to_identifier(found[0][0], quoted=True))
        for name in found[0][1:]:
            made = exp.Dot(this=made, expression=exp.to_identifier(name, quoted=True))
        column.replace(made)
    inner = root.this
    assert isinstance(inner, exp.Expression)
    return inner


def _paths(parts: Sequence[str], side: Side) -> list[tuple[str, ...]]:
    """The paths in the row that the parts of a name may mean."""
    prefix = (side.called,) if side.called else ()
    folded = tuple(part.casefold() for part in parts)
    for name in side.names:
        if len(parts) > len(name) and folded[: len(name)] == tuple(part.casefold() for part in name):
            return [(*prefix, *parts[len(name) :])]
    return [(*prefix, *parts)] if side.schema.find(parts[0]) is not None else []
