"""The connection to PostgreSQL is lost in a sink's commit: the batch lands exactly once, also when it is sent again."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from cutting_proxy import Cut, CuttingProxy, proxied
from pyspark import TaskContext
from pyspark.sql.types import LongType, StructField, StructType
from spark_streams import Feed, files_on_disk, rows

import lakebed
from lakebed.metastore import open_metastore
from lakebed.spark.stream_sink import StreamWriter

pytestmark = pytest.mark.postgres
CUTS: list[Cut] = ["before", "after", "at_once"]
DDL = "id BIGINT, v BIGINT"
SCHEMA = StructType([StructField("id", LongType()), StructField("v", LongType())])
FIRST, SECOND = [(1, 10), (2, 20)], [(2, 5), (3, 30)]


@dataclass(frozen=True)
class Kind:
    """How a table takes the batches of a stream, and what two of them make of it."""

    mode: str
    create: dict[str, Any]
    expected: list[tuple[int, int]]


SUMS = {"merge_engine": "aggregation", "properties": {"fields.v.aggregate-function": "sum"}}
KINDS = {
    "append": Kind("append", {}, [(1, 10), (2, 20), (2, 5), (3, 30)]),
    "upsert": Kind("upsert", {"primary_key": ["id"], "buckets": 2}, [(1, 10), (2, 5), (3, 30)]),
    # A batch that counts twice is seen in the sum.
    "sums": Kind(
        "upsert", {"primary_key": ["id"], "buckets": 2, "merge": "on-read", **SUMS}, [(1, 10), (2, 25), (3, 30)]
    ),
    "complete": Kind("complete", {}, SECOND),
}


def cases(kinds: Iterable[str], cuts: Iterable[Cut], quick: Callable[[str, Cut], bool]) -> pytest.MarkDecorator:
    """Every kind with every cut; those that are not quick are left to the soak."""
    found = [
        pytest.param(kind, cut, marks=[] if quick(kind, cut) else [pytest.mark.soak]) for kind in kinds for cut in cuts
    ]
    return pytest.mark.parametrize(("sink", "cut"), found, indirect=["sink"])


@pytest.fixture
def through(
    postgres_metastore: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[CuttingProxy, str]]:
    """A proxy that cuts where versions are committed; whoever is cut off soon gives up asking for the outcome."""
    monkeypatch.setitem(open_metastore.__kwdefaults__, "patience", 0.3)
    with proxied(postgres_metastore()) as (proxy, url):
        proxy.versions_only = True
        yield proxy, url


@dataclass(frozen=True)
class Sink:
    """A table, and the batches of one query for it, which are written as Spark does it, without any session."""

    lake: lakebed.Warehouse
    url: str
    folder: Path
    kind: Kind

    @property
    def table(self) -> lakebed.Table:
        return self.lake.table("t")

    def write(self, batch: list[tuple[int, int]]) -> list[Any]:
        """Two tasks write files; what they report."""
        with in_a_task():
            return [self._writer().write(iter([_rows([row])])) for row in batch]

    def commit(self, messages: list[Any], number: int) -> None:
        self._writer().commit(messages, number)

    def abort(self, messages: list[Any], number: int) -> None:
        self._writer().abort(messages, number)

    def _writer(self) -> StreamWriter:
        given = {"path": "t", "checkpointLocation": str(self.folder), "warehouse": self.lake.location}
        given["metastore"] = self.url
        return StreamWriter(None, given, SCHEMA, complete=self.kind.mode == "complete")


@contextmanager
def in_a_task() -> Iterator[None]:
    """What Spark tells the code of a task of where it is."""
    threads, before = pa.cpu_count(), TaskContext._taskContext
    TaskContext._taskContext = None
    context = TaskContext._getOrCreate()
    context._cpus, context._partitionId, context._attemptNumber, context._localProperties = threads, 0, 0, {}
    try:
        yield
    finally:
        TaskContext._taskContext = before
        pa.set_cpu_count(threads)


def _rows(batch: list[tuple[int, int]]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(
        [{"id": id, "v": v} for id, v in batch], pa.schema({"id": pa.int64(), "v": pa.int64()})
    )


@pytest.fixture
def sink(request: pytest.FixtureRequest, tmp_path: Path, through: tuple[CuttingProxy, str]) -> Iterator[Sink]:
    folder = tmp_path / "checkpoint"
    folder.mkdir()
    (folder / "metadata").write_text(json.dumps({"id": "query"}))
    kind = KINDS[request.param]
    with lakebed.connect(tmp_path / "w", through[1]) as lake:
        lake.create_table("t", DDL, **kind.create)
        yield Sink(lake, through[1], folder, kind)


def check(sink: Sink, application: str) -> None:
    """Both batches are there once, and nothing else is left on the disk."""
    assert rows(sink.table) == sorted(sink.kind.expected, key=repr)
    assert sink.table.transactions() == {application: 1}
    assert [commit.operation for commit in sink.table.history()].count("create") == 1
    assert len([commit for commit in sink.table.history() if commit.operation != "settle"]) == 3
    sink.table.vacuum(timedelta(0))
    assert files_on_disk(sink.table) == set(sink.table.files()["path"].to_pylist())
    assert rows(sink.table) == sorted(sink.kind.expected, key=repr)


@cases(KINDS, CUTS, lambda kind, cut: kind == "sums" and cut != "at_once")
def test_a_stream_writer_whose_connection_is_cut(sink: Sink, through: tuple[CuttingProxy, str], cut: Cut) -> None:
    proxy = through[0]
    write = sink.table.stream_writer(sink.kind.mode, query="q")
    write(_rows(FIRST), 0)
    proxy.cut = cut
    done = write(_rows(SECOND), 1)
    assert (proxy.cuts, done.repeated) == (1, False)
    again = write(_rows(SECOND), 1)
    assert (again.repeated, again.version) == (True, done.version)
    check(sink, "q")


@cases(["sums"], ["before", "after"], lambda _, cut: cut == "after")
def test_a_stream_writer_that_never_learned_the_outcome(
    sink: Sink, through: tuple[CuttingProxy, str], cut: Cut
) -> None:
    """The server stays away, and the query fails; when it is started again, it sends the batch again."""
    proxy = through[0]
    sink.table.stream_writer(sink.kind.mode, query="q")(_rows(FIRST), 0)
    proxy.cut, proxy.away_after_cut = cut, True
    with pytest.raises(lakebed.CommitUnknownError):
        sink.table.stream_writer(sink.kind.mode, query="q")(_rows(SECOND), 1)
    proxy.refusing = False
    again = sink.table.stream_writer(sink.kind.mode, query="q")(_rows(SECOND), 1)
    assert again.repeated == (cut == "after")
    check(sink, "q")


@cases(["append", "sums"], CUTS, lambda kind, cut: (kind, cut) == ("sums", "after"))
def test_a_sink_whose_connection_is_cut(sink: Sink, through: tuple[CuttingProxy, str], cut: Cut) -> None:
    proxy = through[0]
    sink.commit(sink.write(FIRST), 0)
    messages = sink.write(SECOND)
    proxy.cut = cut
    sink.commit(messages, 1)
    assert proxy.cuts == 1
    sink.commit(messages, 1)
    sink.commit(sink.write(SECOND), 1)
    check(sink, "spark-stream-query")


@pytest.mark.parametrize("aborted", [pytest.param(False, marks=pytest.mark.soak), True], ids=["", "aborted"])
@cases(["append", "sums"], ["before", "after"], lambda kind, _: kind == "sums")
def test_a_sink_that_never_learned_the_outcome(
    sink: Sink, through: tuple[CuttingProxy, str], cut: Cut, aborted: bool
) -> None:
    """Spark aborts what it could not commit, or dies before it does; what has landed all the same stays."""
    proxy = through[0]
    sink.commit(sink.write(FIRST), 0)
    messages = sink.write(SECOND)
    proxy.cut, proxy.away_after_cut = cut, True
    with pytest.raises(lakebed.CommitUnknownError):
        sink.commit(messages, 1)
    proxy.refusing = False
    landed = sink.table.transactions()["spark-stream-query"] == 1
    assert landed == (cut == "after")
    if aborted:
        sink.abort(messages, 1)
        assert all(set(message.message.paths) <= files_on_disk(sink.table) for message in messages) == landed
    sink.commit(sink.write(SECOND), 1)
    check(sink, "spark-stream-query")


@pytest.mark.spark
@cases(["append", "sums"], CUTS, lambda *_: False)
def test_a_query_whose_connection_is_cut(
    sink: Sink, through: tuple[CuttingProxy, str], spark: Any, tmp_path: Path, cut: Cut
) -> None:
    """Real Structured Streaming: cut in a batch of its own, and in one that is sent again."""
    proxy = through[0]
    lakebed.connect(tmp_path / "registers", spark=spark).close()
    feed = Feed(spark, tmp_path)
    reach = {"warehouse": sink.lake.location, "metastore": sink.url}
    for batch in (FIRST, SECOND):
        feed.put(id=[id for id, _ in batch], v=[v for _, v in batch])
        proxy.cut = cut
        feed.run(feed.frame(DDL), "t", **reach)
    assert proxy.cuts == 2
    (application,) = sink.table.transactions()
    feed.forget_last_commit()
    feed.run(feed.frame(DDL), "t", **reach)
    check(sink, application)
