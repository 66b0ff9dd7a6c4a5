"""Frames of key tables whose upserts are not settled: resolved in the process or as a Spark job, once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from spark_reading import check

import lakebed

pytestmark = pytest.mark.spark

COMBINING = {
    "partial-update": {},
    "aggregation": {"fields.n.aggregate-function": "sum", "fields.note.aggregate-function": "last_non_null_value"},
}
ENGINES = {"deduplicate": {}, "first-row": {}, **COMBINING}
# What a job computes is tried with every engine; elsewhere one that keeps rows and one that combines them will do.
SOME = [
    engine if engine in ("deduplicate", "aggregation") else pytest.param(engine, marks=pytest.mark.soak)
    for engine in ENGINES
]


@pytest.fixture
def jobs(spark: Any, tmp_path: Path) -> Iterator[tuple[lakebed.Warehouse, list[int]]]:
    """A warehouse in which nothing is small, and how many orders each of its jobs had."""
    with lakebed.connect(tmp_path / "warehouse", spark=spark, distribute_from=0) as lake:
        distribution, seen = lake._distribution, []
        assert distribution is not None
        run: Callable[..., Any] = distribution.run

        def counted(task: Any, orders: Any, name: str) -> Any:
            seen.append(len(orders))
            return run(task, orders, name)

        distribution.run = counted  # type: ignore[method-assign]
        yield lake, seen


def make(lake: lakebed.Warehouse, engine: str, **more: Any) -> lakebed.Table:
    table = lake.create_table(
        "t",
        "id BIGINT NOT NULL, n BIGINT, note STRING",
        primary_key=["id"],
        buckets=more.pop("buckets", 2),
        merge="on-read",
        merge_engine=engine,
        properties={**ENGINES[engine], **more},
    )
    table.upsert([{"id": n, "n": n, "note": "old"} for n in range(100)])
    table.settle()
    table.upsert([{"id": n, "n": 1000, "note": "new" if n % 2 else None} for n in range(0, 120, 3)])
    table.upsert([{"id": n, "n": 1, "note": None} for n in range(0, 150, 5)])
    return table


@pytest.mark.parametrize("engine", SOME)
def test_in_process(spark_lake: lakebed.Warehouse, engine: str) -> None:
    table = make(spark_lake, engine)
    assert check(table) == table.count() > 100
    assert check(table, where="id > 90 and n < 500") > 0
    assert check(table.at(version=2)) == 100
    assert check(table.read_optimised()) == 100
    table.settle()
    assert check(table) > 100


@pytest.mark.parametrize("engine", ENGINES)
def test_one_job_once(jobs: tuple[lakebed.Warehouse, list[int]], engine: str) -> None:
    lake, seen = jobs
    table = make(lake, engine)
    seen.clear()
    table.df()
    assert seen == [2], "one job with a task for each bucket"
    assert check(table) > 100
    assert seen == [2], "the resolution of a version is kept"
    table.upsert([{"id": 7, "n": 7, "note": "seven"}])
    assert check(table) > 100
    assert seen == [2, 1], "only the bucket that has changed"


@pytest.mark.parametrize("engine", SOME)
def test_tables_in_a_transaction(spark_lake: lakebed.Warehouse, engine: str) -> None:
    table = make(spark_lake, engine)
    with spark_lake.transaction() as tx:
        inside = tx.table("t")
        inside.upsert([{"id": 1, "n": 5, "note": "x"}, {"id": 500, "n": 5, "note": "y"}])
        before = check(table)
        assert check(inside) == before + 1
    assert check(table) == before + 1


@pytest.mark.parametrize("engine", ["aggregation", pytest.param("deduplicate", marks=pytest.mark.soak)])
@pytest.mark.parametrize("buckets", [1, "dynamic", "postpone"])
def test_other_buckets(jobs: tuple[lakebed.Warehouse, list[int]], engine: str, buckets: Any) -> None:
    table = make(jobs[0], engine, buckets=buckets, **{"dynamic-bucket.target-rows": 20})
    assert check(table) == table.count()


def test_metadata_columns_of_merged_rows(spark_lake: lakebed.Warehouse) -> None:
    table = make(spark_lake, "aggregation")
    names = ["_file", "_row_index", "_commit_version", "_bucket", "_partition"]
    rows = {row.id: row for row in table.df(metadata_columns=names).collect()}
    assert rows[1]._commit_version == 1
    assert rows[1]._file is not None
    assert rows[0]._commit_version == 4
    assert rows[0]._file is None, "it is in no file yet"


def test_settle_on_read_keeps_what_the_first_reader_did(spark_lake: lakebed.Warehouse) -> None:
    table = make(spark_lake, "deduplicate", **{"settle-on-read": True})
    before = table.version
    expected = table.at(version=before).to_arrow().sort_by("id")
    assert check(table) == expected.num_rows
    assert [commit.operation for commit in table.history(1)] == ["settle"]
    assert table.version == before + 1
    assert table.df().count() == expected.num_rows
    assert table.version == before + 1, "once"
    assert table.to_arrow().sort_by("id").equals(expected)


def test_keys_that_cannot_be_read_are_told_as_they_are_in_the_process(
    jobs: tuple[lakebed.Warehouse, list[int]], tmp_path: Path
) -> None:
    table = make(jobs[0], "deduplicate")
    # The keys of a settled file may be known to a worker that has settled it.
    path = next(file["path"] for file in table.files().to_pylist() if file["unsettled"])
    (tmp_path / "warehouse/default/t" / path).unlink()
    with pytest.raises(lakebed.FileMissingError):
        table.df()
