"""Workload 8: a table with many small partitions is loaded, appended to, planned and counted."""

from __future__ import annotations

from bench.spark_peers.engines.engine import Shape
from bench.spark_peers.work import Work, planned

READS = 2


def run(work: Work) -> None:
    """A table without a key; each append has a row for every partition."""
    base, more = work.places.batch("partitioned", 0), work.places.batch("partitioned", 1)
    one = f"part = {work.sizes.partitions // 2}"
    with work.table("t", Shape(key=(), partition="part")) as table:
        work.step("load", lambda: table.load(work.rows(base)), table=table, source=base)
        work.step("append", lambda: table.append(work.rows(more)), table=table, source=more)
        table.expect(work.places.expected("partitions"))
        for number in range(READS):
            work.step("plan", lambda: planned(table.read()), number=number)
            work.step("plan one", lambda: planned(table.lookup(one)), number=number)
            work.step("count", lambda: table.read().count(), number=number)
        rows = table.read().selectExpr("CAST(part AS BIGINT) AS part", "id", "amount")
        work.check("rows", rows, work.places.expected("partitions"))
