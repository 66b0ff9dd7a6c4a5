"""How the nodes of a SQL syntax tree are read: a table of rules, and what is said when none fits.

A rule accepts a sqlglot node only with the arguments that it knows, so that a modifier which is not
understood is an error and never ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from sqlglot import exp

from lakebed.core.errors import PredicateError
from lakebed.core.predicate.nodes import Literal, Node
from lakebed.core.schema import BOOLEAN, VOID, Struct
from lakebed.core.schema_ddl import type_ddl

Rule = Callable[["Reader", exp.Expression], Node]
Rules = Mapping[type[exp.Expression], Rule]


@dataclass(frozen=True, slots=True)
class Reader:
    """Reads the syntax trees of expressions on rows of ``schema`` by ``rules``."""

    schema: Struct
    rules: Rules

    def read(self, tree: exp.Expression) -> Node:
        """The node that the tree means; raises PredicateError."""
        rule = self.rules.get(type(tree))
        if rule is None:
            raise refuse(tree)
        return rule(self, tree)

    def boolean(self, tree: exp.Expression) -> Node:
        """The node that the tree means, which must be a condition; a bare NULL is one."""
        node = self.read(tree)
        if node.type == VOID:
            return Literal(None, BOOLEAN)
        if node.type != BOOLEAN:
            raise PredicateError(
                f"{place(tree)} is {type_ddl(node.type)}", expected="a condition that is true or false"
            )
        return node


def only(tree: exp.Expression, *known: str) -> None:
    """Refuse a tree that has more arguments than the rule reads."""
    extra = [name for name, value in tree.args.items() if value and name not in known]
    if extra:
        raise refuse(tree, f" with {', '.join(extra)}")


def refuse(tree: exp.Expression, detail: str = "") -> PredicateError:
    """The error that names a construct which predicates do not have, and where it is."""
    return PredicateError(
        f"{_construct(tree)}{detail} is not supported in a predicate: {place(tree)}", fix=_way_out(tree)
    )


def place(tree: exp.Expression) -> str:
    """The SQL of a tree, and where it starts in the text when that is known."""
    starts = [part.meta["start"] for part in tree.walk() if "start" in part.meta]
    where = f" at character {min(starts) + 1}" if starts else ""
    return f"`{tree.sql('spark')}`{where}"


def _construct(tree: exp.Expression) -> str:
    if isinstance(tree, exp.Query | exp.Exists):
        return "a subquery"
    if isinstance(tree, exp.Window):
        return "a window function"
    if isinstance(tree, exp.AggFunc):
        return f"the aggregate function {tree.sql_name().lower()}"
    if isinstance(tree, exp.Anonymous):
        return f"the function {tree.name}"
    if isinstance(tree, exp.Func):
        return f"the function {tree.sql_name().lower()}"
    if isinstance(tree, exp.Placeholder | exp.Parameter):
        return "a parameter"
    if isinstance(tree, exp.Alias):
        return f"the trailing word {tree.alias!r}"
    return f"{type(tree).__name__.lower()}"


def _way_out(tree: exp.Expression) -> str | None:
    if isinstance(tree, exp.Query | exp.Exists):
        return "run the subquery first and pass its values"
    if isinstance(tree, exp.CurrentDate | exp.CurrentTimestamp):
        return "pass the date or time as a literal, so that a retry means the same"
    return None
