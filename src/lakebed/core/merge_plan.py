"""What a merge does with the rows of a table and of a source: parsed clauses, and the keys that join both."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from lakebed.core.errors import InputError
from lakebed.core.predicate.nodes import And, Column, Compare, Node, conjunction, walk
from lakebed.core.predicate.parse import parse
from lakebed.core.predicate.render import render
from lakebed.core.schema import Field, Struct


class When(StrEnum):
    """Which rows a clause is for."""

    MATCHED = "matched"
    NOT_MATCHED = "not matched"
    NOT_MATCHED_BY_SOURCE = "not matched by source"


class Action(StrEnum):
    """What a clause does."""

    UPDATE = "update"
    DELETE = "delete"
    INSERT = "insert"


@dataclass(frozen=True)
class Clause:
    """One clause as the caller wrote it."""

    when: When
    action: Action
    condition: str | Node | None = None
    values: Mapping[str, Any] | None = field(default=None, hash=False)
    """By column: SQL text, or a constant; None for all columns that the source has, by name."""

    def __str__(self) -> str:
        condition = "" if self.condition is None else f" and {shown(self.condition)}"
        return f"when {self.when}{condition} then {self.action}"


@dataclass(frozen=True)
class MergeText:
    """A merge as the caller wrote it. Of several clauses for a row the first whose condition is true counts."""

    on: str | Node
    """SQL, or the condition that it was parsed to."""
    clauses: tuple[Clause, ...]
    target: str = "t"
    source: str = "s"

    def clauses_for(self, when: When) -> list[Clause]:
        """The clauses for these rows, in order."""
        return [clause for clause in self.clauses if clause.when is when]


def shown(condition: str | Node) -> str:
    """A condition for people."""
    return condition if isinstance(condition, str) else render(condition)


@dataclass(frozen=True)
class Join:
    """The condition of a merge, taken apart."""

    keys: tuple[tuple[Node, Node], ...]
    """Pairs of values, of the target's row and of the source's, that must be equal."""
    rest: Node | None
    """What else must be true of both rows together."""
    target_only: Node | None
    """What must be true of the target's row; by its own column names."""


def scope_of(text: MergeText, target: Struct | None, source: Struct | None) -> Struct:
    """The columns that conditions and values can name: those of both rows, or of one."""
    sides = ((text.target, target), (text.source, source))
    return Struct(tuple(Field(name, columns) for name, columns in sides if columns is not None))


def parse_join(text: MergeText, target: Struct, source: Struct) -> Join:
    """The condition taken apart. Raises PredicateError for text that is no condition on both."""
    on = parse(text.on, scope_of(text, target, source))
    keys, rest, target_only = [], [], []
    for term in on.terms if isinstance(on, And) else (on,):
        sides = _sides(term)
        if sides == {text.target}:
            target_only.append(_without(term, text.target))
            rest.append(term)
        elif (pair := _key(term, text)) is not None:
            keys.append(pair)
        else:
            rest.append(term)
    return Join(tuple(keys), conjunction(*rest) if rest else None, conjunction(*target_only) if target_only else None)


def _key(term: Node, text: MergeText) -> tuple[Node, Node] | None:
    if not isinstance(term, Compare) or term.op != "=":
        return None
    for mine, theirs in ((term.left, term.right), (term.right, term.left)):
        if _sides(mine) == {text.target} and _sides(theirs) == {text.source}:
            return mine, theirs
    return None


def _sides(node: Node) -> set[str]:
    return {part.path[0] for part in walk(node) if isinstance(part, Column)}


def key_column(node: Node) -> Column | None:
    """The target's column that a key is, by its own name; None if it is computed.

    >>> from lakebed.core.schema import LONG
    >>> key_column(Column(("t", "id"), LONG))
    Column(path=('id',), type=Primitive(name='long'))
    """
    return Column(node.path[1:], node.type) if isinstance(node, Column) and len(node.path) > 1 else None


def members_of(nodes: Iterable[Node], side: str) -> set[str]:
    """The columns of one side that the nodes read.

    >>> from lakebed.core.schema import LONG
    >>> members_of([Column(("t", "id"), LONG), Column(("s", "n"), LONG)], "t")
    {'id'}
    """
    return {
        part.path[1]
        for node in nodes
        for part in walk(node)
        if isinstance(part, Column) and part.path[0] == side and len(part.path) > 1
    }


def _without(node: Node, side: str) -> Node:
    """The node by the column names of one side alone."""

    def shorten(part: Node) -> Node:
        return Column(part.path[1:], part.type) if isinstance(part, Column) else part

    return _mapped(node, shorten)


def _mapped(node: Node, change: Callable[[Node], Node]) -> Node:
    changes = {f.name: _mapped_value(getattr(node, f.name), change) for f in dataclasses.fields(node)}
    return change(dataclasses.replace(node, **changes))


def _mapped_value(value: Any, change: Callable[[Node], Node]) -> Any:
    if isinstance(value, tuple):
        return tuple(_mapped_value(one, change) for one in value)
    return _mapped(value, change) if isinstance(value, Node) else value


def check_clauses(text: MergeText, table_name: str) -> None:
    """Raise InputError for a merge without clauses, or with one that no row can reach."""
    if not text.clauses:
        raise InputError(
            f"table {table_name}: the merge has no clause",
            fix="say when_matched_update(), when_not_matched_insert(), …",
        )
    if text.target.casefold() == text.source.casefold():
        raise InputError(f"table {table_name}: both sides of the merge are called {text.target!r}")
    for when in When:
        clauses = text.clauses_for(when)
        unreachable = next((i for i, one in enumerate(clauses[:-1]) if one.condition is None), None)
        if unreachable is not None:
            raise InputError(
                f"table {table_name}: no row reaches the clause {str(clauses[unreachable + 1])!r}",
                found=f"{str(clauses[unreachable])!r} without a condition before it",
                fix="give that a condition, or put it last",
            )


def named_columns(target: Struct, source: Struct) -> dict[str, str]:
    """The source's column for each column of the target that it has, found as columns of rows are.

    >>> from lakebed.core.schema_ddl import from_ddl
    >>> named_columns(from_ddl("id INT, n INT"), from_ddl("ID INT, x INT"))
    {'id': 'ID'}
    """
    found = {f.name: source.find(f.name) for f in target}
    return {name: known.name for name, known in found.items() if known is not None}
