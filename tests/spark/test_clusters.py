"""The suites of reading and writing on clusters and through Spark Connect, in processes of their own, on PostgreSQL.

The fixture ``spark`` of those processes is the session that SPARK_TEST_MASTER names.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from spark_cluster import connect_server, standalone_cluster
from spark_sessions import SETTINGS

pytestmark = [pytest.mark.spark, pytest.mark.postgres]

TESTS = Path(__file__).parents[1]
LOCAL_CLUSTER = "local-cluster[2,1,1024]"
EXECUTORS = {"spark.executor.memory": "512m", "spark.network.timeout": "600s"}
WHOLE = {
    "rows": ["behaviour/test_rows.py"],
    "statements": ["behaviour/test_statements.py"],
    "keys": ["behaviour/test_keys.py"],
    "write": ["spark/test_write.py", "spark/test_save_modes.py"],
    "read": ["spark/test_native_scan.py", "spark/test_unsettled.py", "spark/test_source.py"],
    "writers": ["spark/test_source_writer.py", "spark/test_large_merge.py", "spark/test_progress.py"],
    "maintain": ["spark/test_maintenance.py", "spark/test_point_queries.py", "spark/test_histories.py"],
}
# Here the metastore of every warehouse is the same, and the test is about two.
OTHERS = ("-m", "not soak", "-k", "not test_tables_of_another_warehouse")
BEHAVIOUR = ("-k", "[spark")
SHORT = [
    "behaviour/test_rows.py::test_save_modes",
    "behaviour/test_keys.py::test_maintenance",
]
STREAMS = [
    "spark/test_stream_source.py::test_a_table_follows_another",
    "spark/test_stream_sink.py::test_a_replayed_batch_is_not_doubled",
    "spark/test_stream_sink.py::test_complete_replaces_the_table",
    "spark/test_cdc.py::test_a_stream_of_messages_into_a_table[canal]",
    "spark/test_cdc.py::test_new_columns_in_a_stream",
]


@contextmanager
def master_of(kind: str, folder: Path) -> Iterator[str]:
    """What a session of some kind is made with; its servers stop at the end."""
    with ExitStack() as scope:
        if kind == "local-cluster":
            yield LOCAL_CLUSTER
        elif kind == "standalone":
            yield scope.enter_context(standalone_cluster(folder))
        elif kind == "connect":
            yield scope.enter_context(connect_server(folder, SETTINGS))
        else:
            master = scope.enter_context(standalone_cluster(folder))
            yield scope.enter_context(connect_server(folder, {**SETTINGS, **EXECUTORS}, master))


def run_suite(master: str, folder: Path, selection: list[str], *more: str) -> str:
    """Run tests on a session; returns the last line of what pytest says."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(TESTS.parent / "src"),
        "SPARK_TEST_MASTER": master,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist"]
    command += [f"--basetemp={folder / 'tests'}", *more, *(str(TESTS / name) for name in selection)]
    done = subprocess.run(command, env=environment, cwd=TESTS.parent, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
    return done.stdout.strip().splitlines()[-1]


@pytest.mark.soak
@pytest.mark.parametrize("kind", ["connect to a cluster", "local-cluster"])
def test_some_of_the_suite(kind: str, tmp_path: Path) -> None:
    with master_of(kind, tmp_path) as master:
        told = run_suite(master, tmp_path, SHORT, *BEHAVIOUR)
    assert told.startswith("2 passed")


@pytest.mark.soak
@pytest.mark.parametrize("part", WHOLE)
@pytest.mark.parametrize("kind", ["local-cluster", "standalone", "connect"])
def test_the_whole_suite(kind: str, part: str, tmp_path: Path) -> None:
    chosen = BEHAVIOUR if WHOLE[part][0].startswith("behaviour/") else OTHERS
    with master_of(kind, tmp_path) as master:
        told = run_suite(master, tmp_path, WHOLE[part], *chosen)
    assert " passed" in told


@pytest.mark.soak
@pytest.mark.parametrize("kind", ["local-cluster", "connect"])
def test_streams(kind: str, tmp_path: Path) -> None:
    """Source, sink, replays, change messages, and a function of foreachBatch that connects by itself."""
    with master_of(kind, tmp_path) as master:
        told = run_suite(master, tmp_path, STREAMS)
    assert told.startswith("6 passed")
