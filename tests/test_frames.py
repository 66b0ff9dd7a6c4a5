"""Reading straight into polars gives what reading through Arrow gives."""

from __future__ import annotations

import polars as pl
import pyarrow as pa
import pytest
from polars.testing import assert_frame_equal

import lakebed
from lakebed.engine import frames


def check(table: lakebed.Table, columns: list[str] | None = None, where: str | None = None) -> None:
    """polars, Arrow, and Arrow by way of polars, as large files are read, agree."""
    rows = table.to_arrow(columns, where)
    through_arrow = pl.from_arrow(rows)
    assert isinstance(through_arrow, pl.DataFrame)
    assert_frame_equal(table.to_polars(columns, where), through_arrow)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(frames, "LARGE", 0)
        as_large = table.to_arrow(columns, where)
    assert as_large.schema.equals(rows.schema, check_metadata=True)
    assert repr(as_large.to_pylist()) == repr(rows.to_pylist())


def test_partitions_vectors_and_older_files(local_lake: lakebed.Warehouse) -> None:
    table = local_lake.create_table("t", "id INT, region STRING, name STRING", partition_by=["region"])
    rows = [{"id": n, "region": ["eu", "us", None][n % 3], "name": f"n{n}"} for n in range(60)]
    check(table)
    table.append(rows)
    check(table)
    table.delete("id % 7 = 1")
    check(table)
    check(table, ["name", "region"])
    check(table, ["region"])
    table.alter(rename={"name": "title"}, add={"note": "STRING"}, widen={"id": "BIGINT"})
    table.append([{"id": 2**40, "region": "us", "title": "new", "note": "x"}])
    check(table)
    check(table, ["title", "id"])
    check(table, ["title"], "id > 30 AND region = 'us'")


def test_types(local_lake: lakebed.Warehouse) -> None:
    schema = pa.schema(
        {
            "map": pa.map_(pa.string(), pa.int32()),
            "nested": pa.struct({"x": pa.list_(pa.int64())}),
            "money": pa.decimal128(12, 2),
            "raw": pa.binary(),
            "day": pa.date32(),
            "at": pa.timestamp("us", "UTC"),
            "local": pa.timestamp("us"),
            "ratio": pa.float32(),
        }
    )
    table = local_lake.create_table("types", schema)
    table.append([{"map": [("k", 1)], "nested": {"x": [1, None]}, "raw": b"x", "ratio": float("nan")}, {"map": None}])
    check(table)
    check(table, schema.names[1:])


def test_dead_rows_of_key_tables(local_lake: lakebed.Warehouse) -> None:
    table = local_lake.create_table("t", "id INT, name STRING", primary_key=["id"], buckets=2, merge="on-read")
    for step in range(3):
        table.upsert([{"id": n, "name": f"{step}-{n}"} for n in range(step * 20, step * 20 + 40)])
        check(table)
    table.settle()
    check(table, where="id < 50")


def test_names_that_look_like_patterns(local_lake: lakebed.Warehouse) -> None:
    table = local_lake.create_table("t", "id INT, part STRING", partition_by=["part"])
    table.append([{"id": 1, "part": "[a]*?"}, {"id": 2, "part": "a=b/c %41"}])
    check(table)
