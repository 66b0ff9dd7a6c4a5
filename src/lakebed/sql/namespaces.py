"""Statements about namespaces, which are also called schemas and databases."""

from __future__ import annotations

import pyarrow as pa

from lakebed.core.suggest import did_you_mean
from lakebed.sql.clauses import if_exists, if_not_exists, matching, pattern_of, properties, property_keys
from lakebed.sql.context import Context
from lakebed.sql.cursor import Cursor, Name
from lakebed.sql.names import CATALOG
from lakebed.sql.results import NOTHING, table_of

COMMENT = "comment"


def create(context: Context, cursor: Cursor) -> pa.Table:
    """CREATE NAMESPACE [IF NOT EXISTS] name [COMMENT 'text'] [WITH PROPERTIES (…)]."""
    lenient = if_not_exists(cursor)
    name = _single(cursor, cursor.dotted("the name of a namespace"))
    found: dict[str, str] = {}
    while not cursor.at_end:
        if cursor.take("COMMENT"):
            found[COMMENT] = cursor.text()
        else:
            cursor.need("WITH")
            cursor.choice("PROPERTIES", "DBPROPERTIES")
            found |= {key: str(value) for key, value in properties(cursor).items()}
    context.lake.create_namespace(name, found, if_not_exists=lenient)
    return NOTHING


def drop(context: Context, cursor: Cursor) -> pa.Table:
    """DROP NAMESPACE [IF EXISTS] name [RESTRICT | CASCADE]."""
    lenient = if_exists(cursor)
    place = cursor.dotted("the name of a namespace")
    cascade = cursor.take("CASCADE")
    if not cascade:
        cursor.take("RESTRICT")
    cursor.finish()
    name = context.names.namespace(_single(cursor, place))
    if name is None:
        if lenient:
            return NOTHING
        raise no_namespace(context, place)
    for table in context.lake.tables(name) if cascade else ():
        context.lake.drop_table(table)
    context.lake.drop_namespace(name)
    return NOTHING


def alter(context: Context, cursor: Cursor) -> pa.Table:
    """ALTER NAMESPACE name SET | UNSET PROPERTIES (…)."""
    place = cursor.dotted("the name of a namespace")
    name = spelled(context, cursor, place)
    if cursor.choice("SET", "UNSET") == "SET":
        cursor.choice("PROPERTIES", "DBPROPERTIES")
        changes: dict[str, str | None] = {key: str(value) for key, value in properties(cursor).items()}
    else:
        cursor.choice("PROPERTIES", "DBPROPERTIES")
        changes = dict.fromkeys(property_keys(cursor))
    cursor.finish()
    context.lake.alter_namespace(name, changes)
    return NOTHING


def show(context: Context, cursor: Cursor) -> pa.Table:
    """SHOW NAMESPACES [LIKE 'pattern']."""
    pattern = pattern_of(cursor)
    cursor.finish()
    return table_of({"namespace": str}, [(name,) for name in matching(context.lake.namespaces(), pattern)])


def describe(context: Context, cursor: Cursor) -> pa.Table:
    """DESCRIBE NAMESPACE name."""
    cursor.take("EXTENDED")
    name = spelled(context, cursor, cursor.dotted("the name of a namespace"))
    cursor.finish()
    known = context.lake.namespace_properties(name)
    comment = known.pop(COMMENT, "")
    told = [("Namespace Name", name), ("Comment", comment), ("Location", f"{context.lake.location}/{name}")]
    told += [(f"Property {key}", value) for key, value in sorted(known.items())]
    return table_of({"info_name": str, "info_value": str}, told)


def spelled(context: Context, cursor: Cursor, place: Name) -> str:
    """The namespace that is meant. Raises SqlError with the nearest name."""
    name = context.names.namespace(_single(cursor, place))
    if name is None:
        raise no_namespace(context, place)
    return name


def no_namespace(context: Context, place: Name) -> Exception:
    """The error that says that there is no such namespace."""
    known = context.lake.namespaces()
    return context.cursor().error(
        place,
        f"there is no namespace {place}",
        expected=f"one of {', '.join(known)}",
        fix=did_you_mean(place.parts[-1], known) or f"CREATE NAMESPACE {place}",
    )


def _single(cursor: Cursor, name: Name) -> str:
    parts = name.parts[1:] if len(name.parts) == 2 and name.parts[0].lower() == CATALOG else name.parts
    if len(parts) != 1:
        raise cursor.error(name, f"{name} is no name of a namespace", expected="a single name")
    return parts[0]
