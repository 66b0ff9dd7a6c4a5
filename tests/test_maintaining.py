"""The loop that looks after tables, beside writers and alone."""

from __future__ import annotations

import pickle
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import pytest

import lakebed
from lakebed.streaming import Upkeep

AT_ONCE = timedelta(0)


def test_every_table_has_its_turn(local_lake: lakebed.Warehouse) -> None:
    local_lake.create_namespace("shop")
    keyed = local_lake.create_table("shop.k", "id BIGINT", primary_key=["id"], buckets=1, merge="on-read")
    plain = local_lake.create_table("p", "id BIGINT")
    for id in range(6):
        keyed.upsert([{"id": id % 2}])
        plain.append([{"id": id}])
    broken = local_lake.create_table("broken", "id BIGINT")
    for id in range(6):
        broken.append([{"id": id}])
    lost = Path(broken.location.removeprefix("file://")) / broken.files()["path"][0].as_py()
    lost.unlink()
    done = {one.table: one for one in local_lake.maintain(retain=AT_ONCE)}
    assert set(done) == {"default.broken", "default.p", "shop.k"}
    assert isinstance(done["default.broken"].error, lakebed.FileMissingError)
    assert not any(keyed.files()["unsettled"].to_pylist())
    assert plain.files().num_rows == 1
    assert done["default.p"].vacuumed is not None
    assert len(done["default.p"].vacuumed.paths) == 6
    assert (keyed.count(), plain.count()) == (2, 6)


def test_each_table_says_how_long_it_keeps_what_is_old(local_lake: lakebed.Warehouse) -> None:
    tables = [
        local_lake.create_table("by_default", "id BIGINT"),
        local_lake.create_table("short", "id BIGINT", properties={"retain": "0 days"}),
    ]
    for table in tables:
        for id in range(3):
            table.overwrite([{"id": id}])
    local_lake.maintain()
    assert [len(table.history()) for table in tables] == [4, 1]
    with pytest.raises(lakebed.OptionError, match=r"retain.*text like '7 days'"):
        local_lake.create_table("wrong", "id BIGINT", properties={"retain": "soon"})
    local_lake.maintain(["by_default"], retain=AT_ONCE)
    assert [len(table.history()) for table in tables] == [1, 1]


def test_maintenance_in_a_thread_beside_a_writer(local_lake: lakebed.Warehouse) -> None:
    table = local_lake.create_table("t", "id BIGINT, n BIGINT", primary_key=["id"], buckets=2, merge="on-read")
    stop = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        loop = pool.submit(local_lake.maintain, ["t"], every="1 millisecond", stop=stop)
        try:
            for n in range(30):
                table.upsert([{"id": id, "n": n} for id in range(n, n + 5)])
        finally:
            stop.set()
        (last,) = loop.result()
    assert last.error is None
    assert sorted(map(tuple, (row.values() for row in table.to_arrow().to_pylist()))) == [
        *((id, id) for id in range(30)),
        *((id, 29) for id in range(30, 34)),
    ]
    local_lake.maintain(retain=AT_ONCE)
    assert not any(table.files()["unsettled"].to_pylist())
    assert table.files().num_rows < 10


@pytest.mark.parametrize("merge", ["on-read", "on-write", None])
def test_a_stream_does_not_grow_its_files_without_bound(local_lake: lakebed.Warehouse, merge: str | None) -> None:
    """Small micro-batches make small files; after every n commits a thread packs them, and no batch waits for it."""
    key = {} if merge is None else {"primary_key": ["id"], "buckets": 1, "merge": merge}
    table = local_lake.create_table("t", "id BIGINT, n BIGINT", **key)
    write = table.stream_writer("append" if merge is None else "upsert", query="q", maintain_every=5)
    assert write.upkeep is not None
    most = 0
    for n in range(40):
        write([{"id": n % 7, "n": n}], n)
        if n % 5 == 4:
            write.upkeep.wait()  # only so that the count of files does not depend on the machine
            most = max(most, table.files().num_rows)
    assert most <= 10
    rows = {row["id"]: row["n"] for row in table.to_arrow().sort_by("n").to_pylist()}
    assert rows == {id: max(n for n in range(40) if n % 7 == id) for id in range(7)}
    # A batch that is sent again is no commit.
    done = table.version
    for _ in range(5):
        assert write([{"id": 1, "n": 1}], 39).repeated
    write.upkeep.wait()
    assert table.version == done


def test_upkeep_is_never_in_the_way(local_lake: lakebed.Warehouse, caplog: pytest.LogCaptureFixture) -> None:
    table = local_lake.create_table("t", "id BIGINT")
    begun, go_on, runs = threading.Event(), threading.Event(), []

    def slow() -> None:
        runs.append(1)
        begun.set()
        go_on.wait(60)
        raise lakebed.LakebedError("a disk is full")

    write = table.stream_writer(query="q", maintain_every=1)
    upkeep = Upkeep(slow, 1)
    object.__setattr__(write, "upkeep", upkeep)
    for n in range(3):
        write([{"id": n}], n)
        assert begun.wait(60)
    assert (table.count(), len(runs)) == (3, 1)
    go_on.set()
    upkeep.wait()
    assert "left to the next time: a disk is full" in caplog.text
    write([{"id": 3}], 3)
    upkeep.wait()
    assert len(runs) == 2


def test_what_a_stream_writer_cannot_be(local_lake: lakebed.Warehouse) -> None:
    table = local_lake.create_table("t", "id BIGINT")
    with pytest.raises(lakebed.InputError, match="maintain_every= counts commits"):
        table.stream_writer(query="q", maintain_every=0)
    with pytest.raises(lakebed.InputError, match=r"use writeStream.format\('lakebed'\), or let the function"):
        pickle.dumps(table.stream_writer(query="q"))
