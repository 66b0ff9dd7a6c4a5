"""The promise of ``changes``: applied to the rows of a version they give those of a later one.

Random histories, every pair of versions, before and after maintenance; the rows are what the table itself says that
they were (the state machines compare them with a model).
"""

from __future__ import annotations

import random
from collections import Counter
from itertools import combinations_with_replacement
from typing import Any

import pytest

import lakebed

MERGES = ("on-write", "on-read", "copy-on-write")
ENGINES: dict[str, dict[str, Any]] = {
    "no key": {},
    "deduplicate": {},
    "sequence": {"sequence": ["s"]},
    "partial-update": {"merge_engine": "partial-update", "properties": {"remove-record-on-delete": "true"}},
    "aggregation": {
        "merge_engine": "aggregation",
        "properties": {"fields.n.aggregate-function": "sum", "remove-record-on-delete": "true"},
    },
    "first-row": {"merge_engine": "first-row", "properties": {"ignore-delete": "true"}},
}
Rows = Counter[tuple[Any, ...]]


class History:
    """A table and what has been done to it."""

    def __init__(self, lake: lakebed.Warehouse, engine: str, merge: str, chance: random.Random) -> None:
        self.engine, self.chance = engine, chance
        keyed = {"primary_key": ["id"], "buckets": chance.choice([1, 3, "dynamic"]), "merge": merge}
        more = {} if engine == "no key" else keyed | ENGINES[engine]
        self.table = lake.create_table("t", "id BIGINT, n BIGINT, m STRING, s BIGINT", **more)

    def step(self) -> None:
        table, chance = self.table, self.chance
        kinds = ["put", "put", "put", "delete", "maintain", "overwrite", "restore"]
        what = chance.choice([*kinds, "update"] if self.engine in ("no key", "deduplicate", "sequence") else kinds)
        keys = [chance.randrange(8) for _ in range(chance.randrange(1, 6))]
        row_kinds = ["+I", "+U"] if self.engine in ("no key", "first-row") else ["+I", "+U", "+U", "-D"]
        rows = [
            {"id": id, "n": chance.choice([None, 1, 2]), "m": chance.choice([None, "a", "b"]), "s": chance.randrange(5)}
            for id in keys
        ]
        if what == "put" and self.engine == "no key":
            table.append(rows)
        elif what == "put":
            table.upsert([{**row, "op": chance.choice(row_kinds)} for row in rows], row_kind="op")
        elif what == "delete":
            table.delete(f"id = {keys[0]}")
        elif what == "update":
            table.update({"m": "'u'"}, where=f"id < {keys[0]}")
        elif what == "overwrite":
            table.overwrite(rows)
        elif what == "restore":
            table.restore(chance.randrange(table.version + 1))
        else:
            self.maintain()

    def maintain(self) -> None:
        self.table.settle()
        self.table.compact(full=True)

    def check(self, ranges: int | None) -> None:
        """Every range, or some of them, in every mode that promises it."""
        table, last = self.table, self.table.version
        states = {version: bag(table.at(version=version).to_arrow()) for version in range(last + 1)}
        pairs = list(combinations_with_replacement(range(last + 1), 2))
        for start, end in pairs if ranges is None else self.chance.sample(pairs, min(ranges, len(pairs))):
            for mode in ("combine", "all"):
                found = applied(states[start], table.changes(start, end, mode=mode).to_arrow().to_pylist())
                assert found == states[end], f"{mode}, {start} to {end}"
            new = table.changes(start, end, mode="append").to_arrow().to_pylist()
            assert {row["_change_type"] for row in new} <= {"insert"}
            self.check_new_rows(Counter(map(values, new)), states[start], states[end], start, end)
        for mode in ("combine", "all"):
            whole = table.changes("earliest", last, mode=mode).to_arrow().to_pylist()
            assert applied(Counter(), whole) == states[last], f"{mode}, earliest to {last}"

    def check_new_rows(self, found: Rows, before: Rows, after: Rows, start: int, end: int) -> None:
        if self.engine != "no key":
            # A row that was upserted as it was may come too.
            assert after - before <= found <= after, f"append, {start} to {end}"
            return
        told = self.table.changes(start, end).to_arrow().to_pylist()
        assert found == Counter(values(row) for row in told if row["_change_type"] == "insert")


def values(row: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(value for name, value in row.items() if not name.startswith("_"))


def bag(rows: Any) -> Rows:
    return Counter(values(row) for row in rows.to_pylist())


def applied(rows: Rows, changes: list[dict[str, Any]]) -> Rows:
    """The rows after the changes, the oldest first; a row that goes must have been there."""
    after = Counter(rows)
    for change in sorted(changes, key=lambda row: (row["_commit_version"], row["_change_type"] not in GOING)):
        row = values(change)
        if change["_change_type"] in GOING:
            assert after[row] > 0, f"{change} was not there"
            after[row] -= 1
        else:
            after[row] += 1
    return +after


GOING = ("delete", "update_preimage")


def check_history(
    lake: lakebed.Warehouse, engine: str, merge: str, seed: object, steps: int, ranges: int | None
) -> None:
    history = History(lake, engine, merge, random.Random(f"{engine} {merge} {seed}"))
    for _ in range(steps):
        history.step()
    history.check(ranges)
    history.maintain()
    history.check(ranges)


@pytest.mark.parametrize("engine", ENGINES)
def test_changes_lead_from_one_version_to_another(local_lake: lakebed.Warehouse, engine: str) -> None:
    merge = MERGES[list(ENGINES).index(engine) % 3]
    check_history(local_lake, engine, merge, 1, 5, 4)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("merge", MERGES)
@pytest.mark.parametrize("engine", ENGINES)
def test_many_histories(local_lake: lakebed.Warehouse, engine: str, merge: str, seed: int) -> None:
    check_history(local_lake, engine, merge, seed, 8, None)
