"""Upserts that rewrite the files that they leave almost dead: which, when, and what happens if it goes wrong."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from key_crash_worker import AT_ONCE, MOST_ROWS, ROWS, Order, main
from model import bag
from test_key_crash import age
from test_key_races import before_commits
from test_vacuum import referenced, stored
from worker_processes import Worker, workers_in_waiting

import lakebed
from lakebed.core.errors import CommitUnknownError, OptionError, StorageError
from lakebed.core.steps import Step, observe
from lakebed.engine.compact_after import DeadRowsWarning
from lakebed.engine.maintain import UnsettledWarning

BASE = [{"id": i, "v": 100} for i in range(ROWS)]
Rows = dict[int, int]


def make(lake: lakebed.Warehouse, name: str = "t", **given: Any) -> lakebed.Table:
    """A table with a row for every key, of which each bucket has one file."""
    options = {"buckets": 2, "properties": {"compact-on-write": 1}, **given}
    table = lake.create_table(name, "id BIGINT NOT NULL, v BIGINT", primary_key=["id"], **options)
    table.upsert(BASE)
    return table


def expected(*batches: list[dict[str, int]]) -> Rows:
    return {row["id"]: row["v"] for batch in batches for row in batch}


def rows(table: Any) -> Rows:
    return {row["id"]: row["v"] for row in table.to_arrow().to_pylist()}


def check(table: lakebed.Table, wanted: Rows) -> None:
    assert rows(table) == wanted
    assert table.count() == len(wanted)
    assert bag(lakebed.read_delta(table.location).to_arrow()) == bag(table.to_arrow())
    assert dict(pl.read_delta(table.location).select("id", "v").iter_rows()) == wanted


def operations(table: lakebed.Table) -> list[str]:
    return [commit.operation for commit in table.history()][::-1]


@pytest.mark.parametrize("buckets", [1, 2, "dynamic"])
def test_almost_dead_files_are_rewritten(local_lake: lakebed.Warehouse, buckets: int | str) -> None:
    table = make(local_lake, buckets=buckets)
    old = set(table.files()["path"].to_pylist())
    done = table.upsert(MOST_ROWS)
    assert done.operation == "upsert"
    assert done.version == table.version - 1
    assert operations(table) == ["create", "upsert", "upsert", "compact"]
    assert not old & set(table.files()["path"].to_pylist())
    check(table, expected(BASE, MOST_ROWS))
    # Rows are where they are, and were what they were.
    assert rows(table.at(version=1)) == expected(BASE)
    assert rows(table.at(version=2)) == rows(table)
    assert table.changes(2).to_arrow().num_rows == 0
    kept = table.changes(1, mode="append").to_arrow()
    assert sorted(kept["id"].to_pylist()) == sorted(row["id"] for row in MOST_ROWS)
    # The rest of a file dies in turn.
    table.upsert([{"id": i, "v": 3} for i in range(0, ROWS, 8) if i % 64])
    assert operations(table)[-2:] == ["upsert", "compact"]
    check(table, expected(BASE, MOST_ROWS, [{"id": i, "v": 3} for i in range(0, ROWS, 8) if i % 64]))


def test_not_before_65_rows_in_100_are_dead(local_lake: lakebed.Warehouse) -> None:
    table = make(local_lake, buckets=1)
    table.upsert([{"id": i, "v": 1} for i in range(ROWS * 65 // 100 - 1)])
    assert operations(table) == ["create", "upsert", "upsert"]
    table.upsert([{"id": ROWS - 1, "v": 1}])
    assert operations(table)[-1] == "compact"


def test_not_for_few_dead_rows(local_lake: lakebed.Warehouse) -> None:
    dead = len(MOST_ROWS)
    for least, compacts in ((dead, True), (dead + 1, False), (0, False)):
        table = make(local_lake, f"t{least}", properties={"compact-on-write": least})
        table.upsert(MOST_ROWS)
        assert (operations(table)[-1] == "compact") is compacts
        check(table, expected(BASE, MOST_ROWS))
    table = make(local_lake, "usual", properties={})
    table.upsert(MOST_ROWS)
    assert operations(table)[-1] == "upsert"


@pytest.mark.parametrize("merge", ["on-read", "copy-on-write"])
def test_only_where_upserts_settle_by_vectors(local_lake: lakebed.Warehouse, merge: str) -> None:
    table = make(local_lake, merge=merge)
    table.upsert(MOST_ROWS)
    assert "compact" not in operations(table)
    table.settle()
    check(table, expected(BASE, MOST_ROWS))


def test_sums_and_deleted_keys(local_lake: lakebed.Warehouse) -> None:
    """A row that was merged is rewritten as it is; the memory of a deleted key is kept."""
    sums = {"fields.v.aggregate-function": "sum", "compact-on-write": 1}
    table = make(local_lake, "sums", merge_engine="aggregation", properties=sums)
    table.upsert(MOST_ROWS)
    assert operations(table)[-1] == "compact"
    check(table, {i: 100 + 2 * bool(i % 8) for i in range(ROWS)})
    given = {"primary_key": ["id"], "sequence": ["s"], "buckets": 1, "properties": {"compact-on-write": 1}}
    table = local_lake.create_table("late", "id BIGINT, s BIGINT, v BIGINT", **given)
    table.upsert([{"id": i, "s": 5, "v": 1, "op": "-D" if i < 10 else "+I"} for i in range(100)], row_kind="op")
    table.upsert([{"id": i, "s": 6, "v": 2} for i in range(15, 100)])
    assert operations(table)[-1] == "compact"
    table.upsert([{"id": i, "s": 4, "v": 3} for i in range(20)])
    assert rows(table) == {i: 1 if i < 15 else 2 for i in range(10, 100)}


def test_in_a_transaction(local_lake: lakebed.Warehouse) -> None:
    table, other = make(local_lake), make(local_lake, "other")
    with local_lake.transaction() as tx:
        tx.table("t").upsert(MOST_ROWS[:100])
        tx.table("t").upsert(MOST_ROWS)
        tx.table("other").upsert(MOST_ROWS)
    assert tx.versions == {"default.t": 2, "default.other": 2}
    for one in (table, other):
        assert operations(one)[-1] == "compact"
        check(one, expected(BASE, MOST_ROWS))


def test_others_write_meanwhile(local_lake: lakebed.Warehouse) -> None:
    """What another upsert kills while files are rewritten is dead in the new ones."""
    table = make(local_lake)
    between = [{"id": i, "v": 9} for i in range(0, ROWS, 16)]
    with before_commits(lambda number: table.upsert(between) if number == 1 else None):
        table.upsert(MOST_ROWS)
    assert operations(table) == ["create", "upsert", "upsert", "upsert", "compact", "compact"][: table.version + 1]
    check(table, expected(BASE, MOST_ROWS, between))


def test_two_rewrite_the_same_files(local_lake: lakebed.Warehouse) -> None:
    """The first one wins; the other has nothing left to do, and nothing is left of it."""
    table = make(local_lake)
    with before_commits(lambda number: table.compact(full=True) if number == 1 else None):
        table.upsert(MOST_ROWS)
    assert operations(table) == ["create", "upsert", "upsert", "compact"]
    check(table, expected(BASE, MOST_ROWS))
    assert stored(table) == referenced(table)


def test_a_failure_is_a_warning(local_lake: lakebed.Warehouse) -> None:
    """The upsert has landed; nothing of the rewritten files stays."""
    table = make(local_lake)

    def fail(step: Step) -> None:
        if step is Step.COMPACT_WRITTEN:
            raise StorageError("no space left on device")

    stop = observe(fail)
    try:
        with pytest.warns(DeadRowsWarning, match=r"default.t: the commit has landed.*no space left.*compact\(\)"):
            assert table.upsert(MOST_ROWS).version == 2
    finally:
        stop()
    assert table.version == 2
    check(table, expected(BASE, MOST_ROWS))
    assert stored(table) == referenced(table)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        table.upsert([{"id": i, "v": 5} for i in range(0, 80, 8)])
    assert operations(table)[-1] == "compact"


def test_values_that_are_refused(local_lake: lakebed.Warehouse) -> None:
    for wrong in (-1, "some", 1.5):
        with pytest.raises(OptionError, match="a whole number of at least 0"):
            local_lake.create_table("no", "id BIGINT", primary_key=["id"], properties={"compact-on-write": wrong})
    with pytest.raises(OptionError, match="has no primary key"):
        local_lake.create_table("no", "id BIGINT", properties={"compact-on-write": 5})


@pytest.fixture(scope="module")
def workers() -> Iterator[Callable[[], Worker]]:
    with workers_in_waiting(main) as take:
        yield take


@pytest.mark.parametrize(
    ("step", "time", "lands"),
    [
        (Step.COMPACT_WRITTEN, 1, False),
        (Step.COMMIT_INSERTED, 2, False),
        (Step.COMMIT_DONE, 2, True),
        (Step.PUBLISH_WRITTEN, 2, True),
    ],
)
def test_killed(tmp_path: Path, workers: Callable[[], Worker], step: Step, time: int, lands: bool) -> None:
    """kill -9 while an upsert that has landed rewrites files, and in the second commit."""
    with lakebed.connect(tmp_path / "w") as lake:
        table = make(lake)
        workers().die_of(Order(str(tmp_path / "w"), None, "t", "replace most", step, time))
        assert operations(table) == ["create", "upsert", "upsert", *(["compact"] if lands else [])]
        assert rows(table) == expected(BASE, MOST_ROWS)
        orphans = stored(table) - referenced(table)
        assert bool(orphans) is not lands
        age(table, orphans)
        table.upsert([{"id": 1, "v": 5}])
        check(table, expected(BASE, MOST_ROWS, [{"id": 1, "v": 5}]))
        table.vacuum(AT_ONCE)
        assert stored(table) == referenced(table)


def cut_off(table: lakebed.Table, time: int) -> Callable[[], None]:
    """Lose the answer to a commit of this process that has landed: the one that comes as ``time``th."""
    left = time

    def cut(step: Step) -> None:
        nonlocal left
        left -= step is Step.COMMIT_DONE
        if step is Step.COMMIT_DONE and not left:
            raise CommitUnknownError("the connection broke during COMMIT")

    return observe(cut)


def test_files_stay_if_nobody_knows_whether_they_have_landed(local_lake: lakebed.Warehouse) -> None:
    """The connection breaks after COMMIT was sent: the compaction may be in the table, and here it is."""
    table = make(local_lake)
    stop = cut_off(table, 2)
    try:
        with pytest.warns(DeadRowsWarning, match="the connection broke"):
            table.upsert(MOST_ROWS)
    finally:
        stop()
    assert operations(table)[-1] == "compact"
    assert rows(table) == expected(BASE, MOST_ROWS)
    assert referenced(table) <= stored(table)


def test_vectors_stay_if_nobody_knows_whether_they_have_landed(local_lake: lakebed.Warehouse) -> None:
    """The same where a table is settled because it wants that from now on."""
    table = make(local_lake, merge="on-read")
    table.upsert(MOST_ROWS)
    stop = cut_off(table, 2)
    try:
        with pytest.warns(UnsettledWarning, match="the connection broke"):
            table.alter(properties={"merge": "on-write"})
    finally:
        stop()
    assert operations(table)[-1] == "settle"
    assert rows(table) == expected(BASE, MOST_ROWS)
    assert referenced(table) <= stored(table)
