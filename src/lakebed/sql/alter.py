"""ALTER TABLE and COMMENT ON."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from lakebed.core.errors import InputError
from lakebed.core.evolve import (
    AddColumn,
    Change,
    DropColumn,
    MoveColumn,
    RenameColumn,
    SetComment,
    SetNullable,
    WidenColumn,
)
from lakebed.core.names import TableName
from lakebed.core.schema import Field
from lakebed.core.schema_ddl import from_ddl, type_from_ddl
from lakebed.sql import tags
from lakebed.sql.clauses import if_exists, properties, property_keys
from lakebed.sql.context import Context
from lakebed.sql.cursor import Cursor, Name
from lakebed.sql.names import split_name
from lakebed.sql.partitions import partition_condition
from lakebed.sql.results import NOTHING
from lakebed.sql.tables import past_type
from lakebed.table import Table


def alter(context: Context, cursor: Cursor) -> pa.Table | None:
    """ALTER TABLE name …"""
    name = cursor.dotted()
    table = context.names.table(name.parts)
    if table is None:
        if context.session is not None and context.names.near(name.parts) is None:
            return None
        raise context.no_table(name)
    first = cursor.at
    try:
        _alter(context, cursor, table)
    except InputError as error:
        raise context.tried(cursor.span(first), error) from error
    return NOTHING


def comment_on(context: Context, cursor: Cursor) -> pa.Table | None:
    """COMMENT ON TABLE name IS 'text' | NULL; of namespaces too."""
    if cursor.take("NAMESPACE|SCHEMA|DATABASE"):
        from lakebed.sql.namespaces import COMMENT, spelled

        space = spelled(context, cursor, cursor.dotted("the name of a namespace"))
        cursor.need("IS")
        context.lake.alter_namespace(space, {COMMENT: _comment(cursor)})
        return NOTHING
    cursor.need("TABLE")
    name = cursor.dotted()
    table = context.names.table(name.parts)
    if table is None:
        if context.session is not None:
            return None
        raise context.no_table(name)
    cursor.need("IS")
    text = _comment(cursor)
    cursor.finish()
    table.alter(comment=text or "")
    return NOTHING


def _comment(cursor: Cursor) -> str | None:
    return None if cursor.take("NULL") else cursor.text("text in quotes, or NULL")


def _alter(context: Context, cursor: Cursor, table: Table) -> None:
    for words, work in _ACTIONS:
        if cursor.sees(*words):
            cursor.at += len(words)
            work(context, cursor, table)
            return
    cursor.fail(
        expected="ADD, DROP, RENAME or ALTER COLUMN, SET or UNSET TBLPROPERTIES, RENAME TO, CREATE TAG or DROP TAG"
    )


def _add(_: Context, cursor: Cursor, table: Table) -> None:
    changes: list[Change] = []
    if cursor.sees("("):
        cursor.listed(lambda: changes.append(_added(cursor)))
    else:
        changes.append(_added(cursor))
        while cursor.take(","):
            changes.append(_added(cursor))
    cursor.finish()
    table._altered(changes)


def _added(cursor: Cursor) -> AddColumn:
    """Go past ``a.b TYPE [NOT NULL] [COMMENT 'text'] [FIRST | AFTER c]``."""
    path = cursor.dotted("a column")
    column = _typed(cursor)
    first, after = _where(cursor)
    return AddColumn(path.parts, column.type, column.nullable, column.comment, after, first)


def _typed(cursor: Cursor) -> Field:
    span = past_type(cursor, "FIRST", "AFTER")
    try:
        return from_ddl(f"c {cursor.slice(span)}").fields[0]
    except InputError as error:
        raise cursor.error(span, error.what, expected=error.expected, found=error.found, fix=error.fix) from error


def _where(cursor: Cursor) -> tuple[bool, str | None]:
    if cursor.take("FIRST"):
        return True, None
    return False, cursor.name("a column") if cursor.take("AFTER") else None


def _drop(_: Context, cursor: Cursor, table: Table) -> None:
    lenient = if_exists(cursor)
    several = cursor.sees("(")
    found = cursor.listed(lambda: cursor.dotted("a column")) if several else [cursor.dotted("a column")]
    while not several and cursor.take(","):
        found.append(cursor.dotted("a column"))
    cursor.finish()
    if lenient:
        found = [path for path in found if table._point().metadata.schema.find(path.parts[0]) is not None]
    if found:
        table._altered([DropColumn(path.parts) for path in found])


def _rename(_: Context, cursor: Cursor, table: Table) -> None:
    path = cursor.dotted("a column")
    cursor.need("TO")
    new = cursor.name("the new name")
    cursor.finish()
    table._altered([RenameColumn(path.parts, new)])


def _change(_: Context, cursor: Cursor, table: Table) -> None:
    """Go past ``a.b TYPE t | SET NOT NULL | DROP NOT NULL | COMMENT 'text' | FIRST | AFTER c``, one or several."""
    path = cursor.dotted("a column")
    changes: list[Change] = []
    while not cursor.at_end:
        changes.append(_one_change(cursor, path))
    if not changes:
        cursor.fail(expected="TYPE, SET NOT NULL, DROP NOT NULL, COMMENT, FIRST or AFTER")
    table._altered(changes)


def _one_change(cursor: Cursor, path: Name) -> Change:
    if cursor.take("TYPE"):
        span = past_type(cursor, "SET", "DROP", "COMMENT", "FIRST", "AFTER")
        try:
            return WidenColumn(path.parts, type_from_ddl(cursor.slice(span)))
        except InputError as error:
            raise cursor.error(span, error.what, expected=error.expected, found=error.found, fix=error.fix) from error
    if cursor.take("COMMENT"):
        return SetComment(path.parts, cursor.text() or None)
    if cursor.sees("SET|DROP", "NOT", "NULL"):
        nullable = cursor.sees("DROP")
        cursor.at += 3
        return SetNullable(path.parts, nullable)
    if not cursor.sees("FIRST|AFTER"):
        cursor.fail(expected="TYPE, SET NOT NULL, DROP NOT NULL, COMMENT, FIRST or AFTER")
    first, after = _where(cursor)
    return MoveColumn(path.parts, after, first)


def _set_properties(_: Context, cursor: Cursor, table: Table) -> None:
    given = properties(cursor)
    cursor.finish()
    comment = given.pop("comment", None)
    table._altered([], None if comment is None else str(comment), given)


def _unset_properties(_: Context, cursor: Cursor, table: Table) -> None:
    if_exists(cursor)
    names = property_keys(cursor)
    cursor.finish()
    table._altered([], None, dict.fromkeys(names))


def _rename_table(context: Context, cursor: Cursor, table: Table) -> None:
    name = cursor.dotted("the new name")
    cursor.finish()
    pair = split_name(name.parts)
    if pair is None:
        raise cursor.error(name, f"{name} is no name of a table of this warehouse", expected="namespace.table or table")
    space = TableName.parse(table.name).namespace if len(name.parts) == 1 else pair[0]
    context.lake.rename_table(table.name, f"{space}.{pair[1]}")


def _create_tag(_: Context, cursor: Cursor, table: Table) -> None:
    tags.create_on(cursor, table, replaces=False)


def _replace_tag(_: Context, cursor: Cursor, table: Table) -> None:
    tags.create_on(cursor, table, replaces=True)


def _drop_tag(_: Context, cursor: Cursor, table: Table) -> None:
    tags.drop_on(cursor, table)


def _drop_partition(_: Context, cursor: Cursor, table: Table) -> None:
    condition = partition_condition(cursor, table)
    cursor.finish()
    table.delete(condition)


_ACTIONS: tuple[tuple[tuple[str, ...], Callable[[Context, Cursor, Table], None]], ...] = (
    (("ADD", "COLUMN|COLUMNS"), _add),
    (("DROP", "COLUMN|COLUMNS"), _drop),
    (("RENAME", "COLUMN"), _rename),
    (("ALTER|CHANGE", "COLUMN"), _change),
    (("SET", "TBLPROPERTIES"), _set_properties),
    (("UNSET", "TBLPROPERTIES"), _unset_properties),
    (("RENAME", "TO"), _rename_table),
    (("CREATE", "TAG"), _create_tag),
    (("CREATE", "OR", "REPLACE", "TAG"), _replace_tag),
    (("DROP", "TAG"), _drop_tag),
    (("DROP", "PARTITION"), _drop_partition),
    (("ADD",), _add),
    (("DROP",), _drop),
    (("ALTER|CHANGE",), _change),
)
