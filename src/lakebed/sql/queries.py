"""Running the queries in a statement."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from lakebed.core.errors import SqlError
from lakebed.sql.compose import Composition
from lakebed.sql.context import Context
from lakebed.sql.cursor import Cursor, Span
from lakebed.sql.embedded import EmbeddedEngine, embedded_engine
from lakebed.sql.reading import resolve
from lakebed.sql.references import Query, Reference, read_query
from lakebed.sql.rows import Rows
from lakebed.sql.spark_engine import SparkEngine


@dataclass(frozen=True)
class Known:
    """Rows that a query knows by a name of its own."""

    rows: Rows
    full: tuple[str, ...] = ()
    """What their columns may be qualified with besides."""


Extra = Mapping[str, Known]


def engine_of(context: Context) -> SparkEngine | EmbeddedEngine:
    """Who runs queries. Raises SqlError if there is nobody."""
    found = context.spark or embedded_engine()
    if found is None:
        raise SqlError(
            "without Spark, SELECT needs an engine, and none is installed",
            fix="pip install 'lakebed[sql]', or lakebed.connect(…, spark=spark)",
        )
    return found


def run_query(context: Context, span: Span, *, start: int | None = None, extra: Extra | None = None) -> Any:
    """The rows of a query in the statement: a DataFrame, or an Arrow table. Raises SqlError.

    ``start`` is where the text begins that Spark gets, if it gets more than the query.
    """
    engine = engine_of(context)
    if context.source.words[span.first].upper == "TABLE":
        return _whole_table(context, span, extra)
    query = _read(context, span)
    if query is None:
        assert isinstance(engine, SparkEngine)
        return engine.sql(context.source.text, context.parameters, {}, context.source.written)
    reads: list[tuple[Reference, Rows]] = []
    for reference in query.references:
        known = (extra or {}).get(".".join(reference.parts))
        if known is not None:
            reads.append((replace(reference, full=known.full), known.rows))
            continue
        rows = resolve(context, reference)
        if rows is not None:
            reads.append((reference, rows))
        elif not isinstance(engine, SparkEngine):
            raise context.no_table(reference.place)
    check_parameters(context, query)
    if isinstance(engine, SparkEngine):
        return engine.run(query, reads, context.parameters, start)
    return engine.run(query, reads, context.parameters)


def _whole_table(context: Context, span: Span, extra: Extra | None) -> Any:
    """``TABLE name``, which sqlglot does not know."""
    cursor = Cursor(context.source, context.parameters, span.first + 1, span.last)
    source, query = Composition(context.source).add("SELECT * FROM ", cursor.rest()).source()
    return run_query(context.on(source), query, extra=extra)


def _read(context: Context, span: Span) -> Query | None:
    """The query; None if sqlglot does not understand it, which Spark may, and no table of ours is in it."""
    try:
        return read_query(context.source, span, context.parameters)
    except SqlError:
        if context.spark is None or names_ours(context, span):
            raise
        return None


def names_ours(context: Context, span: Span) -> bool:
    """Whether any name in the text is one of ours, wherever it stands."""
    cursor = Cursor(context.source, context.parameters, span.first, span.last)
    while not cursor.at_end:
        at = cursor.at
        try:
            if context.names.table(cursor.dotted().parts) is not None:
                return True
        except SqlError:
            cursor.at = at + 1
    return False


def check_parameters(context: Context, query: Query) -> None:
    """Raise SqlError if a parameter has no value."""
    missing = sorted(query.parameters - set(context.parameters))
    if missing:
        raise SqlError(f"no value is given for the parameter :{missing[0]}", expected=f"sql(text, {missing[0]}=…)")
