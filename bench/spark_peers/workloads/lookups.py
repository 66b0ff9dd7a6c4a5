"""Workload 5: single keys, and ranges of keys, of a table that has had an upsert."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from bench.spark_peers.work import Work, digest

if TYPE_CHECKING:
    from bench.spark_peers.engines.engine import Table


def run(work: Work) -> None:
    """The keys are random, and so are the places of the ranges."""
    wanted = json.loads((work.places.root / "lookups.json").read_text())
    expected = work.places.expected("lookups")
    live = work.rows(expected)
    with work.table("t") as table:
        table.load(work.rows(work.places.base))
        table.upsert(work.rows(work.places.batch("looked-up", 0)))
        table.expect(expected)
        for number, (key, reference) in enumerate(wanted["points"]):
            where = f"id = {key}"
            found = work.step("point", lambda where=where: _collected(table, where), number=number)  # type: ignore[misc]
            work.same(where, found, [reference])
        for number, (first, last) in enumerate(wanted["ranges"]):
            where = f"id BETWEEN {first} AND {last}"
            found = work.step("range", lambda where=where: digest(table.lookup(where)), number=number)  # type: ignore[misc]
            kept = f"{expected} where {where}"
            if kept not in work.digests:
                work.digests[kept] = digest(live.where(where))
            work.same(where, found, work.digests[kept])
        work.check("all rows", table.read(), expected)


def _collected(table: Table, where: str) -> list[Any]:
    return [row["reference"] for row in table.lookup(where).collect()]
