"""Queries without Spark: on duckdb or polars, whichever is installed, in their dialect of SQL."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from sqlglot import exp

from lakebed.core.errors import LakebedError, SqlError
from lakebed.core.suggest import did_you_mean
from lakebed.sql.hints import hint
from lakebed.sql.literals import literal
from lakebed.sql.references import Query, Reference
from lakebed.sql.rows import Rows, columns_of

Reads = Sequence[tuple[Reference, Rows]]
Tables = Mapping[str, pa.Table]
_MISSING = (
    re.compile(r'column "([^"]+)" not found'),
    re.compile(r'does not have a column named "([^"]+)"'),
    re.compile(r'unable to find column "([^"]+)"'),
)


@dataclass(frozen=True)
class EmbeddedEngine:
    """Runs queries in this process."""

    dialect: str

    def run(self, query: Query, reads: Reads, parameters: Mapping[str, Any]) -> pa.Table:
        """The rows of a query. Raises SqlError for what the engine cannot compute."""
        tables: dict[str, pa.Table] = {}
        renamed: dict[tuple[str, ...], str] = {}
        for number, (reference, rows) in enumerate(reads):
            wanted = hint(query, reference, columns_of(rows), parameters)
            tables[f"lakebed_{number}"] = rows.arrow(wanted.columns, wanted.where)
            _rename(reference, f"lakebed_{number}", renamed)
        _requalify(query.tree, renamed)
        for node in list(query.tree.find_all(exp.TsOrDsAdd)):
            node.replace(exp.cast(node.copy(), "date"))  # date_add gives a date, where duckdb would make it a time
        run = _duckdb if self.dialect == "duckdb" else _polars
        try:
            return run(query.tree, tables, {name: parameters[name] for name in query.parameters})
        except LakebedError:
            raise
        except Exception as error:  # each engine has its own
            raise self._translated(error, query, reads) from error

    def _translated(self, error: Exception, query: Query, reads: Reads) -> SqlError:
        """What the engine says, as our error; about a column that is not there it says where, and the nearest."""
        said = f"{self.dialect} does not run the query: {_first_line(error)}"
        missing = next((found[1] for pattern in _MISSING if (found := pattern.search(str(error)))), None)
        words = query.source.words[query.span.first : query.span.last]
        place = next((word for word in words if word.text.casefold() == str(missing).casefold()), None)
        if missing is None or place is None:
            fix = "without Spark the functions are those of the embedded engine; connect(…, spark=…) has Spark's"
            return SqlError(said, fix=fix)
        known = [name for _, rows in reads for name in rows.schema.names]
        return query.source.error(
            place.start, place.end, f"there is no column {missing}", fix=did_you_mean(missing, known) or said
        )


def embedded_engine() -> EmbeddedEngine | None:
    """The best engine that is installed; None if there is none."""
    return next((EmbeddedEngine(name) for name in ("duckdb", "polars") if importlib.util.find_spec(name)), None)


def _rename(reference: Reference, name: str, renamed: dict[tuple[str, ...], str]) -> None:
    node = reference.node
    called = reference.alias or reference.parts[-1]
    full = reference.full or (reference.parts if reference.alias is None else ())
    if len(full) > 1:
        renamed[tuple(part.casefold() for part in full)] = called
    if reference.alias is None:
        node.set("alias", exp.TableAlias(this=exp.to_identifier(called, quoted=True)))
    node.set("this", exp.to_identifier(name, quoted=True))
    node.set("db", None)
    node.set("catalog", None)


def _requalify(tree: exp.Expression, renamed: Mapping[tuple[str, ...], str]) -> None:
    for column in list(tree.find_all(exp.Column)) if renamed else ():
        parts = list(column.parts)
        for length in (3, 2):
            called = renamed.get(tuple(part.name.casefold() for part in parts[:length]))
            if called is not None and len(parts) > length:
                rest: exp.Expression = exp.Column(this=parts[length], table=exp.to_identifier(called, quoted=True))
                for part in parts[length + 1 :]:
                    rest = exp.Dot(this=rest, expression=part)
                column.replace(rest)
                break


def _duckdb(tree: exp.Expression, tables: Tables, parameters: Mapping[str, Any]) -> pa.Table:
    import duckdb

    text = tree.sql("duckdb")
    # A query reads what it is given, and no file or variable that happens to have a table's name.
    settings: dict[str, Any] = {"enable_external_access": "false", "python_enable_replacements": "false"}
    with duckdb.connect(":memory:", config=settings) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        for name, rows in tables.items():
            connection.register(name, rows)
        done = connection.sql(text, params=dict(parameters)) if parameters else connection.sql(text)
        kinds = [str(kind) for kind in done.types]
        found = _interruptible(done.to_arrow_table, connection.interrupt)
    return _narrowed(found, kinds)


def _interruptible(work: Callable[[], pa.Table], interrupt: Callable[[], object]) -> pa.Table:
    """The result of ``work``. The engine does not look for Ctrl-C: another thread waits in it, and this one looks."""
    with ThreadPoolExecutor(1, thread_name_prefix="lakebed-query") as pool:
        waiting = pool.submit(work)
        try:
            return waiting.result()
        except BaseException:
            interrupt()
            raise


def _narrowed(rows: pa.Table, kinds: Sequence[str]) -> pa.Table:
    """Whole numbers of 128 bits, which duckdb makes of sums, as Spark has them."""
    for at, kind in enumerate(kinds):
        if kind == "HUGEINT":
            try:
                rows = rows.set_column(at, rows.schema.names[at], rows.column(at).cast(pa.int64()))
            except pa.ArrowInvalid:
                pass  # it does not fit: better a wide number than none
    return rows


def _polars(tree: exp.Expression, tables: Tables, parameters: Mapping[str, Any]) -> pa.Table:
    import polars

    for node in list(tree.find_all(exp.Placeholder)):
        node.replace(literal(parameters[str(node.this)]))
    frames = {name: polars.from_arrow(rows).lazy() for name, rows in tables.items()}  # type: ignore[union-attr]
    with polars.SQLContext(frames=frames) as context:
        return context.execute(tree.sql("postgres"), eager=True).to_arrow()


def _first_line(error: Exception) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
