"""Compaction beside writers that change the files it is rewriting: it lands all the same, and nothing comes back."""

from __future__ import annotations

import random
import warnings
from collections import Counter
from collections.abc import Callable
from typing import Any

import pyarrow.parquet as pq
import pytest
from model import bag
from test_key_races import before_commits
from test_vacuum import referenced, stored

import lakebed
from lakebed.engine import maintain
from lakebed.engine.tiers import FULL

KEYS = 60


class World:
    """A table, and what its rows should be: by key the highest sequence counts."""

    def __init__(self, table: lakebed.Table, seed: int) -> None:
        self.table, self.chance = table, random.Random(seed)
        self.newest: dict[int, tuple[int, int | None]] = {}
        self.sequence = 0

    def upsert(self, count: int = 12) -> None:
        rows = []
        for id in self.chance.sample(range(KEYS), count):
            self.sequence += 1
            late = self.chance.random() < 0.3
            sequence = self.sequence - self.chance.randrange(40) * late
            gone = self.chance.random() < 0.3
            rows.append({"id": id, "n": self.sequence, "s": sequence, "op": "-D" if gone else "+U"})
            known = self.newest.get(id)
            if known is None or sequence >= known[0]:
                self.newest[id] = (sequence, None if gone else self.sequence)
        self.table.upsert(rows, row_kind="op")

    def check(self) -> None:
        rows = {row["id"]: row["n"] for row in self.table.to_arrow().to_pylist()}
        assert rows == {id: n for id, (_, n) in self.newest.items() if n is not None}
        assert self.table.count() == len(rows)


@pytest.mark.parametrize("buckets", [2, "dynamic"])
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(1, 10))])
def test_upserts_meanwhile(local_lake: lakebed.Warehouse, buckets: int | str, seed: int) -> None:
    """Rows that die, tombstones that are replaced, and new ones, while their files are being rewritten."""
    table = local_lake.create_table(
        "t", "id BIGINT, n BIGINT, s BIGINT", primary_key=["id"], sequence=["s"], buckets=buckets
    )
    world = World(table, seed)
    for _ in range(4):
        world.upsert()
        world.upsert()
        with before_commits(lambda number: world.upsert() if number < 2 else None):
            done = table.compact(full=True)
        assert done.version is not None
        before = table.version
        world.check()
        # Maintenance is no change, and what it has moved is still known as what it was.
        assert table.changes(done.version - 1, done.version, mode="all").to_arrow().num_rows == 0
        world.upsert()
        world.check()
        assert table.changes(before).to_arrow().num_rows
    table.compact(full=True)
    world.upsert()
    world.check()


ENGINES: dict[str, Callable[[lakebed.Warehouse], lakebed.Table]] = {
    "aggregation": lambda lake: lake.create_table(
        "t", "id BIGINT, n BIGINT", primary_key=["id"], buckets=2, merge_engine="aggregation",
        properties={"fields.n.aggregate-function": "sum"},
    ),
    "first-row": lambda lake: lake.create_table(
        "t", "id BIGINT, n BIGINT", primary_key=["id"], buckets=2, merge_engine="first-row"
    ),
    "copy-on-write": lambda lake: lake.create_table(
        "t", "id BIGINT, n BIGINT", primary_key=["id"], buckets=2, merge="copy-on-write"
    ),
    "on-read": lambda lake: lake.create_table(
        "t", "id BIGINT, n BIGINT", primary_key=["id"], buckets=2, merge="on-read"
    ),
}  # fmt: skip


@pytest.mark.parametrize("engine", ENGINES)
def test_merge_engines(local_lake: lakebed.Warehouse, engine: str) -> None:
    table = ENGINES[engine](local_lake)
    put = {"aggregation": lambda old, new: old + new, "first-row": lambda old, _: old}.get(engine, lambda _, new: new)
    model: dict[int, int] = {}
    chance = random.Random(5)

    def upsert(number: int) -> None:
        if number > 2:
            return
        rows = {id: chance.randrange(100) for id in chance.sample(range(30), 10)}
        table.upsert([{"id": id, "n": n} for id, n in rows.items()])
        model.update({id: put(model[id], n) if id in model else n for id, n in rows.items()})

    for _ in range(4):
        upsert(0)
        upsert(0)
        table.settle()
        with before_commits(upsert):
            table.compact(full=True)
        assert {row["id"]: row["n"] for row in table.to_arrow().to_pylist()} == model


def test_deletes_of_rows_without_a_key_meanwhile(local_lake: lakebed.Warehouse) -> None:
    table = local_lake.create_table("t", "n BIGINT")
    for start in range(0, 30, 10):
        table.append([{"n": n} for n in range(start, start + 10)])
    left = set(range(30))

    def meanwhile(number: int) -> None:
        if number < 2:
            table.delete(f"n % 7 = {number}")
            left.difference_update(range(number, 30, 7))
            table.append([{"n": 100 + number}])
            left.add(100 + number)

    with before_commits(meanwhile):
        assert table.compact(full=True).version == table.version
    assert sorted(table.to_arrow()["n"].to_pylist()) == sorted(left)


@pytest.mark.parametrize("way", ["restore", "overwrite", "compact", "retype"])
def test_what_changes_more_than_that_leaves_compaction_out(local_lake: lakebed.Warehouse, way: str) -> None:
    table = local_lake.create_table("t", "n INT")
    table.append([{"n": n} for n in range(10)])
    table.append([{"n": n} for n in range(10, 20)])
    table.delete("n = 3")
    other = local_lake.table("t")
    ways: dict[str, Callable[[], Any]] = {
        "restore": lambda: other.restore(version=2),
        "overwrite": lambda: other.overwrite([{"n": n} for n in range(20)]),
        "compact": lambda: other.compact(full=True),
        "retype": lambda: (other.overwrite([{"n": n} for n in range(20)]), other.alter(widen={"n": "BIGINT"})),
    }
    with before_commits(lambda number: ways[way]() if number == 0 else None):
        done = table.compact(full=True)
    assert done.version is None
    expected = [n for n in range(20) if way != "compact" or n != 3]
    assert sorted(table.to_arrow()["n"].to_pylist()) == expected


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("engine", ["deduplicate", "partial-update", "first-row"])
def test_what_comes_unsettled_meanwhile_keeps_no_bucket_from_being_packed(
    local_lake: lakebed.Warehouse, engine: str, full: bool
) -> None:
    """compact() settles first; by the time that it packs, upserts of an on-read table may have left more to settle."""
    table = local_lake.create_table(
        "t", "id BIGINT, n BIGINT", primary_key=["id"], buckets=2, merge="on-read", merge_engine=engine,
        properties={"compaction-small-files": 2},
    )  # fmt: skip
    for n in range(4):
        table.upsert([{"id": id, "n": n} for id in range(30 * n, 30 * n + 40)])
    rows = {id: id // 30 if engine != "first-row" else max(0, id - 10) // 30 for id in range(130)}
    rows |= dict.fromkeys(range(120, 130), 3)
    assert {row["id"]: row["n"] for row in table.to_arrow().to_pylist()} == rows
    with before_commits(lambda number: table.upsert([{"id": 0, "n": 9}]) if number == 0 else None):
        done = table.compact(full=True) if full else table.compact()
    # Settling may have merged all rows of a bucket into one file already.
    assert (done.buckets, done.skipped) == (0 if engine == "partial-update" else 2, ())
    files = table.files().to_pylist()
    assert sum(file["unsettled"] for file in files) == 1
    assert max(Counter(file["bucket"] for file in files if not file["unsettled"]).values()) == 1
    rows[0] = 0 if engine == "first-row" else 9
    for _ in range(2):
        assert {row["id"]: row["n"] for row in table.to_arrow().to_pylist()} == rows
        table.settle()
    assert bag(lakebed.read_delta(table.location).to_arrow()) == bag(table.to_arrow())


def test_what_settling_first_has_done_is_told(local_lake: lakebed.Warehouse) -> None:
    """compact() of one file in a bucket has only to settle; its version is told, and what a settle has lost, too."""
    table = local_lake.create_table("t", "id BIGINT, n BIGINT", primary_key=["id"], buckets=2, merge="on-read")
    table.upsert([{"id": id, "n": 0} for id in range(20)])
    done = table.compact()
    assert (done.version, done.buckets, done.skipped) == (table.version, 0, ())
    table.upsert([{"id": id, "n": 1} for id in range(5)])
    other = local_lake.table("t")
    with before_commits(lambda number: other.settle() if number == 0 else None):
        done = table.compact()
    assert set(done.skipped) == {"bucket 0", "bucket 1"}


def test_a_writer_that_never_rests_and_never_settles(local_lake: lakebed.Warehouse) -> None:
    """Each commit of compact() has an upsert of every bucket before it."""
    table = local_lake.create_table("t", "id BIGINT, n BIGINT", primary_key=["id"], buckets=2, merge="on-read")
    rows: dict[int, int] = {}

    def write(n: int) -> None:
        table.upsert([{"id": id, "n": n} for id in range(n, n + 20)])
        rows.update(dict.fromkeys(range(n, n + 20), n))

    for n in range(12):
        write(2 * n)
        with before_commits(lambda number, n=n: write(2 * n + 1) if number < 2 else None):
            table.compact(full=True)
        assert table.files().num_rows <= 8
    assert {row["id"]: row["n"] for row in table.to_arrow().to_pylist()} == rows


@pytest.mark.parametrize("merge", ["on-read", "on-write"])
def test_the_halves_of_a_bucket_are_packed_at_once(local_lake: lakebed.Warehouse, merge: str) -> None:
    """A full compaction after buckets have split is final: a second one finds nothing to do."""
    table = local_lake.create_table(
        "t", "id BIGINT, n BIGINT", primary_key=["id"], merge=merge,
        properties={"dynamic-bucket.target-rows": 50, "compact-on-write": 0},
    )  # fmt: skip
    for n in range(4):
        table.upsert([{"id": id, "n": n} for id in range(40 * n, 40 * n + 40)])
    assert table.files().num_rows > len(set(table.files()["bucket"].to_pylist())) > 2
    before = bag(table.to_arrow())
    table.compact(full=True)
    assert max(Counter(table.files()["bucket"].to_pylist()).values()) == 1
    assert bag(table.to_arrow()) == before
    assert table.compact(full=True).version is None


def test_a_writer_that_never_rests(local_lake: lakebed.Warehouse) -> None:
    """The file count stays bounded though every commit touches every bucket."""
    given = {"primary_key": ["id"], "buckets": 2, "properties": {"compact-on-write": 0}}
    table = local_lake.create_table("t", "id BIGINT, n BIGINT", **given)
    for n in range(30):
        table.upsert([{"id": id, "n": n} for id in range(n, n + 20)])
        if n % 5 == 4:
            with before_commits(
                lambda number, n=n: (
                    table.upsert([{"id": id, "n": n} for id in range(n, n + 20)]) if not number else None
                )
            ):
                assert table.compact().version is not None
    assert table.files().num_rows <= 20
    assert {row["id"]: row["n"] for row in table.to_arrow().to_pylist()} == {id: min(id, 29) for id in range(49)}


KILLED = 20
"""The keys that the other writer takes away in each race."""


def crowded(lake: lakebed.Warehouse, merge_engine: str = "deduplicate") -> tuple[lakebed.Table, dict[int, int]]:
    """A table with two files in each of three buckets, and its rows."""
    table = lake.create_table(
        "t", "id BIGINT, n BIGINT", primary_key=["id"], buckets=3, merge_engine=merge_engine,
        properties={"compact-on-write": 0, "fields.n.aggregate-function": "sum"}
        if merge_engine == "aggregation"
        else {"compact-on-write": 0},
    )  # fmt: skip
    for start in (0, 200):
        table.upsert([{"id": id, "n": 1} for id in range(start, start + 200)])
    assert table.files().num_rows == 6
    return table, dict.fromkeys(range(400), 1)


def keys_of(table: lakebed.Table, bucket: int) -> list[int]:
    paths = [file["path"] for file in table.files().to_pylist() if file["bucket"] == bucket]
    files = [pq.read_table(table._store.path(path), columns=["id"]) for path in paths]
    return sorted(id for file in files for id in file["id"].to_pylist())


@pytest.mark.parametrize("merge_engine", ["deduplicate", "aggregation"])
def test_who_loses_every_race_gives_up_and_says_so(local_lake: lakebed.Warehouse, merge_engine: str) -> None:
    """Each time that it would commit, somebody has just changed every file: nothing lands, and nothing is left."""
    table, model = crowded(local_lake, merge_engine)
    before, other = table.version, local_lake.table("t")
    won = []

    def win(number: int) -> None:
        rows = range(number * KILLED, (number + 1) * KILLED)
        rows = [*rows, *range(399 - number * 3, 396 - number * 3, -1)]
        won.append(other.upsert([{"id": id, "n": 7} for id in rows]).version)
        model.update({id: 7 + (model[id] if merge_engine == "aggregation" else 0) for id in rows})

    with before_commits(win):
        done = table.compact(full=True)
    assert len(won) == maintain._RACES + 1, "it is tried again, but not for ever"
    assert (done.version, done.buckets, done.metrics) == (None, 0, {})
    assert done.skipped == ("bucket 0", "bucket 1", "bucket 2")
    assert won == list(range(before + 1, table.version + 1))
    assert stored(table) == referenced(table)
    assert {row["id"]: row["n"] for row in table.to_arrow().to_pylist()} == model
    again = table.compact(full=True)
    assert (again.version, again.buckets, again.skipped) == (table.version, 3, ())
    assert {row["id"]: row["n"] for row in table.to_arrow().to_pylist()} == model


def test_buckets_that_lose_no_race_land(local_lake: lakebed.Warehouse) -> None:
    """One bucket is changed again and again: it alone is left out."""
    table, model = crowded(local_lake)
    other, busy = local_lake.table("t"), keys_of(table, 1)
    races = 0

    def win(number: int) -> None:
        nonlocal races
        # After the bucket is given up, its writer harms nobody.
        races += 1
        rows = busy[number * 3 : number * 3 + 3]
        other.upsert([{"id": id, "n": 7} for id in rows])
        model.update(dict.fromkeys(rows, 7))

    with before_commits(win):
        done = table.compact(full=True)
    assert races == maintain._RACES + 2
    assert (done.version, done.buckets, done.skipped) == (table.version, 2, ("bucket 1",))
    assert Counter(file["bucket"] for file in table.files().to_pylist()) == {0: 1, 1: 2 + races, 2: 1}
    assert stored(table) == referenced(table)
    assert {row["id"]: row["n"] for row in table.to_arrow().to_pylist()} == model
    assert bag(lakebed.read_delta(table.location).to_arrow()) == bag(table.to_arrow())


def test_an_upsert_that_loses_every_race_to_pack_has_landed(local_lake: lakebed.Warehouse) -> None:
    """It packs files in a commit of its own: what that loses is no concern of whoever has upserted."""
    table = local_lake.create_table("t", "id BIGINT, n BIGINT", primary_key=["id"], buckets=1)
    for number in range(FULL):
        table.upsert([{"id": number * 50 + id, "n": 1} for id in range(50)])
    model = dict.fromkeys(range(FULL * 50), 1)
    other, races = local_lake.table("t"), 0

    def win(number: int) -> None:
        nonlocal races
        if number == 0:  # the commit of the upsert itself
            return
        if number == 1:  # or the others would do the work
            other.alter(properties={"compact-on-write": 0})
        rows = [races * 2 + id * 50 for id in range(FULL)]
        other.upsert([{"id": id, "n": 7} for id in rows])
        model.update(dict.fromkeys(rows, 7))
        races += 1

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with before_commits(win):
            mine = table.upsert([{"id": 1000, "n": 9}])
    model[1000] = 9
    assert races == maintain._RACES + 1
    assert mine.version == table.version - races - 1
    assert "compact" not in {commit.operation for commit in table.history()}
    assert stored(table) == referenced(table)
    assert {row["id"]: row["n"] for row in table.to_arrow().to_pylist()} == model
