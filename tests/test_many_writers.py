"""Eight processes, fifty commits each, one table: no version missing, no row lost or doubled."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import lakebed
from lakebed.core.snapshot import Replay
from lakebed.delta.log import read_history

WRITERS, COMMITS = 8, 50


def start(root: Path, url: str | None, writer: int) -> subprocess.Popen[str]:
    order = {"warehouse": str(root), "metastore": url, "writer": writer, "commits": COMMITS}
    worker = Path(__file__).with_name("writer_worker.py")
    return subprocess.Popen(
        [sys.executable, str(worker), json.dumps(order)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize("metastore", ["sqlite", "postgres"])
def test_eight_writers(request: pytest.FixtureRequest, tmp_path: Path, metastore: str) -> None:
    url = request.getfixturevalue("postgres_metastore")() if metastore == "postgres" else None
    root = tmp_path / "w"
    with lakebed.connect(root, url) as lake:
        lake.create_table("t", "writer INT, number INT", properties={"checkpoint-interval": 50})
        workers = [start(root, url, writer) for writer in range(WRITERS)]
        for worker in workers:
            assert worker.stdout is not None
            assert worker.stdout.readline() == "ready\n"
        for worker in workers:
            assert worker.stdin is not None
            worker.stdin.write("go\n")
            worker.stdin.flush()
        for worker in workers:
            _, errors = worker.communicate(timeout=300)
            assert worker.returncode == 0, errors
            assert "Warning" not in errors

        table = lake.table("t")
        assert table.version == WRITERS * COMMITS
        rows = table.to_arrow().to_pylist()
        expected = {(writer, number): 1 for writer in range(WRITERS) for number in range(COMMITS)}
        assert Counter((row["writer"], row["number"]) for row in rows) == expected
        assert [c.version for c in table.history()] == list(range(WRITERS * COMMITS, -1, -1))
        assert all(c.published for c in table.history())
        stamps = [c.timestamp for c in reversed(table.history())]
        assert stamps == sorted(set(stamps))

        replay = Replay()
        versions = []
        for version, actions in read_history(table._store):
            versions.append(version)
            replay.add(actions)
        assert versions == list(range(WRITERS * COMMITS + 1))
        logged = replay.snapshot(versions[-1])
        stored = {add.key: add for add in table._point().files(None)}
        assert dict(logged.files) == stored
