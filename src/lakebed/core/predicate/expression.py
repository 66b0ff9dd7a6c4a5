"""Predicate nodes as Arrow expressions, for scans and for row-wise evaluation.

What Arrow computes is what a predicate means: strings compare by code point, floats by IEEE 754 (a NaN
equals nothing and is neither less nor greater; Spark would sort it last). Overflow, division by zero and
values that a cast cannot convert are errors, as in Spark's ANSI mode. Arrow computes both sides of an
operator for every row, so an operation that can fail is *guarded*: in ``b <> 0 AND a / b > 1`` the
division sees NULL in rows where the left side is already FALSE, as a short-circuit would skip them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from lakebed.core.predicate.casts import build_cast, is_lossless
from lakebed.core.predicate.functions import FUNCTIONS
from lakebed.core.predicate.like import prefix
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
    walk,
)
from lakebed.core.schema import Type
from lakebed.core.schema_arrow import type_to_arrow
from lakebed.core.type_groups import FLOATS

_COMPARE: dict[str, Callable[[pc.Expression, pc.Expression], pc.Expression]] = {
    "=": pc.equal, "<>": pc.not_equal, "<": pc.less, "<=": pc.less_equal, ">": pc.greater,
    ">=": pc.greater_equal,
}  # fmt: skip
_ARITHMETIC: dict[str, Callable[[pc.Expression, pc.Expression], pc.Expression]] = {
    "+": pc.add_checked, "-": pc.subtract_checked, "*": pc.multiply_checked, "/": pc.divide_checked,
    "div": pc.divide_checked,
}  # fmt: skip
# An Arrow condition for the rows that matter, or None for all.
Guard: TypeAlias = Any


def to_expression(node: Node) -> pc.Expression:
    """The node as an Arrow expression over columns of the logical names.

    >>> from lakebed.core.schema import LONG
    >>> to_expression(Compare("<", Column(("amount",), LONG), Literal(0, LONG)))
    <pyarrow.compute.Expression (amount < 0)>
    """
    return _build(node, None)


def _build(node: Node, guard: Guard) -> pc.Expression:
    match node:
        case Column():
            return pc.field(*node.path)
        case Literal():
            return pc.scalar(scalar(node))
        case Opaque():
            return node.expression
        case And() | Or():
            return _junction(node, guard)
        case Compare():
            return _compare(node, guard)
        case In():
            return _in(node, _build(node.operand, guard))
        case Case():
            return _case(node, guard)
        case Coalesce():
            return _coalesce(node, guard)
        case Arithmetic():
            return _arithmetic(node, guard)
        case Function():
            args = [_guarded(_build(a, guard), a.type, guard) for a in node.args]
            return FUNCTIONS[node.name].build(node, args)
        case _:
            return _unary(node, guard)


def _unary(node: Not | IsNull | Like | RLike | Negate | Cast, guard: Guard) -> pc.Expression:
    operand = _build(node.operand, guard)
    match node:
        case Not():
            return pc.invert(operand)
        case IsNull():
            return operand.is_null()
        case Like():
            text, rest = prefix(node.pattern)
            return pc.starts_with(operand, text) if rest == "%" else pc.match_like(operand, node.pattern)
        case RLike():
            return pc.match_substring_regex(operand, node.pattern)
        case Negate():
            return pc.negate_checked(_guarded(operand, node.type, guard))
        case Cast():
            source = node.operand.type
            return build_cast(_guarded(operand, source, guard), source, node.type)


def scalar(literal: Literal) -> pa.Scalar:
    """The constant as an Arrow scalar of its type."""
    return pa.scalar(literal.value, type_to_arrow(literal.type))


def _guarded(operand: pc.Expression, kind: Type, guard: Guard) -> pc.Expression:
    return operand if guard is None else pc.if_else(guard, operand, pa.scalar(None, type_to_arrow(kind)))


def _and(left: Guard, right: pc.Expression) -> pc.Expression:
    return right if left is None else left & right


def can_fail(node: Node) -> bool:
    """Whether some row could make the evaluation of the node an error."""
    return any(
        isinstance(part, Arithmetic | Negate)
        or (isinstance(part, Function) and part.name == "abs")
        or (isinstance(part, Cast) and not is_lossless(part.operand.type, part.type))
        for part in walk(node)
    )


def _junction(node: And | Or, guard: Guard) -> pc.Expression:
    decided = isinstance(node, Or)
    built: list[pc.Expression] = []
    for term in node.terms:
        inner = guard
        if can_fail(term):
            for earlier in built:
                # Rows that an earlier term has decided: FALSE for AND, TRUE for OR.
                known = pc.coalesce(earlier, pc.scalar(not decided))
                inner = _and(inner, pc.invert(known) if decided else known)
        built.append(_build(term, inner))
    return _balanced(pc.or_kleene if decided else pc.and_kleene, built)


def _balanced(
    join: Callable[[pc.Expression, pc.Expression], pc.Expression], parts: Sequence[pc.Expression]
) -> pc.Expression:
    # Arrow walks expressions recursively; a long chain must not become as deep as it is long.
    if len(parts) == 1:
        return parts[0]
    middle = len(parts) // 2
    return join(_balanced(join, parts[:middle]), _balanced(join, parts[middle:]))


def _compare(node: Compare, guard: Guard) -> pc.Expression:
    left, right = _build(node.left, guard), _build(node.right, guard)
    if node.op == "<=>":
        return pc.coalesce(pc.equal(left, right), left.is_null() & right.is_null())
    return _COMPARE[node.op](left, right)


def value_set(node: In) -> pa.Array:
    """The distinct values of the list as an array in which Arrow's lookup finds what ``=`` finds."""
    kind = node.operand.type
    values = [v.value for v in node.values if v.value is not None]
    if kind in FLOATS:
        # The lookup is by bits: it finds NaN, and tells 0.0 from -0.0.
        values = [v for v in values if not math.isnan(v)]
        values += [zero for zero in (0.0, -0.0) if 0.0 in values]
    return pa.array(values, type_to_arrow(kind))


def _in(node: In, operand: pc.Expression) -> pc.Expression:
    unknown = pa.scalar(None, pa.bool_())
    found = pc.is_in(operand, value_set=value_set(node))
    if any(v.value is None for v in node.values):
        found = pc.if_else(found, pc.scalar(True), unknown)
    return pc.if_else(operand.is_valid(), found, unknown)


def _arithmetic(node: Arithmetic, guard: Guard) -> pc.Expression:
    left = _build(node.left, guard)
    right = _guarded(_build(node.right, guard), node.right.type, guard)
    if node.op == "%":
        return pc.subtract_checked(left, pc.multiply_checked(pc.divide_checked(left, right), right))
    return _ARITHMETIC[node.op](left, right)


def _case(node: Case, guard: Guard) -> pc.Expression:
    fails = can_fail(node)
    arms: list[tuple[pc.Expression, pc.Expression]] = []
    for condition, value in node.branches:
        taken = pc.coalesce(_build(condition, guard), pc.scalar(False))
        arms.append((taken, _build(value, _and(guard, taken) if fails else None)))
        guard = _and(guard, pc.invert(taken)) if fails else None
    result = _build(node.default, guard)
    for taken, value in reversed(arms):
        result = pc.if_else(taken, value, result)
    return result


def _coalesce(node: Coalesce, guard: Guard) -> pc.Expression:
    fails = can_fail(node)
    built: list[pc.Expression] = []
    for arg in node.args:
        built.append(_build(arg, guard))
        guard = _and(guard, built[-1].is_null()) if fails else None
    return pc.coalesce(*built)
