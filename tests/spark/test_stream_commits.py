"""The sink's commit and abort, called as Spark may call them: twice, late, after failures, beside maintenance."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import StructType
from spark_streams import files_on_disk, rows

import lakebed
from lakebed.spark.stream_sink import StreamWriter

pytestmark = pytest.mark.spark


class Query:
    """A query with a checkpoint, whose batches are written and committed as Spark does it."""

    def __init__(self, spark: Any, lake: lakebed.Warehouse, folder: Path, name: str = "query") -> None:
        self.spark, self.lake = spark, lake
        self.checkpoint = folder / name
        self.checkpoint.mkdir()
        (self.checkpoint / "metadata").write_text(json.dumps({"id": name}))
        self.complete = False

    def write(self, *ids: int) -> list[Any]:
        """Two tasks write files; what they report."""
        made = self.spark.createDataFrame([(id, 10 * id) for id in ids], "id BIGINT, n BIGINT")
        frame = made.repartitionByRange(2, "id")
        writer = self.writer(frame.schema)

        def task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            yield pa.record_batch({"message": [pickle.dumps(writer.write(iter(batches)))]})

        return [pickle.loads(row.message) for row in frame.mapInArrow(task, "message BINARY").collect()]

    def commit(self, messages: list[Any], batch: int) -> None:
        self.writer(StructType.fromDDL("id BIGINT, n BIGINT")).commit(messages, batch)

    def abort(self, messages: list[Any], batch: int) -> None:
        self.writer(StructType.fromDDL("id BIGINT, n BIGINT")).abort(messages, batch)

    def writer(self, schema: StructType) -> StreamWriter:
        given = {"path": "t", "checkpointLocation": str(self.checkpoint), "warehouse": self.lake.location}
        return StreamWriter(None, given, schema, complete=self.complete)


@pytest.fixture
def query(spark: Any, spark_lake: lakebed.Warehouse, tmp_path: Path) -> Query:
    return Query(spark, spark_lake, tmp_path)


TABLES: dict[str, dict[str, Any]] = {
    "no key": {},
    "on-read": {"primary_key": ["id"], "buckets": 2, "merge": "on-read"},
    "on-write": {"primary_key": ["id"], "buckets": 2},
    "copy-on-write": {"primary_key": ["id"], "buckets": 2, "merge": "copy-on-write"},
}


SELDOM = ("on-read", "copy-on-write")


@pytest.mark.parametrize("kind", TABLES)
def test_commits_and_aborts_that_come_again(query: Query, kind: str) -> None:
    """The same files, or others for the same batch, are taken in once; what has landed is not deleted."""
    table = query.lake.create_table("t", "id BIGINT, n BIGINT", **TABLES[kind])
    first = query.write(1, 2, 3)
    query.commit(first, 0)
    landed = files_on_disk(table)
    assert rows(table) == [(1, 10), (2, 20), (3, 30)]
    query.commit(first, 0)
    query.abort(first, 0)
    again = query.write(1, 2, 3)
    assert files_on_disk(table) > landed
    query.commit(again, 0)
    query.abort(again, 0)
    assert files_on_disk(table) == landed
    assert (rows(table), table.version) == ([(1, 10), (2, 20), (3, 30)], 1)
    query.commit(query.write(3, 4), 1)
    query.commit(first, 0)  # of a process that hung meanwhile
    query.abort(first, 0)
    twice = [(3, 30)] if kind == "no key" else []
    assert rows(table) == sorted([(1, 10), (2, 20), (3, 30), (4, 40), *twice])
    assert table.transactions() == {"spark-stream-query": 1}


def test_what_was_aborted_cannot_land(query: Query) -> None:
    """A commit that was thought to have failed and comes late finds its files condemned, and says so."""
    table = query.lake.create_table("t", "id BIGINT, n BIGINT")
    messages = query.write(1, 2)
    assert all(message.message.paths for message in messages)
    query.abort([messages[0], None], 0)
    assert files_on_disk(table) == set(messages[1].message.paths)
    with pytest.raises(lakebed.ConflictError, match="vacuum has deleted file"):
        query.commit(messages, 0)
    query.abort(messages, 0)
    query.abort([None, None], 0)
    assert (files_on_disk(table), table.version) == (set(), 0)
    query.commit(query.write(1, 2), 0)
    assert rows(table) == [(1, 10), (2, 20)]


def test_another_query_and_a_new_checkpoint_count_for_themselves(query: Query, spark: Any, tmp_path: Path) -> None:
    table = query.lake.create_table("t", "id BIGINT, n BIGINT")
    query.commit(query.write(1), 0)
    Query(spark, query.lake, tmp_path, "other").commit(query.write(2), 0)
    (query.checkpoint / "metadata").write_text(json.dumps({"id": "made anew"}))
    query.commit(query.write(3), 0)
    assert rows(table, "id") == [(1,), (2,), (3,)]
    assert len(table.transactions()) == 3


@pytest.mark.parametrize("kind", ["no key", "on-write", *(pytest.param(k, marks=pytest.mark.soak) for k in SELDOM)])
@pytest.mark.parametrize("complete", [False, True])
def test_maintenance_between_the_tasks_and_the_commit(query: Query, kind: str, complete: bool) -> None:
    """It is never in a writer's way: not even where the batch takes the place of files that it has replaced."""
    table = query.lake.create_table("t", "id BIGINT, n BIGINT", **TABLES[kind])
    query.complete = complete
    query.commit(query.write(1, 2), 0)
    messages = query.write(2, 3)
    table.settle()
    table.compact(full=True)
    query.commit(messages, 1)
    query.commit(messages, 1)
    expected = [2, 3] if complete else [1, 2, 2, 3] if kind == "no key" else [1, 2, 3]
    assert rows(table, "id") == [(id,) for id in expected]


def test_an_empty_batch_is_one_too(query: Query) -> None:
    table = query.lake.create_table("t", "id BIGINT, n BIGINT", primary_key=["id"])
    query.commit([], 0)
    query.commit(query.write(), 1)
    assert (table.count(), table.transactions()) == (0, {"spark-stream-query": 1})
