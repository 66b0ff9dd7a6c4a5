"""Streams into a table, maintenance that retains nothing, and slow readers of its changes, all at once."""

from __future__ import annotations

import random
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from conftest import KINDS

import lakebed

BATCHES = 12
KEYS = 30
PLACES = ["sqlite-local", *(pytest.param(place, marks=pytest.mark.soak) for place in KINDS[1:])]


def batches(writer: int) -> list[list[dict[str, Any]]]:
    """Rows of a writer's own keys; the sequence orders them, whenever they arrive."""
    chance = random.Random(writer)
    made = []
    for number in range(BATCHES):
        ids = [2 * chance.randrange(KEYS) + writer for _ in range(6)]
        kinds = [chance.choice(["+U", "+U", "+U", "-D"]) for _ in ids]
        made.append([{"id": id, "n": number, "s": number, "op": kind} for id, kind in zip(ids, kinds, strict=True)])
    return made


def expected() -> dict[int, int]:
    rows: dict[int, int] = {}
    for writer in range(2):
        for batch in batches(writer):
            for row in batch:
                rows.pop(row["id"], None)
                if row["op"] != "-D":
                    rows[row["id"]] = row["n"]
    return rows


class Follower:
    """A reader of changes that keeps a copy of the rows; what it has not read is kept for it."""

    def __init__(self, table: lakebed.Table, name: str, mode: str) -> None:
        self.table, self.name, self.mode = table, name, mode
        self.rows: dict[int, int] = {}
        self.read = table.advance_consumer(name, 0).version
        self.ranges = 0

    def follow(self) -> None:
        changes = self.table.changes(self.read, mode=self.mode)
        for row in changes.to_arrow().to_pylist():
            match row["_change_type"]:
                case "insert" | "update_postimage":
                    assert (row["id"] in self.rows) == (row["_change_type"] != "insert")
                    self.rows[row["id"]] = row["n"]
                case "update_preimage":
                    assert self.rows[row["id"]] == row["n"]
                case "delete":
                    assert self.rows.pop(row["id"]) == row["n"]
        self.read = self.table.advance_consumer(self.name, changes.end).version
        self.ranges += 1


@pytest.mark.parametrize("merge", [pytest.param("on-write", marks=pytest.mark.soak), "on-read"])
@pytest.mark.parametrize("place", PLACES, indirect=True)
def test_nothing_is_lost_or_doubled(lake: lakebed.Warehouse, merge: str) -> None:
    table = lake.create_table(
        "t", "id BIGINT, n INT, s INT", primary_key=["id"], sequence=["s"], buckets=2, merge=merge,
        properties={"compaction-small-files": 3},
    )  # fmt: skip
    followers = [Follower(lake.table("t"), mode, mode) for mode in ("all", "combine")]
    done = threading.Event()

    def write(writer: int) -> None:
        put = lake.table("t").stream_writer("upsert", query=f"query {writer}", row_kind="op")
        for number, batch in enumerate(batches(writer)):
            while True:
                try:
                    put(batch, number)
                    break
                except lakebed.ConflictError as error:
                    if "vacuum" not in str(error):
                        raise
            # As after a crash before the checkpoint: the batch comes again.
            assert put(batch, number).repeated

    def follow(follower: Follower) -> None:
        while not done.is_set():
            follower.follow()

    with ThreadPoolExecutor(6) as pool:
        kept = pool.submit(lake.maintain, ["t"], retain=timedelta(seconds=1), every="5 milliseconds", stop=done)
        following = [pool.submit(follow, follower) for follower in followers]
        writing = [pool.submit(write, writer) for writer in range(2)]
        try:
            for one in writing:
                one.result()
        finally:
            done.set()
        for one in following:
            one.result()
        assert kept.result()[0].table == "default.t"
    found = dict(zip(*(table.to_arrow()[name].to_pylist() for name in ("id", "n")), strict=True))
    assert found == expected()
    for follower in followers:
        follower.follow()
        assert follower.rows == found
        assert follower.ranges > 2
