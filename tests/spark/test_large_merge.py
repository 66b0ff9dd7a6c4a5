"""Merges with a large source are jobs in which the driver sees no row; what they do is what the engine does alone."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakebed

pytestmark = pytest.mark.spark

SCHEMA = "id BIGINT NOT NULL, dt STRING, n INT, name STRING"
SOURCE = pa.schema([("id", pa.int32()), ("dt", pa.string()), ("n", pa.int32()), ("name", pa.string())])
SHAPES: dict[str, dict[str, Any]] = {
    "plain": {},
    "partitions": {"partition_by": ["dt"]},
    "key": {"primary_key": ["id"], "buckets": 3},
    "key on read": {"primary_key": ["id"], "buckets": 2, "merge": "on-read"},
    "copy on write": {"primary_key": ["id"], "buckets": 2, "merge": "copy-on-write"},
    "dynamic": {"primary_key": ["id"], "properties": {"dynamic-bucket.target-rows": 30}},
    "cross-partition": {"primary_key": ["id"], "buckets": 2, "partition_by": ["dt"]},
}
CONDITIONS = (
    "t.id = s.id",
    "s.id = t.id AND t.n > s.n",
    "t.id = s.id AND t.dt = s.dt",
    "t.id = s.id AND t.dt = 'd1'",
    "t.name = s.name",
    "t.n = s.n AND t.id < s.id",
    "t.id = s.id + 1",
    "t.id + s.id = 40",
    "CAST(t.n AS DOUBLE) = s.n",
)


def rows(draw: random.Random, ids: list[int]) -> list[dict[str, Any]]:
    def maybe(value: Any) -> Any:
        return None if draw.random() < 0.1 else value

    return [
        {"id": i, "dt": f"d{draw.randrange(3)}", "n": maybe(draw.randrange(9)), "name": maybe(f"n{draw.randrange(99)}")}
        for i in ids
    ]


def clauses(draw: random.Random, merge: Any) -> Any:
    """Some clauses, at least one; the last of each kind may be without a condition."""
    matched = [
        lambda m: m.when_matched_delete("s.n > 5"),
        lambda m: m.when_matched_update({"n": "coalesce(t.n, 0) + 1", "name": "s.name"}, "t.n IS NULL OR t.n < 7"),
        lambda m: m.when_matched_update(condition="s.name IS NOT NULL"),
        lambda m: m.when_matched_update({"dt": "s.dt"}),
    ]
    others = [
        lambda m: m.when_not_matched_insert(),
        lambda m: m.when_not_matched_insert({"id": "s.id", "n": "s.n"}, "s.n > 2"),
        lambda m: m.when_not_matched_insert({"id": "s.id + 1000", "name": "upper(s.name)"}),
        lambda m: m.when_not_matched_by_source_update({"name": "'left'"}, "t.n = 3"),
        lambda m: m.when_not_matched_by_source_delete("t.n = 4"),
    ]
    chosen = sorted(draw.sample(range(4), draw.randrange(1, 4)))
    for number in chosen:
        merge = matched[number](merge)
    for number in sorted(draw.sample(range(5), draw.randrange(3))):
        if number != 2 or not any("not matched then" in str(c) for c in merge.text.clauses):
            merge = others[number](merge)
    return merge


def outcome(table: Any, source: Any, on: str, seed: int) -> Any:
    """What became of the table: its rows and what the commit counts, or the error."""
    try:
        done = clauses(random.Random(seed), table.merge(source, on=on)).execute()
    except lakebed.DataError as error:
        return error.title
    counts = [done.metrics[f"num{what}Rows"] for what in ("Updated", "Deleted", "Inserted")]
    return counts, sorted(table.to_arrow().to_pylist(), key=repr)


def compared(spark: Any, folder: Path, seed: int) -> Any:
    """The same merge without Spark and as jobs; returns the outcome, which both have."""
    draw = random.Random(seed)
    shape, on = draw.choice(sorted(SHAPES)), draw.choice(CONDITIONS)
    first, second = rows(draw, draw.sample(range(60), 30)), rows(draw, draw.sample(range(60), 10))
    second = [row for row in second if row["id"] not in {one["id"] for one in first}]
    ids = draw.sample(range(60), 25) + ([draw.randrange(60)] if draw.random() < 0.3 else [])
    source = pa.Table.from_pylist(rows(draw, ids), SOURCE)
    found = []
    memory = draw.choice(["512MiB", "1KiB"])
    for name, more in (("alone", {}), ("jobs", {"spark": spark, "distribute_from": 0})):
        with lakebed.connect(folder / str(seed) / name, writer_memory_limit=memory, **more) as lake:
            table = lake.create_table("t", SCHEMA, **SHAPES[shape])
            for part in (first, second):
                table.append(part)
            frame = spark.createDataFrame(source).repartition(3) if more else source
            found.append(outcome(table, frame, on, seed))
            assert "orphan" not in table.vacuum("0 days", dry_run=True).files["reason"].to_pylist()
    assert found[0] == found[1], (seed, shape, on)
    return found[0]


def test_some_merges(spark: Any, tmp_path: Path) -> None:
    found = [compared(spark, tmp_path, seed) for seed in range(4)]
    assert any(isinstance(one, tuple) for one in found)


@pytest.mark.soak
def test_many_merges(spark: Any, tmp_path: Path) -> None:
    found = [compared(spark, tmp_path, seed) for seed in range(100, 200)]
    assert sum(isinstance(one, tuple) for one in found) > 50
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
