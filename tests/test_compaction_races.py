"""Compaction beside writers that change the files it is rewriting: it lands all the same, and nothing comes back."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from test_key_races import before_commits

import lakebed

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
