"""Workload 1, as LakeSoul has published it: a load, large upserts of random keys, a full read and an aggregation."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from bench.spark_peers.work import Work, drain

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def run(work: Work) -> None:
    """Everything on one table."""
    expected = work.places.expected("upserts")
    with work.table("t") as table:
        base = work.places.base
        work.step("load", lambda: table.load(work.rows(base)), table=table, source=base)
        for number in range(work.sizes.upserts):
            batch = work.places.batch("batch", number)
            upsert = partial(table.upsert, work.rows(batch))
            work.step("upsert", upsert, table=table, number=number, source=batch)
        table.expect(expected)
        work.ask("read", lambda: drain(table.read()))
        found = work.ask("aggregate", lambda: aggregated(table.read()))
        work.same("aggregate", found, aggregated(work.rows(expected)))
        work.check("rows after the upserts", table.read(), expected)


def aggregated(frame: DataFrame) -> list[list[Any]]:
    """A query of a few columns over all rows, whose result does not depend on the order of adding up."""
    from pyspark.sql import functions as f

    grouped = frame.groupBy("city").agg(
        f.count("*").alias("rows"), f.sum("quantity").alias("quantity"), f.max("price").alias("price")
    )
    return [list(row) for row in grouped.orderBy("city").collect()]
