"""Workloads 2 and 9: many small upserts with a full read now and then, and a compaction of what they have left."""

from __future__ import annotations

from functools import partial

from bench.spark_peers.work import Work, drain


def run(work: Work) -> None:
    """Everything on one table."""
    places, sizes = work.places, work.sizes
    with work.table("t") as table:
        table.load(work.rows(places.base))
        for number in range(sizes.trickles):
            batch = places.batch("trickle", number)
            upsert = partial(table.upsert, work.rows(batch))
            work.step("upsert", upsert, table=table, number=number, source=batch)
            if (number + 1) % sizes.read_every == 0 or number + 1 == sizes.trickles:
                work.step("read", lambda: drain(table.read()), number=number)
        expected = places.expected("trickle")
        table.expect(expected)
        work.check("rows after the upserts", table.read(), expected)
        work.step("compact", table.compact, table=table)
        work.step("read compacted", lambda: drain(table.read()))
        work.check("rows after the compaction", table.read(), expected)
