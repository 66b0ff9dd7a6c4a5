"""The figures of the benchmark of upserts without Spark."""

from bench.peers.contenders import ON_READ, POLARS
from bench.peers.process import Taken
from bench.upsert_report import Found


def test_of_each_upsert_the_fastest_try_counts() -> None:
    found = Found(rows=10, sizes=[1], upserts=3)
    for seconds in ([3.0, 1.0, 2.0], [1.0, 2.0, 9.0], [2.0, 2.0, 1.0]):
        found.better(1, "upsert", ON_READ, Taken(list(seconds)))
    best = found.get(1, "upsert", ON_READ)
    assert best is not None
    assert best.seconds == [1.0, 1.0, 1.0]
    assert best.totals == [6.0, 12.0, 5.0]


def test_who_did_less_does_not_replace_who_did_all() -> None:
    found = Found(rows=10, sizes=[1], upserts=2)
    for seconds in ([3.0, 3.0], [1.0]):
        found.better(1, "upsert", POLARS, Taken(list(seconds)))
    best = found.get(1, "upsert", POLARS)
    assert best is not None
    assert best.seconds == [3.0, 3.0]
