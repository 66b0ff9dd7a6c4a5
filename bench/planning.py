"""Planning a table of a million files in a thousand partitions, on both metastores.

Each figure comes from a process of its own, the best of three, so that memory is that of this one plan.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import psycopg

from bench.planning_worker import ONE_FILE, ONE_PARTITION, PARTITIONS
from bench.report import Line
from bench.servers import postgres, scratch
from bench.workers import ask

SECONDS_PARTITION, SECONDS_WHOLE, GIB_WHOLE = 0.3, 2.0, 2.0
WORKER = "bench.planning_worker"
HOW = {"files": True, "plan": True, "plan, all details": False, "plan, an object per file": False}
"""The ways to plan, and whether the goals are for them: which files, where, how large, with which dead rows.

Details are statistics, tags and times, which a commit or a checkpoint needs, not a plan."""


def run(*, quick: bool) -> list[Line]:
    """Both metastores, with the same table."""
    files = 20_000 if quick else 1_000_000
    tries = 1 if quick else 3
    with scratch("planning") as root:
        lines = _measure("SQLite", root, None, files, tries)
    with scratch("planning") as root, postgres() as url:
        lines += _measure("PostgreSQL", root, url, files, tries)
    return lines


def _measure(name: str, root: Path, url: str | None, files: int, tries: int) -> list[Line]:
    place = {"warehouse": str(root), "metastore": url}
    loaded = ask(WORKER, {**place, "how": "load", "files": files})
    if url is not None:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("VACUUM ANALYZE")  # as autovacuum does within minutes of such a load

    def best(how: str, where: str | None, expected: int) -> dict[str, Any]:
        found = [ask(WORKER, {**place, "how": how, "where": where}) for _ in range(tries)]
        if any(one["files"] != expected for one in found):
            raise RuntimeError(f"{how} {where}: {expected} files should have been found, not {found}")
        return {**min(found, key=lambda one: one["seconds"]), "peak": max(one["peak"] for one in found)}

    lines = [Line(f"{name}: load of the table", loaded, "s", note=f"{files:,} files, {PARTITIONS:,} partitions")]
    for how, goal in HOW.items():
        one = best(how, ONE_PARTITION, files // PARTITIONS)
        what = f"{name}: {how}"
        lines.append(_line(f"{what}, one partition", one, SECONDS_PARTITION if goal else None))
        whole = best(how, None, files)
        lines.append(_line(f"{what}, whole", whole, SECONDS_WHOLE if goal else None))
        lines.append(Line(f"{what}, whole, peak memory", whole["peak"], "GiB", GIB_WHOLE if goal else None))
    lines.append(_line(f"{name}: files, one by statistics", best("files", ONE_FILE, 1), None))
    return lines


def _line(what: str, found: dict[str, Any], goal: float | None) -> Line:
    return Line(what, found["seconds"], "s", goal, note=f"{found['files']:,} files found; {found['cpu']:.2f} s of CPU")
