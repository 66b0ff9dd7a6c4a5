"""Merges with a large source are jobs in which the driver sees no row; what they do is what the engine does alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from merge_cases import Case
from spark_frames import frame_of

import lakebed

pytestmark = pytest.mark.spark


def compared(spark: Any, folder: Path, seed: int) -> Any:
    """The same merge without Spark and as jobs; returns the outcome, which both have."""
    case = Case(seed)
    alone = case.outcome(folder / f"{seed} alone", case.source)
    frame = frame_of(spark, case.source)
    assert case.outcome(folder / f"{seed} jobs", frame, spark=spark, distribute_from=0) == alone, (seed, case.on)
    return alone


def test_some_merges(spark: Any, tmp_path: Path) -> None:
    found = [compared(spark, tmp_path, seed) for seed in range(3)]
    assert any(isinstance(one, tuple) for one in found)


@pytest.mark.soak
def test_many_merges(spark: Any, tmp_path: Path) -> None:
    found = [compared(spark, tmp_path, seed) for seed in range(100, 140)]
    assert sum(isinstance(one, tuple) for one in found) > 20
    assert any(isinstance(one, str) for one in found)


def test_the_driver_sees_no_row_of_a_large_source(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from lakebed.engine.merge_source import Staged
    from lakebed.spark import write, writing_job

    def refused(*_: Any) -> Any:
        raise AssertionError("the source came to the driver")

    sizes: list[int] = []
    collected = writing_job.collected

    def measured(frame: Any, name: str) -> Any:
        told = collected(frame, name)
        sizes.append(told.nbytes)
        return told

    monkeypatch.setattr(Staged, "read", refused)
    monkeypatch.setattr(write.SparkRows, "read", refused)
    monkeypatch.setattr(writing_job, "collected", measured)
    with lakebed.connect(tmp_path / "warehouse", spark=spark, distribute_from="1MiB") as lake:
        table = lake.create_table("t", "id BIGINT NOT NULL, text STRING", primary_key=["id"], buckets=4)
        table.upsert(spark.sql("SELECT id, CAST(id AS STRING) AS text FROM range(0, 20000, 2)"))
        sizes.clear()
        source = spark.sql("SELECT id, repeat(sha2(CAST(id AS STRING), 512), 2) AS text FROM range(0, 20000, 1, 4)")
        done = table.merge(source, on="t.id = s.id").when_matched_update().when_not_matched_insert().execute()
        counts = [done.metrics[f"num{what}Rows"] for what in ("Updated", "Deleted", "Inserted")]
        assert counts == [10000, 0, 10000]
        assert table.df().where("length(text) = 256").count() == 20000
    assert sizes  # of 5 MB of rows
    assert sum(sizes) < 200_000


def test_a_key_that_the_source_has_twice_is_named(spark: Any, tmp_path: Path) -> None:
    with lakebed.connect(tmp_path / "warehouse", spark=spark, distribute_from=0) as lake:
        table = lake.create_table("t", "id BIGINT NOT NULL, n BIGINT", primary_key=["id"], buckets=2)
        table.upsert([{"id": i, "n": i} for i in range(9)])
        twice = spark.sql("SELECT IF(id = 8, 7, id) AS id, id AS n FROM range(9)")
        with pytest.raises(lakebed.DataError, match=r"s\.id = 7\)"):
            table.merge(twice, on=["id"]).when_matched_update().execute()
        assert (table.version, table.count("n = id")) == (1, 9)
