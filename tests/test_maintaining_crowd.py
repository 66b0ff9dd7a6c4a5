"""Two maintainers at once beside a writer, and one that is killed at every step: the tables stay what was written."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from maintain_worker import AT_ONCE, CLEANED, KEYED, TABLES, Answer, Order, dying, maintain, serve, write
from test_vacuum import referenced, stored
from worker_processes import Worker, workers_in_waiting

import lakebed
from lakebed.core.steps import Step, observe

LATER = timedelta(minutes=5)
Rows = Sequence[dict[str, Any]]


def make(lake: lakebed.Warehouse, name: str, engine: str | None, **properties: Any) -> lakebed.Table:
    key: dict[str, Any] = {}
    if engine is not None:
        key = {"primary_key": ["id"], "buckets": 2, "merge": "on-read", "merge_engine": engine}
    if engine == "aggregation":
        properties["fields.v.aggregate-function"] = "sum"
    return lake.create_table(name, "id BIGINT, v BIGINT", properties=properties, **key)


def modelled(engine: str | None, written: Sequence[tuple[Rows, bool]]) -> Counter[tuple[int, int]]:
    """The rows that are left of those that were written, one batch after the other."""
    if engine is None:
        return Counter((row["id"], row["v"]) for rows, _ in written for row in rows)
    state: dict[int, int] = {}
    for rows, deletes in written:
        for row in rows:
            if deletes:
                state.pop(row["id"], None)
            else:
                state[row["id"]] = row["v"] + (state.get(row["id"], 0) if engine == "aggregation" else 0)
    return Counter(state.items())


def seen(table: lakebed.Table | lakebed.TableView) -> Counter[tuple[int, int]]:
    return Counter((row["id"], row["v"]) for row in table.to_arrow().to_pylist())


def on_disk(table: lakebed.Table) -> set[str]:
    return {path for path in stored(table) if not path.endswith(".tmp")}


def check(lake: lakebed.Warehouse, name: str, expected: Counter[tuple[int, int]]) -> None:
    """The table is the model before and after one more pass, and then nothing is left to do, and nothing left over."""
    table = lake.table(name)
    assert seen(table) == expected
    assert referenced(table) <= stored(table)
    (done,) = lake.maintain([name], retain=AT_ONCE)
    assert done.error is None
    assert seen(table) == seen(table.read_optimised()) == seen(lakebed.read_delta(table.location)) == expected
    assert not any(table.files()["unsettled"].to_pylist())
    assert [(commit.version, commit.published) for commit in table.history()] == [(table.version, True)]
    assert on_disk(table) == referenced(table)
    (again,) = lake.maintain([name], retain=AT_ONCE)
    assert again.settled is not None
    assert again.compacted is not None
    assert again.vacuumed is not None
    assert (again.settled.version, again.compacted.version, again.vacuumed.paths) == (None, None, [])


# --- two at once


def in_threads(lake: lakebed.Warehouse, order: Order) -> list[Answer]:
    over = threading.Event()
    with ThreadPoolExecutor(3) as pool:
        maintainers = [pool.submit(maintain, lake, order, over.is_set) for _ in range(2)]
        writer = pool.submit(write, lake, order)
        try:
            written = writer.result()
        finally:
            over.set()
        return [written, *(one.result() for one in maintainers)]


def in_processes(_: lakebed.Warehouse, order: Order) -> list[Answer]:
    with ExitStack() as stack:
        workers = [Worker(serve) for _ in range(3)]
        for worker, role in zip(workers, ("write", "maintain", "maintain"), strict=True):
            stack.callback(worker.kill)
            worker.send(Order(role, order.warehouse, order.metastore, order.retain, order.rounds))
        for worker in workers:
            assert worker.receive() == "ready"
        for worker in workers:
            worker.send("go")
        written = workers[0].receive()
        for worker in workers[1:]:
            worker.send("stop")
        return [written, *(worker.receive() for worker in workers[1:])]


def two_at_once(root: Path, url: str | None, retain: timedelta, rounds: int, *, processes: bool) -> None:
    with lakebed.connect(root, url) as lake:
        for name in TABLES:
            make(lake, name, KEYED.get(name), **{"checkpoint-interval": 5, "compaction-small-files": 3})
        order = Order("", str(root), url, retain, rounds)
        answers = (in_processes if processes else in_threads)(lake, order)
        assert not [answer.failure for answer in answers if answer.failure]
        wrong = [error for answer in answers for error in answer.errors]
        # Whose files are taken while it writes them begins again with the next pass; with a retention nobody's are.
        assert [error for error in wrong if retain == LATER or CLEANED not in error] == []
        assert sum(answer.changed for answer in answers) > 0
        for name in TABLES:
            batches = [(rows, deletes) for table, rows, deletes in answers[0].written if table == name]
            assert len(batches) == rounds
            check(lake, name, modelled(KEYED.get(name), batches))


CROWDS = [
    pytest.param("sqlite", False, AT_ONCE, id="sqlite-threads-at-once"),
    pytest.param("postgres", True, AT_ONCE, id="postgres-processes-at-once"),
    pytest.param("sqlite", True, LATER, id="sqlite-processes-later", marks=pytest.mark.soak),
    pytest.param("postgres", False, LATER, id="postgres-threads-later", marks=pytest.mark.soak),
]


@pytest.mark.parametrize(("metastore", "processes", "retain"), CROWDS)
def test_two_maintainers_beside_a_writer(
    request: pytest.FixtureRequest, tmp_path: Path, metastore: str, processes: bool, retain: timedelta
) -> None:
    url = request.getfixturevalue("postgres_metastore")() if metastore == "postgres" else None
    two_at_once(tmp_path / "w", url, retain, 6, processes=processes)


@pytest.mark.soak
@pytest.mark.parametrize("retain", [AT_ONCE, timedelta(milliseconds=200), LATER], ids=str)
@pytest.mark.parametrize("processes", [False, True], ids=["threads", "processes"])
@pytest.mark.parametrize("metastore", ["sqlite", "postgres"])
def test_two_maintainers_beside_a_writer_for_long(
    request: pytest.FixtureRequest, tmp_path: Path, metastore: str, processes: bool, retain: timedelta
) -> None:
    url = request.getfixturevalue("postgres_metastore")() if metastore == "postgres" else None
    two_at_once(tmp_path / "w", url, retain, 60, processes=processes)


# --- killed

BATCHES: list[Rows] = [
    [{"id": i, "v": 100 * i} for i in range(400)],
    [{"id": i, "v": 1} for i in range(0, 400, 3)],
]
LAST: Rows = [{"id": i, "v": 2} for i in range(1, 400, 3)]
"""Enough that vectors are not inline, and that files are worth packing."""
SETTLES_AND_PACKS = [
    *[Step.COMMIT_PREPARED, Step.COMMIT_BEGUN, Step.COMMIT_INSERTED, Step.COMMIT_DONE],
    *[Step.PUBLISH_BEGUN, Step.PUBLISH_WRITTEN, Step.PUBLISH_MARKED],
] * 2
CLEANS = [Step.EXPIRE_FORGOTTEN, Step.EXPIRE_DONE, Step.VACUUM_FOUND, Step.VACUUM_CONDEMNED, Step.VACUUM_DELETED]


def prepare(lake: lakebed.Warehouse, name: str, engine: str) -> Counter[tuple[int, int]]:
    """A table that maintenance has all kinds of work with; what is in it."""
    # The first checkpoint is due when maintenance has settled.
    table = make(lake, name, engine, **{"checkpoint-interval": 5, "compaction-small-files": 2})
    for rows in BATCHES:
        table.upsert(rows)
    table.settle()
    table.upsert(LAST)
    return modelled(engine, [(rows, False) for rows in [*BATCHES, LAST]])


def passed(root: Path, engine: str) -> list[Step]:
    """The steps of a maintenance from its beginning to its end."""
    steps: list[Step] = []
    with lakebed.connect(root) as lake:
        prepare(lake, "whole", engine)
        stop = observe(steps.append)
        try:
            lake.maintain(["whole"], retain=AT_ONCE)
        finally:
            stop()
    return steps


@pytest.fixture(scope="module")
def steps(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Step]]:
    return {engine: passed(tmp_path_factory.mktemp("steps") / "w", engine) for engine in KEYED.values()}


@pytest.fixture(scope="module")
def doomed() -> Iterator[Callable[[], Worker]]:
    with workers_in_waiting(dying) as take:
        yield take


def killed_at(place: tuple[Path, str | None], take: Callable[[], Worker], engine: str, number: int) -> None:
    """One maintainer is killed at a step; the next one finishes the work."""
    root, url = place
    with lakebed.connect(root, url) as lake:
        name = f"{engine}_{number}"
        expected = prepare(lake, name, engine)
        take().die_of(Order("die", str(root), url, AT_ONCE, table=name, dies_at=number))
        check(lake, name, expected)


def test_maintenance_passes_all_steps(steps: dict[str, list[Step]]) -> None:
    """Or a kill would be tried at fewer steps than there are."""
    for engine, found in steps.items():
        assert [step for step in found if step in SETTLES_AND_PACKS] == SETTLES_AND_PACKS, engine
        assert [step for step in found if step in CLEANS] == CLEANS, engine
        assert {Step.COMPACT_WRITTEN, Step.CHECKPOINT_WRITTEN, Step.CHECKPOINT_POINTED} <= set(found), engine
    assert Step.VECTOR_WRITTEN in steps["deduplicate"]


TRIED = (Step.COMMIT_DONE, Step.EXPIRE_FORGOTTEN, Step.VACUUM_CONDEMNED)
"""Steps at which things hang in the air; the others are left to the soak."""


def test_maintenance_is_killed_where_it_matters(
    tmp_path: Path, steps: dict[str, list[Step]], doomed: Callable[[], Worker]
) -> None:
    found = steps["deduplicate"]
    for number in (number for number, step in enumerate(found, 1) if step in TRIED):
        killed_at((tmp_path / "w", None), doomed, "deduplicate", number)


@pytest.mark.soak
@pytest.mark.parametrize("engine", sorted(KEYED.values()))
@pytest.mark.parametrize("metastore", ["sqlite", "postgres"])
def test_maintenance_is_killed_at_every_step(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    steps: dict[str, list[Step]],
    doomed: Callable[[], Worker],
    metastore: str,
    engine: str,
) -> None:
    url = request.getfixturevalue("postgres_metastore")() if metastore == "postgres" else None
    for number in range(1, len(steps[engine]) + 1):
        killed_at((tmp_path / "w", url), doomed, engine, number)
