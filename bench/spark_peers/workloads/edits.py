"""Workload 6: delete 1 % of the rows, scattered over all files, and update 10 %."""

from __future__ import annotations

from bench.spark_peers.edit import DELETED, UPDATED, VALUES
from bench.spark_peers.work import Work, drain


def run(work: Work) -> None:
    """Both on one table, and a read after each."""
    places = work.places
    with work.table("t") as table:
        table.load(work.rows(places.base))
        work.step("delete", lambda: table.delete(DELETED), table=table)
        work.step("read after delete", lambda: drain(table.read()))
        work.check("rows after the delete", table.read(), places.expected("deleted"))
        work.step("update", lambda: table.update(VALUES, UPDATED), table=table)
        work.step("read after update", lambda: drain(table.read()))
        work.check("rows after the update", table.read(), places.expected("updated"))
