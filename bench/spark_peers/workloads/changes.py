"""Workload 4: what has an upsert of 1 % of the rows changed?"""

from __future__ import annotations

from bench.spark_peers.engines.engine import Shape
from bench.spark_peers.work import Work, drain

READS = 5


def run(work: Work) -> None:
    """A table that has had a large upsert before gets a small one, whose rows are asked for."""
    batch = work.places.batch("changed", 0)
    with work.table("t", Shape(changes=True)) as table:
        table.load(work.rows(work.places.base))
        table.upsert(work.rows(work.places.batch("before", 0)))
        since = table.version()
        work.step("upsert", lambda: table.upsert(work.rows(batch)), table=table, source=batch)
        for number in range(READS):
            work.step("changes", lambda: drain(table.changes(since)), number=number)
        work.check("rows that have changed", table.changes(since), batch)
        table.expect(work.places.expected("changes"))
        work.check("all rows", table.read(), work.places.expected("changes"))
