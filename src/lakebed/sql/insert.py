"""INSERT INTO, INSERT OVERWRITE and INSERT … REPLACE WHERE."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from lakebed.core.errors import InputError
from lakebed.core.schema_arrow import type_to_arrow
from lakebed.core.suggest import did_you_mean
from lakebed.records import Commit
from lakebed.sql.context import Context
from lakebed.sql.cursor import Cursor, Span
from lakebed.sql.expressions import Scope, Side
from lakebed.sql.partitions import PartitionSpec, condition_of, partition_spec
from lakebed.sql.queries import run_query
from lakebed.sql.results import row_of
from lakebed.sql.values import constant_rows
from lakebed.table import Table

_QUERY = "SELECT|WITH|VALUES|FROM|TABLE|MAP|REDUCE|("


@dataclass
class Insertion:
    """What INSERT says."""

    table: Table
    overwrite: bool
    query: Span
    columns: tuple[str, ...] | None = None
    by_name: bool = False
    partition: PartitionSpec | None = None
    replaced: Span | None = None

    @property
    def targets(self) -> tuple[str, ...]:
        """The columns that rows of the query are for, in order."""
        names = tuple(self.table.schema.names)
        if self.columns is not None:
            return self.columns
        if self.partition is None:
            return names
        last = self.partition.dynamic
        return (*(name for name in names if name not in self.partition.values and name not in last), *last)


def insert(context: Context, cursor: Cursor) -> pa.Table | None:
    """INSERT INTO | OVERWRITE [TABLE] name [PARTITION (…)] [(columns)] [BY NAME] [REPLACE WHERE condition] query."""
    overwrite = cursor.choice("INTO", "OVERWRITE") == "OVERWRITE"
    cursor.take("INTO")
    cursor.take("TABLE")
    name = cursor.dotted()
    table = context.names.table(name.parts)
    if table is None:
        if context.session is None:
            raise context.no_table(name)
        return _into_spark(context, cursor)
    insertion = _read(context, cursor, table, overwrite)
    rows = constant_rows(context, insertion.query, table, insertion.targets)
    if rows is None:
        rows = run_query(context, insertion.query)
    rows = _shaped(context, cursor, insertion, rows)
    done = _write(context, insertion, rows)
    return row_of(version=done.version, inserted=done.metrics.get("numOutputRows", 0))


def _into_spark(context: Context, cursor: Cursor) -> Any:
    """INSERT into a table of Spark's; the query may read tables of ours."""
    while not cursor.at_end and not cursor.sees("SELECT|WITH|FROM|TABLE"):
        if cursor.sees("VALUES"):
            return None
        cursor.at += 1
    return None if cursor.at_end else run_query(context, cursor.rest(), start=0)


def _read(context: Context, cursor: Cursor, table: Table, overwrite: bool) -> Insertion:
    partition = partition_spec(cursor, table) if cursor.take("PARTITION") else None
    if cursor.take("IF"):
        cursor.fail("INSERT OVERWRITE … IF NOT EXISTS is not supported", fix="use INSERT OVERWRITE, or test before")
    by_name = cursor.take("BY", "NAME")
    columns = None
    if cursor.sees("(") and not cursor.sees("(", _QUERY):
        columns = tuple(cursor.listed(lambda: _column(cursor, table)))
        twice = next((name for name in columns if columns.count(name) > 1), None)
        if twice is not None:
            cursor.fail(f"column {twice!r} is listed twice")
    replaced = None
    if cursor.take("REPLACE", "WHERE"):
        replaced = cursor.expression("SELECT", "WITH", "VALUES", "FROM", "TABLE", what="a condition")
    return Insertion(table, overwrite, cursor.rest(), columns, by_name, partition, replaced)


def _column(cursor: Cursor, table: Table) -> str:
    word = cursor.word
    given = cursor.name("a column")
    found = table._point().metadata.schema.find(given)
    if found is None:
        assert word is not None
        raise cursor.error(
            word, f"table {table.name} has no column {given!r}", fix=did_you_mean(given, table.schema.names)
        )
    return found.name


def _shaped(context: Context, cursor: Cursor, insertion: Insertion, rows: Any) -> Any:
    """The rows under the names of the columns that they are for, with the values of partitions."""
    is_table = isinstance(rows, pa.Table)
    names = rows.schema.names if is_table else rows.columns
    if not insertion.by_name:
        wanted = insertion.targets
        if len(names) != len(wanted):
            raise cursor.error(
                insertion.query,
                f"table {insertion.table.name}: the query has {len(names)} column(s)",
                expected=f"{len(wanted)}: {', '.join(wanted)}",
                fix="name the columns, as in INSERT INTO t (id, …), or INSERT INTO t BY NAME",
            )
        rows = rows.rename_columns(list(wanted)) if is_table else rows.toDF(*map(str, wanted))
    for name, value in {} if insertion.partition is None else insertion.partition.values.items():
        rows = _with_value(rows, name, value, insertion.table)
    return rows


def _with_value(rows: Any, name: str, value: Any, table: Table) -> Any:
    if isinstance(rows, pa.Table):
        kind = type_to_arrow(table._point().metadata.schema[name].type)
        constant = pa.nulls(1, kind) if value is None else pa.array([value]).cast(kind)
        return rows.append_column(name, constant.take(pa.repeat(pa.scalar(0), rows.num_rows)))
    from pyspark.sql import functions as F

    constant = F.lit(None).cast("string") if value is None else F.lit(value)
    return rows.select("*", constant.alias(name))


def _write(context: Context, insertion: Insertion, rows: Any) -> Commit:
    table = insertion.table
    if insertion.replaced is not None:
        scope = Scope(context, (Side("", table._point().metadata.schema, ()),))
        condition = scope.read(insertion.replaced)
        if condition is None:
            raise context.cursor().error(
                insertion.replaced,
                "this condition cannot say which rows are replaced",
                expected="comparisons of columns with constants",
            )
        return table.overwrite(rows, where=condition, explicit_cast=True)
    if not insertion.overwrite:
        return table.append(rows, explicit_cast=True)
    if insertion.partition is not None and insertion.partition.values:
        where = condition_of(table, insertion.partition.values)
        return table.overwrite(rows, where=where, explicit_cast=True)
    done = table.write(rows, "overwrite", explicit_cast=True)
    if done is None:
        raise InputError(f"table {table.name}: nothing was written")
    return done
