"""Settling, compaction, deletes and vacuum as Spark jobs: the same outcome as in this process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import lakebed
from lakebed.core.bucketing import depth
from lakebed.engine.compact_order import CompactOrder
from lakebed.engine.tiers import FULL
from lakebed.engine.workforce import NewFiles, Workload
from lakebed.spark.each import run_each

pytestmark = pytest.mark.spark


@pytest.fixture
def jobs(spark: Any, tmp_path: Path) -> Iterator[lakebed.Warehouse]:
    """A warehouse that leaves every bit of maintenance to Spark."""
    with lakebed.connect(tmp_path / "warehouse", spark=spark, distribute_from=0) as lake:
        yield lake


@pytest.fixture
def job_count(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many items each job had."""
    from lakebed.spark import cluster

    counted: list[int] = []
    real = cluster.run_each

    def counting(spark: Any, work: Any, items: Any, *rest: Any) -> Any:
        counted.append(len(items))
        return real(spark, work, items, *rest)

    monkeypatch.setattr(cluster, "run_each", counting)
    return counted


def people(start: int, stop: int, name: str) -> list[dict[str, Any]]:
    return [{"id": i, "name": name} for i in range(start, stop)]


def live(table: Any) -> list[dict[str, Any]]:
    return table.to_arrow().sort_by("id").to_pylist()


@pytest.mark.parametrize("engine", ["deduplicate", "partial-update"])
def test_settle_and_compact(jobs: lakebed.Warehouse, job_count: list[int], engine: str) -> None:
    table = jobs.create_table(
        "t", "id BIGINT, name STRING", primary_key=["id"], buckets=3, merge="on-read", merge_engine=engine
    )
    table.upsert(people(0, 50, "a"))
    table.upsert(people(25, 75, "b"))
    expected = [*people(0, 25, "a"), *people(25, 75, "b")]
    done = table.settle()
    assert done.buckets == 3
    assert live(table) == expected
    table.delete("id % 10 = 0")
    packed = table.compact(full=True)
    assert packed.buckets == 3
    assert live(table) == [row for row in expected if row["id"] % 10]
    assert job_count[0] == job_count[-1] == 3
    assert not any(table.files()["unsettled"].to_pylist())


def test_what_an_upsert_touches_is_settled_by_a_job_where_it_is_much(
    jobs: lakebed.Warehouse, job_count: list[int]
) -> None:
    table = jobs.create_table("t", "id BIGINT, name STRING", primary_key=["id"], buckets=2)
    table.upsert(people(0, 20, "a"))
    table.upsert(people(10, 30, "b"))
    assert job_count == [2, 2]
    assert live(table) == [*people(0, 10, "a"), *people(10, 30, "b")]


def test_a_frame_upserted_leaves_no_file_that_is_almost_dead(
    jobs: lakebed.Warehouse, spark: Any, job_count: list[int]
) -> None:
    given = {"primary_key": ["id"], "buckets": 20, "properties": {"compact-on-write": 1}}
    table = jobs.create_table("t", "id BIGINT, name STRING", **given)
    table.upsert(spark.createDataFrame(people(0, 500, "a"), "id BIGINT, name STRING"))
    done = table.upsert(spark.createDataFrame(people(50, 500, "b"), "id BIGINT, name STRING"))
    assert [commit.operation for commit in table.history(2)] == ["compact", "upsert"]
    assert done.version == table.version - 1
    assert len(job_count) == 1
    assert all(file["dead_rows"] < 0.65 * file["rows"] for file in table.files().to_pylist())
    assert live(table) == [*people(0, 50, "a"), *people(50, 500, "b")]


def test_small_files_are_packed_without_a_job(
    spark: Any, tmp_path: Path, job_count: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither rows nor frames that are upserted bit by bit leave many files; the driver packs them."""
    here: list[int] = []
    real = Workload._here

    def counting(self: Any, draft: Any, items: Any) -> Any:
        if isinstance(self.work("").__self__, CompactOrder):
            here.append(len(items))
        return real(self, draft, items)

    monkeypatch.setattr(Workload, "_here", counting)
    with lakebed.connect(tmp_path / "warehouse", spark=spark) as lake:
        table = lake.create_table("t", "id BIGINT, name STRING", primary_key=["id"], buckets=2)
        for n in range(FULL):
            table.upsert(people(n * 20, n * 20 + 20, "a"))
        frame = spark.createDataFrame(people(0, 10, "b"), "id BIGINT, name STRING").coalesce(1)
        table.upsert(frame)
        assert [commit.operation for commit in table.history(2)] == ["compact", "upsert"]
        assert here == [2]
        assert job_count == []
        assert table.files().num_rows == 4
        assert live(table) == [*people(0, 10, "b"), *people(10, FULL * 20, "a")]


def test_compaction_without_a_key(jobs: lakebed.Warehouse, job_count: list[int]) -> None:
    table = jobs.create_table("t", "id BIGINT, name STRING", partition_by=["name"])
    for n in range(4):
        table.append([*people(n * 10, n * 10 + 5, "a"), *people(n * 10 + 5, n * 10 + 10, "b")])
    table.compact(full=True)
    assert job_count == [2]
    assert table.files().num_rows == 2
    assert [row["id"] for row in live(table)] == list(range(40))


def test_deletes_by_predicate(jobs: lakebed.Warehouse, job_count: list[int]) -> None:
    table = jobs.create_table("t", "id BIGINT, name STRING")
    for n in range(3):
        table.append(people(n * 10, n * 10 + 10, f"n{n}"))
    done = table.delete("id % 2 = 0 AND name <> 'n1'")
    assert job_count == [2]  # statistics spare the file of n1
    assert done.metrics["numDeletedRows"] == 10
    assert [row["id"] for row in live(table)] == [*range(1, 10, 2), *range(10, 20), *range(21, 30, 2)]


def test_vacuum(jobs: lakebed.Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    from lakebed.spark.cluster import SparkDistribution

    tasks: list[int] = []
    run = SparkDistribution.run

    def counting(self: Any, task: Any, orders: Any, name: str) -> Any:
        tasks.append(len(orders))
        return run(self, task, orders, name)

    monkeypatch.setattr(SparkDistribution, "run", counting)
    table = jobs.create_table("t", "id BIGINT, name STRING")
    for n in range(5):
        table.append(people(n, n + 1, "a"))
    table.compact(full=True)
    stored = Path(table.location.removeprefix("file://"))
    assert len(list(stored.glob("*.parquet"))) == 6
    assert table.vacuum(retain="0 seconds").files.num_rows == 5
    assert len(tasks) == 1
    assert tasks[0] > 1
    assert len(list(stored.glob("*.parquet"))) == 1
    assert live(table) == people(0, 5, "a")


def test_input_that_a_task_refuses_is_told_as_it_is_without_spark(jobs: lakebed.Warehouse, spark: Any) -> None:
    files = new_files(jobs)
    assert run_each(spark, depth, [-1, -5], [1, 1], lambda _: (), files, "files") == [0, 2]
    with pytest.raises(lakebed.InputError, match="bucket 3 is one of a fixed number of buckets"):
        run_each(spark, depth, [-1, 3], [1, 1], lambda _: (), files, "files")


def test_work_that_fails_is_a_failed_job(jobs: lakebed.Warehouse, spark: Any) -> None:
    with pytest.raises(lakebed.JobError, match="invalid literal for int"):
        run_each(spark, int, ["1", "one"], [1, 1], lambda _: (), new_files(jobs), "files")


def new_files(lake: lakebed.Warehouse) -> NewFiles:
    table = lake.create_table("new", "id BIGINT")
    return NewFiles(table._store, table._state().metadata, table.name, "prefix-")
