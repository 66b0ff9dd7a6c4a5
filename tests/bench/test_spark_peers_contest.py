"""Runs of the benchmark against the peers: who cannot take part, who fails, and one that is real."""

import io
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from bench.spark_peers.contenders import BY_NAME, OWN, Contender
from bench.spark_peers.contest import Contest, Options
from bench.spark_peers.found import Found
from bench.spark_peers.memory import Watch, resident, tree
from bench.spark_peers.sizes import Sizes


def contest(root: Path, *contenders: Contender, workloads: list[str]) -> Found:
    options = Options(Sizes.warm(), workloads, list(contenders), runs=1, limit=200.0, memory="1g")
    return Contest(root, options, Console(file=io.StringIO())).run({})


def test_who_cannot_take_part_ends_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    no_spark = replace(BY_NAME["delta"], spark="0.0")
    no_jars = replace(BY_NAME["delta"], name="delta without Maven", spark=OWN)
    found = contest(tmp_path / "run", no_spark, no_jars, workloads=["upserts"])
    assert found.runs == {}
    assert "`make bench-peers` makes it" in found.absent["delta"]
    assert "no mvn on the PATH" in found.absent["delta without Maven"]


def test_a_worker_that_dies_is_told_with_its_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Contender, "python", property(lambda _one: Path("/bin/false")))
    found = contest(tmp_path / "run", BY_NAME["parquet 4.3"], workloads=["upserts"])
    assert found.absent == {"parquet 4.3": f"the session did not start; {tmp_path}/run/parquet_4_3.log says why"}


def test_memory_is_that_of_all_descendants() -> None:
    inner = "held = bytearray(b'x' * 50_000_000); print(flush=True); input()"
    code = (
        "import subprocess, sys; held = bytearray(b'x' * 30_000_000); "
        f"subprocess.Popen([sys.executable, '-c', {inner!r}], stdin=subprocess.PIPE).wait()"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()
            watch = Watch(process.pid)
            assert len(tree(process.pid)) == 2
            assert resident(process.pid) > 80_000_000
            assert watch.peak() > 80_000_000 / 2**30
            watch.close()
        finally:
            for pid in reversed(tree(process.pid)):
                subprocess.run(["kill", "-9", str(pid)], check=False)
    assert resident(process.pid) == 0


@pytest.mark.soak
@pytest.mark.spark
def test_lakebed_and_plain_parquet_run_every_workload(tmp_path: Path) -> None:
    names = ["upserts", "trickle", "changes", "lookups", "edits", "writers", "partitions"]
    found = contest(tmp_path, BY_NAME["lakebed on-write"], BY_NAME["parquet 4.3"], workloads=names)
    assert not found.absent
    for (workload, name), runs in found.runs.items():
        assert [run.error for run in runs] == [""], f"{workload}, {name}"
        assert all(run.steps and run.checked for run in runs)
    assert {workload for workload, _ in found.runs} == set(names)
