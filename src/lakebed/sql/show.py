"""SHOW and DESCRIBE."""

from __future__ import annotations

import pyarrow as pa

from lakebed.core.names import DEFAULT_NAMESPACE
from lakebed.core.schema import Struct
from lakebed.core.schema_ddl import to_ddl, type_ddl
from lakebed.core.schema_path import quote_name
from lakebed.sql import namespaces
from lakebed.sql.clauses import matching, pattern_of
from lakebed.sql.context import Context
from lakebed.sql.cursor import Cursor, Name
from lakebed.sql.results import table_of
from lakebed.sql.system_tables import history_rows, option_rows, partition_rows, tag_rows
from lakebed.table import Table


def tables(context: Context, cursor: Cursor) -> pa.Table | None:
    """SHOW TABLES [IN namespace] [[LIKE] 'pattern']."""
    space = DEFAULT_NAMESPACE
    if cursor.take("IN|FROM"):
        place = cursor.dotted("the name of a namespace")
        if context.session is not None and context.names.namespace(place.parts[-1]) is None:
            return None
        space = namespaces.spelled(context, cursor, place)
    pattern = pattern_of(cursor)
    cursor.finish()
    names = [name.partition(".")[2] for name in context.lake.tables(space)]
    columns = {"namespace": str, "tableName": str, "isTemporary": bool}
    return table_of(columns, [(space, name, False) for name in matching(names, pattern)])


def create_table(context: Context, cursor: Cursor) -> pa.Table | None:
    """SHOW CREATE TABLE name."""
    table = _table(context, cursor)
    if table is None:
        return None
    cursor.finish()
    return table_of({"createtab_stmt": str}, [(statement_of(context, table),)])


def properties(context: Context, cursor: Cursor) -> pa.Table | None:
    """SHOW TBLPROPERTIES name [('key')]."""
    table = _table(context, cursor)
    if table is None:
        return None
    wanted = cursor.listed(lambda: cursor.text("the name of a property")) if cursor.sees("(") else None
    cursor.finish()
    found = option_rows(table).to_pylist()
    rows = [(one["key"], one["value"]) for one in found if wanted is None or one["key"] in wanted]
    return table_of({"key": str, "value": str}, rows)


def partitions(context: Context, cursor: Cursor) -> pa.Table | None:
    """SHOW PARTITIONS name."""
    table = _table(context, cursor)
    if table is None:
        return None
    cursor.finish()
    if not table.partition_by:
        raise cursor.error(cursor.source.words[-1], f"table {table.name} has no partitions")
    return partition_rows(table)


def columns(context: Context, cursor: Cursor) -> pa.Table | None:
    """SHOW COLUMNS IN name [IN namespace]."""
    cursor.need("IN|FROM")
    name = cursor.dotted()
    if cursor.take("IN|FROM"):
        space = cursor.dotted("the name of a namespace")
        name = Name((*space.parts, name.parts[-1]), name.start, name.end)
    table = context.names.table(name.parts)
    if table is None:
        _unknown(context, name)
        return None
    cursor.finish()
    return table_of({"col_name": str}, [(column,) for column in table.schema.names])


def tags(context: Context, cursor: Cursor) -> pa.Table | None:
    """SHOW TAGS [IN | FROM | ON] name."""
    cursor.take("IN|FROM|ON")
    table = _table(context, cursor)
    if table is None:
        return None
    cursor.finish()
    return tag_rows(table)


def describe(context: Context, cursor: Cursor) -> pa.Table | None:
    """DESCRIBE [TABLE] [EXTENDED | HISTORY] name."""
    if cursor.take("NAMESPACE|SCHEMA|DATABASE"):
        return namespaces.describe(context, cursor)
    if cursor.take("HISTORY"):
        return history(context, cursor)
    cursor.take("TABLE")
    extended = cursor.take("EXTENDED|FORMATTED|DETAIL")
    if cursor.sees("FUNCTION|QUERY|SELECT|WITH|VALUES|CATALOG|PROCEDURE"):
        return None
    name = cursor.dotted()
    table = context.names.table(name.parts)
    if table is None:
        _unknown(context, name)
        return None
    cursor.finish()
    return describe_rows(table, extended=extended)


def history(context: Context, cursor: Cursor) -> pa.Table | None:
    """DESCRIBE HISTORY name [LIMIT n]."""
    table = _table(context, cursor)
    if table is None:
        return None
    limit = cursor.constant("a number") if cursor.take("LIMIT") else None
    cursor.finish()
    return history_rows(table, limit)


def describe_rows(table: Table, *, extended: bool) -> pa.Table:
    """The columns of a table, and more of it."""
    schema = table._point().metadata.schema
    rows: list[tuple[str, str, str | None]] = [(f.name, type_ddl(f.type), f.comment) for f in schema]
    if table.partition_by:
        rows += [("# Partition Information", "", None), ("# col_name", "data_type", "comment")]
        rows += [(name, type_ddl(schema[name].type), schema[name].comment) for name in table.partition_by]
    if extended:
        rows += [("", "", None), ("# Detailed Table Information", "", None)]
        rows += [("Name", table.name, None), ("Comment", table.comment or "", None)]
        rows += [("Location", table.location, None), ("Provider", "lakebed", None)]
        rows += [("Version", str(table.version), None), ("Primary Key", ", ".join(table.primary_key), None)]
        rows += [("Not Null", ", ".join(f.name for f in schema if not f.nullable), None)]
        options = option_rows(table).to_pylist()
        rows += [("Table Properties", ", ".join(f"{one['key']}={one['value']}" for one in options), None)]
    return table_of({"col_name": str, "data_type": str, "comment": str}, rows)


def statement_of(context: Context, table: Table) -> str:
    """The CREATE TABLE that makes such a table."""
    schema = table._point().metadata.schema
    lines = [to_ddl(Struct((f,))) for f in schema]
    key = table.key
    if key is not None:
        lines.append(f"PRIMARY KEY ({', '.join(map(quote_name, key.key))}) NOT ENFORCED")
    name = ".".join(map(quote_name, table.name.split(".")))
    parts = [f"CREATE TABLE {name} (\n  " + ",\n  ".join(lines) + "\n)", "USING lakebed"]
    if table.partition_by:
        parts.append(f"PARTITIONED BY ({', '.join(map(quote_name, table.partition_by))})")
    if table.comment is not None:
        parts.append(f"COMMENT {_text(table.comment)}")
    if table.location != context.lake._place_of(table.name):
        parts.append(f"LOCATION {_text(table.location)}")
    options = [(one["key"], one["value"]) for one in option_rows(table).to_pylist() if one["key"] != "primary-key"]
    if options:
        parts.append("TBLPROPERTIES (\n  " + ",\n  ".join(f"{_text(k)} = {_text(v)}" for k, v in options) + "\n)")
    return "\n".join(parts)


def _text(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _table(context: Context, cursor: Cursor) -> Table | None:
    name = cursor.dotted()
    found = context.names.table(name.parts)
    if found is None:
        _unknown(context, name)
    return found


def _unknown(context: Context, name: Name) -> None:
    """A name that is not ours is left to Spark."""
    if context.session is None:
        raise context.no_table(name)
