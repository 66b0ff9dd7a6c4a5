"""The reader of ``readStream.format("lakebed")``, driven as Spark drives it, but without Spark: offsets and plans."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from datetime import timedelta
from itertools import chain
from typing import Any

import pyarrow as pa
import pytest
from sqlalchemy import delete

import lakebed
from lakebed.metastore import schema as metastore_schema

pytest.importorskip("pyspark.sql.streaming.datasource")
from lakebed.spark.source import LakebedSource

AT_ONCE = timedelta(0)


class Stream:
    """A query over a table: what it has read, where it is, and restarts from there."""

    def __init__(self, lake: lakebed.Warehouse, table: str = "t", **options: object) -> None:
        self.given = {"path": table, **{name: str(value) for name, value in options.items()}}
        self.lake = lake
        self.at: Any = None
        self.batches: list[list[tuple[Any, ...]]] = []
        self.start()

    def start(self) -> None:
        """A new driver; the offset is what its checkpoint would have."""
        kind = type("Known", (LakebedSource,), {"config": self.lake._config})
        source = kind(self.given)
        self.columns = source.schema()
        self.reader: Any = source.streamReader(self.columns)

    def batch(self, commit: bool = True) -> list[tuple[Any, ...]]:
        """The next micro-batch, sorted."""
        if self.at is None:
            self.at = self.reader.initialOffset()
        end = self.reader.latestOffset(self.at, self.reader.getDefaultReadLimit())
        found = self.replay(self.at, end)
        self.at = end
        if commit:
            self.reader.commit(end)
        self.batches.append(found)
        return found

    def replay(self, start: Any, end: Any) -> list[tuple[Any, ...]]:
        """What the tasks of a micro-batch read; they know nothing but their partition."""
        rows: list[tuple[Any, ...]] = []
        task = pickle.loads(pickle.dumps(self.reader))
        for partition in self.reader.partitions(start, end):
            for read in task.read(pickle.loads(pickle.dumps(partition))):
                rows += [tuple(row.values()) for row in read.to_pylist()]
        return sorted(rows, key=lambda row: [str(value).zfill(20) for value in row])

    def rest(self) -> list[list[tuple[Any, ...]]]:
        """All batches until nothing is left."""
        found = []
        while batch := self.batch():
            found.append(batch)
        return found


@pytest.fixture
def stream(local_lake: lakebed.Warehouse) -> Iterator[Callable[..., Stream]]:
    made: list[Stream] = []

    def make(table: str = "t", **options: object) -> Stream:
        made.append(Stream(local_lake, table, **options))
        return made[-1]

    yield make
    for one in made:
        one.reader.stop()


@pytest.fixture
def table(local_lake: lakebed.Warehouse) -> lakebed.Table:
    """Version n has the rows 0 to n - 1."""
    made = local_lake.create_table("t", "id BIGINT")
    for id in range(5):
        made.append([{"id": id}])
    return made


def expire(table: Any) -> None:
    """An hour passes for those who read lazily, and then all but the newest version goes."""
    table._handle.metastore._database.write(lambda connection: connection.execute(delete(metastore_schema.leases)))
    table.vacuum(AT_ONCE)


def ids(*numbers: int) -> list[tuple[int]]:
    return [(id,) for id in numbers]


def test_where_a_stream_begins_and_ends(table: lakebed.Table, stream: Callable[..., Stream]) -> None:
    times = {commit.version: commit.timestamp for commit in table.history()}
    table.tag("second", 2)
    expected: dict[str, tuple[dict[str, object], list[tuple[int]]]] = {
        "by default": ({}, ids(0, 1, 2, 3, 4)),
        "earliest": ({"start": "earliest", "end": 2}, ids(0, 1)),
        "latest": ({"start": "latest"}, []),
        "version": ({"start": 3}, ids(3, 4)),
        "version, range": ({"start": 1, "end": 3}, ids(1, 2)),
        "tag": ({"start": "second", "end": 4}, ids(2, 3)),
        "time": ({"start": times[1], "end": times[3]}, ids(1, 2)),
        "an end that is still to come": ({"start": 3, "end": 6}, ids(3, 4)),
    }
    streams = {name: stream(**options) for name, (options, _) in expected.items()}
    assert {name: one.batch() for name, one in streams.items()} == {name: rows for name, (_, rows) in expected.items()}
    table.append([{"id": 5}])
    table.append([{"id": 6}])
    bounded = {name for name, (options, _) in expected.items() if "end" in options}
    assert {name for name, one in streams.items() if one.batch() == []} == bounded - {"an end that is still to come"}
    assert streams["an end that is still to come"].batches == [ids(3, 4), ids(5)]
    assert streams["latest"].batches == [[], ids(5, 6)]


LIMITS: dict[str, tuple[dict[str, int], list[int]]] = {
    "none": ({}, [5]),
    "versions": ({"maxVersionsPerTrigger": 2}, [2, 2, 1]),
    "files": ({"maxFilesPerTrigger": 3}, [3, 2]),
    "bytes": ({"maxBytesPerTrigger": 1}, [1] * 5),
    "the narrowest counts": (
        {"maxVersionsPerTrigger": 2, "maxFilesPerTrigger": 1, "maxBytesPerTrigger": 10**9},
        [1] * 5,
    ),
}


@pytest.mark.parametrize("case", LIMITS)
def test_limits_of_a_micro_batch(table: lakebed.Table, stream: Callable[..., Stream], case: str) -> None:
    """Hudi #10353: admission control; and how much is left is told."""
    limits, sizes = LIMITS[case]
    reading = stream(start=0, **limits)
    behind = []
    for _ in sizes:
        reading.batch()
        behind.append(reading.reader.reportLatestOffset()["behind"])
    assert [len(batch) for batch in reading.batches] == sizes
    assert reading.rest() == []
    left = [5 - sum(sizes[: at + 1]) for at in range(len(sizes))]
    assert [(b["versions"], b["files"]) for b in behind] == [(n, n) for n in left]
    size = sum(table.files()["size"].to_pylist()) // 5
    assert [round(b["bytes"] / size) for b in behind] == left


@pytest.mark.parametrize("limit", [None, 2])
def test_all_that_is_there_now(table: lakebed.Table, stream: Callable[..., Stream], limit: int | None) -> None:
    """Hudi #10353, AvailableNow: what comes while it runs is for the next run."""
    reading = stream(start=0, **({} if limit is None else {"maxVersionsPerTrigger": limit}))
    reading.at = reading.reader.initialOffset()
    reading.reader.prepareForTriggerAvailableNow()
    table.append([{"id": 5}])
    assert list(chain(*reading.rest())) == ids(0, 1, 2, 3, 4)
    reading.reader.prepareForTriggerAvailableNow()
    assert reading.rest() == [ids(5)]


@pytest.mark.parametrize("mode", ["append", "all", "combine"])
@pytest.mark.parametrize("key", [None, 4])
def test_pieces_of_a_large_version(
    local_lake: lakebed.Warehouse, stream: Callable[..., Stream], mode: str, key: int | None
) -> None:
    """Offsets are inside a version; a driver that restarts goes on there, and a replayed batch is the same."""
    made = local_lake.create_table(
        "t", "id BIGINT, part INT", partition_by=[] if key else ["part"], primary_key=["id"] if key else [], buckets=key
    )
    rows = [{"id": id, "part": id % 4} for id in range(40)]
    made.append(rows)
    made.append([{"id": id, "part": id % 4} for id in range(100, 140)])
    reading = stream(start=0, mode=mode, columns="id", changeColumns="false", maxFilesPerTrigger=1)
    inside = 0
    while True:
        before = reading.at
        found = reading.batch()
        if not found:
            break
        inside += reading.at["pieces"] > 0
        reading.start()
        if before is not None:
            assert reading.replay(before, reading.at) == found
    assert inside == 6
    assert len(reading.batches) == 9
    assert sorted(chain(*reading.batches)) == ids(*range(40), *range(100, 140))


def test_changes_of_a_key_are_in_one_partition_in_their_order(
    local_lake: lakebed.Warehouse, stream: Callable[..., Stream]
) -> None:
    made = local_lake.create_table(
        "t", "id BIGINT, n INT", primary_key=["id"], buckets=4, properties={"compaction-small-files": 2}
    )
    for n in range(4):
        made.upsert([{"id": id, "n": n} for id in range(20)])
        made.compact()
    reading = stream(start=0, mode="all")
    reading.at = reading.reader.initialOffset()
    end = reading.reader.latestOffset(reading.at, reading.reader.getDefaultReadLimit())
    seen: dict[int, tuple[int, list[int]]] = {}
    for number, partition in enumerate(reading.reader.partitions(reading.at, end)):
        for batch in reading.reader.read(partition):
            for row in batch.to_pylist():
                if row["_change_type"] != "update_preimage":
                    where, told = seen.setdefault(row["id"], (number, []))
                    assert where == number
                    told.append(row["n"])
    assert {tuple(told) for _, told in seen.values()} == {(0, 1, 2, 3)}
    assert len(seen) == 20


def test_a_stream_outlives_the_version_that_it_began_at(table: lakebed.Table, stream: Callable[..., Stream]) -> None:
    """Its columns are those of the version at which the query began, which expires while it runs."""
    reading = stream()
    assert reading.batch() == ids(0, 1, 2, 3, 4)
    for id in range(5, 8):
        table.append([{"id": id}])
        assert reading.batch() == ids(id)
        expire(table)
    table.append([{"id": 8}])
    assert reading.batch() == ids(8)


def test_an_expired_offset(table: lakebed.Table, stream: Callable[..., Stream]) -> None:
    """Hudi #7778, and cleaned files that are silently skipped: an error that names what is left."""
    reading = stream(start=1, maxVersionsPerTrigger=1)
    assert reading.batch() == ids(1)
    expire(table)
    table.append([{"id": 5}])
    with pytest.raises(
        lakebed.NotFoundError, match=r"version 2 any more: it has expired; expected a version from 5 to 6"
    ):
        reading.batch()
    assert reading.at["version"] == 2


@pytest.mark.parametrize("mode", ["append", "all", "combine", "skip-merge"])
@pytest.mark.parametrize("limit", [None, 1])
def test_an_expired_offset_and_a_snapshot_in_its_place(
    table: lakebed.Table, stream: Callable[..., Stream], mode: str, limit: int | None, caplog: pytest.LogCaptureFixture
) -> None:
    more = {} if limit is None else {"maxFilesPerTrigger": limit}
    reading = stream(start=1, mode=mode, onExpired="snapshot", changeColumns="true", columns="id", consumer="c", **more)
    reading.at = reading.reader.initialOffset()
    end = reading.reader.latestOffset(reading.at, reading.reader.getDefaultReadLimit())
    table.forget_consumer("c")
    expire(table)
    table.append([{"id": 5}])
    # The batch that the checkpoint knows of: both its ends have expired, and it must go on all the same.
    told = [row[:2] for row in reading.replay(reading.at, end)]
    assert told == [(id, "snapshot") for id in range(5)]
    assert "have expired; all rows of version 5 come instead" in caplog.text
    reading.reader.commit(end)
    assert [c.version for c in table.consumers()] == [5]
    reading.at = end
    batches = [[row[:2] for row in batch] for batch in reading.rest()]
    kind = "insert" if end["version"] == 5 else "snapshot"
    assert batches == ([[(5, kind)]] if kind == "insert" else [[(id, kind) for id in range(6)]])
    table.append([{"id": 6}])
    assert [row[:2] for row in reading.batch()] == [(6, "insert")]


def test_a_snapshot_while_a_version_was_read_in_pieces(
    local_lake: lakebed.Warehouse, stream: Callable[..., Stream]
) -> None:
    """Pieces of a plan that is gone must not be taken for pieces of the snapshot."""
    made = local_lake.create_table("t", "id BIGINT, part INT", partition_by=["part"])
    made.append([{"id": id, "part": id % 4} for id in range(8)])
    reading = stream(start=0, onExpired="snapshot", maxFilesPerTrigger=1, columns="id")
    assert len(reading.batch()) == 2
    assert reading.at["pieces"] == 1
    made.append([{"id": 9, "part": 1}])
    expire(made)
    made.append([{"id": 10, "part": 1}])
    assert reading.batch() == ids(*range(8), 9, 10)
    assert reading.batch() == []
    made.append([{"id": 11, "part": 1}])
    assert reading.batch() == ids(11)


@pytest.mark.parametrize("on_expired", ["error", "snapshot"])
def test_a_first_snapshot_that_expires_while_it_is_read_in_pieces(
    local_lake: lakebed.Warehouse, stream: Callable[..., Stream], on_expired: str
) -> None:
    made = local_lake.create_table("t", "id BIGINT, part INT", partition_by=["part"])
    made.append([{"id": id, "part": id % 4} for id in range(8)])
    expire(made)
    reading = stream(onExpired=on_expired, maxFilesPerTrigger=1, columns="id")
    assert len(reading.batch()) == 2
    assert (reading.at["whole"], reading.at["pieces"]) == (True, 1)
    made.overwrite([{"id": 9, "part": 1}])
    expire(made)
    made.append([{"id": 10, "part": 1}])
    if on_expired == "error":
        with pytest.raises(
            lakebed.NotFoundError, match="version 1 any more: it has expired; expected a version from 2 to"
        ):
            reading.batch()
    else:
        assert reading.rest() == [ids(9, 10)]


def test_a_gap_behind_a_stream_that_stands_at_a_tag(table: lakebed.Table, stream: Callable[..., Stream]) -> None:
    """The version that was read is kept by its tag, the next one is not."""
    readings = [stream(start=2, maxFilesPerTrigger=1, onExpired=how) for how in ("error", "snapshot")]
    for reading in readings:
        reading.at = reading.reader.initialOffset()
    table.tag("kept", 2)
    expire(table)
    table.append([{"id": 5}])
    assert readings[0].rest() == [ids(2, 3, 4, 5)]  # both ends are there: the net change is known
    assert readings[1].rest() == [ids(2, 3, 4, 5)]


def test_a_stream_that_has_read_nothing_yet(table: lakebed.Table, stream: Callable[..., Stream]) -> None:
    """Its first snapshot expired before it was read: a later one is as good."""
    for limits in ({}, {"maxFilesPerTrigger": 1}):
        reading = stream(**limits)
        reading.at = reading.reader.initialOffset()
        table.overwrite([{"id": 7}])
        expire(table)
        assert reading.rest() == [ids(7)]
        reading.start()
        table.append([{"id": 8}])
        assert reading.batch() == ids(8)


def test_a_gap_that_a_tag_has_left(table: lakebed.Table, stream: Callable[..., Stream]) -> None:
    table.tag("kept", 1)
    expire(table)
    with pytest.raises(lakebed.NotFoundError, match="no version 2 any more"):
        stream(start="kept", mode="all").batch()
    assert stream(start="kept").batch() == ids(1, 2, 3, 4)
    whole = stream(start="kept", mode="all", onExpired="snapshot", columns="id").batch()
    assert [row[:2] for row in whole] == [(id, "snapshot") for id in range(5)]


def test_change_columns_on_request(table: lakebed.Table, stream: Callable[..., Stream]) -> None:
    assert stream().columns.names == ["id"]
    added = ["id", "_change_type", "_commit_version", "_commit_timestamp"]
    assert stream(changeColumns="true").columns.names == added
    assert stream(mode="all").columns.names == added
    assert stream(mode="all", changeColumns="false").columns.names == ["id"]
    assert [row[:3] for row in stream(start=4, changeColumns="true").batch()] == [(4, "insert", 5)]
    assert stream(start=0, where="id > 2").batch() == ids(3, 4)


def test_columns_that_change(local_lake: lakebed.Warehouse, stream: Callable[..., Stream]) -> None:
    """Hudi #8756, #10309, Paimon #6026, LakeSoul #225: what is added comes with a restart; else there are words."""
    made = local_lake.create_table("t", "id BIGINT, n INT")
    reading = stream()
    reading.batch()
    made.append([{"id": 1, "n": 1}])
    made.alter(add={"more": "STRING"}, rename={"n": "number"})
    made.append([{"id": 2, "number": 2, "more": "!"}])
    assert reading.batch() == [(1, 1), (2, 2)]
    reading.start()
    made.append([{"id": 3, "number": 3, "more": "?"}])
    assert (reading.columns.names, reading.batch()) == (["id", "number", "more"], [(3, 3, "?")])
    made.alter(widen={"number": "BIGINT"})
    made.append([{"id": 4, "number": 2**40}])
    with pytest.raises(lakebed.InputError, match=r"'number', which this stream reads, has another type .* restart the"):
        reading.batch()
    reading.start()
    assert reading.batch() == [(4, 2**40, None)]
    made.alter(drop=["more"])
    made.append([{"id": 5, "number": 5}])
    with pytest.raises(lakebed.InputError, match=r"'more', which this stream reads, is gone .* restart the query"):
        reading.batch()
    reading.start()
    assert reading.batch() == [(5, 5)]


def test_maintenance_between_batches(local_lake: lakebed.Warehouse, stream: Callable[..., Stream]) -> None:
    """Hudi #18847, PR #9584: commits of maintenance emit nothing and hide nothing, whatever the batches are."""
    made = local_lake.create_table("t", "id BIGINT, n INT", primary_key=["id"], buckets=2, merge="on-read")
    readings = [stream(mode="all", maxVersionsPerTrigger=limit, columns="id, n") for limit in (1, 2, 3)]
    for n in range(6):
        made.upsert([{"id": id, "n": n} for id in range(n, n + 3)])
        if n % 2:
            made.settle()
            made.compact(full=True)
    for reading in readings:
        found: dict[int, int] = {}
        while reading.at is None or reading.at["version"] < made.version:
            for id, n, kind, *_ in sorted(reading.batch(), key=lambda row: (row[3], row[2] != "update_preimage")):
                if kind == "update_preimage":
                    assert found.pop(id) == n
                else:
                    assert id not in found
                    found[id] = n
        assert found == dict(zip(*(made.to_arrow()[name].to_pylist() for name in ("id", "n")), strict=True))


@pytest.mark.parametrize("merge", ["on-write", "on-read", "copy-on-write"])
def test_deletes_are_told(local_lake: lakebed.Warehouse, stream: Callable[..., Stream], merge: str) -> None:
    """Hudi #11016, #9363: streaming loses rows, drops deletes. A copy by row kinds is equal after each batch."""
    made = local_lake.create_table("t", "id BIGINT, n INT", primary_key=["id"], buckets=2, merge=merge)
    copy = local_lake.create_table("copy", "id BIGINT, n INT", primary_key=["id"], buckets=1)
    write = copy.stream_writer("upsert", query="copy", row_kind="op")
    reading = stream(mode="all", columns="id, n", consumer="copy")
    kinds = {"insert": "+I", "update_preimage": "-U", "update_postimage": "+U", "delete": "-D"}
    steps = [
        lambda: made.upsert([{"id": id, "n": 0} for id in range(8)]),
        lambda: made.delete([{"id": 1}]),
        lambda: made.delete("id = 2"),
        lambda: made.upsert([{"id": 3, "op": "-D"}, {"id": 1, "n": 1, "op": "+I"}], row_kind="op"),
        lambda: (made.settle(), made.compact(full=True), made.vacuum(AT_ONCE)),
        lambda: made.overwrite([{"id": 4, "n": 4}, {"id": 9, "n": 9}]),
        lambda: made.update({"n": "n + 1"}, where="id = 4"),
        lambda: made.restore(made.version - 1),
    ]
    for number, step in enumerate(steps):
        step()
        order = {"delete": 0, "update_preimage": 0}
        told = sorted(reading.batch(), key=lambda row: (row[3], order.get(row[2], 1)))
        rows = [{"id": id, "n": n, "op": kinds[kind]} for id, n, kind, *_ in told]
        if rows:
            write(rows, number)
        assert sorted(copy.to_arrow().to_pylist(), key=repr) == sorted(made.to_arrow().to_pylist(), key=repr)


def test_named_consumers(table: lakebed.Table, stream: Callable[..., Stream]) -> None:
    """What a stream has not read is kept; a new checkpoint goes on where the consumer is, or was set back to."""
    reading = stream(start=2, consumer="report", consumerRetain="1 day", maxVersionsPerTrigger=1)
    assert reading.batch(commit=False) == ids(2)
    assert [c.version for c in table.consumers()] == [2]
    expire(table)
    reading.start()
    assert reading.replay({"version": 2, "whole": False, "pieces": 0}, reading.at) == ids(2)
    reading.reader.commit(reading.at)
    (consumer,) = table.consumers()
    assert (consumer.name, consumer.version) == ("report", 3)
    assert timedelta(hours=23) < consumer.until - consumer.updated <= timedelta(days=1)
    assert stream(consumer="report").batch(commit=False) == ids(3, 4)
    expire(table)
    table.advance_consumer("report", 4)
    assert stream(consumer="report").batch(commit=False) == ids(4)
    table.advance_consumer("report", 3)
    assert stream(consumer="report").batch() == ids(3, 4)
    table.forget_consumer("report")
    expire(table)
    with pytest.raises(lakebed.NotFoundError, match="expected a version from 5 to 5"):
        stream(start=3).batch()


def test_late_commits_are_not_skipped(local_lake: lakebed.Warehouse, stream: Callable[..., Stream]) -> None:
    """Hudi PR #8611: a commit that started early and finished late; here a version is given when it lands."""
    made = local_lake.create_table("t", "id BIGINT")
    reading = stream()
    reading.batch()
    with local_lake.transaction() as early:
        early.table("t").append([{"id": 1}])
        made.append([{"id": 2}])
        assert reading.batch() == ids(2)
    assert reading.batch() == ids(1)


def test_rows_keep_their_types(local_lake: lakebed.Warehouse, stream: Callable[..., Stream]) -> None:
    made = local_lake.create_table("t", "id BIGINT, s STRUCT<a: DECIMAL(9,2)>, l ARRAY<DATE>")
    rows = pa.table({"id": [1, 2], "s": [{"a": 1}, None], "l": pa.nulls(2, pa.list_(pa.date32()))})
    made.append(rows, explicit_cast=True)
    assert [row[0] for row in stream().batch()] == [1, 2]
