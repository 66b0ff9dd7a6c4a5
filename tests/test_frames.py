"""Reading straight into polars gives what reading through Arrow gives."""

from __future__ import annotations

import polars as pl
import pyarrow as pa
from polars.testing import assert_frame_equal

import lakebed


def check(table: lakebed.Table, columns: list[str] | None = None) -> None:
    through_arrow = pl.from_arrow(table.to_arrow(columns))
    assert isinstance(through_arrow, pl.DataFrame)
    assert_frame_equal(table.to_polars(columns), through_arrow)


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


def test_names_that_look_like_patterns(local_lake: lakebed.Warehouse) -> None:
    table = local_lake.create_table("t", "id INT, part STRING", partition_by=["part"])
    table.append([{"id": 1, "part": "[a]*?"}, {"id": 2, "part": "a=b/c %41"}])
    check(table)
