"""Rows of tasks that have few of them are written by the driver: fewer files, and nothing else differs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from spark_frames import KINDS, OF_EVERY_KIND

import lakebed
from lakebed.spark import carried
from lakebed.spark.carried import few, share

pytestmark = pytest.mark.spark
SCHEMA = f"id BIGINT NOT NULL, {KINDS}"


@pytest.fixture
def here(spark: Any, tmp_path: Path) -> Iterator[lakebed.Warehouse]:
    """A warehouse with the default of users."""
    with lakebed.connect(tmp_path / "here", spark=spark, write_here="16MiB") as lake:
        yield lake


@pytest.fixture
def there(spark: Any, tmp_path: Path) -> Iterator[lakebed.Warehouse]:
    """A warehouse whose rows are written by tasks."""
    with lakebed.connect(tmp_path / "there", spark=spark, write_here=0) as lake:
        yield lake


def some(spark: Any, count: int, tasks: int = 4) -> Any:
    return spark.range(0, count, 1, tasks).selectExpr("id % 150 AS id", *OF_EVERY_KIND)


def rows_of(table: lakebed.Table) -> list[str]:
    return sorted(map(repr, table.to_arrow().to_pylist()))


def data_files(table: lakebed.Table) -> list[Path]:
    return sorted(Path(table.location.removeprefix("file://")).rglob("*.parquet"))


@pytest.mark.parametrize(
    "given",
    [
        {"primary_key": ["id"], "buckets": 4},
        {"primary_key": ["id"], "buckets": 4, "merge": "on-read"},
        {"primary_key": ["id"], "buckets": "postpone"},
        {"primary_key": ["id"], "buckets": 4, "sequence": ["day"]},
        pytest.param({"primary_key": ["id"], "buckets": 4, "merge_engine": "first-row"}, marks=pytest.mark.soak),
        {"primary_key": ["id"], "buckets": 4, "merge_engine": "partial-update"},
        {},
    ],
)
def test_the_same_rows_in_fewer_files(
    here: lakebed.Warehouse, there: lakebed.Warehouse, spark: Any, given: dict[str, Any]
) -> None:
    tables = [lake.create_table("t", SCHEMA, **given) for lake in (here, there)]
    for table in tables:
        for count in (200, 90):
            if given:
                table.upsert(some(spark, count))  # rows of one key are in several tasks: the last one counts
            else:
                table.append(some(spark, count))
    assert rows_of(tables[0]) == rows_of(tables[1])
    mine, theirs = ([one.operation for one in table.history()] for table in tables)
    assert mine == theirs
    if given:
        assert rows_of(tables[0].read_optimised()) == rows_of(tables[1].read_optimised())
    files = [len(data_files(table)) for table in tables]
    # Merged rows are in a file per bucket, whoever wrote the others.
    assert files[0] <= files[1] if given.get("merge_engine") == "partial-update" else files[0] < files[1]


def test_rows_of_large_and_of_small_tasks_stay_in_order(spark: Any, tmp_path: Path) -> None:
    """Tasks 0, 2 and 3 have few rows, task 1 has many; each key is in all of them."""
    given = "IF(task = 1, repeat('x', 100000), '') AS filler"
    rows = spark.range(0, 80, 1, 4).selectExpr("id % 20 AS id", "CAST(id DIV 20 AS INT) AS task").selectExpr("*", given)
    schema = "id BIGINT NOT NULL, task INT, filler STRING"
    with lakebed.connect(tmp_path / "warehouse", spark=spark, write_here="4MiB") as lake:
        table = lake.create_table("t", schema, primary_key=["id"], buckets=2, merge="on-read")
        table.upsert(rows)
        assert {row["task"] for row in table.to_arrow(["task"]).to_pylist()} == {3}
        table.upsert(rows.where("task < 2"))
        assert {row["task"] for row in table.to_arrow(["task"]).to_pylist()} == {1}
        # Files of task 0, of task 1, and of tasks 2 and 3 together; then those of tasks 0 and 1.
        assert len(data_files(table)) == 2 * 3 + 2 * 2


def test_what_does_not_fit_is_refused_and_leaves_nothing(here: lakebed.Warehouse, spark: Any) -> None:
    table = here.create_table("t", "id BIGINT NOT NULL, n INT", primary_key=["id"], buckets=2)
    table.upsert(spark.range(10).selectExpr("id", "1 AS n"))
    before, version = data_files(table), table.version
    null_keys = spark.range(0, 40, 1, 4).selectExpr("IF(id % 10 = 3, NULL, id) AS id", "2 AS n")
    with pytest.raises(lakebed.DataError, match="4 row"):
        table.upsert(null_keys)
    kinds = spark.range(0, 4, 1, 2).selectExpr("id", "2 AS n", "IF(id = 3, 'nonsense', '+I') AS kind")
    with pytest.raises(lakebed.DataError, match="nonsense"):
        table.upsert(kinds, row_kind="kind")
    assert (data_files(table), table.version) == (before, version)


def test_a_failure_of_the_driver_removes_the_files_of_tasks(
    here: lakebed.Warehouse, spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = spark.range(0, 40, 1, 2).selectExpr("id", "IF(id < 20, repeat('x', 200000), 'y') AS text")
    table = here.create_table("t", "id BIGINT NOT NULL, text STRING", primary_key=["id"], buckets=2)
    seen: list[int] = []

    def broken(data: bytes) -> Iterator[pa.RecordBatch]:
        seen.append(len(data_files(table)))
        raise OSError("no room")

    monkeypatch.setattr(carried, "_unpacked", broken)
    with pytest.raises(OSError, match="no room"):
        table.upsert(rows)
    assert seen == [2]
    assert data_files(table) == []
    assert table.version == 0


def test_deletes_and_sums(here: lakebed.Warehouse, spark: Any) -> None:
    sums = {"merge_engine": "aggregation", "properties": {"fields.n.aggregate-function": "sum"}}
    table = here.create_table("s", "id BIGINT, n BIGINT", primary_key=["id"], buckets=2, **sums)
    table.upsert(spark.range(0, 100, 1, 4).selectExpr("id % 10 AS id", "1L AS n"))
    table.upsert(spark.range(0, 100, 1, 4).selectExpr("id % 10 AS id", "2L AS n"))
    assert {row["n"] for row in table.to_arrow().to_pylist()} == {30}
    kinds = here.create_table("k", "id BIGINT, n BIGINT", primary_key=["id"], buckets=2)
    kinds.upsert(spark.range(0, 100, 1, 4).selectExpr("id", "1L AS n"))
    gone = spark.range(0, 100, 1, 4).where("id % 2 = 0").selectExpr("id", "1L AS n", "'-D' AS kind")
    done = kinds.upsert(gone, row_kind="kind")
    assert done is not None
    assert kinds.to_arrow(["id"]).num_rows == 50


def test_empty_frames_and_empty_tasks(here: lakebed.Warehouse, spark: Any) -> None:
    table = here.create_table("t", "id BIGINT", primary_key=["id"], buckets=2)
    table.upsert(spark.range(0, 8, 1, 4).where("id < 0"))
    assert table.to_arrow().num_rows == 0
    table.upsert(spark.range(0, 8, 1, 8).where("id IN (1, 6)"))
    assert sorted(table.to_arrow()["id"].to_pylist()) == [1, 6]


def test_partitioned_and_shuffled_tables_are_written_by_tasks(here: lakebed.Warehouse, spark: Any) -> None:
    rows = spark.range(0, 40, 1, 4).selectExpr("id", "id % 2 AS part")
    table = here.create_table("t", "id BIGINT, part BIGINT", partition_by=["part"])
    table.append(rows)
    assert len(data_files(table)) == 8
    keyed = here.create_table("k", "id BIGINT, part BIGINT", primary_key=["id"], buckets="dynamic")
    keyed.upsert(rows)
    assert keyed.to_arrow().num_rows == 40


def test_what_tasks_send_is_bounded() -> None:
    limit = 16 * 1024 * 1024
    assert sum(share(limit, task) for task in range(8)) == limit
    assert sum(share(limit, task) for task in range(10_000)) < 9 * limit
    batch = pa.record_batch({"n": pa.array(range(1000), pa.int64())})
    sent, rest = few(iter([batch] * 3), 24_000)
    assert sent is not None
    assert sum(len(one) for one in rest) == 3000
    sent, rest = few(iter([batch] * 4), 24_000)
    assert sent is None
    assert sum(len(one) for one in rest) == 4000
    assert few(iter([]), 24_000)[0] == b""
