"""A bucket that is larger than a process may be is read, settled and compacted; each step has a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from bucket_memory_worker import ROW, SPREAD, STRIDES

WORKER = Path(__file__).parents[1] / "bucket_memory_worker.py"
MASK = 0xFFFFFFFF


def run(root: Path, step: str, size: int, engine: str) -> dict[str, int]:
    command = [sys.executable, str(WORKER), str(root), step, str(size), engine]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    told: dict[str, int] = json.loads(done.stdout)
    print(engine, step, told)
    return told


def expected(size: int, engine: str) -> dict[str, int]:
    """What a reader finds, whatever has been settled."""
    rows = (size << 20) // ROW
    values = sum(_value(number, engine) for number in range(rows))
    return {"rows": rows, "values": values, "ids": sum(number * SPREAD & MASK for number in range(rows))}


def _value(number: int, engine: str) -> int:
    written = [stride for stride in STRIDES if number % stride == 0]
    return sum(written) if engine == "aggregation" else written[-1]


def check(root: Path, size: int, limit: int, engine: str) -> None:
    """Each step on a bucket of so many MiB, in a process that needs no more than so many."""
    told = run(root, "fill", size, engine)
    assert told["unsettled"] > 1
    wanted = expected(size, engine)
    for step in ("read", "settle", "read", "compact", "read"):
        told = run(root, step, size, engine)
        assert told["peak"] < limit, f"{step}: {told}"
        if step == "read":
            assert told["MiB"] > 0.9 * size
            assert {name: told[name] for name in wanted} == wanted
        else:
            assert told.get("unsettled", 0) == told.get("dead", 0) == 0


@pytest.mark.soak
@pytest.mark.parametrize("engine", ["deduplicate", "aggregation"])
def test_a_bucket_twice_as_large_as_the_process(tmp_path: Path, engine: str) -> None:
    check(tmp_path, 1024, 512, engine)
