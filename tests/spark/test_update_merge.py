"""update and merge as Spark jobs: what they do is what they do without Spark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import lakebed

pytestmark = pytest.mark.spark

SHAPES: dict[str, dict[str, Any]] = {
    "plain": {"partition_by": ["p"]},
    "key": {"primary_key": ["id"], "buckets": 2},
    "key on read": {"primary_key": ["id"], "merge": "on-read"},
}


@pytest.fixture
def jobs(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many items, or parts, each job had that was run for a table."""
    from lakebed.spark import cluster

    run, seen = cluster.run_each, []

    def counted(spark: Any, work: Any, items: Any, *others: Any) -> Any:
        seen.append(len(items))
        return run(spark, work, items, *others)

    merge = cluster.merge_parts

    def merged(spark: Any, job: Any, files: Any) -> Any:
        seen.append(job.dealing.parts)
        return merge(spark, job, files)

    monkeypatch.setattr(cluster, "run_each", counted)
    monkeypatch.setattr(cluster, "merge_parts", merged)
    return seen


@pytest.fixture
def spark_lake(spark: Any, tmp_path: Path) -> Iterator[lakebed.Warehouse]:
    """Every work is large here."""
    with lakebed.connect(tmp_path / "warehouse", spark=spark, distribute_from=0) as opened:
        yield opened


def row(i: int, **other: Any) -> dict[str, Any]:
    return {"id": i, "p": f"p{i % 2}", "n": i, **other}


def live(table: Any) -> list[dict[str, Any]]:
    return sorted(table.to_arrow().to_pylist(), key=lambda r: r["id"])


@pytest.mark.parametrize("shape", SHAPES)
def test_update_and_merge(spark_lake: lakebed.Warehouse, spark: Any, jobs: list[int], shape: str) -> None:
    table = spark_lake.create_table("t", "id BIGINT NOT NULL, p STRING, n INT", **SHAPES[shape])
    for start in (0, 10):
        table.append([row(i) for i in range(start, start + 10)])
    assert table.update({"n": "n + 100"}, where="id >= 8 AND id < 12").metrics["numUpdatedRows"] == 4
    assert live(table) == [row(i, n=i + 100 if 8 <= i < 12 else i) for i in range(20)]
    updated = len(jobs)
    assert updated
    source = spark.sql("SELECT id, CAST(-id AS INT) AS n FROM range(5, 25, 1, 3)")
    done = (
        table.merge(source, on=["id"])
        .when_matched_delete("s.id = 7")
        .when_matched_update({"n": "s.n"}, "s.id < 15")
        .when_not_matched_insert({"id": "s.id", "n": "s.n"})
        .when_not_matched_by_source_update({"n": 0}, "t.id = 1")
        .execute()
    )
    assert len(jobs) > updated
    assert [done.metrics[f"num{what}Rows"] for what in ("Updated", "Deleted", "Inserted")] == [10, 1, 5]
    expected = [row(i, n=0 if i == 1 else i) for i in range(5)]
    expected += [row(i, n=-i if i < 15 else i) for i in range(5, 20) if i != 7]
    expected += [{"id": i, "p": None, "n": -i} for i in range(20, 25)]
    assert live(table) == expected


def test_what_fails_changes_nothing(spark_lake: lakebed.Warehouse, spark: Any) -> None:
    table = spark_lake.create_table("t", "id BIGINT, p STRING, n INT")
    table.append([row(i) for i in range(4)])
    before = set(Path(table.location.removeprefix("file://")).glob("*.parquet"))
    twice = spark.sql("SELECT 1L AS id, id AS x FROM range(2)")
    with pytest.raises(lakebed.DataError, match="several rows of the source match one row of the table"):
        table.merge(twice, on=["id"]).when_matched_update({"n": 5}).execute()
    with pytest.raises(lakebed.PredicateError, match="fails on a row"):
        table.update({"n": "id * 1000000000"})
    assert (live(table), table.version) == ([row(i) for i in range(4)], 1)
    assert set(Path(table.location.removeprefix("file://")).glob("*.parquet")) == before


def test_small_work_is_done_here(spark: Any, tmp_path: Path, jobs: list[int]) -> None:
    with lakebed.connect(tmp_path / "warehouse", spark=spark) as lake:
        table = lake.create_table("t", "id BIGINT, p STRING, n INT")
        table.append([row(i) for i in range(4)])
        table.update({"n": 0}, where="id = 1")
        table.merge(spark.sql("SELECT 2L AS id"), on=["id"]).when_matched_delete().execute()
        assert [r["n"] for r in live(table)] == [0, 0, 3]
    assert jobs == []
