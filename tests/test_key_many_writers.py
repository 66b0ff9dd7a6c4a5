"""Sixteen processes upsert overlapping keys while others settle, compact, vacuum and read: all equal the model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from key_functions import Function
from key_merge import Rules
from key_model import KeyModel
from key_writer_worker import Answer, Order, serve
from model import ModelColumn, bag
from test_vacuum import AT_ONCE, referenced, stored
from worker_processes import Worker

import lakebed

WRITERS, KEYS = 16, 30
UNSETTLED = "its rows could not be settled (others changed the same buckets"
"""Allowed where every version expires at once: nobody can tell then what has changed since a settle began."""
DDL = "id BIGINT NOT NULL, n BIGINT, seq BIGINT, who STRING"
COLUMNS = [ModelColumn(number, *column.split()[:2]) for number, column in enumerate(DDL.split(", "))]
# The sum shows what is lost or doubled, the last value shows the order.
SUM = {"fields.n.aggregate-function": "sum", "fields.who.aggregate-function": "last_value"}
SUMMED = {1: Function("sum"), 2: Function("last_value"), 3: Function("last_value")}


@dataclass(frozen=True)
class Engine:
    """How rows of one key become one, as the table and as the model says it."""

    rules: Rules
    create: dict[str, Any] = field(default_factory=dict)
    properties: dict[str, Any] = field(default_factory=dict)
    kinds: tuple[str, ...] = ("+I", "+U", "-D")
    nulls: bool = False
    """Whether a row may leave a value as it is."""


ENGINES = {
    "deduplicate": Engine(Rules(key=(0,))),
    "sequence": Engine(Rules(key=(0,), sequence=(2,)), {"sequence": ["seq"]}),
    "aggregation": Engine(
        Rules(key=(0,), engine="aggregation", functions=SUMMED),
        {"merge_engine": "aggregation"},
        {**SUM, "fields.seq.aggregate-function": "last_value"},
        ("+I",),
    ),
    "first-row": Engine(Rules(key=(0,), engine="first-row"), {"merge_engine": "first-row"}, kinds=("+I", "+U")),
    "partial-update": Engine(
        Rules(key=(0,), engine="partial-update"), {"merge_engine": "partial-update"}, kinds=("+I", "+U"), nulls=True
    ),
    "late-partial-update": Engine(
        Rules(key=(0,), sequence=(2,), engine="partial-update", remove_on_delete=True),
        {"merge_engine": "partial-update", "sequence": ["seq"]},
        {"remove-record-on-delete": True},
        ("+I", "+I", "+U", "-D"),
        nulls=True,
    ),
}


@dataclass(frozen=True)
class Case:
    """One table, and how it is worked on."""

    engine: str
    merge: str
    buckets: Any
    rounds: int = 2
    races: int | None = None
    expires: bool = False
    retain: str = "1 hour"

    @property
    def name(self) -> str:
        return "-".join([self.engine, self.merge, str(self.buckets), *(["expires"] if self.expires else [])])


@pytest.fixture(scope="module")
def workers() -> Iterator[list[Worker]]:
    """The processes; they are started once, since that takes longer than what most tests do with them."""
    with ExitStack() as stack:
        started = []
        for _ in range(WRITERS + 3):
            worker = Worker(serve)
            stack.callback(worker.kill)
            started.append(worker)
        yield started


def run(workers: Sequence[Worker], orders: Sequence[Order]) -> list[Answer]:
    """Let all begin at the same time; the writers' end is the others' end."""
    for worker, order in zip(workers, orders, strict=True):
        worker.send(order)
    for worker in workers:
        assert worker.receive() == "ready"
    for worker in workers:
        worker.send("go")
    answers = [worker.receive() for worker in workers[:WRITERS]]
    for worker in workers[WRITERS:]:
        worker.send("stop")
    answers += [worker.receive() for worker in workers[WRITERS:]]
    for answer, order in zip(answers, orders, strict=True):
        assert not answer.error, f"{order.role}: {answer.error}"
        told = [text for text in answer.complaints if not (order.expires and UNSETTLED in text)]
        assert not told, f"{order.role}: {told}"
    return answers


def create(lake: lakebed.Warehouse, case: Case) -> lakebed.Table:
    engine = ENGINES[case.engine]
    return lake.create_table(
        "t",
        DDL,
        primary_key=["id"],
        buckets=case.buckets,
        merge=case.merge,
        properties={"checkpoint-interval": 20, "dynamic-bucket.target-rows": 8, **engine.properties},
        **engine.create,
    )


def modelled(case: Case, written: Sequence[Any], head: int) -> KeyModel:
    """The model of the commits in their order; what nobody upserted has changed no row."""
    versions = {version: (rows, kinds) for version, rows, kinds in written}
    assert len(versions) == len(written) == WRITERS * case.rounds, "every upsert has a version of its own"
    model = KeyModel.new(ENGINES[case.engine].rules, COLUMNS)
    for version in range(1, head + 1):
        if version in versions:
            model.upsert(*versions[version])
        else:
            model.settle()
    return model


def check(workers: list[Worker], root: Path, url: str | None, case: Case) -> list[Answer]:
    with lakebed.connect(root, url) as lake:
        table = create(lake, case)
        order = Order("write", str(root), url, rounds=case.rounds, keys=KEYS, races=case.races, expires=case.expires)
        engine = ENGINES[case.engine]
        order = replace(order, kinds=engine.kinds, nulls=engine.nulls, retain=case.retain)
        writes = [replace(order, number=number) for number in range(WRITERS)]
        answers = run(workers, [*writes, *(replace(order, role=role) for role in ("tidy", "clean", "read"))])
        model = modelled(case, [one for answer in answers[:WRITERS] for one in answer.result], table.version)
        now = model.now.visible()
        assert bag(table.to_arrow()) == now
        assert table.count() == len(model.now.rows)
        for version, rows in answers[-1].result:
            assert Counter(map(tuple, rows)) == model.states[version].visible(), f"reader at version {version}"
        if case.merge != "on-read" and not case.expires:
            assert bag(table.read_optimised().to_arrow()) == now, "whatever races were lost, all is settled"
        history = table.history()
        # Of the versions that have expired some may be left: they were being read then.
        assert case.expires or [c.version for c in history] == list(range(table.version, -1, -1))
        assert all(c.published for c in history)
        check_tidy(table, now)
    return answers


def check_tidy(table: lakebed.Table, now: Counter[tuple[Any, ...]]) -> None:
    """Settled, compacted and vacuumed the table is still the same, and nothing is left over."""
    table.settle()
    assert bag(table.read_optimised().to_arrow()) == now
    assert bag(lakebed.read_delta(table.location).to_arrow()) == now
    table.compact(full=True)
    table.vacuum(AT_ONCE)
    assert bag(table.to_arrow()) == now
    assert stored(table) == referenced(table)


QUICK = [
    ("sqlite", Case("sequence", "on-read", 2)),
    ("sqlite", Case("deduplicate", "on-write", "dynamic", rounds=1, expires=True)),
    ("sqlite", Case("aggregation", "on-write", 2, rounds=1, races=0)),
    ("sqlite", Case("first-row", "on-write", "dynamic", rounds=1)),
    ("sqlite", Case("partial-update", "on-write", 2, rounds=1)),
    ("postgres", Case("partial-update", "on-read", 2, rounds=1, expires=True)),
    ("postgres", Case("aggregation", "on-read", "dynamic", expires=True)),
    ("postgres", Case("sequence", "on-write", 2, rounds=1)),
]


@pytest.mark.parametrize(("metastore", "case"), QUICK, ids=[f"{m}-{c.engine}-{c.merge}" for m, c in QUICK])
def test_sixteen_writers(
    request: pytest.FixtureRequest, workers: list[Worker], tmp_path: Path, metastore: str, case: Case
) -> None:
    url = request.getfixturevalue("postgres_metastore")() if metastore == "postgres" else None
    answers = check(workers, tmp_path / "w", url, case)
    lost = sum(answer.races_lost for answer in answers)
    assert case.merge == "on-write" or not lost, "upserts that settle nothing lose no race"


def pairs() -> Iterator[tuple[str, Case]]:
    """Every two choices meet, on each metastore; all combinations would take hours and show no more."""
    merges = ("on-read", "on-write", "copy-on-write")
    for shift, metastore in enumerate(("sqlite", "postgres")):
        for row, engine in enumerate(("aggregation", "deduplicate", "sequence")):
            for column, buckets in enumerate((3, "dynamic", "postpone")):
                expires = (row == column) == (metastore == "sqlite")
                # Vacuum lets versions expire, too: on a slow machine the first are older than a minute at the end.
                retain = "1 minute" if expires else "1 hour"
                merge = merges[(row + column + shift) % 3]
                yield metastore, Case(engine, merge, buckets, rounds=12, expires=expires, retain=retain)


@pytest.mark.soak
@pytest.mark.parametrize(("metastore", "case"), list(pairs()), ids=lambda it: it if isinstance(it, str) else it.name)
def test_sixteen_writers_for_long(
    request: pytest.FixtureRequest, workers: list[Worker], tmp_path: Path, metastore: str, case: Case
) -> None:
    url = request.getfixturevalue("postgres_metastore")() if metastore == "postgres" else None
    check(workers, tmp_path / "w", url, case)


@pytest.mark.soak
@pytest.mark.parametrize(("merge", "buckets"), [("on-read", 3), ("on-write", 3), ("on-write", "dynamic")])
@pytest.mark.parametrize("engine", ["first-row", "partial-update", "late-partial-update"])
@pytest.mark.parametrize("metastore", ["sqlite", "postgres"])
def test_sixteen_writers_of_other_engines_for_long(
    request: pytest.FixtureRequest,
    workers: list[Worker],
    tmp_path: Path,
    metastore: str,
    engine: str,
    merge: str,
    buckets: Any,
) -> None:
    url = request.getfixturevalue("postgres_metastore")() if metastore == "postgres" else None
    check(workers, tmp_path / "w", url, Case(engine, merge, buckets, rounds=6))
