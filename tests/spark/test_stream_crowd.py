"""Two streaming writers, a compactor, a vacuum with a short retention and slow readers, each in its own process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import stream_crowd_worker

import lakebed

pytestmark = [pytest.mark.spark, pytest.mark.soak]

WORKER = Path(stream_crowd_worker.__file__)
WRITERS = 2
BATCHES = int(os.environ.get("STREAM_BATCHES", "25"))
SIZE = 4000
KEYS = 20_000
PATIENCE = 900.0


def make_feeds(folder: Path) -> dict[int, int]:
    """Rows of both writers have the same keys; the sequence decides, whoever comes last. Returns what is left."""
    chance = np.random.default_rng(11)
    count = WRITERS * BATCHES * SIZE
    ids, gone = chance.integers(0, KEYS, count), chance.random(count) < 0.2
    sent = np.argsort(np.arange(count) + chance.integers(0, count // 5, count), kind="stable")
    for writer in range(WRITERS):
        feed = folder / f"feed-{writer}"
        feed.mkdir()
        for number, rows in enumerate(np.array_split(sent[writer::WRITERS], BATCHES)):
            ops = np.where(gone[rows], "-D", "+U").tolist()
            part = pa.table({"id": ids[rows], "n": rows * 7, "s": rows, "op": pa.array(ops)})
            pq.write_table(part, feed / f"{number:03}.parquet")
    newest = dict(zip(ids.tolist(), range(count), strict=True))
    return {id: at * 7 for id, at in newest.items() if not gone[at]}


class Crowd:
    """The processes, which end with the block."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.folder, self.stack = folder, stack
        self.running: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, *arguments: str) -> None:
        name = "-".join(arguments)
        log = self.stack.enter_context((self.folder / f"{name}.log").open("wb"))
        process = subprocess.Popen(
            [sys.executable, str(WORKER), str(self.folder), *arguments],
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(["src", str(WORKER.parent), *sys.path])},
        )
        self.running[name] = process
        self.stack.callback(self._end, process)

    def goes_on(self, name: str) -> bool:
        """Whether a process still runs. Fails if it has failed."""
        code = self.running[name].poll()
        assert code in (None, 0), self.said(name)[-3000:]
        return code is None

    def said(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text()

    def _end(self, process: subprocess.Popen[bytes]) -> None:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def state(table: Any) -> dict[int, int]:
    rows = table.to_arrow(["id", "n"])
    found = dict(zip(rows["id"].to_pylist(), rows["n"].to_pylist(), strict=True))
    assert len(found) == rows.num_rows
    return found


def apply(rows: dict[int, int], changes: pa.Table | pa.RecordBatch) -> None:
    """Changes lead from one state to another; each fits what was there."""
    for row in changes.to_pylist():
        match row["_change_type"]:
            case "insert":
                assert row["id"] not in rows
                rows[row["id"]] = row["n"]
            case "update_preimage":
                assert rows[row["id"]] == row["n"]
            case "update_postimage":
                assert row["id"] in rows
                rows[row["id"]] = row["n"]
            case "delete":
                assert rows.pop(row["id"]) == row["n"]


class Follower:
    """A slow reader with a name: what it has not read is kept for it, so that it never meets an error."""

    def __init__(self, table: lakebed.Table) -> None:
        self.table = table
        self.rows: dict[int, int] = {}
        self.read = table.advance_consumer("slow", 0).version

    def follow(self) -> None:
        changes = self.table.changes(self.read, mode="all")
        apply(self.rows, changes.to_arrow())
        self.read = self.table.advance_consumer("slow", changes.end).version


class Stranger:
    """A slow reader without a name: it gets its rows, or is told that they have expired."""

    def __init__(self, table: lakebed.Table) -> None:
        self.table = table
        self.served = 0
        self.refusals: list[str] = []

    def look(self, pause: float) -> None:
        version = self.table.version
        rows = state(self.table.at(version=version))
        time.sleep(pause)
        try:
            changes = self.table.changes(version)
            batches = changes.to_batches()
        except lakebed.NotFoundError as error:
            self.refusals.append(str(error))
            return
        # The versions of a read that has begun stay, however slow it is.
        end = state(self.table.at(version=changes.end))
        time.sleep(pause)
        for batch in batches:
            apply(rows, batch)
        assert rows == end
        self.served += 1


def test_a_crowd(tmp_path: Path) -> None:
    with ExitStack() as stack:
        lake = stack.enter_context(lakebed.connect(tmp_path / "warehouse", batch_size=500))
        table = lake.create_table(
            "t", "id BIGINT, n BIGINT, s BIGINT", primary_key=["id"], sequence=["s"], buckets=2, merge="on-read"
        )
        expected = make_feeds(tmp_path)
        follower, stranger = Follower(lake.table("t")), Stranger(lake.table("t"))
        crowd = Crowd(tmp_path, stack)
        for role in ("compact", "vacuum"):
            crowd.start(role)
        for writer in range(WRITERS):
            crowd.start("write", str(writer))
        until = time.monotonic() + PATIENCE
        pauses = (0.5, 2.0, 15.0)
        looks = 0
        while sum(crowd.goes_on(f"write-{writer}") for writer in range(WRITERS)):
            assert time.monotonic() < until, "the writers do not come to an end"
            assert crowd.goes_on("compact")
            assert crowd.goes_on("vacuum")
            stranger.look(pauses[looks % len(pauses)])
            follower.follow()
            looks += 1
        (tmp_path / "done").touch()
        for role in ("compact", "vacuum"):
            while crowd.goes_on(role):
                assert time.monotonic() < until
                time.sleep(0.1)
        assert state(table) == expected
        follower.follow()
        assert follower.rows == expected
        assert sorted(table.transactions().values()) == [BATCHES - 1] * WRITERS
        assert stranger.served
        assert all("it has expired; expected a version from" in said for said in stranger.refusals)
        assert "removed" in crowd.said("vacuum")
        print(
            f"{table.version} versions; a stranger was served {stranger.served} times, refused {len(stranger.refusals)}"
        )
