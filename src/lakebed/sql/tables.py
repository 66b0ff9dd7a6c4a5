"""CREATE TABLE and DROP TABLE."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from sqlglot import TokenType

from lakebed.core.errors import InputError
from lakebed.core.location import Location
from lakebed.core.schema import Struct
from lakebed.core.schema_arrow import to_arrow
from lakebed.core.schema_ddl import from_ddl
from lakebed.sql.clauses import if_exists, if_not_exists, properties
from lakebed.sql.context import Context
from lakebed.sql.cursor import Cursor, Name, Span
from lakebed.sql.names import split_name
from lakebed.sql.queries import run_query
from lakebed.sql.results import NOTHING
from lakebed.table import Table

FORMAT = "lakebed"
_ARGUMENTS = {"buckets": "buckets", "merge": "merge", "merge-engine": "merge_engine"}
"""Properties that are arguments of ``create_table``."""


@dataclass
class Definition:
    """What CREATE TABLE says of a table."""

    name: Name
    columns: list[Span] = field(default_factory=list)
    primary_key: list[str] = field(default_factory=list)
    partition_by: list[str] = field(default_factory=list)
    partition_columns: list[Span] = field(default_factory=list)
    """Those whose types are told where the table is partitioned by them."""
    properties: dict[str, Any] = field(default_factory=dict)
    comment: str | None = None
    location: str | None = None
    like: Name | None = None
    query: Span | None = None
    format: str = FORMAT


def create(context: Context, cursor: Cursor) -> pa.Table | None:
    """CREATE TABLE [IF NOT EXISTS] name [(columns)] [clauses] [AS query]."""
    lenient = if_not_exists(cursor)
    definition = _definition(cursor)
    if definition.format != FORMAT or split_name(definition.name.parts) is None:
        return None
    if lenient and context.names.table(definition.name.parts) is not None:
        return NOTHING
    _create(context, cursor, definition)
    return NOTHING


def replace(context: Context, cursor: Cursor) -> pa.Table | None:
    """CREATE OR REPLACE TABLE: as CREATE TABLE, and what the table was becomes a part of its history."""
    definition = _definition(cursor)
    if definition.format != FORMAT or split_name(definition.name.parts) is None:
        return None
    table = context.names.table(definition.name.parts)
    if table is None:
        _create(context, cursor, definition)
    else:
        _replace(context, cursor, definition, table)
    return NOTHING


def drop(context: Context, cursor: Cursor) -> pa.Table | None:
    """DROP TABLE [IF EXISTS] name [PURGE]."""
    lenient = if_exists(cursor)
    name = cursor.dotted()
    purge = cursor.take("PURGE")
    cursor.finish()
    table = context.names.table(name.parts)
    if table is not None:
        context.lake.drop_table(table.name, purge=purge)
    elif context.session is not None:
        return None
    elif not lenient:
        raise context.no_table(name)
    return NOTHING


def _create(context: Context, cursor: Cursor, definition: Definition) -> None:
    schema, arguments = _arguments(context, cursor, definition)
    rows = None
    if definition.query is not None:
        rows = run_query(context, definition.query)
        schema = rows.schema
    try:
        table = context.lake.create_table(_full_name(definition), schema, **arguments)
    except InputError as error:
        raise context.tried(definition.name, error) from error
    if rows is not None:
        _fill(context, table, rows)


def _replace(context: Context, cursor: Cursor, definition: Definition, table: Table) -> None:
    schema, arguments = _arguments(context, cursor, definition)
    location = arguments.pop("location", None)
    if location is not None and Location.parse(location, default_fs=table._options.default_fs).uri != table.location:
        raise cursor.error(definition.name, f"table {table.name} stays at {table.location}", fix="leave LOCATION out")
    rows = None if definition.query is None else run_query(context, definition.query)
    try:
        context.lake.replace_table(table.name, schema if rows is None else rows.schema, rows, **arguments)
    except InputError as error:
        raise context.tried(definition.name, error) from error


def _fill(context: Context, table: Table, rows: Any) -> None:
    try:
        table.append(rows)
    except BaseException:
        context.lake.drop_table(table.name, purge=True)
        raise


def _full_name(definition: Definition) -> str:
    pair = split_name(definition.name.parts)
    assert pair is not None
    return ".".join(pair)


def _arguments(context: Context, cursor: Cursor, definition: Definition) -> tuple[Any, dict[str, Any]]:
    """The schema, and the other arguments of ``create_table``."""
    given = dict(definition.properties)
    arguments: dict[str, Any] = {}
    schema: Any = None
    if definition.like is not None:
        schema, arguments = _like(context.table(definition.like))
    elif definition.query is not None and definition.columns:
        raise cursor.error(
            definition.columns[0],
            "the query tells the columns",
            fix="leave the column list out, and cast and name the columns in the query",
        )
    elif definition.query is None:
        schema = _schema(context, cursor, definition)
    for name, argument in _ARGUMENTS.items():
        value = given.pop(name, given.pop(f"lakebed.{name}", None))
        if value is not None:
            arguments[argument] = int(value) if argument == "buckets" and str(value).isdecimal() else str(value)
    for name in ("sequence", "primary-key"):
        value = given.pop(name, given.pop(f"lakebed.{name}", None))
        if value is not None:
            arguments[name.replace("-", "_")] = [part.strip() for part in str(value).split(",")]
    if definition.primary_key:
        arguments["primary_key"] = definition.primary_key
    if definition.partition_by:
        arguments["partition_by"] = definition.partition_by
    comment = given.pop("comment", None) if definition.comment is None else definition.comment
    if comment is not None:
        arguments["comment"] = str(comment)
    if definition.location is not None:
        arguments["location"] = definition.location
    if given:
        arguments["properties"] = {**arguments.get("properties", {}), **given}
    return schema, arguments


def _schema(context: Context, cursor: Cursor, definition: Definition) -> Struct:
    parts = [*definition.columns, *definition.partition_columns]
    if not parts:
        raise cursor.error(definition.name, "the table has no columns", expected="CREATE TABLE name (id BIGINT, …)")
    try:
        return from_ddl(", ".join(map(cursor.slice, parts)))
    except InputError as error:
        raise context.tried(_guilty(parts, cursor), error) from error


def _guilty(parts: list[Span], cursor: Cursor) -> Span:
    """The column that cannot be read."""
    for part in parts:
        try:
            from_ddl(cursor.slice(part))
        except InputError:
            return part
    return parts[0]


def _like(table: Table) -> tuple[Any, dict[str, Any]]:
    arguments: dict[str, Any] = {"partition_by": table.partition_by, "properties": table.properties}
    key = table.key
    if key is not None:
        arguments |= {"primary_key": key.key, "buckets": key.buckets, "merge_engine": key.engine.value}
        arguments |= {"sequence": key.sequence}
    if table.comment is not None:
        arguments["comment"] = table.comment
    return to_arrow(table._point().metadata.schema), arguments


def _definition(cursor: Cursor) -> Definition:
    definition = Definition(cursor.dotted("the name of the new table"))
    if cursor.sees("("):
        cursor.listed(lambda: _column(cursor, definition))
    while not cursor.at_end and not cursor.take("AS"):
        if cursor.sees("SELECT|WITH|VALUES|FROM|TABLE|("):
            break
        _clause(cursor, definition)
    else:
        if cursor.at_end and cursor.source.words[cursor.at - 1].upper != "AS":
            return definition
    definition.query = cursor.rest()
    return definition


def _clause(cursor: Cursor, definition: Definition) -> None:
    if cursor.take("USING"):
        definition.format = cursor.name("a format").lower()
    elif cursor.take("LIKE"):
        definition.like = cursor.dotted()
    elif cursor.take("PARTITIONED", "BY"):
        cursor.listed(lambda: _partition(cursor, definition))
    elif cursor.take("COMMENT"):
        definition.comment = cursor.text()
    elif cursor.take("TBLPROPERTIES") or cursor.take("OPTIONS") or cursor.take("WITH"):
        definition.properties |= properties(cursor)
    elif cursor.take("LOCATION"):
        definition.location = cursor.text()
    elif cursor.sees("PRIMARY") or cursor.sees("CONSTRAINT"):
        _key(cursor, definition)
    else:
        cursor.fail(expected="USING, PARTITIONED BY, PRIMARY KEY, COMMENT, TBLPROPERTIES, LOCATION, LIKE or AS")


def _column(cursor: Cursor, definition: Definition) -> None:
    if cursor.sees("PRIMARY", "KEY") or cursor.sees("CONSTRAINT"):
        _key(cursor, definition)
        return
    definition.columns.append(_typed(cursor, definition))


def past_type(cursor: Cursor, *stops: str) -> Span:
    """Go past a type and what is said of it, up to one of these words, a comma or a closing parenthesis."""
    first, depth = cursor.at, 0
    while not cursor.at_end:
        word = cursor.word
        assert word is not None
        ends = word.kind in (TokenType.COMMA, TokenType.R_PAREN) or any(cursor.sees(*stop.split()) for stop in stops)
        if depth == 0 and ends:
            break
        depth += word.kind in (TokenType.LT, TokenType.L_PAREN)
        depth -= word.kind in (TokenType.GT, TokenType.R_PAREN)
        cursor.at += 1
    if cursor.at == first:
        cursor.fail(expected="a type such as BIGINT or ARRAY<STRING>")
    return cursor.span(first)


def _typed(cursor: Cursor, definition: Definition) -> Span:
    """Go past a column and its type; ``PRIMARY KEY`` behind it makes it the key."""
    first = cursor.at
    name = cursor.name("the name of a column")
    past_type(cursor, "PRIMARY KEY")
    span = cursor.span(first)
    if cursor.take("PRIMARY", "KEY"):
        definition.primary_key.append(name)
        _enforced(cursor)
    return span


def _key(cursor: Cursor, definition: Definition) -> None:
    if cursor.take("CONSTRAINT"):
        cursor.name("the name of the constraint")
    cursor.need("PRIMARY", "KEY")
    definition.primary_key = cursor.listed(lambda: cursor.name("a column"))
    _enforced(cursor)


def _enforced(cursor: Cursor) -> None:
    if cursor.take("NOT", "ENFORCED") or cursor.take("ENFORCED"):
        cursor.take("RELY")


def _partition(cursor: Cursor, definition: Definition) -> None:
    if cursor.sees("(", skip=1):
        cursor.fail(
            "a table is partitioned by columns, not by what is computed from them",
            fix="for buckets set TBLPROPERTIES ('buckets' = …); else add a column with the computed value",
        )
    first = cursor.at
    definition.partition_by.append(cursor.name("a column"))
    if not cursor.sees(",") and not cursor.sees(")"):
        cursor.at = first
        definition.partition_columns.append(_typed(cursor, definition))
