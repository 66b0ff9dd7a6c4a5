"""A bucket may be much larger than the executor that upserts and compacts it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.soak]

HERE = Path(__file__).parent
EXECUTOR = 1024
BUCKET = 4096
HEAP = 480
"""About the smallest that Spark takes."""
LIMIT = 24


def test_an_executor_of_1_gib_upserts_and_compacts_a_bucket_of_4_gib(tmp_path: Path) -> None:
    """Its JVM and its Python workers together never have more; figures in MiB."""
    command = [sys.executable, str(HERE / "bucket_memory.py"), str(tmp_path / "w"), *map(str, (BUCKET, HEAP, LIMIT))]
    environment = {**os.environ, "PYTHONPATH": str(HERE.parents[1] / "src")}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    told: dict[str, dict[str, Any]] = {line["step"]: line for line in map(json.loads, done.stdout.splitlines())}
    print(done.stdout)
    assert told["check"]["bucket"] > 0.95 * BUCKET
    rows = told["check"]["rows"]
    upserted = -(-rows // 20)
    assert told["check"]["same"]
    assert told["check"]["new and old"] == [upserted, rows - upserted]
    assert all(0 < told[step]["peak"] <= EXECUTOR for step in ("load", "upsert", "compact")), told
