"""Processes that get ready, are released together, and are waited for."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any


def run_together(module: str, orders: Sequence[Mapping[str, Any]]) -> float:
    """Run ``python -m module`` once per order, all at the same time; seconds from the release to the last end.

    A worker prints ``ready``, waits for a line on its standard input, works, and prints ``done``; starting and
    ending the interpreters is thereby not measured. Raises RuntimeError if a worker fails.
    """
    workers = [_start(module, order) for order in orders]
    try:
        for worker in workers:
            _expect(worker, "ready")
        begun = time.perf_counter()
        for worker in workers:
            assert worker.stdin is not None
            worker.stdin.write("go\n")
            worker.stdin.flush()
        for worker in workers:
            _expect(worker, "done")
        seconds = time.perf_counter() - begun
    except BaseException:
        for worker in workers:
            worker.kill()
        raise
    finally:
        for worker in workers:
            worker.communicate()
    return seconds


def ask(module: str, order: Mapping[str, Any]) -> Any:
    """The JSON that one fresh process answers. Raises RuntimeError if it fails."""
    done = subprocess.run(
        [sys.executable, "-m", module, json.dumps(order)], stdout=subprocess.PIPE, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"{module} failed with exit code {done.returncode}; its error is above")
    return json.loads(done.stdout)


def _start(module: str, order: Mapping[str, Any]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", module, json.dumps(order)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def _expect(worker: subprocess.Popen[str], word: str) -> None:
    assert worker.stdout is not None
    line = worker.stdout.readline().strip()
    if line != word:
        raise RuntimeError(f"a worker said {line!r} instead of {word!r}; its error is above")
