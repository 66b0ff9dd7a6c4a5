"""Many rows at once: into the database, and out of it as Arrow columns.

Neither goes through objects per row where the driver has something better: PostgreSQL copies text, SQLite's
cursor gives tuples that become columns in batches.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.csv as pacsv
from sqlalchemy import BigInteger, Boolean, Column, Connection, Insert, Integer, Select, Table, insert
from sqlalchemy.sql.expression import CompoundSelect

_FEW = 200
_BATCH = 20_000
_BLOCK = 8 << 20
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
        driver: Any = connection.connection.dbapi_connection
        with driver.cursor() as cursor, cursor.copy(f"COPY {table.name} ({', '.join(names)}) FROM STDIN") as copy:
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
    if connection.dialect.name == "postgresql":
        return _copied(connection, query, schema)
    return _fetched(connection, query, schema)


def _fetched(connection: Connection, query: Select[Any] | CompoundSelect[Any], schema: pa.Schema) -> pa.Table:
    result = connection.execute(query)
    cursor: Any = result.cursor
    batches = []
    while rows := cursor.fetchmany(_BATCH):
        columns = [
            pa.array(values, field.type) if field.type != pa.bool_() else pa.array(map(_truth, values), pa.bool_())
            for values, field in zip(zip(*rows, strict=True), schema, strict=True)
        ]
        batches.append(pa.record_batch(columns, schema=schema))
    result.close()
    return pa.Table.from_batches(batches, schema)


def _truth(value: int | None) -> bool | None:
    return None if value is None else bool(value)


def _copied(connection: Connection, query: Select[Any] | CompoundSelect[Any], schema: pa.Schema) -> pa.Table:
    # COPY takes no parameters; all of ours are numbers, which the compiler writes into the text.
    text = query.compile(dialect=connection.dialect, compile_kwargs={"literal_binds": True})
    driver: Any = connection.connection.dbapi_connection
    read = _reader(schema)
    tables = []
    with driver.cursor() as cursor, cursor.copy(f"COPY ({text}) TO STDOUT (FORMAT csv)") as copy:
        for block in _blocks(copy):
            tables.append(read(block))
    return pa.concat_tables(tables) if tables else schema.empty_table()


def _blocks(pieces: Iterable[Any]) -> Iterator[bytes]:
    """Whole rows, gathered into blocks that are worth parsing."""
    held: list[Any] = []
    size = 0
    for piece in pieces:
        held.append(piece)
        size += len(piece)
        if size >= _BLOCK:
            yield b"".join(held)
            held, size = [], 0
    if held:
        yield b"".join(held)


def _reader(schema: pa.Schema) -> Callable[[bytes], pa.Table]:
    options = {
        "read_options": pacsv.ReadOptions(column_names=schema.names, block_size=1 << 30),
        "parse_options": pacsv.ParseOptions(newlines_in_values=True),
        # PostgreSQL writes null as nothing and empty text as "".
        "convert_options": pacsv.ConvertOptions(
            column_types=schema,
            null_values=[""],
            true_values=["t"],
            false_values=["f"],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    }
    return lambda block: pacsv.read_csv(pa.py_buffer(block), **options)
