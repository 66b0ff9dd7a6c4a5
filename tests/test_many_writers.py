"""Eight processes, fifty commits each, one table: no version missing, no row lost or doubled."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from worker_processes import Worker
from writer_worker import Order, serve

import lakebed
from lakebed.core.snapshot import Replay
from lakebed.delta.log import read_history

WRITERS, COMMITS = 8, 50


@pytest.fixture(scope="module")
def workers() -> Iterator[list[Worker]]:
    """The processes; they are started once."""
    with ExitStack() as stack:
        started = []
        for _ in range(WRITERS):
            worker = Worker(serve)
            stack.callback(worker.kill)
            started.append(worker)
        yield started


@pytest.mark.parametrize("metastore", ["sqlite", "postgres"])
def test_eight_writers(request: pytest.FixtureRequest, workers: list[Worker], tmp_path: Path, metastore: str) -> None:
    url = request.getfixturevalue("postgres_metastore")() if metastore == "postgres" else None
    root = tmp_path / "w"
    with lakebed.connect(root, url) as lake:
        lake.create_table("t", "writer INT, number INT", properties={"checkpoint-interval": 50})
        for number, worker in enumerate(workers):
            worker.send(Order(str(root), url, number, COMMITS))
        for worker in workers:
            assert worker.receive() == "ready"
        for worker in workers:
            worker.send("go")
        for worker in workers:
            assert worker.receive() == "", "no error, and no warning"

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
