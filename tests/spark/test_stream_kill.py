"""kill -9 of a driver with streams, again and again: nothing is lost, nothing is doubled."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import stream_worker
from spark_streams import end_promises, files_on_disk
from stream_worker import GROUPS, create

import lakebed

pytestmark = [pytest.mark.spark, pytest.mark.soak]

WORKER = Path(stream_worker.__file__)
CHANGES = int(os.environ.get("STREAM_CHANGES", "1000000"))
KILLS = int(os.environ.get("STREAM_KILLS", "10"))
SEED = int(os.environ.get("STREAM_SEED", "7"))
FILES = 6 * KILLS
"""More than the batches that run until the last kill."""
PATIENCE = 900.0
STARVED = "Timed out while waiting for the Python worker to connect back"
"""Spark gives a new process ten seconds, which are not enough on a machine with too much to do."""


def make_feed(folder: Path) -> dict[int, int]:
    """Inserts, updates and deletes, out of order and doubled; returns the rows that they come to."""
    chance = np.random.default_rng(SEED)
    made = CHANGES * 9 // 10
    ids = chance.integers(0, max(1, CHANGES // 20), made)
    ns, gone = chance.integers(0, 1000, made), chance.random(made) < 0.2
    twice = np.concatenate([np.arange(made), chance.integers(0, made, CHANGES - made)])
    sent = twice[np.argsort(np.arange(CHANGES) + chance.integers(0, max(1, CHANGES // 10), CHANGES), kind="stable")]
    is_first = np.zeros(made, bool)
    is_first[np.unique(ids, return_index=True)[1]] = True
    ops = np.where(gone, "-D", np.where(is_first, "+I", "+U"))
    (folder / "feed").mkdir()
    for number, rows in enumerate(np.array_split(sent, FILES)):
        part = pa.table({"id": ids[rows], "n": ns[rows], "s": rows, "op": pa.array(ops[rows].tolist())})
        pq.write_table(part, folder / "feed" / f"{number:03}.parquet")
    newest = dict(zip(ids.tolist(), range(made), strict=True))
    return {id: int(ns[at]) for id, at in newest.items() if not gone[at]}


def worker(folder: Path, what: str) -> subprocess.Popen[bytes]:
    with (folder / f"{what}.log").open("wb") as log:
        return subprocess.Popen(
            [sys.executable, str(WORKER), str(folder), what],
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join(["src", str(WORKER.parent), *sys.path]),
                "JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",  # it does not live long
            },
        )


def kill(process: subprocess.Popen[bytes]) -> None:
    """The driver and its JVM, at once."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def batches_done(lake: lakebed.Warehouse) -> int:
    """The micro-batches that both tables have."""
    found = (lake.table(name).transactions() for name in ("first", "sums"))
    return sum(1 + number for transactions in found for number in transactions.values())


def kill_at_random(folder: Path, chance: random.Random) -> None:
    """Run the queries for some batches and a moment more, which ends anywhere in what a query does."""
    with lakebed.connect(folder / "warehouse") as lake:
        wanted = batches_done(lake) + chance.randrange(1, 4)
        until = time.monotonic() + PATIENCE
        while True:
            process = worker(folder, "run")
            try:
                while batches_done(lake) < wanted and process.poll() is None:
                    assert time.monotonic() < until, "the queries do not go on"
                    time.sleep(0.1)
                time.sleep(chance.uniform(0, 5))
                if process.poll() is None:
                    return
            finally:
                kill(process)
            said = (folder / "run.log").read_text()
            assert STARVED in said, said[-3000:]


def test_streams_are_killed_and_go_on(tmp_path: Path) -> None:
    """A feed of changes goes to a table, and that table's changes to sums; both are right in the end."""
    chance = random.Random(SEED)
    create(tmp_path)
    rows = make_feed(tmp_path)
    for number in range(KILLS):
        kill_at_random(tmp_path, chance)
        print(f"{time.strftime('%H:%M:%S')} kill {1 + number} of {KILLS}", flush=True)
    with lakebed.connect(tmp_path / "warehouse") as lake:
        (batch,) = lake.table("first").transactions().values()
        assert batch < FILES - 1, "the feed had ended before the last kill"
        finish(tmp_path)
        first = lake.table("first").to_arrow(["id", "n"])
        assert dict(zip(first["id"].to_pylist(), first["n"].to_pylist(), strict=True)) == rows
        assert first.num_rows == len(rows)
        sums = {row["g"]: (row["total"], row["rows"]) for row in lake.table("sums").to_arrow().to_pylist()}
        expected = {g: [n for id, n in rows.items() if id % GROUPS == g] for g in range(GROUPS)}
        assert sums == {g: (sum(ns), len(ns)) for g, ns in expected.items()}
        # Spark may put two files in one batch: it notes files that it has seen before it notes the batch.
        (batch,) = lake.table("first").transactions().values()
        assert batch < FILES
        leave_nothing(lake)


def finish(folder: Path) -> None:
    """Let both queries read all there is."""
    while True:
        process = worker(folder, "finish")
        try:
            process.wait(PATIENCE)
        finally:
            kill(process)
        said = (folder / "finish.log").read_text()
        if process.returncode == 0:
            return
        assert STARVED in said, said[-3000:]


def leave_nothing(lake: lakebed.Warehouse) -> None:
    """What killed processes have left, vacuum finds."""
    for name in ("first", "sums"):
        table = lake.table(name)
        end_promises(table)
        table.vacuum(timedelta(0))
        assert files_on_disk(table) == set(table.files()["path"].to_pylist())
