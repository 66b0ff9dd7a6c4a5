"""What a read of changes must tell, from the model's states; and that it does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa
from key_merge import Key, Row
from key_model import KeyState
from key_reading import key_bag
from model import ModelColumn, State

import lakebed
from lakebed.core.change_rows import CHANGE_FIELDS

Told = Counter[tuple[Any, ...]]
"""Change rows: the table's columns, the change type, and sometimes the version."""


def net(before: Mapping[Key, Row], after: Mapping[Key, Row], columns: Sequence[ModelColumn], *more: Any) -> Told:
    """The difference of two states of a key table, as columns of a later version show it."""
    shown = State(tuple(columns)).shown
    found: Told = Counter()
    for key in {**before, **after}:
        old, new = (None if key not in rows else shown(rows[key]) for rows in (before, after))
        if old == new:
            continue
        if old is not None:
            found[(*old, "delete" if new is None else "update_preimage", *more)] += 1
        if new is not None:
            found[(*new, "insert" if old is None else "update_postimage", *more)] += 1
    return found


def every(states: Sequence[KeyState], start: int, end: int) -> Told:
    """The changes of every version after ``start``."""
    found: Told = Counter()
    for version in range(start + 1, end + 1):
        found += net(states[version - 1].rows, states[version].rows, states[end].columns, version)
    return found


def is_vague(states: Sequence[KeyState], versions: Iterable[int], end: int) -> bool:
    """Whether rows of one of these versions have values in a column that was dropped then, and that ``end`` has again.

    Whoever writes such a row anew leaves them out, so that it depends on compaction what changes tell of them.
    """
    wanted = {column.number for column in states[end].columns}
    for version in versions:
        dropped = wanted - {column.number for column in states[version].columns}
        if dropped & states[version].hidden:
            return True
        if any(row.get(number) is not None for row in states[version].rows.values() for number in dropped):
            return True
    return False


def told(rows: pa.Table, *, versions: bool) -> Told:
    """Change rows without their times, and without their versions unless these are asked for."""
    left_out = [f.name for f in CHANGE_FIELDS[1 + versions :]]
    return key_bag(rows.drop_columns(left_out))


def without(rows: Told, *kinds: str, at: int = -1) -> Told:
    """The changes of other types."""
    return Counter({row: count for row, count in rows.items() if row[at] not in kinds})


def check_key_changes(table: lakebed.Table, states: Sequence[KeyState], start: int, end: int) -> None:
    """Every mode that promises it tells the difference of the model's states."""
    expected = net(states[start].rows, states[end].rows, states[end].columns)
    combined = table.changes(start, end).to_arrow()
    check_labels(table, combined, start, end)
    new = table.changes(start, end, mode="append").to_arrow()
    if not is_vague(states, [start], end):
        assert told(combined, versions=False) == expected, f"combine, {start} to {end}"
        check_new_rows(told(new, versions=False), expected, states[end])
    try:
        found = table.changes(start, end, mode="all").to_arrow()
    except lakebed.NotFoundError:
        left = {commit.version for commit in table.history()}
        assert not set(range(start, end + 1)) <= left, f"all, {start} to {end}: nothing of the range has expired"
    else:
        if not is_vague(states, range(start, end), end):
            assert told(found, versions=True) == every(states, start, end), f"all, {start} to {end}"
        check_labels(table, found, start, end)


def check_new_rows(found: Told, expected: Told, end: KeyState) -> None:
    """What is new or changed comes as inserts; beside it only rows that are there, each once, written as they were."""
    must = Counter((*row[:-1], "insert") for row in without(expected, "delete", "update_preimage"))
    there = Counter((*State(tuple(end.columns)).shown(row), "insert") for row in end.rows.values())
    assert must <= found <= there


def check_labels(table: lakebed.Table, changes: pa.Table, start: int, end: int) -> None:
    """Every change is one of a version of the range, at that version's time."""
    times = {commit.version: commit.timestamp for commit in table.history()}
    versions = changes["_commit_version"].to_pylist()
    assert all(start < version <= end for version in versions)
    assert changes["_commit_timestamp"].to_pylist() == [times.get(version) for version in versions]


def check_changes(table: lakebed.Table, states: Sequence[State], start: int, end: int) -> None:
    """Of a table without a key: deletes and inserts lead from one state to the other, version by version too."""
    columns = states[end].columns
    bags = [State(columns, state.rows).visible() for state in states[: end + 1]]
    combined = table.changes(start, end).to_arrow()
    assert applied(bags[start], told(combined, versions=False)) == bags[end], f"combine, {start} to {end}"
    check_labels(table, combined, start, end)
    new = told(table.changes(start, end, mode="append").to_arrow(), versions=False)
    assert new == without(told(combined, versions=False), "delete")
    found = table.changes(start, end, mode="all").to_arrow()
    check_labels(table, found, start, end)
    for version in range(start + 1, end + 1):
        mine = found.filter(pa.compute.equal(found["_commit_version"], version))
        assert applied(bags[version - 1], told(mine, versions=False)) == bags[version], f"version {version}"


def applied(rows: Told, changes: Told) -> Told:
    """The rows after the changes. Fails where a row is deleted that is not there."""
    after = Counter(rows)
    for change, count in changes.items():
        assert change[-1] in ("insert", "delete")
        after[change[:-1]] += count if change[-1] == "insert" else -count
    assert not [row for row, count in after.items() if count < 0], "a row is deleted that was not there"
    return +after
