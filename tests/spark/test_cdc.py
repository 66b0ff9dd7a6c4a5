"""Change messages in DataFrames and streams: what tasks read is what this process reads."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from cdc_messages import Source, maxwell
from pyspark.errors import StreamingQueryException
from spark_streams import Feed

import lakebed
from lakebed import cdc

pytestmark = pytest.mark.spark

DDL = "id INT, name STRING, amount BIGINT, _position STRING"


def rows(table: lakebed.Table) -> dict[int, dict[str, Any]]:
    found = table.to_arrow().drop_columns("_position").to_pylist()
    assert len({row["id"] for row in found}) == len(found)
    return {row["id"]: row for row in found}


def put(feed: Feed, sent: list[str | None], batches: int) -> None:
    size = -(-len(sent) // batches)
    for at in range(0, len(sent), size):
        feed.put(value=pa.array([m and m.encode() for m in sent[at : at + size]], pa.binary()))


def source_of(format: str, changes: int) -> Source:
    source = Source(format, random.Random(format))
    for _ in range(changes):
        source.change()
    return source


@pytest.mark.parametrize(
    "format", ["canal", *(pytest.param(format, marks=pytest.mark.soak) for format in ("debezium", "maxwell"))]
)
def test_a_stream_of_messages_into_a_table(
    spark: Any, spark_lake: lakebed.Warehouse, tmp_path: Path, format: str
) -> None:
    """As Kafka has them: bytes, out of order, doubled, tombstones among them; and the last batch comes again."""
    feed = Feed(spark, tmp_path)
    source = source_of(format, 150)
    put(feed, source.sent(), 3)
    table = spark_lake.create_table("t", DDL, primary_key=["id"], sequence=["_position"], buckets=2)
    parsed = cdc.parse(feed.frame("value BINARY"), format, table)
    for _ in range(2):
        feed.run(parsed, "t", rowKind=cdc.ROW_KIND)
        assert rows(table) == source.rows
        assert table.version == 3
        feed.forget_last_commit()


def test_new_columns_in_a_stream(spark: Any, spark_lake: lakebed.Warehouse, tmp_path: Path) -> None:
    feed = Feed(spark, tmp_path)
    source = source_of("debezium", 60)
    put(feed, source.sent(), 1)
    source.columns.append("note")
    before = len(source.messages)
    for _ in range(60):
        source.change()
    put(feed, source.messages[before:], 2)
    table = spark_lake.create_table("t", DDL, primary_key=["id"], sequence=["_position"], buckets=2)
    checkpoint, warehouse = str(feed.checkpoint()), spark_lake.location
    metastore = os.environ.get("LAKEBED_METASTORE")

    def each(batch: Any, number: int) -> None:
        # On Spark Connect this runs in a process of the server, which has to connect by itself.
        with lakebed.connect(warehouse, metastore, spark=batch.sparkSession) as lake:
            into = lake.table("t")
            write = into.stream_writer("upsert", checkpoint=checkpoint, row_kind=cdc.ROW_KIND, merge_schema=True)
            write(cdc.parse(batch, "debezium", into, new_columns="add"), number)

    stream = feed.frame("value BINARY").writeStream.foreachBatch(each).option("checkpointLocation", checkpoint)
    stream.trigger(availableNow=True).start().awaitTermination()
    assert table.schema.names[-1] == "note"
    assert rows(table) == {key: {"note": None, **row} for key, row in source.rows.items()}
    with pytest.raises(lakebed.InputError, match="parse with new_columns='add' in foreachBatch"):
        cdc.parse(feed.frame("value BINARY"), "debezium", table, new_columns="add")


def test_malformed_messages(spark: Any, spark_lake: lakebed.Warehouse, tmp_path: Path) -> None:
    feed = Feed(spark, tmp_path)
    put(feed, [maxwell("insert", {"id": 1}), "{", maxwell("insert", {"id": 2})], 1)
    table = spark_lake.create_table("t", DDL, primary_key=["id"], sequence=["_position"], buckets=1)
    with pytest.raises(StreamingQueryException, match="it is not JSON"):
        feed.run(cdc.parse(feed.frame("value BINARY"), "maxwell", table), "t", rowKind=cdc.ROW_KIND)
    assert table.version == 0
    batch = spark.read.parquet(str(feed.data))
    parsed = cdc.parse(batch, "maxwell", table, malformed="aside")
    bad = parsed.where("_malformed is not null")
    assert [row._message for row in bad.collect()] == ["{"]
    good = parsed.where("_malformed is null").drop(cdc.REASON, cdc.MESSAGE)
    table.upsert(good, row_kind=cdc.ROW_KIND)
    assert sorted(rows(table)) == [1, 2]
    with pytest.raises(lakebed.InputError, match="there is no column 'payload' of messages; expected one of value"):
        cdc.parse(batch, "maxwell", table, column="payload")


def test_tasks_read_what_this_process_reads(spark: Any, tmp_path: Path) -> None:
    """Nested and exact types too, and columns that are new, found in several tasks."""
    ddl = "id INT, d DECIMAL(20,4), b BINARY, t TIMESTAMP, l ARRAY<STRING>"
    values = {"d": 1.5, "b": "AP9h", "t": "2016-10-21 05:33:37.523", "l": ["x"]}
    more = [{}, {"x": 1}, {"x": 2.5}, {"y": "a"}]
    messages = [maxwell("insert", {"id": n, **values, **more[n % 4]}, xoffset=n) for n in range(40)]
    pq.write_table(pa.table({"value": messages}), tmp_path / "m.parquet")
    frame = spark.read.parquet(str(tmp_path / "m.parquet")).repartition(4)
    expected = cdc.parse(messages, "maxwell", ddl, new_columns="add")
    found = cdc.parse(frame, "maxwell", ddl, new_columns="add").toArrow()
    assert found.schema.names == expected.schema.names == ["id", "d", "b", "t", "l", "x", "y", "_row_kind", "_position"]
    assert found.sort_by("_position").to_pylist() == expected.to_pylist()
