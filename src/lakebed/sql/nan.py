"""NaN as SQL has it: equal to itself and above all other numbers.

Predicates of the table API compare as IEEE 754 does. Statements mean the same with Spark and without, so without it
their comparisons are respelled.
"""

from __future__ import annotations

import math
from dataclasses import replace

from lakebed.core.predicate import Node
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
    Opaque,
    Or,
    RLike,
    conjunction,
    disjunction,
)
from lakebed.core.schema import BOOLEAN
from lakebed.core.type_groups import FLOATS

_MIRRORED = {"<": ">", "<=": ">="}


def with_nan(node: Node) -> Node:
    """The same expression, in which IEEE 754 gives what SQL does.

    >>> from lakebed.core.predicate import parse, render
    >>> from lakebed.core.schema_ddl import from_ddl
    >>> schema = from_ddl("n INT, ratio DOUBLE")
    >>> [render(with_nan(parse(text, schema))) for text in ("n > 1", "ratio > 1.5D", "ratio < 1.5D")]
    ['n > 1', 'ratio > 1.5 OR isnan(ratio)', 'ratio < 1.5']
    """
    match node:
        case Column() | Literal() | Opaque():
            return node
        case Compare():
            left, right = with_nan(node.left), with_nan(node.right)
            return _compared(node.op, left, right) if left.type in FLOATS else Compare(node.op, left, right)
        case In():
            return _listed(replace(node, operand=with_nan(node.operand)))
        case And() | Or():
            return replace(node, terms=tuple(map(with_nan, node.terms)))
        case Arithmetic():
            return replace(node, left=with_nan(node.left), right=with_nan(node.right))
        case Case():
            branches = tuple((with_nan(test), with_nan(value)) for test, value in node.branches)
            return Case(branches, with_nan(node.default))
        case Coalesce() | Function():
            return replace(node, args=tuple(map(with_nan, node.args)))
        case Not() | IsNull() | Like() | RLike() | Negate() | Cast():
            return replace(node, operand=with_nan(node.operand))


def _compared(op: str, left: Node, right: Node) -> Node:
    """A comparison of two numbers of which either may be NaN. NULL stays NULL."""
    plain = Compare(op, left, right)
    if op in _MIRRORED:
        op, left, right = _MIRRORED[op], right, left
    if not _may_be_nan(left):
        return plain
    above, other = _is_nan(left), _may_be_nan(right)
    if op == ">":
        return disjunction(plain, conjunction(above, Not(_is_nan(right))) if other else above)
    if op == ">=":
        return disjunction(plain, conjunction(above, _is_known(right)) if other else above)
    if not other:
        return plain
    both = conjunction(above, _is_nan(right))
    if op == "<=>":
        return disjunction(plain, conjunction(_is_known(left), _is_known(right), both))
    return conjunction(plain, Not(both)) if op == "<>" else disjunction(plain, both)


def _listed(node: In) -> Node:
    if node.operand.type not in FLOATS or not any(map(_is_nan_literal, node.values)):
        return node
    others = tuple(value for value in node.values if not _is_nan_literal(value))
    return disjunction(*([In(node.operand, others)] if others else []), _is_nan(node.operand))


def _may_be_nan(node: Node) -> bool:
    return not isinstance(node, Literal) or _is_nan_literal(node)


def _is_nan_literal(node: Literal) -> bool:
    return isinstance(node.value, float) and math.isnan(node.value)


def _is_nan(node: Node) -> Node:
    return Function("isnan", (node,), BOOLEAN)


def _is_known(node: Node) -> Node:
    return Not(IsNull(node))
