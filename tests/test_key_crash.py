"""kill -9 at each named step of whatever changes a primary-key table: what was committed is there, and work goes on."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from key_crash_worker import AT_ONCE, DELETED, NEW_ROWS, ROWS, Order, main, operate
from key_functions import Function
from key_merge import Rules
from key_model import KeyModel
from model import ModelColumn, bag
from test_vacuum import referenced, stored
from worker_processes import Worker, workers_in_waiting

import lakebed
from lakebed.core.actions import now_ms
from lakebed.core.steps import Step, observe
from lakebed.engine.vacuum import TEMPORARY_MS
from lakebed.storage.durable import is_temporary

COLUMNS = [ModelColumn(0, "id", "BIGINT"), ModelColumn(1, "v", "BIGINT")]
BASE = [{"id": i, "v": 100} for i in range(ROWS)]
SECOND = [{"id": i, "v": 10} for i in range(0, ROWS, 3)]

PUBLISHES = {Step.PUBLISH_BEGUN, Step.PUBLISH_WRITTEN, Step.PUBLISH_MARKED}
CHECKPOINTS = {Step.CHECKPOINT_WRITTEN, Step.CHECKPOINT_POINTED}
COMMITTED = {Step.COMMIT_DONE} | PUBLISHES | CHECKPOINTS
TRIES = {Step.COMMIT_PREPARED, Step.COMMIT_BEGUN, Step.COMMIT_INSERTED}
COMMITS = TRIES | COMMITTED
WRITES = {Step.WRITE_OPENED, Step.WRITE_CLOSED}
EXPIRES = {Step.EXPIRE_FORGOTTEN, Step.EXPIRE_DONE}
CLEANS = {Step.VACUUM_FOUND, Step.VACUUM_CONDEMNED, Step.VACUUM_DELETED}
LEAVE_FILES = {Step.WRITE_CLOSED, Step.VECTOR_WRITTEN, Step.COMPACT_WRITTEN} | TRIES
SUMS = {"merge_engine": "aggregation", "properties": {"fields.v.aggregate-function": "sum"}}


@dataclass(frozen=True)
class Case:
    """One operation on a table of one ``merge``, and every step that it passes."""

    operation: str
    merge: str
    passes: set[Step] = field(hash=False)
    create: dict[str, Any] = field(hash=False, default_factory=dict)

    @property
    def rules(self) -> Rules:
        if "merge_engine" in self.create:
            return Rules(key=(0,), engine="aggregation", functions={1: Function("sum")})
        return Rules(key=(0,))


CASES = {
    "upsert-on-read": Case("upsert", "on-read", WRITES | COMMITS),
    "upsert-on-write": Case("upsert", "on-write", WRITES | COMMITS | {Step.VECTOR_WRITTEN}),
    "upsert-copy-on-write": Case("upsert", "copy-on-write", WRITES | COMMITS | {Step.COMPACT_WRITTEN}),
    "delete": Case("delete", "on-write", WRITES | COMMITS | {Step.VECTOR_WRITTEN}),
    "settle": Case("settle", "on-read", COMMITS | {Step.VECTOR_WRITTEN}),
    "settle-sums": Case("settle", "on-read", COMMITS | {Step.VECTOR_WRITTEN, Step.COMPACT_WRITTEN}, SUMS),
    "compact": Case("compact", "on-write", COMMITS | {Step.COMPACT_WRITTEN}),
    "expire": Case("expire", "on-write", EXPIRES),
    "vacuum": Case("vacuum", "on-write", EXPIRES | CLEANS),
}
KILLS = [(name, step) for name, case in CASES.items() for step in Step if step in case.passes]
NEAR_COMMIT = [Step.COMMIT_INSERTED, Step.COMMIT_DONE]
NEAR = [(name, step) for name, step in KILLS if step in NEAR_COMMIT or step in EXPIRES | {Step.VACUUM_CONDEMNED}]
# A commit begins and is published in the same way, whatever is in it: with these, those steps are left to the soak.
ALIKE = {"upsert-on-read", "upsert-copy-on-write", "delete", "settle", "settle-sums"}
FOR_LONG = {Step.COMMIT_PREPARED, Step.COMMIT_BEGUN} | PUBLISHES | CHECKPOINTS


def cases(kills: list[tuple[str, Step]], for_long: set[Step] = FOR_LONG) -> list[Any]:
    """One case per kill, those of the soak marked."""
    return [
        pytest.param(
            name,
            step,
            id=f"{name}-{step.value}",
            marks=[pytest.mark.soak] if name in ALIKE and step in for_long else [],
        )
        for name, step in kills
    ]


def prepare(lake: lakebed.Warehouse, case: Case, name: str) -> tuple[lakebed.Table, KeyModel]:
    """A table after two upserts, of which only the second may be unsettled."""
    # The first checkpoint is due when the operation commits.
    properties = {"checkpoint-interval": 4 if case.merge == "on-read" else 3, **case.create.get("properties", {})}
    options = {**case.create, "properties": properties, "merge": case.merge}
    table = lake.create_table(name, "id BIGINT NOT NULL, v BIGINT", primary_key=["id"], buckets=2, **options)
    model = KeyModel.new(case.rules, COLUMNS, case.merge)
    table.upsert(BASE)
    model.upsert(BASE)
    table.settle()
    catch_up(table, model)
    table.upsert(SECOND)
    model.upsert(SECOND)
    if case.operation in ("expire", "vacuum"):
        table.compact(full=True)
        catch_up(table, model)
    return table, model


def catch_up(table: lakebed.Table, model: KeyModel, *, everything: bool = True) -> None:
    """Tell the model of versions in which no row has changed."""
    while len(model.states) <= table.version:
        model.settle(everything=everything)


def finish(model: KeyModel, operation: str) -> None:
    """Tell the model of the operation."""
    if operation == "upsert":
        model.upsert(NEW_ROWS)
    elif operation == "delete":
        model.delete_keys(DELETED)
    else:
        model.settle()


@pytest.mark.parametrize("name", CASES)
def test_the_steps_of_each_operation_are_known(tmp_path: Path, name: str) -> None:
    """Or a kill would be tried at fewer steps than there are."""
    with lakebed.connect(tmp_path / "w") as lake:
        table, _ = prepare(lake, CASES[name], "t")
        passed: set[Step] = set()
        stop = observe(passed.add)
        try:
            operate(table, CASES[name].operation)
        finally:
            stop()
        assert (Step.VECTOR_WRITTEN in passed) <= any(path.endswith(".bin") for path in stored(table))
    assert passed == CASES[name].passes


ELSEWHERE = {Step.TRANSFER_TABLE}
"""Steps that no operation on a table passes; tests/metastore/test_transfer.py kills there."""


def test_every_step_is_passed_by_some_operation() -> None:
    assert {step for _, step in KILLS} == set(Step) - ELSEWHERE, "a new step belongs to the cases that pass it"


@pytest.fixture(scope="module")
def workers() -> Iterator[Callable[[], Worker]]:
    with workers_in_waiting(main) as take:
        yield take


@dataclass(frozen=True)
class Place:
    """Where the tables of all tests of one metastore are; what one of them leaves must not trouble the next.

    The connection outlives every kill, as those of others do; the next process to be killed begins with a new one.
    """

    root: Path
    url: str | None
    lake: lakebed.Warehouse


@contextmanager
def opened(root: Path, url: str | None) -> Iterator[Place]:
    with lakebed.connect(root, url) as lake:
        yield Place(root, url, lake)


@pytest.fixture(scope="module")
def sqlite_place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    with opened(tmp_path_factory.mktemp("crash") / "w", None) as place:
        yield place


@pytest.fixture(scope="module")
def postgres_place(tmp_path_factory: pytest.TempPathFactory, postgres: Callable[[], str]) -> Iterator[Place]:
    with opened(tmp_path_factory.mktemp("crash") / "w", postgres()) as place:
        yield place


@pytest.mark.parametrize(("name", "step"), cases(KILLS))
def test_killed_at(sqlite_place: Place, workers: Callable[[], Worker], name: str, step: Step) -> None:
    kill_and_check(sqlite_place, workers(), name, step)


@pytest.mark.parametrize(("name", "step"), cases(NEAR, FOR_LONG | {Step.COMMIT_DONE}))
def test_killed_on_postgres_at(postgres_place: Place, workers: Callable[[], Worker], name: str, step: Step) -> None:
    kill_and_check(postgres_place, workers(), name, step)


def kill_and_check(place: Place, worker: Worker, name: str, step: Step) -> None:
    case, table_name = CASES[name], f"{name}_{step.value}".replace("-", "_").replace(".", "_")
    table, model = prepare(place.lake, case, table_name)
    for version, state in enumerate(model.states):
        state.adopt(bag(table.at(version=version).read_optimised().to_arrow()))

    worker.die_of(Order(str(place.root), place.url, table_name, case.operation, step))

    if step in COMMITTED:
        finish(model, case.operation)
    check(table, model)
    check_history(table, model, forgotten=step in EXPIRES | CLEANS)
    orphans = stored(table) - referenced(table)
    assert orphans or step not in LEAVE_FILES
    age(table, orphans)
    go_on(table, model)
    check_log(table)
    tidy_up(table, model, orphans)


def age(table: lakebed.Table, orphans: set[str]) -> None:
    """Make unfinished files, which another thread may have had open, so old that their writer must be dead."""
    past = (now_ms() - TEMPORARY_MS) / 1000 - 1
    for path in orphans:
        if is_temporary(path.rpartition("/")[2]):
            os.utime(table._store.path(path), (past, past))


def check(table: lakebed.Table, model: KeyModel) -> None:
    """Rows and settled rows are the model's."""
    assert table.version == len(model.states) - 1
    assert bag(table.to_arrow()) == model.now.visible()
    assert table.count() == len(model.now.rows)
    model.now.adopt(bag(table.read_optimised().to_arrow()))


def check_history(table: lakebed.Table, model: KeyModel, *, forgotten: bool) -> None:
    """Every version is there that has not been forgotten."""
    versions = [commit.version for commit in table.history()]
    assert versions == [table.version] if forgotten else list(range(table.version, -1, -1))
    for version in versions:
        assert bag(table.at(version=version).to_arrow()) == model.states[version].visible()


def go_on(table: lakebed.Table, model: KeyModel) -> None:
    """The next writer, settle and compaction: as if nothing had happened."""
    after = [{"id": 1, "v": 7}, {"id": 50000, "v": 7}]
    assert table.upsert(after).version == table.version
    model.upsert(after)
    check(table, model)
    table.settle()
    catch_up(table, model)
    check(table, model)
    table.compact(full=True)
    catch_up(table, model, everything=False)
    check(table, model)
    assert bag(table.read_optimised().to_arrow()) == model.now.visible()


def check_log(table: lakebed.Table) -> None:
    """The open log has every version, those of the dead process too."""
    assert all(commit.published for commit in table.history())
    mirrored = lakebed.read_delta(table.location)
    assert mirrored.version == table.version
    assert bag(mirrored.to_arrow()) == bag(table.to_arrow())


def tidy_up(table: lakebed.Table, model: KeyModel, orphans: set[str]) -> None:
    """Vacuum finds all that the dead process left, and takes nothing that is needed."""
    assert referenced(table) <= stored(table)
    would = table.vacuum(AT_ONCE, dry_run=True)
    assert orphans <= set(would.paths)
    assert table.vacuum(AT_ONCE).paths == would.paths
    assert stored(table) == referenced(table)
    assert bag(table.to_arrow()) == model.now.visible() == bag(lakebed.read_delta(table.location).to_arrow())
