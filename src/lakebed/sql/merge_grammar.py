"""The grammar of MERGE INTO."""

from __future__ import annotations

from dataclasses import dataclass, field

from lakebed.core.merge_plan import When
from lakebed.sql.change import Assignment, Target, column_of, read_assignments
from lakebed.sql.context import Context
from lakebed.sql.cursor import Cursor, Name, Span


@dataclass
class Clause:
    """WHEN … THEN …"""

    when: When
    action: str
    condition: Span | None
    place: Span
    assignments: list[Assignment] = field(default_factory=list)
    star: bool = False
    """UPDATE SET * or INSERT *."""


@dataclass
class Merging:
    """What MERGE says."""

    target: Target
    source: Span
    called: str | None
    names: tuple[tuple[str, ...], ...]
    on: Span
    clauses: list[Clause]


def read_merge(context: Context, cursor: Cursor, target: Target) -> Merging:
    """Go past ``USING source ON condition WHEN …``. Raises SqlError."""
    cursor.need("USING")
    first = cursor.at
    if cursor.sees("("):
        source = cursor.skip_group()
        names: tuple[tuple[str, ...], ...] = ()
    else:
        source = cursor.expression("AS", "ON", what="a table or a query in parentheses")
        cursor.at = first
        name = _source_name(cursor)
        names = tuple(name.parts[at:] for at in range(len(name.parts)))
        source = cursor.span(first)
    called = columns = None
    if cursor.take("AS") or not cursor.sees("ON"):
        called = cursor.name("a name for the source")
        names = ((called,),)
        if cursor.sees("("):
            cursor.listed(lambda: cursor.name("a name for a column"))
            columns = cursor.span(first)
    cursor.need("ON")
    on = cursor.expression("WHEN", what="a condition")
    clauses = []
    while not cursor.at_end:
        clauses.append(_clause(context, cursor, target))
    if not clauses:
        cursor.fail(expected="WHEN MATCHED or WHEN NOT MATCHED")
    return Merging(target, columns or source, called, names, on, clauses)


def _source_name(cursor: Cursor) -> Name:
    """Go past a table, a function of tables, or VALUES."""
    name = cursor.dotted("a table or a query in parentheses")
    if cursor.sees("("):
        cursor.skip_group()
        while cursor.take(","):
            cursor.skip_group()
    cursor.take("FOR")
    if cursor.sees("VERSION|TIMESTAMP|SYSTEM_VERSION|SYSTEM_TIME", "AS", "OF"):
        cursor.at += 3
        cursor.expression("AS", "ON", what="a version")
    return name


def _clause(context: Context, cursor: Cursor, target: Target) -> Clause:
    first = cursor.at
    cursor.need("WHEN")
    when = When.MATCHED
    if cursor.take("NOT"):
        cursor.need("MATCHED")
        when = When.NOT_MATCHED
        if cursor.take("BY"):
            when = When.NOT_MATCHED if cursor.choice("TARGET", "SOURCE") == "TARGET" else When.NOT_MATCHED_BY_SOURCE
    else:
        cursor.need("MATCHED")
    condition = cursor.expression("THEN", what="a condition") if cursor.take("AND") else None
    cursor.need("THEN")
    allowed = ("INSERT",) if when is When.NOT_MATCHED else ("UPDATE", "DELETE")
    action = cursor.choice(*allowed)
    clause = Clause(when, action, condition, cursor.span(first))
    if action == "UPDATE":
        cursor.need("SET")
        clause.star = cursor.take("*")
        if not clause.star:
            clause.assignments = read_assignments(context, cursor, target, "WHEN")
    elif action == "INSERT":
        _insert(context, cursor, target, clause)
    clause.place = cursor.span(first)
    return clause


def _insert(context: Context, cursor: Cursor, target: Target, clause: Clause) -> None:
    if cursor.take("*"):
        clause.star = True
        return
    names = [*target.schema.names]
    places: list[Name] = []
    if cursor.sees("("):
        places = cursor.listed(lambda: cursor.dotted("a column"))
        columns = [column_of(context, target, place)[0] for place in places]
    else:
        columns = list(target.schema)
    cursor.need("VALUES")
    values = cursor.listed(lambda: cursor.expression(","))
    if len(values) != len(columns):
        raise cursor.error(
            clause.place,
            f"INSERT has {len(values)} value(s) for {len(columns)} column(s)",
            expected=", ".join(f.name for f in columns) or ", ".join(names),
        )
    for at, (column, value) in enumerate(zip(columns, values, strict=True)):
        if column.name in {one.column.name for one in clause.assignments}:
            raise cursor.error(places[at], f"column {column.name!r} is listed twice")
        place = places[at] if places else Name((column.name,), value.start, value.end)
        clause.assignments.append(Assignment(column, (), value, place))
