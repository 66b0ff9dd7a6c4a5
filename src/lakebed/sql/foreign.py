"""Statements that are Spark's own, and may read tables of ours."""

from __future__ import annotations

from typing import Any

from lakebed.sql.context import Context
from lakebed.sql.cursor import Cursor, Span
from lakebed.sql.queries import names_ours, run_query
from lakebed.sql.results import NOTHING
from lakebed.sql.spark_engine import quoted

_OURS = "SELECT, CREATE, DROP, ALTER, INSERT, UPDATE, DELETE, MERGE, TRUNCATE, SHOW, DESCRIBE, CALL"
_QUERY = "SELECT|WITH|FROM|VALUES"


def pass_on(context: Context, cursor: Cursor) -> Any:
    """Let Spark run a statement as it is, but for tables of ours, which it reads at one moment. Raises SqlError."""
    if context.spark is None:
        cursor.at = 0
        first = context.source.words[0].spelled.upper()
        known = first in _OURS.split(", ")
        cursor.fail(
            f"this {first} statement needs Spark" if known else f"{first} is no statement that runs without Spark",
            expected=None if known else _OURS,
            fix="lakebed.connect(…, spark=spark)",
        )
    query = _query(context)
    if query is not None:
        return run_query(context, query, start=0)
    return context.spark.sql(context.source.text, context.parameters, {}, context.source.text)


def _query(context: Context) -> Span | None:
    """The query at the end of a statement like EXPLAIN, CACHE TABLE or CREATE TABLE … AS."""
    cursor, depth = context.cursor(), 0
    while not cursor.at_end:
        word = context.source.words[cursor.at]
        if depth == 0 and cursor.sees(_QUERY):
            return cursor.rest()
        depth += word.upper == "("
        depth -= word.upper == ")"
        cursor.at += 1
    return None


def create_view(context: Context, cursor: Cursor) -> Any:
    """CREATE [OR REPLACE] [GLOBAL] TEMPORARY VIEW name AS query: it stays at the versions that it was made from."""
    cursor.at = 1
    replaces = cursor.take("OR", "REPLACE")
    everywhere = cursor.take("GLOBAL")
    if context.session is None or not cursor.take("TEMP|TEMPORARY") or not cursor.take("VIEW"):
        return None
    lenient = cursor.take("IF", "NOT", "EXISTS")
    name = cursor.dotted("a name for the view")
    if len(name.parts) > 1 or not cursor.take("AS"):
        return None
    query = cursor.rest()
    if not names_ours(context, query):
        return None
    frame = run_query(context, query)
    known = context.session.catalog.tableExists(f"global_temp.{name}" if everywhere else str(name))
    if known and lenient:
        return NOTHING
    if known and not replaces:
        raise cursor.error(name, f"there is a view or table {name} already", fix="CREATE OR REPLACE TEMPORARY VIEW")
    called = quoted(str(name)) if not str(name).isidentifier() else str(name)
    (frame.createOrReplaceGlobalTempView if everywhere else frame.createOrReplaceTempView)(called)
    return NOTHING
