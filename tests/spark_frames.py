"""Warehouses whose tables get their rows as Spark DataFrames: random histories call them as they call any other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import reduce
from typing import Any

import pyarrow as pa

from lakebed.core.schema_arrow import from_arrow
from lakebed.core.schema_spark import to_spark
from lakebed.core.unsliced import unsliced

OF_EVERY_KIND = (
    "IF(id % 7 = 0, NULL, concat('日本', id)) AS name", "IF(id % 5 = 0, double('NaN'), id / 4) AS price",
    "CAST(id / 8 AS DECIMAL(10,2)) AS paid", "timestamp_micros(id * 1000001) AS at",
    "date_add(DATE'1969-12-30', CAST(id AS INT)) AS day", "IF(id % 4 = 0, NULL, array('a', NULL, string(id))) AS tags",
    "IF(id % 6 = 0, NULL, struct(CAST(id AS INT) AS a, 'x' AS b)) AS inner", "map('k', id) AS counts",
    "CAST(string(id) AS BINARY) AS raw", "id % 2 = 0 AS flag",
)  # fmt: skip
"""Columns made of ``id``, with nulls, NaN, nested values and letters of other scripts."""
KINDS = """name STRING, price DOUBLE, paid DECIMAL(10,2), at TIMESTAMP, day DATE, tags ARRAY<STRING>,
    inner STRUCT<a: INT, b: STRING>, counts MAP<STRING, BIGINT>, raw BINARY, flag BOOLEAN"""
"""Their types."""
PARTS = 2
"""Over how many tasks the rows of a frame are spread, in their order."""


def frame_of(spark: Any, rows: pa.Table, parts: int = PARTS) -> Any:
    """The rows as a frame that has them in their order, over several tasks."""
    from pyspark.sql.types import StructType

    size = max(1, -(-rows.num_rows // parts))
    # Left to itself, Spark takes a timestamp without zone for one with the session's.
    schema = to_spark(from_arrow(rows.schema), StructType)
    pieces = [unsliced(rows.slice(start, size)) for start in range(0, max(1, rows.num_rows), size)]
    return reduce(
        lambda left, right: left.union(right), [spark.createDataFrame(piece, schema).coalesce(1) for piece in pieces]
    )


class FramedWarehouse:
    """A warehouse or a transaction; its tables get frames."""

    def __init__(self, lake: Any, spark: Any) -> None:
        self._lake = lake
        self._spark = spark

    def __getattr__(self, name: str) -> Any:
        return getattr(self._lake, name)

    def create_table(self, name: str, schema: Any, **kind: Any) -> Any:
        return FramedTable(self._lake.create_table(name, schema, **kind), self._spark)

    def table(self, name: str) -> Any:
        return FramedTable(self._lake.table(name), self._spark)

    @contextmanager
    def transaction(self) -> Iterator[FramedWarehouse]:
        with self._lake.transaction() as tx:
            yield FramedWarehouse(tx, self._spark)


class FramedTable:
    """A table; lists of rows become frames on their way to it."""

    def __init__(self, table: Any, spark: Any) -> None:
        self._table = table
        self._spark = spark

    def __getattr__(self, name: str) -> Any:
        return getattr(self._table, name)

    def append(self, rows: Sequence[Mapping[str, Any]], **more: Any) -> Any:
        return self._table.append(self._frame(rows), **more)

    def upsert(self, rows: Sequence[Mapping[str, Any]], **more: Any) -> Any:
        return self._table.upsert(self._frame(rows), **more)

    def overwrite(self, rows: Sequence[Mapping[str, Any]], **more: Any) -> Any:
        return self._table.overwrite(self._frame(rows), **more)

    def delete(self, where: Any, **more: Any) -> Any:
        return self._table.delete(self._frame(where) if isinstance(where, list) else where, **more)

    def _frame(self, rows: Sequence[Mapping[str, Any]]) -> Any:
        known = {field.name: field.type for field in self._table.schema}
        named = dict.fromkeys(name for row in rows for name in row) or known
        fields = [pa.field(name, known.get(name, pa.string())) for name in named]
        columns = [pa.array([_entries(row.get(f.name), f.type) for row in rows], f.type) for f in fields]
        return frame_of(self._spark, pa.table(columns, pa.schema(fields)))


def _entries(value: Any, kind: pa.DataType) -> Any:
    return list(value.items()) if isinstance(value, dict) and pa.types.is_map(kind) else value
