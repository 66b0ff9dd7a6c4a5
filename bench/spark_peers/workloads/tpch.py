"""Workload 3: TPC-H. Load, refreshes (orders with their lines come and go), and all 22 queries on what they leave."""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.spark_peers.engines.engine import Shape, Table
from bench.spark_peers.work import Work

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

KEYS = {
    "region": ("r_regionkey",),
    "nation": ("n_nationkey",),
    "supplier": ("s_suppkey",),
    "customer": ("c_custkey",),
    "part": ("p_partkey",),
    "partsupp": ("ps_partkey", "ps_suppkey"),
    "orders": ("o_orderkey",),
    "lineitem": ("l_orderkey", "l_linenumber"),
}
REFRESHED = ("orders", "lineitem")


def run(work: Work) -> None:
    """All tables are the contender's."""
    queries = statements((Path(__file__).parents[1] / "tpch.sql").read_text())
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
        expected = _expected(work, queries)
        _show(tables)
        for number, query in queries.items():
            found = work.step("query", lambda query=query: _answer(work.spark, query), number=number)  # type: ignore[misc]
            work.same(f"query {number}", found, expected[number])


def statements(text: str) -> dict[int, str]:
    """The queries by number."""
    found: dict[int, list[str]] = {}
    lines: list[str] = []
    for line in text.splitlines():
        if line.startswith("-- ") and line[3:].strip().isdigit():
            lines = found.setdefault(int(line[3:]), [])
        else:
            lines.append(line)
    return {number: "\n".join(query).strip() for number, query in found.items()}


def _expected(work: Work, queries: dict[int, str]) -> dict[int, list[Any]]:
    """What the queries give on plain Parquet; once in a process for each set of inputs."""
    kept = f"queries of {work.places.root}"
    if kept not in work.digests:
        for name in KEYS:
            place = work.places.expected(name) if name in REFRESHED else work.places.batch("tpch", 0) / name
            work.rows(place).createOrReplaceTempView(name)
        work.digests[kept] = [_answer(work.spark, query) for query in queries.values()]
    return dict(zip(queries, work.digests[kept], strict=True))


def _show(tables: dict[str, Table]) -> None:
    for name, table in tables.items():
        table.read().createOrReplaceTempView(name)


def _answer(spark: SparkSession, query: str) -> list[Any]:
    return [[str(value) for value in row] for row in spark.sql(query).collect()]
