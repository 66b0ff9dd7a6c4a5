"""Races of settling upserts, each made to happen: the loser keeps its files, and nobody waits for ever."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import lakebed
from lakebed.core.steps import Step, observe
from lakebed.engine import land, settle
from lakebed.engine.maintain import UnsettledWarning


@pytest.fixture
def table(lake: lakebed.Warehouse) -> lakebed.Table:
    """Keys 0 to 39 in two buckets, all 0."""
    made = lake.create_table("t", "id BIGINT, v BIGINT", primary_key=["id"], buckets=2)
    put(made, dict.fromkeys(range(40), 0))
    return made


def put(table: Any, rows: dict[int, int]) -> lakebed.Commit:
    commit: lakebed.Commit = table.upsert([{"id": key, "v": value} for key, value in rows.items()])
    return commit


def values(table: lakebed.Table | lakebed.TableView) -> dict[int, int]:
    return {row["id"]: row["v"] for row in table.to_arrow().to_pylist()}


@contextmanager
def before_commits(work: Callable[[int], object]) -> Iterator[None]:
    """Call ``work`` with 0, 1, … just before each commit of this thread; not before those of ``work`` itself."""
    thread, busy, number = threading.current_thread(), False, 0

    def interrupt(step: Step) -> None:
        nonlocal busy, number
        if step is not Step.COMMIT_PREPARED or busy or threading.current_thread() is not thread:
            return
        busy = True
        try:
            work(number)
        finally:
            busy, number = False, number + 1

    stop = observe(interrupt)
    try:
        yield
    finally:
        stop()


def one_per_bucket(table: lakebed.Table) -> list[int]:
    """A new key for each bucket."""
    found: dict[int, int] = {}
    for key in range(100, 200):
        if len(found) == 2:
            break
        version = put(table, {key: 0}).version
        (added,) = (f for f in table.files().to_pylist() if f["added_version"] == version)
        found.setdefault(added["bucket"], key)
    return list(found.values())


def test_the_loser_settles_only_what_the_winner_touched(table: lakebed.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    first, _ = one_per_bucket(table)
    settled, written = [], []
    real = settle.settle_units

    def counted(draft: Any, key: Any, units: Any, **options: Any) -> Any:
        settled.append(len(units))
        return real(draft, key, units, **options)

    def win(number: int) -> None:
        if number == 0:
            monkeypatch.undo()
            stop()
            put(table, {first: 1})
            monkeypatch.setattr(settle, "settle_units", counted)

    stop = observe(lambda step: written.append(step) if step is Step.WRITE_CLOSED else None)
    monkeypatch.setattr(settle, "settle_units", counted)
    with before_commits(win):
        mine = put(table, dict.fromkeys([*range(40), first], 2))
    assert settled == [2, 1]
    assert len(written) == 2, "the data files were written once"
    assert mine.version == table.version
    assert values(table)[first] == 2
    assert values(table.read_optimised()) == values(table)


@pytest.mark.parametrize("races", [0, 3])
@pytest.mark.parametrize("engine", ["deduplicate", "aggregation"])
def test_who_always_loses_lands_unsettled_and_settles_then(
    local_lake: lakebed.Warehouse, monkeypatch: pytest.MonkeyPatch, races: int, engine: str
) -> None:
    table = local_lake.create_table(
        "t",
        "id BIGINT, v BIGINT",
        primary_key=["id"],
        buckets=2,
        merge_engine=engine,
        properties={"fields.v.aggregate-function": "sum"} if engine == "aggregation" else {},
    )
    put(table, dict.fromkeys(range(10), 1))
    monkeypatch.setattr(land, "_RACES", races)
    won = []

    def win(number: int) -> None:
        if number <= races:
            won.append(put(table, dict.fromkeys(range(10), 1)).version)

    with before_commits(win):
        mine = put(table, dict.fromkeys(range(10), 5))
    assert len(won) == races + 1
    assert mine.version == won[-1] + 1
    assert [commit.operation for commit in table.history(limit=2)] == ["settle", "upsert"]
    expected = 5 + (len(won) + 1 if engine == "aggregation" else 0)
    assert values(table) == dict.fromkeys(range(10), expected)
    assert values(table.at(version=mine.version)) == values(table)
    assert values(table.read_optimised()) == values(lakebed.read_delta(table.location)) == values(table)


def test_a_compaction_that_wins_does_not_leave_rows_unsettled(
    table: lakebed.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It began before an upsert landed unsettled, and lands while that is settled."""
    put(table, dict.fromkeys(range(20), 1))
    monkeypatch.setattr(land, "_RACES", 0)
    prepared, go = threading.Event(), threading.Event()

    def hold(step: Step) -> None:
        if step is Step.COMMIT_PREPARED and threading.current_thread() is compacting and not go.is_set():
            prepared.set()
            assert go.wait(60)

    def race(number: int) -> None:
        if number == 0:
            put(table, dict.fromkeys(range(1000, 1010), 0))
        elif number == 2:
            assert table.history(limit=1)[0].operation == "upsert"
            go.set()
            compacting.join()

    compacting = threading.Thread(target=lambda: table.compact(full=True))
    stop = observe(hold)
    try:
        compacting.start()
        assert prepared.wait(60)
        with before_commits(race):
            put(table, dict.fromkeys(range(40), 2))
    finally:
        go.set()
        stop()
    assert [commit.operation for commit in table.history(limit=3)] == ["settle", "compact", "upsert"]
    assert values(table) == dict.fromkeys(range(40), 2) | dict.fromkeys(range(1000, 1010), 0)
    assert values(table.read_optimised()) == values(table)


def test_rows_that_cannot_be_settled_are_told(table: lakebed.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(land, "_RACES", 0)
    monkeypatch.setattr("lakebed.engine.maintain._RACES", 0)
    with (
        before_commits(lambda number: put(table, {1: 1}) if number == 0 else None),
        pytest.warns(UnsettledWarning, match=r"has landed, but .*others changed the same buckets .* tries again"),
    ):
        put(table, {1: 2})
    assert values(table)[1] == 2
    assert values(table.read_optimised())[1] == 1
    assert table.settle().version == table.version
    assert values(table.read_optimised())[1] == 2
