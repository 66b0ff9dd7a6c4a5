"""Processes that get ready, are released together, and are waited for."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_LISTEN_SECONDS = 2.0


@dataclass(frozen=True)
class Together:
    """What a run of several processes took."""

    seconds: float
    """From the release to the last end."""
    cpu: float
    """CPU seconds of all workers; a server's are not in it."""
    others: float
    """The share of all cores that was busy before the release, while every worker was waiting."""


def run_together(module: str, orders: Sequence[Mapping[str, Any]]) -> Together:
    """Run ``python -m module`` once per order, all at the same time.

    A worker prints ``ready``, waits for a line on its standard input, works, and prints its CPU seconds; starting
    and ending the interpreters is thereby not measured. Raises RuntimeError if a worker fails.
    """
    workers = [_start(module, order) for order in orders]
    try:
        for worker in workers:
            if (line := _line(worker)) != "ready":
                raise RuntimeError(f"a worker said {line!r} instead of 'ready'; its error is above")
        others = busy_share(_LISTEN_SECONDS)
        begun = time.perf_counter()
        for worker in workers:
            assert worker.stdin is not None
            worker.stdin.write("go\n")
            worker.stdin.flush()
        answers = [_line(worker) for worker in workers]
        seconds = time.perf_counter() - begun
        if not all(answers):
            raise RuntimeError("a worker has failed; its error is above")
    except BaseException:
        for worker in workers:
            worker.kill()
        raise
    finally:
        for worker in workers:
            worker.communicate()
    return Together(seconds, sum(map(float, answers)), others)


def busy_share(seconds: float) -> float:
    """The share of all cores that is busy, from 0 to 1, over the next seconds (Linux)."""
    before = _ticks()
    time.sleep(seconds)
    idle, total = (now - then for now, then in zip(_ticks(), before, strict=True))
    return 1 - idle / total if total else 0.0


def _ticks() -> tuple[int, int]:
    fields = [int(text) for text in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    return fields[3] + fields[4], sum(fields)


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


def _line(worker: subprocess.Popen[str]) -> str:
    assert worker.stdout is not None
    return worker.stdout.readline().strip()
