"""Commits per second: prepared actions become versions, and log files, on both metastores.

A worker does what a writer does once its data files are there: it reads the table's state, lands the commit
through ``engine.land`` and thereby publishes it. Databases and log files are flushed to the disk.
"""

from __future__ import annotations

from pathlib import Path

import lakebed
from bench.commit_worker import FILES_PER_COMMIT, SCHEMA, WARM_UP
from bench.report import Line
from bench.servers import postgres, scratch
from bench.workers import run_together
from lakebed.core.actions import AddFile
from lakebed.delta.log import read_history

WRITERS = 16


def run(*, quick: bool) -> list[Line]:
    """All three settings: one writer, many on tables of their own, many on one table."""
    alone, apart, shared = (100, 10, 10) if quick else (500, 60, 30)
    lines = [_measure("SQLite, 1 writer", None, tables=1, writers=1, commits=alone, goal=100)]
    with postgres() as url:
        lines += [_measure("PostgreSQL, 1 writer", url, tables=1, writers=1, commits=alone, goal=None)]
    with postgres() as url:
        name = f"PostgreSQL, {WRITERS} writers, {WRITERS} tables"
        lines += [_measure(name, url, tables=WRITERS, writers=WRITERS, commits=apart, goal=200)]
    with postgres() as url:
        name = f"PostgreSQL, {WRITERS} writers, 1 table"
        lines += [_measure(name, url, tables=1, writers=WRITERS, commits=shared, goal=60)]
    return lines


def _measure(what: str, url: str | None, *, tables: int, writers: int, commits: int, goal: float | None) -> Line:
    with scratch("commits") as root, lakebed.connect(root, url) as lake:
        names = [f"t{number}" for number in range(tables)]
        for name in names:
            lake.create_table(name, SCHEMA)
        orders = [
            {"warehouse": str(root), "metastore": url, "table": names[number % tables], "commits": commits}
            for number in range(writers)
        ]
        took = run_together("bench.commit_worker", orders)
        for name in names:
            check(lake.table(name), writers // tables * (WARM_UP + commits))
        number = writers * commits
        note = (
            f"{number} commits of {FILES_PER_COMMIT} files, checked; {took.cpu / number * 1000:.1f} ms CPU each in the"
            f" writers; others had {took.others:.0%} of the cores"
        )
        return Line(what, number / took.seconds, "commits/s", goal, at_least=True, note=note)


def check(table: lakebed.Table, commits: int) -> None:
    """Every version is in the metastore and in the log, with its files. Raises RuntimeError."""
    expected = list(range(commits + 1))
    history = table.history()
    if sorted(c.version for c in history) != expected or not all(c.published for c in history):
        raise RuntimeError(f"{table.name}: versions 0 to {commits} should be there and published")
    logged = {version: _added(actions) for version, actions in read_history(table._store)}
    if logged != {version: FILES_PER_COMMIT if version else 0 for version in expected}:
        raise RuntimeError(f"{table.name}: the log of {Path(table.location).name} does not have every version")


def _added(actions: object) -> int:
    assert isinstance(actions, tuple | list)
    return sum(isinstance(action, AddFile) for action in actions)
