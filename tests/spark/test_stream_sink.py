"""``writeStream.format("lakebed")``: real queries, restarted and replayed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from spark_streams import Feed, files_on_disk, rows

import lakebed

pytestmark = pytest.mark.spark


@pytest.fixture
def feed(spark: Any, tmp_path: Path) -> Feed:
    return Feed(spark, tmp_path)


@pytest.mark.parametrize("key", [[], ["id"]])
def test_a_replayed_batch_is_not_doubled(spark_lake: lakebed.Warehouse, feed: Feed, key: list[str]) -> None:
    """Paimon #9666, #10010: the batch is sent again after a crash between commit and checkpoint."""
    table = spark_lake.create_table("t", "id BIGINT, n INT", primary_key=key, buckets=2 if key else None)
    feed.put(id=[1, 2], n=pa.array([1, 2], pa.int32()))
    feed.put(id=[2, 3], n=pa.array([20, 30], pa.int32()))
    feed.run(feed.frame("id BIGINT, n INT"), "t")
    expected = [(1, 1), (2, 20), (3, 30)] if key else [(1, 1), (2, 2), (2, 20), (3, 30)]
    assert (rows(table), table.version) == (expected, 2)
    (application,) = table.transactions()
    assert table.transactions() == {application: 1}
    written = files_on_disk(table)
    for _ in range(2):
        feed.forget_last_commit()
        feed.run(feed.frame("id BIGINT, n INT"), "t")
        assert (rows(table), table.version) == (expected, 2)
        assert files_on_disk(table) == written
    feed.put(id=[4], n=pa.array([4], pa.int32()))
    feed.run(feed.frame("id BIGINT, n INT"), "t")
    assert rows(table) == [*expected, (4, 4)]
    assert table.transactions() == {application: 2}


def test_queries_that_share_a_table_are_apart(spark_lake: lakebed.Warehouse, feed: Feed) -> None:
    """Their batches have the same numbers; and a new checkpoint is a new query."""
    table = spark_lake.create_table("t", "id BIGINT")
    feed.put(id=[1])
    for name in ("one", "two", "three"):
        feed.run(feed.frame("id BIGINT"), "t", name)
    assert rows(table) == [(1,)] * 3
    assert list(table.transactions().values()) == [0, 0, 0]


def test_changes_with_row_kinds(spark_lake: lakebed.Warehouse, feed: Feed) -> None:
    table = spark_lake.create_table("t", "id BIGINT, n INT", primary_key=["id"], buckets=2, merge="on-read")
    feed.put(id=[1, 2, 3], n=pa.array([1, 2, 3], pa.int32()), op=["+I", "+I", "+I"])
    feed.put(id=[1, 2, 4], n=pa.array([None, 20, 4], pa.int32()), op=["-D", "+U", "-D"])
    feed.run(feed.frame("id BIGINT, n INT, op STRING"), "t", **{"row-kind": "op"})
    assert rows(table) == [(2, 20), (3, 3)]


def test_complete_replaces_the_table(spark_lake: lakebed.Warehouse, feed: Feed) -> None:
    table = spark_lake.create_table("t", "k BIGINT, total BIGINT NOT NULL")
    feed.put(id=[1, 1, 2])
    feed.put(id=[2])
    for _ in range(2):
        counted = feed.frame("id BIGINT").groupBy("id").count().toDF("k", "total")
        feed.run(counted, "t", mode="complete")
        assert rows(table) == [(1, 2), (2, 2)]
        assert table.version == 2
        feed.forget_last_commit()


def test_rows_that_do_not_fit_leave_nothing(spark_lake: lakebed.Warehouse, feed: Feed) -> None:
    table = spark_lake.create_table("t", "id BIGINT NOT NULL")
    feed.put(id=[1])
    feed.put(id=pa.array([2, None], pa.int64()))
    with pytest.raises(StreamingQueryException, match="DataError"):
        feed.run(feed.frame("id BIGINT"), "t")
    assert rows(table) == [(1,)]
    assert set(table.files()["path"].to_pylist()) == files_on_disk(table)


WRONG: dict[str, Callable[[Feed], Any]] = {
    "no checkpoint": lambda feed: feed.frame("id BIGINT").writeStream.format("lakebed").start("t"),
    "txn": lambda feed: feed.run(feed.frame("id BIGINT"), "t", **{"txn-app-id": "a", "txn-version": "1"}),
    "unknown": lambda feed: feed.run(feed.frame("id BIGINT"), "t", colour="red"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_options(spark_lake: lakebed.Warehouse, feed: Feed, case: str) -> None:
    spark_lake.create_table("t", "id BIGINT")
    feed.put(id=[1])
    with pytest.raises(Exception, match=r"checkpointLocation|leave out txn-app-id|colour"):
        WRONG[case](feed)


def test_a_name_stands_for_the_query(spark_lake: lakebed.Warehouse, feed: Feed) -> None:
    table = spark_lake.create_table("t", "id BIGINT")
    feed.put(id=[1])
    feed.run(feed.frame("id BIGINT"), "t", **{"query-id": "loader"})
    assert table.transactions() == {"loader": 0}


@pytest.mark.parametrize("mode", ["append", "upsert", "complete"])
def test_batches_for_each_batch(spark_lake: lakebed.Warehouse, feed: Feed, mode: str) -> None:
    key = ["id"] if mode == "upsert" else []
    table = spark_lake.create_table("t", "id BIGINT, op STRING", primary_key=key, buckets=1 if key else None)
    feed.put(id=[1, 2], op=["+I", "+I"])
    feed.put(id=[2, 3], op=["-D", "+I"])
    kind = "op" if mode == "upsert" else None
    expected = {"append": [1, 2, 2, 3], "upsert": [1, 3], "complete": [2, 3]}[mode]
    for _ in range(2):
        write = table.stream_writer(mode, checkpoint=str(feed.checkpoint()), row_kind=kind)
        stream = feed.frame("id BIGINT, op STRING").writeStream.foreachBatch(write).trigger(availableNow=True)
        stream.option("checkpointLocation", str(feed.checkpoint())).start().awaitTermination()
        assert rows(table, "id") == [(id,) for id in expected]
        assert table.version == 2
        feed.forget_last_commit()


def test_what_a_stream_writer_must_know(local_lake: lakebed.Warehouse) -> None:
    table = local_lake.create_table("t", "id BIGINT")
    with pytest.raises(lakebed.InputError, match="expected checkpoint= or query=; found neither"):
        table.stream_writer()
    with pytest.raises(lakebed.InputError, match="found both"):
        table.stream_writer(query="q", checkpoint="c")
    with pytest.raises(lakebed.InputError, match="one of append, upsert, complete"):
        table.stream_writer("update", query="q")
    with pytest.raises(lakebed.InputError, match="row_kind= is for mode 'upsert'"):
        table.stream_writer(query="q", row_kind="op")
    with pytest.raises(lakebed.FileMissingError):
        table.stream_writer(checkpoint=table.location + "/nowhere")([{"id": 1}], 0)
    assert table.version == 0
