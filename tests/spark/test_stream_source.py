"""``readStream.format("lakebed")``: real queries over a table that changes."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from spark_streams import Feed, end_promises, rows

import lakebed

pytestmark = pytest.mark.spark

AT_ONCE = timedelta(0)


@pytest.fixture
def feed(spark: Any, tmp_path: Path) -> Feed:
    return Feed(spark, tmp_path)


def stream(spark: Any, table: str = "t", **options: Any) -> Any:
    named = {name.replace("_", "-"): str(value) for name, value in options.items()}
    return spark.readStream.format("lakebed").options(**named).load(table)


def test_a_table_follows_another(spark: Any, spark_lake: lakebed.Warehouse, feed: Feed) -> None:
    """Whatever happens to the one, the other is equal after each run; replays change nothing."""
    source = spark_lake.create_table("t", "id BIGINT, n INT", primary_key=["id"], buckets=2, merge="on-read")
    copy = spark_lake.create_table("copy", "id BIGINT, n INT", primary_key=["id"], buckets=1)
    steps = [
        lambda: source.upsert([{"id": id, "n": id} for id in range(6)]),
        lambda: source.upsert([{"id": 1, "n": 10}, {"id": 7, "n": 7}]),
        lambda: source.delete([{"id": 2}, {"id": 7}]),
        lambda: (source.settle(), source.compact(full=True)),
        lambda: source.overwrite([{"id": 1, "n": 1}, {"id": 9, "n": 9}]),
    ]
    for number, step in enumerate(steps):
        step()
        if number in (1, 4):
            changes = stream(spark, mode="all").where("_change_type <> 'update_preimage'")
            kinds = changes.selectExpr(
                "id", "n", "_commit_version as at", "if(_change_type = 'delete', '-D', '+U') as op"
            ).drop("at")
            feed.run(kinds, "copy", **{"row-kind": "op"})
            assert rows(copy) == rows(source)
    feed.forget_last_commit()
    feed.run(kinds, "copy", **{"row-kind": "op"})
    assert rows(copy) == rows(source)


@pytest.mark.soak
def test_new_rows_only(spark: Any, spark_lake: lakebed.Warehouse, feed: Feed) -> None:
    """Without change columns a stream has the table's own, and every row once."""
    source = spark_lake.create_table("t", "id BIGINT, part STRING", partition_by=["part"])
    copy = spark_lake.create_table("copy", "id BIGINT, part STRING")
    for id in range(2):
        source.append([{"id": id, "part": "a"}, {"id": id, "part": "b"}])
        source.compact(full=True)
        feed.run(stream(spark), "copy")
    assert rows(copy) == rows(source)
    assert stream(spark).columns == ["id", "part"]
    assert stream(spark, columns="id", change_columns="true").columns == [
        "id",
        "_change_type",
        "_commit_version",
        "_commit_timestamp",
    ]


@pytest.mark.parametrize(
    ("limits", "batches"),
    [
        pytest.param({}, [6], marks=pytest.mark.soak),
        ({"maxVersionsPerTrigger": "4"}, [4, 2]),
        ({"maxFilesPerTrigger": "3"}, [3, 3]),
        pytest.param({"maxBytesPerTrigger": "1"}, [1] * 6, marks=pytest.mark.soak),
    ],
)
def test_limits(
    spark: Any, spark_lake: lakebed.Warehouse, feed: Feed, limits: dict[str, str], batches: list[int]
) -> None:
    """Hudi #10353: AvailableNow, admission control, and a backlog that can be seen."""
    source = spark_lake.create_table("t", "id BIGINT")
    spark_lake.create_table("copy", "id BIGINT")
    for id in range(6):
        source.append([{"id": id}])
    query = feed.run(stream(spark, start=0, **limits), "copy")
    read = [progress["numInputRows"] for progress in query.recentProgress if progress["numInputRows"]]
    assert read == batches
    (first, *_) = (progress["sources"][0] for progress in query.recentProgress if progress["numInputRows"])
    latest = json.loads(first["latestOffset"])
    assert (latest["version"], latest["behind"]["versions"]) == (6, 6 - batches[0])
    assert latest["behind"]["files"] == 6 - batches[0]
    assert (latest["behind"]["bytes"] > 0) == (len(batches) > 1)
    copied = [commit.metrics["numOutputRows"] for commit in spark_lake.table("copy").history() if commit.version]
    assert copied[::-1] == batches


@pytest.mark.soak
def test_start_and_end(spark: Any, spark_lake: lakebed.Warehouse, feed: Feed) -> None:
    source = spark_lake.create_table("t", "id BIGINT")
    for id in range(5):
        source.append([{"id": id}])
    source.tag("second", 2)
    expected = {"tag": ({"start": "second"}, [2, 3, 4]), "end": ({"start": 1, "end": 3}, [1, 2])}
    expected["earliest"] = ({"end": 2}, [0, 1])
    for name, (options, ids) in expected.items():
        copy = spark_lake.create_table(name, "id BIGINT")
        feed.run(stream(spark, **options), name, name)
        assert rows(copy) == [(id,) for id in ids]
    batch = spark.read.format("lakebed").options(start="1", end="3").load("t")
    assert sorted(row.id for row in batch.collect()) == [1, 2]


@pytest.mark.soak  # test_stream_reader.py does the same without a session
def test_an_expired_offset(spark: Any, spark_lake: lakebed.Warehouse, feed: Feed) -> None:
    """Hudi #7778: a stream whose offset has expired says so, or, if asked to, begins again with all there is."""
    source = spark_lake.create_table("t", "id BIGINT")
    copy = spark_lake.create_table("copy", "id BIGINT")
    source.append([{"id": 1}])
    feed.run(stream(spark), "copy")
    source.append([{"id": 2}])
    source.append([{"id": 3}])
    end_promises(source)
    source.vacuum(AT_ONCE)
    with pytest.raises(StreamingQueryException, match="it has expired; expected a version from 3 to 3"):
        feed.run(stream(spark), "copy")
    assert rows(copy) == [(1,)]
    marked = stream(spark, on_expired="snapshot", change_columns="true").where("_change_type = 'snapshot'")
    feed.run(marked.select("id"), "copy")
    assert rows(copy) == [(1,), (1,), (2,), (3,)]


@pytest.mark.soak  # test_stream_reader.py does the same without a session
def test_the_schema_of_the_source_changes(spark: Any, spark_lake: lakebed.Warehouse, feed: Feed) -> None:
    """Hudi #8756, LakeSoul #225: new columns come with a restart; what is gone stops the stream with words."""
    source = spark_lake.create_table("t", "id BIGINT, gone INT")
    copy = spark_lake.create_table("copy", "id BIGINT, more STRING")
    old = stream(spark, columns="id, gone").select("id")
    source.append([{"id": 1, "gone": 1}])
    source.alter(add={"more": "STRING"})
    source.append([{"id": 2, "more": "!"}])
    feed.run(old, "copy")
    assert rows(copy) == [(1, None), (2, None)]
    source.alter(drop=["gone"])
    source.append([{"id": 3, "more": "?"}])
    with pytest.raises(StreamingQueryException, match="column 'gone', which this stream reads, is gone at version 5"):
        feed.run(old, "copy")
    feed.run(stream(spark), "copy")
    assert rows(copy) == [(1, None), (2, None), (3, "?")]


@pytest.mark.soak  # test_stream_reader.py does the same without a session
def test_a_large_version_comes_in_pieces(spark: Any, spark_lake: lakebed.Warehouse, feed: Feed) -> None:
    """Both as the whole snapshot that a stream begins with, and as a version that comes later; replayed too."""
    source = spark_lake.create_table("t", "id BIGINT, part INT", partition_by=["part"])
    copy = spark_lake.create_table("copy", "id BIGINT, part INT")
    source.append([{"id": id, "part": id % 5} for id in range(10)])
    source.expire(AT_ONCE)
    read = []
    for _ in range(2):
        query = feed.run(stream(spark, maxFilesPerTrigger=2), "copy")
        read.append([progress["numInputRows"] for progress in query.recentProgress if progress["numInputRows"]])
        assert rows(copy) == rows(source)
        feed.forget_last_commit()
        feed.run(stream(spark, maxFilesPerTrigger=2), "copy")
        assert rows(copy) == rows(source)
        source.append([{"id": id, "part": id % 3} for id in range(10, 16)])
    assert read == [[4, 4, 2], [4, 2]]
