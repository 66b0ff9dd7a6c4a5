"""Tasks that fail, killed executors, attempts that come second: on real clusters, in processes of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from spark_cluster import standalone_cluster

pytestmark = pytest.mark.spark

HERE = Path(__file__).parent
SOURCE = HERE.parents[1] / "src"


def faults(master: str, folder: Path, *scenarios: str) -> list[dict[str, Any]]:
    """What became of a table in each scenario, without and with a key."""
    environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
    command = [sys.executable, str(HERE / "cluster_faults.py"), master, str(folder), *scenarios]
    log = folder / "driver.log"
    with log.open("wb") as errors:
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=errors, check=False)
    assert done.returncode == 0, log.read_text(errors="replace")[-4000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.parametrize(
    "scenarios", [["executor-dies"], pytest.param(["fails-once", "always-fails"], marks=pytest.mark.soak)], ids="-".join
)
def test_failed_tasks_and_killed_executors(tmp_path: Path, scenarios: list[str]) -> None:
    """The rows are there once, or the table is as it was; and no file is left over, or vacuum finds it."""
    found = faults("local-cluster[2,1,1024]", tmp_path, *scenarios)
    assert [(one["scenario"], one["key"]) for one in found] == [
        (scenario, key) for scenario in scenarios for key in (False, True)
    ]
    for one in found:
        assert "files" in one["marks"]  # the attempt that did not count had written some
        assert one["left"] == []
        if one["scenario"] == "fails-once":
            assert one["orphans"] == []
        if one["scenario"] == "always-fails":
            assert (one["version"], one["rows"]) == (0, 0)
            assert one["error"].startswith("JobError: table default.t: the Spark job failed, and nothing was changed")
            assert "no attempt succeeds" in one["error"]
        else:
            assert (one["error"], one["version"], one["rows"], one["right"]) == (None, 1, 4000, True)


@pytest.mark.soak
def test_speculation(tmp_path: Path) -> None:
    """Of two attempts of a task only one counts, and the other's files go."""
    with standalone_cluster(tmp_path) as master:
        found = faults(master, tmp_path, "second-comes-first")
    assert [one["key"] for one in found] == [False, True]
    for one in found:
        assert {"attempt-0", "attempt-1", "files"} <= set(one["marks"])
        assert one["orphans"] == []
        assert (one["error"], one["version"], one["rows"], one["right"]) == (None, 1, 4000, True)
