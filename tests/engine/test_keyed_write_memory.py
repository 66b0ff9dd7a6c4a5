"""An upsert needs memory by the writer's limit, not by its rows; each runs in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

WORKER = Path(__file__).parents[1] / "upsert_memory_worker.py"


def run(root: Path, total: int, limit: int, buckets: str, *more: str) -> tuple[int, int, int]:
    command = [sys.executable, str(WORKER), str(root), str(total), str(limit), buckets, *more]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    before, peak, files = map(int, done.stdout.split())
    return before, peak, files


@pytest.mark.parametrize("buckets", ["1", "4"])
def test_memory_is_bounded_by_the_limit(tmp_path: Path, buckets: str) -> None:
    total, limit = 192, 24
    before, peak, files = run(tmp_path, total, limit, buckets)
    assert files >= int(buckets) * total // limit
    assert peak - before < 2 * total // 3


@pytest.mark.soak
def test_memory_is_bounded_if_sort_by_orders_the_whole_batch(tmp_path: Path) -> None:
    total, limit = 192, 24
    before, peak, files = run(tmp_path, total, limit, "4", "sorted")
    assert files >= 4 * total // limit
    assert peak - before < 2 * total // 3


@pytest.mark.soak
@pytest.mark.parametrize(("merge", "most"), [("on-read", 512), ("on-write", 640)])
def test_a_table_takes_two_gibibytes_in_half_a_gibibyte(tmp_path: Path, merge: str, most: int) -> None:
    """The commit included, and a process that has 250 MiB before; on-write also matches 20,000,000 keys."""
    _, peak, files = run(tmp_path, 2048, 64, "4", merge)
    assert files >= 4
    assert peak < most


@pytest.mark.soak
@pytest.mark.parametrize("more", [(), ("sorted",)], ids=["as they come", "sorted"])
@pytest.mark.parametrize("buckets", ["1", "4", "dynamic"])
def test_two_gibibytes_in_a_process_of_half_a_gibibyte(tmp_path: Path, buckets: str, more: tuple[str, ...]) -> None:
    _, peak, _ = run(tmp_path, 2048, 128, buckets, *more)
    assert peak < 512
