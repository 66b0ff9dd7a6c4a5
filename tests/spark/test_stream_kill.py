"""kill -9 of a driver with streams, again and again: nothing is lost, nothing is doubled."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import stream_worker
from stream_worker import GROUPS, create

import lakebed

pytestmark = [pytest.mark.spark, pytest.mark.soak]

WORKER = Path(stream_worker.__file__)
CHANGES = int(os.environ.get("STREAM_CHANGES", "1000000"))
KILLS = int(os.environ.get("STREAM_KILLS", "10"))
FILES = 40
PATIENCE = 600.0


def make_feed(folder: Path, chance: random.Random) -> dict[int, int]:
    """Inserts, updates and deletes, out of order and doubled; returns the rows that they come to."""
    (folder / "feed").mkdir()
    keys = max(1, CHANGES // 20)
    made = [
        (chance.randrange(keys), chance.randrange(1000), s, chance.random() < 0.2) for s in range(CHANGES * 9 // 10)
    ]
    newest = {id: (n, gone) for id, n, _, gone in made}
    sent = made + chance.choices(made, k=CHANGES - len(made))
    sent = [sent[at] for at in sorted(range(len(sent)), key=lambda at: at + chance.randrange(max(1, CHANGES // 10)))]
    size = -(-len(sent) // FILES)
    for number in range(FILES):
        part = sent[number * size : (number + 1) * size]
        ids, ns, sequence, gone = (list(column) for column in zip(*part, strict=True))
        ops = ["-D" if one else "+U" for one in gone]
        pq.write_table(
            pa.table({"id": ids, "n": ns, "s": sequence, "op": ops}), folder / "feed" / f"{number:03}.parquet"
        )
    return {id: n for id, (n, gone) in newest.items() if not gone}


def worker(folder: Path, what: str) -> subprocess.Popen[bytes]:
    log = (folder / f"{what}.log").open("ab")
    return subprocess.Popen(
        [sys.executable, str(WORKER), str(folder), what],
        stdout=log,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(["src", str(WORKER.parent), *sys.path])},
    )


def wait_for_commits(folder: Path, process: subprocess.Popen[bytes], count: int) -> None:
    """Until the two tables have so many more versions, or the queries have nothing more to do for a while."""
    with lakebed.connect(folder / "warehouse") as lake:
        tables = [lake.table(name) for name in ("first", "sums")]
        began = sum(table.version for table in tables)
        until = time.monotonic() + PATIENCE
        while sum(table.version for table in tables) < began + count:
            assert process.poll() is None, (folder / "run.log").read_text()[-3000:]
            assert time.monotonic() < until, "the queries do not go on"
            if tables[0].version >= FILES:
                return
            time.sleep(0.005)


def test_streams_are_killed_and_go_on(tmp_path: Path) -> None:
    chance = random.Random(os.environ.get("STREAM_SEED", "7"))
    create(tmp_path)
    rows = make_feed(tmp_path, chance)
    for _ in range(KILLS):
        process = worker(tmp_path, "run")
        try:
            wait_for_commits(tmp_path, process, chance.randrange(1, max(2, 2 * FILES // KILLS)))
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    last = worker(tmp_path, "finish")
    assert last.wait(PATIENCE) == 0, (tmp_path / "finish.log").read_text()[-3000:]
    with lakebed.connect(tmp_path / "warehouse") as lake:
        first = lake.table("first").to_arrow(["id", "n"])
        assert dict(zip(first["id"].to_pylist(), first["n"].to_pylist(), strict=True)) == rows
        assert first.num_rows == len(rows)
        sums = {row["g"]: (row["total"], row["rows"]) for row in lake.table("sums").to_arrow().to_pylist()}
        expected = {g: [n for id, n in rows.items() if id % GROUPS == g] for g in range(GROUPS)}
        assert sums == {g: (sum(ns), len(ns)) for g, ns in expected.items()}
        assert lake.table("first").version >= FILES
