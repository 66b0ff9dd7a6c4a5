"""Workload 3: TPC-H. Load, refreshes (orders with their lines come and go), and all 22 queries on what they leave."""

from __future__ import annotations

import json
from contextlib import ExitStack

from bench.spark_peers import answers
from bench.spark_peers.answers import answer
from bench.spark_peers.engines.engine import Shape, Table
from bench.spark_peers.questions import KEYS, REFRESHED, queries
from bench.spark_peers.work import Work


def run(work: Work) -> None:
    """All tables are the contender's."""
    places = work.places
    with ExitStack() as stack:
        tables = {name: stack.enter_context(work.table(name, Shape(key=key))) for name, key in KEYS.items()}

        def load() -> None:
            for name, table in tables.items():
                table.load(work.rows(places.batch("tpch", 0) / name))

        work.step("load", load)
        deleted = json.loads((places.root / "tpch.json").read_text())
        for number in range(work.sizes.refreshes):
            first, last = deleted[number]

            def refresh(number: int = number, first: int = first, last: int = last) -> None:
                for name in REFRESHED:
                    tables[name].append(work.rows(places.batch(f"refresh-{name}", number)))
                    tables[name].delete(f"{KEYS[name][0]} BETWEEN {first} AND {last}")

            work.step("refresh", refresh, number=number)
        for name in REFRESHED:
            tables[name].expect(places.expected(name))
            work.check(f"{name} after the refreshes", tables[name].read(), places.expected(name))
        expected = answers.read(places)
        stack.enter_context(work.engine.asking())
        _show(tables)
        for number, query in queries().items():
            found = work.step("query", lambda query=query: answer(work.spark, query), number=number)  # type: ignore[misc]
            work.same(f"query {number}", found, expected[number])


def _show(tables: dict[str, Table]) -> None:
    for name, table in tables.items():
        table.read().createOrReplaceTempView(name)
