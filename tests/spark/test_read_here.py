"""Frames of so little that the driver reads it itself: the same rows, and only where that is asked for or pays."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from spark_frames import KINDS, OF_EVERY_KIND

import lakebed

pytestmark = pytest.mark.spark
SCHEMA = f"id BIGINT NOT NULL, part STRING, {KINDS}"
HERE = "read by this process"


@pytest.fixture
def here(spark: Any, tmp_path: Path) -> Iterator[lakebed.Warehouse]:
    """A warehouse with the default of users."""
    with lakebed.connect(tmp_path / "warehouse", spark=spark, read_here="8MiB") as lake:
        yield lake


def fill(spark: Any, table: lakebed.Table) -> None:
    rows = spark.range(60).selectExpr("id", "IF(id % 3 = 0, 'ü/x=1 %', 'b') AS part", *OF_EVERY_KIND)
    table.upsert(rows)
    table.upsert(rows.where("id % 10 = 0").selectExpr("* EXCEPT (name)", "'new' AS name"))
    table.delete("id = 31")


@pytest.mark.parametrize(
    "given", [pytest.param({}, marks=pytest.mark.soak), {"partition_by": ["part"]}, {"merge": "on-read"}]
)
def test_the_same_rows_as_spark_reads(here: lakebed.Warehouse, spark: Any, given: dict[str, Any]) -> None:
    table = here.create_table("t", SCHEMA, primary_key=["id"], buckets=2, **given)
    fill(spark, table)
    table.alter(add={"later": "INT"}, rename={"flag": "even"})
    facts = ["_file", "_row_index", "_commit_version", "_bucket", "_partition"]
    for where in (
        "id = 20",
        "id = 31",
        "id BETWEEN 5 AND 40",
        "part = 'ü/x=1 %'",
        "price > 3",
        "name IS NULL",
        "id < 0",
    ):
        assert (HERE if "< 0" not in where else "no file is read") in table.explain(where=where)
        frame, native = table.df(where=where), table.df(where=where, engine="native")
        assert frame.schema.simpleString() == native.schema.simpleString()
        assert sorted(map(repr, frame.collect())) == sorted(map(repr, native.collect()))
        chosen = table.df(["name", "id"], where, metadata_columns=facts)
        told = table.df(["name", "id"], where, metadata_columns=facts, engine="native")
        assert sorted(map(repr, chosen.collect())) == sorted(map(repr, told.collect()))
    assert table.df(where="id = 20").select("name").first()["name"] == "new"
    assert table.df(where="id < 10").groupBy("even").count().count() == 2


def test_only_little_and_only_what_a_predicate_leaves(spark: Any, tmp_path: Path) -> None:
    for size, little in ((0, False), ("1KiB", False), ("1MiB", True)):
        with lakebed.connect(tmp_path / "warehouse", spark=spark, read_here=size) as lake:
            if not lake.tables():
                fill(spark, lake.create_table("t", SCHEMA, primary_key=["id"], buckets=2))
            table = lake.table("t")
            assert (HERE in table.explain(where="id = 20")) is little
            assert HERE not in table.explain()
            assert HERE not in table.explain(where="id = 20", engine="native")
            assert HERE not in table.explain(where="id = 20", engine="arrow")


def test_rows_that_are_in_no_file_yet_are_merged_by_tasks(here: lakebed.Warehouse, spark: Any) -> None:
    sums = {"merge_engine": "aggregation", "properties": {"fields.n.aggregate-function": "sum"}}
    table = here.create_table("t", "id BIGINT, n BIGINT", primary_key=["id"], buckets=1, merge="on-read", **sums)
    for _ in range(3):
        table.upsert([{"id": 1, "n": 5}, {"id": 2, "n": 7}])
    assert HERE not in table.explain(where="id = 1")
    assert table.df(where="id = 1").collect() == [(1, 15)]


def test_a_frame_stays_what_it_was(here: lakebed.Warehouse, spark: Any) -> None:
    table = here.create_table("t", "id BIGINT, n BIGINT", primary_key=["id"], buckets=1)
    table.upsert([{"id": 1, "n": 1}])
    frame, view = table.df(where="id = 1"), table.at(version=1)
    table.upsert([{"id": 1, "n": 2}])
    assert frame.collect() == view.df(where="id = 1").collect() == [(1, 1)]
    assert table.df(where="id = 1").collect() == [(1, 2)]


def test_changes(here: lakebed.Warehouse, spark: Any, tmp_path: Path) -> None:
    table = here.create_table("t", SCHEMA, primary_key=["id"], buckets=2)
    fill(spark, table)
    with lakebed.connect(tmp_path / "warehouse", spark=spark, read_here=0) as elsewhere:
        for mode in ("combine", "all", "append"):
            mine, theirs = (one.table("t").changes(1, mode=mode).df() for one in (here, elsewhere))
            assert mine.schema == theirs.schema
            if hasattr(mine, "_jdf"):  # Spark Connect does not tell
                assert mine.rdd.getNumPartitions() == 1
            assert sorted(map(repr, mine.collect())) == sorted(map(repr, theirs.collect()))
    assert table.changes(table.version).df().count() == 0


def test_lists_with_nulls_of_more_rows_than_a_batch(spark: Any, tmp_path: Path) -> None:
    """PySpark takes no slice of such lists, and rows are read in batches."""
    schema = "id BIGINT, ts TIMESTAMP, items ARRAY<STRUCT<x: STRING>>, inner STRUCT<days: ARRAY<TIMESTAMP>>"
    with lakebed.connect(tmp_path / "warehouse", spark=spark, read_here="8MiB", batch_size=10) as lake:
        table = lake.create_table("t", schema, primary_key=["id"], buckets=1)
        rows = spark.range(50).selectExpr(
            "id", "CAST(NULL AS TIMESTAMP) AS ts",
            "IF(id % 3 = 0, NULL, array(struct(string(id) AS x), NULL)) AS items",
            "IF(id % 4 = 0, NULL, struct(IF(id % 5 = 0, NULL, array(timestamp_seconds(id), NULL)) AS days)) AS inner",
        )  # fmt: skip
        table.upsert(rows)
        table.delete("id = 7")
        expected = sorted(map(repr, table.df(engine="native").collect()))
        frame = table.df(where="id >= 0")
        assert HERE in table.explain(where="id >= 0")
        assert sorted(map(repr, frame.collect())) == expected
        changed = table.changes(0).df().drop("_change_type", "_commit_version", "_commit_timestamp")
        assert sorted(map(repr, changed.collect())) == expected
        selected = lake.sql("SELECT * FROM t WHERE id >= 0")
        assert sorted(map(repr, selected.collect())) == expected
