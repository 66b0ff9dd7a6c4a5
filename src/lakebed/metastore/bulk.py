"""Many rows at once: into the database, and out of it as Arrow columns.

Both go past SQLAlchemy's rows to the driver: PostgreSQL copies rows in, and the cursors' tuples become columns
batch by batch.
"""

from __future__ import annotations

import contextlib
import gc
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa
from sqlalchemy import BigInteger, Boolean, Column, Connection, Insert, Integer, Select, Table, insert
from sqlalchemy.exc import DBAPIError
from sqlalchemy.sql.expression import CompoundSelect

_FEW = 200
_BATCH = 5_000
_INSERTS: dict[Table, Insert] = {}


def insert_rows(connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
    """Insert rows that all have the same columns."""
    if not rows:
        return
    if len(rows) > _FEW and connection.dialect.name == "postgresql":
        copy_rows(connection, table, rows)
    else:
        connection.execute(_INSERTS.setdefault(table, insert(table)), [dict(row) for row in rows])


def copy_rows(connection: Connection, table: Table, rows: Iterable[Mapping[str, Any]]) -> None:
    """Insert any number of rows, taken in batches, so that they need not be in memory together."""
    names = [column.name for column in table.columns]
    values = ([row[name] for name in names] for row in rows)
    if connection.dialect.name == "postgresql":
        statement = f"COPY {table.name} ({', '.join(names)}) FROM STDIN"
        with _driver(connection) as driver, driver.cursor() as cursor, cursor.copy(statement) as copy:
            for row in values:
                copy.write_row(row)
        return
    marks = ", ".join("?" for _ in names)
    statement = f"INSERT INTO {table.name} ({', '.join(names)}) VALUES ({marks})"
    for batch in _batches(values, _BATCH):
        connection.exec_driver_sql(statement, [tuple(row) for row in batch])


def _batches(rows: Iterator[list[Any]], size: int) -> Iterator[list[list[Any]]]:
    while batch := list(itertools.islice(rows, size)):
        yield batch


def arrow_type(column: Column[Any]) -> pa.DataType:
    """The Arrow type of a column's values."""
    if isinstance(column.type, Boolean):
        return pa.bool_()
    return pa.int64() if isinstance(column.type, BigInteger | Integer) else pa.large_string()


def fetch_arrow(connection: Connection, query: Select[Any] | CompoundSelect[Any], schema: pa.Schema) -> pa.Table:
    """The rows of ``query``, whose columns are those of ``schema``, as an Arrow table."""
    batches = []
    with _driver(connection) as driver, contextlib.closing(_run(connection, driver, query)) as cursor, _no_gc():
        for rows in _fetched(connection, cursor):
            columns = zip(zip(*rows, strict=True), schema.types, strict=True)
            batches.append(pa.record_batch([_column(*column) for column in columns], schema=schema))
    return pa.Table.from_batches(batches, schema)


def _fetched(connection: Connection, cursor: Any) -> Iterator[Sequence[Sequence[Any]]]:
    """The cursor's rows in batches. A server makes the next one while this one is worked on."""
    if connection.dialect.name != "postgresql":
        while rows := cursor.fetchmany(_BATCH):
            yield rows
        return
    rows = cursor.fetchmany(_BATCH)
    if len(rows) < _BATCH:
        if rows:
            yield rows
        return
    with ThreadPoolExecutor(1, thread_name_prefix="lakebed-fetch") as ahead:
        while rows:
            waiting = ahead.submit(cursor.fetchmany, _BATCH)
            yield rows
            rows = waiting.result()


def _run(connection: Connection, driver: Any, query: Select[Any] | CompoundSelect[Any]) -> Any:
    """A driver's cursor over the query's rows."""
    if connection.dialect.name != "postgresql":
        return connection.execute(query).cursor
    # A cursor of the server's, so that the driver holds one batch at a time; all rows are wanted, soon or late.
    connection.exec_driver_sql("SET LOCAL cursor_tuple_fraction = 1")
    compiled = query.compile(dialect=connection.dialect, compile_kwargs={"render_postcompile": True})
    cursor = driver.cursor("lakebed_rows", binary=True)
    cursor.execute(str(compiled), compiled.params)
    return cursor


def _column(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    if kind == pa.bool_():
        return pa.array([None if value is None else bool(value) for value in values], kind)
    return pa.array(values, kind)


@contextlib.contextmanager
def _driver(connection: Connection) -> Iterator[Any]:
    """The driver's own connection; its errors become SQLAlchemy's, as from any other statement."""
    driver: Any = connection.connection.dbapi_connection
    try:
        yield driver
    except connection.dialect.loaded_dbapi.Error as error:
        lost = bool(getattr(driver, "broken", False))
        if lost:
            connection.invalidate(error)
        raise DBAPIError.instance(
            "bulk rows", None, error, connection.dialect.loaded_dbapi.Error, connection_invalidated=lost
        ) from error


@contextlib.contextmanager
def _no_gc() -> Iterator[None]:
    """No garbage collection while a million tuples come and go, none of which could be garbage in a cycle."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
