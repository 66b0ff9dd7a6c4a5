"""The rules for SQL conditions: comparisons, AND, OR, NOT, IS, IN, BETWEEN, LIKE."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from sqlglot import exp

from lakebed.core.errors import PredicateError
from lakebed.core.predicate import like
from lakebed.core.predicate.coercion import convert, unify
from lakebed.core.predicate.functions import call
from lakebed.core.predicate.nodes import (
    Compare,
    In,
    IsNull,
    Like,
    Literal,
    Node,
    Not,
    RLike,
    conjunction,
    disjunction,
)
from lakebed.core.predicate.sql_reader import Reader, Rule, Rules, only, place, refuse
from lakebed.core.schema import BOOLEAN, STRING, VOID, Array, Map, Struct
from lakebed.core.schema_ddl import type_ddl

_OPERATORS: dict[type[exp.Expression], str] = {
    exp.EQ: "=", exp.NEQ: "<>", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">=", exp.NullSafeEQ: "<=>",
}  # fmt: skip


def compare(op: str, left: Node, right: Node, context: Callable[[], str]) -> Compare:
    """A comparison of operands brought to one type; raises PredicateError, with ``context``, if none fits."""
    for side in (left, right):
        if isinstance(side.type, Struct | Array | Map):
            raise PredicateError(
                f"{context()}: {type_ddl(side.type)} does not compare",
                fix="compare its members, or use IS NULL",
            )
    return Compare(op, *unify(left, right, context))


def _compare(reader: Reader, tree: exp.Expression) -> Node:
    left, right = reader.read(tree.this), reader.read(tree.expression)
    return compare(_OPERATORS[type(tree)], left, right, partial(place, tree))


def _distinct(reader: Reader, tree: exp.Expression) -> Node:
    left, right = reader.read(tree.this), reader.read(tree.expression)
    return Not(compare("<=>", left, right, partial(place, tree)))


def _is(reader: Reader, tree: exp.Expression) -> Node:
    only(tree, "this", "expression")
    test = tree.expression
    if isinstance(test, exp.Null):
        operand = reader.read(tree.this)
        return IsNull(Literal(None, BOOLEAN) if operand.type == VOID else operand)
    if isinstance(test, exp.Boolean):
        return Compare("<=>", reader.boolean(tree.this), Literal(bool(test.this), BOOLEAN))
    raise refuse(tree)


def _chain(reader: Reader, tree: exp.Expression) -> Node:
    # A chain of a thousand ORs is as many levels deep on the left; walk it without recursion.
    kind, trees = type(tree), []
    while type(tree) is kind:
        trees.append(tree.expression)
        tree = tree.this
    trees.append(tree)
    join = conjunction if kind is exp.And else disjunction
    return join(*(reader.boolean(t) for t in reversed(trees)))


def _not(reader: Reader, tree: exp.Expression) -> Node:
    return Not(reader.boolean(tree.this))


def _in(reader: Reader, tree: exp.Expression) -> Node:
    if tree.args.get("query"):
        raise refuse(tree.args["query"])
    only(tree, "this", "expressions")
    if not tree.expressions:
        raise PredicateError(f"{place(tree)}: the list is empty", fix="write false instead")
    operand = reader.read(tree.this)
    context = partial(place, tree)
    tests = [compare("=", operand, reader.read(value), context) for value in tree.expressions]
    listed = tuple(test.right for test in tests if isinstance(test.right, Literal))
    if len(listed) == len(tests) and all(test.left == operand for test in tests):
        return In(operand, listed)
    return disjunction(*tests)


def _between(reader: Reader, tree: exp.Expression) -> Node:
    only(tree, "this", "low", "high")
    operand, context = reader.read(tree.this), partial(place, tree)
    return conjunction(
        compare(">=", operand, reader.read(tree.args["low"]), context),
        compare("<=", operand, reader.read(tree.args["high"]), context),
    )


def _like(reader: Reader, tree: exp.Expression, escape: str = "\\") -> Node:
    only(tree, "this", "expression", "negate")
    operand, pattern = _matched(reader, tree)
    if isinstance(tree, exp.ILike):
        operand, pattern = call("lower", [operand]), pattern.lower()
    return _signed(Like(operand, like.normalise(pattern, escape)), tree)


def _escape(reader: Reader, tree: exp.Expression) -> Node:
    if not isinstance(tree.this, exp.Like | exp.ILike) or not tree.expression.is_string:
        raise refuse(tree)
    if len(tree.expression.name) != 1:
        raise PredicateError(f"{place(tree)}: the escape must be one character")
    return _like(reader, tree.this, tree.expression.name)


def _rlike(reader: Reader, tree: exp.Expression) -> Node:
    only(tree, "this", "expression", "negate")
    operand, pattern = _matched(reader, tree)
    like.check_regex(pattern)
    return _signed(RLike(operand, pattern), tree)


def _affix(before: str, after: str) -> Rule:
    def rule(reader: Reader, tree: exp.Expression) -> Node:
        only(tree, "this", "expression")
        operand, text = _matched(reader, tree)
        return Like(operand, before + like.quote(text) + after)

    return rule


def _matched(reader: Reader, tree: exp.Expression) -> tuple[Node, str]:
    operand, pattern = reader.read(tree.this), reader.read(tree.expression)
    if operand.type not in (STRING, VOID):
        raise PredicateError(f"{place(tree)}: {type_ddl(operand.type)} is no text", fix="cast it to string")
    if not isinstance(pattern, Literal) or not isinstance(pattern.value, str):
        raise PredicateError(f"{place(tree)}", expected="a constant text on the right")
    return convert(operand, STRING), pattern.value


def _signed(node: Node, tree: exp.Expression) -> Node:
    return Not(node) if tree.args.get("negate") else node


CONDITIONS: Rules = {
    **dict.fromkeys(_OPERATORS, _compare),
    exp.NullSafeNEQ: _distinct,
    exp.Is: _is,
    exp.And: _chain,
    exp.Or: _chain,
    exp.Not: _not,
    exp.In: _in,
    exp.Between: _between,
    exp.Like: _like,
    exp.ILike: _like,
    exp.Escape: _escape,
    exp.RegexpLike: _rlike,
    exp.StartsWith: _affix("", "%"),
    exp.EndsWith: _affix("%", ""),
    exp.Contains: _affix("%", "%"),
}
