"""UPDATE, DELETE and TRUNCATE."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from lakebed.core.commit import Kind
from lakebed.core.errors import InputError
from lakebed.core.predicate import Node
from lakebed.core.schema import Field, Struct
from lakebed.core.schema_ddl import type_ddl
from lakebed.core.suggest import did_you_mean
from lakebed.records import Commit
from lakebed.sql.applying import CLAUSE, Plan, apply
from lakebed.sql.compose import Composition
from lakebed.sql.context import Context
from lakebed.sql.cursor import Cursor, Name, Span
from lakebed.sql.expressions import Scope, Side
from lakebed.sql.partitions import partition_condition
from lakebed.sql.queries import Known, run_query
from lakebed.sql.results import row_of
from lakebed.sql.rows import TableRows
from lakebed.sql.spark_engine import quoted
from lakebed.table import Table

TARGET = "lakebed target"
"""What the table that is changed is called in queries that compute its new rows."""


@dataclass
class Target:
    """The table that a statement changes."""

    table: Table
    name: Name
    alias: str | None

    @property
    def called(self) -> str:
        """What its columns are qualified with."""
        return self.alias or self.name.parts[-1]

    @property
    def schema(self) -> Struct:
        """Its columns."""
        return self.table._point().metadata.schema

    @property
    def names(self) -> tuple[tuple[str, ...], ...]:
        """All that its columns may be qualified with; longer names first."""
        if self.alias is not None:
            return ((self.alias,),)
        parts = self.name.parts
        return tuple(parts[at:] for at in range(len(parts)))

    def known(self, rows: TableRows) -> Known:
        """Its rows for a query."""
        return Known(rows, () if self.alias is not None else self.name.parts)


@dataclass
class Assignment:
    """``SET column = expression``; of a member of a column too."""

    column: Field
    members: tuple[str, ...]
    value: Span
    place: Name


def target_of(context: Context, cursor: Cursor) -> Target | None:
    """Go past the name of a table, and what it is called; None if it is no table of ours."""
    name = cursor.dotted()
    table = context.names.table(name.parts)
    if table is None:
        if context.session is not None and context.names.near(name.parts) is None:
            return None
        raise context.no_table(name)
    alias = None
    if cursor.take("AS") or (not cursor.at_end and not cursor.sees("SET|WHERE|USING|WHEN|ON")):
        alias = cursor.name("a name for the table")
    return Target(table, name, alias)


def delete(context: Context, cursor: Cursor) -> pa.Table | None:
    """DELETE FROM table [AS name] [WHERE condition]."""
    target = target_of(context, cursor)
    if target is None:
        return None
    where = cursor.expression(what="a condition") if cursor.take("WHERE") else None
    cursor.finish()
    condition = _native_condition(context, target, where)
    if where is None:
        done = target.table.delete("true")
    elif condition is not None:
        done = target.table.delete(condition)
    else:

        def compute(rows: TableRows) -> Any:
            text = Composition(context.source).add(f"SELECT *, 0 AS `{CLAUSE}` FROM `{TARGET}` AS ")
            source, span = text.add(quoted(target.called), " WHERE ", where).source()
            return run_query(context.on(source), span, extra={TARGET: target.known(rows)})

        done = apply(context, target.table, Plan(Kind.DELETE, deletes=(0,)), compute, cursor.slice(where))
    return row_of(version=done.version, deleted=done.metrics.get("numDeletedRows", 0))


def update(context: Context, cursor: Cursor) -> pa.Table | None:
    """UPDATE table [AS name] SET column = expression, … [WHERE condition]."""
    target = target_of(context, cursor)
    if target is None:
        return None
    cursor.need("SET")
    assignments = read_assignments(context, cursor, target, "WHERE")
    where = cursor.expression(what="a condition") if cursor.take("WHERE") else None
    cursor.finish()
    done = _update(context, target, assignments, where)
    return row_of(version=done.version, updated=done.metrics.get("numUpdatedRows", 0))


def truncate(context: Context, cursor: Cursor) -> pa.Table | None:
    """TRUNCATE TABLE table [PARTITION (column = value, …)]."""
    name = cursor.dotted()
    table = context.names.table(name.parts)
    if table is None:
        if context.session is not None:
            return None
        raise context.no_table(name)
    where: Any = "true"
    if cursor.take("PARTITION"):
        where = partition_condition(cursor, table)
    cursor.finish()
    done = table.delete(where)
    return row_of(version=done.version, deleted=done.metrics.get("numDeletedRows", 0))


def _native_condition(context: Context, target: Target, where: Span | None) -> Node | None:
    scope = Scope(context, (Side("", target.schema, target.names),))
    return None if where is None else scope.read(where)


def _update(context: Context, target: Target, assignments: list[Assignment], where: Span | None) -> Commit:
    scope = Scope(context, (Side("", target.schema, target.names),))
    condition = None if where is None else scope.read(where)
    values = {one.column.name: scope.read(one.value, condition=False) for one in assignments if not one.members}
    plain = len(values) == len(assignments) and None not in values.values()
    if plain and (where is None or condition is not None):
        try:
            return target.table.update(values, condition)
        except InputError as error:
            raise context.tried(assignments[0].place, error) from error
    refuse_fixed(context, target, assignments)

    def compute(rows: TableRows) -> Any:
        text = Composition(context.source).add(f"SELECT 0 AS `{CLAUSE}`")
        for column in target.schema:
            text.add(", ")
            add_value(text, target, column, assignments)
            text.add(" AS ", quoted(column.name))
        for fact in rows.facts:
            text.add(f", {quoted(target.called)}.{fact}")
        text.add(f" FROM `{TARGET}` AS {quoted(target.called)}")
        if where is not None:
            text.add(" WHERE ", where)
        source, span = text.source()
        return run_query(context.on(source), span, extra={TARGET: target.known(rows)})

    written = context.source.slice(assignments[0].place.start, context.source.words[-1].end)
    return apply(context, target.table, Plan(Kind.UPDATE, updates=(0,)), compute, written)


def read_assignments(context: Context, cursor: Cursor, target: Target, *stops: str) -> list[Assignment]:
    """Go past assignments up to one of these words. Raises SqlError for a column that is not there."""
    found = [_assignment(context, cursor, target, stops)]
    while cursor.take(","):
        found.append(_assignment(context, cursor, target, stops))
    return found


def _assignment(context: Context, cursor: Cursor, target: Target, stops: tuple[str, ...]) -> Assignment:
    name = cursor.dotted("a column")
    column, members = column_of(context, target, name)
    cursor.need("=")
    return Assignment(column, members, cursor.expression(",", *stops), name)


def column_of(context: Context, target: Target, name: Name) -> tuple[Field, tuple[str, ...]]:
    """The column that is meant, and the member of it. Raises SqlError with the nearest name."""
    parts = list(name.parts)
    for known in target.names:
        if len(parts) > len(known) and [p.casefold() for p in parts[: len(known)]] == [p.casefold() for p in known]:
            parts = parts[len(known) :]
            break
    column = target.schema.find(parts[0])
    if column is None:
        raise context.cursor().error(
            name,
            f"table {target.table.name} has no column {parts[0]!r}",
            fix=did_you_mean(parts[0], target.schema.names) or f"it has {', '.join(target.schema.names[:20])}",
        )
    return column, tuple(parts[1:])


def refuse_fixed(context: Context, target: Target, assignments: list[Assignment]) -> None:
    """Raise SqlError for columns whose values decide where a row is and which one counts, or that are set twice."""
    key = target.table.key
    fixed = () if key is None else (*key.key, *key.sequence)
    seen: set[tuple[str, ...]] = set()
    for one in assignments:
        path = (one.column.name, *(member.casefold() for member in one.members))
        if one.column.name in fixed:
            raise context.cursor().error(
                one.place,
                f"{one.column.name} is part of the primary key or of the sequence, and stays",
                fix="delete the rows and insert them anew",
            )
        if path in seen or (one.column.name,) in seen:
            raise context.cursor().error(one.place, f"column {one.column.name!r} is set twice")
        seen.add(path)


def add_value(text: Composition, target: Target, column: Field, assignments: list[Assignment]) -> None:
    """Add what a column is set to: an expression, a struct with another member, or what it was."""
    mine = [one for one in assignments if one.column.name == column.name]
    here = f"{quoted(target.called)}.{quoted(column.name)}"
    if not mine:
        text.add(here)
    elif not mine[0].members:
        text.add("CAST((", mine[0].value, f") AS {type_ddl(column.type, portable=True)})")
    else:
        text.add("CAST(")
        _add_struct(text, here, column, [(one.members, one) for one in mine])
        text.add(f" AS {type_ddl(column.type, portable=True)})")


def _add_struct(text: Composition, here: str, column: Field, mine: list[tuple[tuple[str, ...], Assignment]]) -> None:
    if not isinstance(column.type, Struct):
        raise InputError(f"{column.name} has no members to set")
    text.add("named_struct(")
    for at, member in enumerate(column.type):
        text.add(", " if at else "", "'", member.name.replace("\\", "\\\\").replace("'", "\\'"), "', ")
        own = [(path[1:], one) for path, one in mine if path[0].casefold() == member.name.casefold()]
        inner = f"{here}.{quoted(member.name)}"
        if not own:
            text.add(inner)
        elif not own[0][0]:
            text.add("(", own[0][1].value, ")")
        else:
            _add_struct(text, inner, member, own)
    text.add(")")
