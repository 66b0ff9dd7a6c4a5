"""Tags: names for versions."""

from __future__ import annotations

import pyarrow as pa

from lakebed.sql.clauses import if_exists, if_not_exists
from lakebed.sql.context import Context
from lakebed.sql.cursor import Cursor
from lakebed.sql.results import NOTHING
from lakebed.table import Table


def create(context: Context, cursor: Cursor) -> pa.Table:
    """CREATE TAG [IF NOT EXISTS] name ON table [AS OF VERSION n] [RETAIN 7 DAYS]."""
    return _create(context, cursor, replaces=False)


def replace(context: Context, cursor: Cursor) -> pa.Table:
    """CREATE OR REPLACE TAG name ON table …"""
    return _create(context, cursor, replaces=True)


def drop(context: Context, cursor: Cursor) -> pa.Table:
    """DROP TAG [IF EXISTS] name ON table."""
    lenient = if_exists(cursor)
    name = cursor.name("the name of a tag")
    cursor.need("ON")
    table = context.table(cursor.dotted())
    cursor.finish()
    _drop(table, name, lenient)
    return NOTHING


def create_on(cursor: Cursor, table: Table, *, replaces: bool) -> None:
    """Go past ``[IF NOT EXISTS] name [AS OF VERSION n] [RETAIN 7 DAYS]``, and make the tag."""
    lenient = if_not_exists(cursor)
    _make(cursor, table, cursor.name("a name for the tag"), lenient, replaces)


def drop_on(cursor: Cursor, table: Table) -> None:
    """Go past ``[IF EXISTS] name``, and forget the tag."""
    lenient = if_exists(cursor)
    name = cursor.name("the name of a tag")
    cursor.finish()
    _drop(table, name, lenient)


def _create(context: Context, cursor: Cursor, *, replaces: bool) -> pa.Table:
    lenient = if_not_exists(cursor)
    name = cursor.name("a name for the tag")
    cursor.need("ON")
    _make(cursor, context.table(cursor.dotted()), name, lenient, replaces)
    return NOTHING


def _make(cursor: Cursor, table: Table, name: str, lenient: bool, replaces: bool) -> None:
    version = retain = None
    if cursor.take("AS", "OF"):
        cursor.need("VERSION")
        version = cursor.constant("a version")
    if cursor.take("RETAIN"):
        retain = f"{cursor.constant('a number of days')} {cursor.name('DAYS, HOURS or MINUTES').lower()}"
    cursor.finish()
    known = name in {tag.name for tag in table.tags()}
    if known and lenient:
        return
    if known and replaces:
        table.delete_tag(name)
    table.tag(name, version, retain)


def _drop(table: Table, name: str, lenient: bool) -> None:
    if not lenient or name in {tag.name for tag in table.tags()}:
        table.delete_tag(name)
