"""How soon a command answers: ``lakebed ls`` in a process of its own, with everything else for comparison.

The wall clock counts, since a person waits. Each figure is the best of several runs, after one that fills the caches
of bytecode and disk.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import lakebed
from bench.report import Line
from bench.servers import scratch

SECONDS_LS = 0.5
TABLES = 20
LAKEBED = ("-m", "lakebed.cli")


def run(*, quick: bool) -> list[Line]:
    """What a person waits for, against an interpreter that does nothing."""
    tries = 2 if quick else 7
    with scratch("startup") as root:
        with lakebed.connect(root / "w") as lake:
            for number in range(TABLES):
                table = lake.create_table(f"t{number}", "id BIGINT, name STRING", primary_key=["id"], buckets=4)
                table.upsert([{"id": n, "name": "ann"} for n in range(100)])
        measured = {
            "python, nothing else": _best(root, tries, "-c", "pass"),
            "import lakebed": _best(root, tries, "-c", "import lakebed"),
            f"lakebed ls, {TABLES} tables": _best(root, tries, *LAKEBED, "ls"),
            "lakebed show": _best(root, tries, *LAKEBED, "show", "t1"),
            "lakebed history": _best(root, tries, *LAKEBED, "history", "t1"),
            "lakebed query 'SELECT 1'": _best(root, tries, *LAKEBED, "query", "SELECT 1 AS one"),
            "lakebed.connect, all loaded": _best(root, tries, "-c", "import lakebed; lakebed.connect('w').close()"),
        }
    least = measured["python, nothing else"]
    return [
        Line(
            what,
            seconds * 1000,
            "ms",
            goal=SECONDS_LS * 1000 if what.startswith("lakebed ls") else None,
            note=f"{seconds / least:.1f} times an empty interpreter",
        )
        for what, seconds in measured.items()
    ]


def _best(root: Path, tries: int, *words: str) -> float:
    environment = {**os.environ, "LAKEBED_WAREHOUSE": str(root / "w")}
    # Installed packages have bytecode; a work tree that is not allowed to keep some would compile it each time.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    environment.setdefault("PYTHONPYCACHEPREFIX", str(root / "bytecode"))

    def once() -> float:
        began = time.perf_counter()
        subprocess.run([sys.executable, *words], env=environment, cwd=root, check=True, stdout=subprocess.DEVNULL)
        return time.perf_counter() - began

    once()
    return min(once() for _ in range(tries))
