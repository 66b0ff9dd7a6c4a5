"""How the rows of one key become one: the four merge engines, one row at a time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from key_functions import NOTHING, Function, Refused

Row = dict[int, Any]
"""A row by column number, so that renaming a column touches no row."""
Key = tuple[Any, ...]
RETRACTS = ("-U", "-D")
_IGNORED: Any = object()


@dataclass(frozen=True)
class Slot:
    """What a table knows of one key: its row, or (``row`` is None) that it was deleted at ``sequence``."""

    row: Row | None
    sequence: tuple[Any, ...] = ()
    doubtful: bool = False
    """A tombstone that an overwrite of partitions may or may not have taken along."""


@dataclass(frozen=True)
class Group:
    """A sequence group: these columns are updated together, in the order of these sequence columns."""

    sequence: tuple[int, ...]
    columns: tuple[int, ...]


@dataclass(frozen=True)
class Rules:
    """What a key table is, by column numbers."""

    key: tuple[int, ...]
    sequence: tuple[int, ...] = ()
    engine: str = "deduplicate"
    functions: Mapping[int, Function] = field(default_factory=dict)
    default_function: Function | None = None
    groups: tuple[Group, ...] = ()
    ignore_delete: bool = False
    remove_on_delete: bool = False
    remove_on_groups: frozenset[int] = frozenset()

    def key_of(self, row: Row) -> Key:
        return tuple(row[number] for number in self.key)

    def sequence_of(self, row: Row) -> tuple[Any, ...]:
        return tuple(row.get(number) for number in self.sequence)

    def function(self, number: int) -> Function | None:
        return self.functions.get(number, self.default_function)


def order(sequence: Iterable[Any]) -> tuple[Any, ...]:
    """Something that compares as sequences do: left to right, null lowest."""
    return tuple((value is not None, value if value is not None else 0) for value in sequence)


def fold_batch(
    rules: Rules, columns: Sequence[int], slot: Slot | None, batch: Sequence[tuple[Row, str]]
) -> Slot | None:
    """The slot of one key after one batch of rows with that key, in the order in which they were given.

    Raises Refused for rows that the table must refuse.
    """
    taken = [(row, kind) for row, kind in batch if not (rules.ignore_delete and kind in RETRACTS)]
    taken.sort(key=lambda one: order(rules.sequence_of(one[0])))
    if not taken:
        return slot
    if rules.engine == "first-row":
        if any(kind in RETRACTS for _, kind in taken):
            raise Refused("first-row takes no deletes")
        return slot or Slot(taken[0][0])
    if rules.engine == "deduplicate":
        return _newest(rules, slot, *taken[-1])
    for row, kind in taken:
        slot = _merge(rules, columns, slot, row, kind)
    return slot


def _newest(rules: Rules, slot: Slot | None, row: Row, kind: str) -> Slot | None:
    sequence = rules.sequence_of(row)
    if slot is not None and order(sequence) < order(slot.sequence):
        _certain(slot)
        return slot
    if kind not in RETRACTS:
        return Slot(row, sequence)
    return Slot(None, sequence) if rules.sequence else None


def _certain(slot: Slot) -> None:
    if slot.doubtful:
        raise ValueError("what happens to this row is not defined: the history must not write it")


def _merge(rules: Rules, columns: Sequence[int], slot: Slot | None, row: Row, kind: str) -> Slot | None:
    sequence = rules.sequence_of(row)
    late_row = slot is not None and order(sequence) < order(slot.sequence)
    if rules.groups and kind in RETRACTS and not late_row and (slot is None or slot.row is None):
        # Nothing can be taken back from a row that is not there.
        return Slot(None, sequence) if rules.sequence else None
    if slot is not None and late_row:
        _certain(slot)
        late = _apply(rules, columns, None, row, kind)
        if slot.row is None or late is None or late is _IGNORED:
            return slot
        return Slot(_over(rules, columns, late, slot.row, kind in RETRACTS), slot.sequence)
    merged = _apply(rules, columns, None if slot is None else slot.row, row, kind)
    if merged is _IGNORED:
        return slot
    if merged is None:
        return Slot(None, sequence) if rules.sequence else None
    return Slot({**merged, **dict(zip(rules.sequence, sequence, strict=True))}, sequence)


def _apply(rules: Rules, columns: Sequence[int], base: Row | None, row: Row, kind: str) -> Any:
    """The row that ``base`` becomes; None if it is removed."""
    retracts = kind in RETRACTS
    keys = {number: row[number] for number in rules.key}
    if rules.engine == "aggregation":
        if rules.remove_on_delete and kind == "-D":
            return None
        return keys | {c: _aggregated(rules, c, base, row, retracts) for c in _values(rules, columns)}
    if rules.groups:
        return _grouped(rules, columns, base, row, kind)
    if retracts:
        if not rules.remove_on_delete:
            raise Refused("partial-update takes no deletes")
        return None if kind == "-D" else _IGNORED
    before = base or {}
    return keys | {c: before.get(c) if row.get(c) is None else row[c] for c in _values(rules, columns)}


def _values(rules: Rules, columns: Sequence[int]) -> list[int]:
    return [number for number in columns if number not in rules.key and number not in rules.sequence]


def _aggregated(rules: Rules, number: int, base: Row | None, row: Row, retracts: bool) -> Any:
    function = rules.function(number) or Function("last_non_null_value")
    sofar = NOTHING if base is None else base.get(number)
    return (function.retract if retracts else function.add)(sofar, row.get(number))


def _grouped(rules: Rules, columns: Sequence[int], base: Row | None, row: Row, kind: str) -> Any:
    """Partial update with sequence groups: a group whose sequence is null altogether is left alone."""
    retracts = kind in RETRACTS
    before = base or {}
    after = {**before, **{number: row[number] for number in rules.key}}
    for group in rules.groups:
        mine, theirs = (tuple(r.get(n) for n in group.sequence) for r in (row, before))
        if all(value is None for value in mine):
            continue
        newer = order(mine) >= order(theirs)
        if retracts and newer and kind == "-D" and rules.remove_on_groups & set(group.sequence):
            return None
        fresh = all(value is None for value in theirs)
        for number in group.columns:
            sofar = NOTHING if fresh else before.get(number)
            after[number] = _in_group(rules.function(number), sofar, row.get(number), retracts, newer)
        if newer:
            after |= dict(zip(group.sequence, mine, strict=True))
    if not retracts:
        for number in _outside(rules, columns):
            function = rules.function(number)
            if function is not None:
                after[number] = function.add(NOTHING if base is None else before.get(number), row.get(number))
            elif row.get(number) is not None:
                after[number] = row[number]
    return after


def _in_group(function: Function | None, sofar: Any, value: Any, retracts: bool, newer: bool) -> Any:
    if function is None:
        if not newer:
            return None if sofar is NOTHING else sofar
        return None if retracts else value
    if retracts:
        return function.retract(sofar, value)
    if newer:
        return function.add(sofar, value)
    return function.join(function.add(NOTHING, value), sofar)


def _outside(rules: Rules, columns: Sequence[int]) -> list[int]:
    grouped = {n for group in rules.groups for n in (*group.sequence, *group.columns)}
    return [number for number in _values(rules, columns) if number not in grouped]


def _over(rules: Rules, columns: Sequence[int], late: Row, row: Row, retracts: bool) -> Row:
    """A late row under the state: as if it had come before everything that made ``row``."""
    made = dict(row)
    for number in _outside(rules, columns) if rules.groups else _values(rules, columns):
        function = rules.function(number)
        if function is None:
            function = Function("last_non_null_value")
        if retracts and function.ignore_retract:
            continue
        made[number] = function.join(late.get(number), row.get(number))
    for group in rules.groups:
        old, new = (tuple(r.get(n) for n in group.sequence) for r in (late, row))
        if all(value is None for value in old):
            continue
        swapped = order(new) < order(old)
        first, second = (row, late) if swapped else (late, row)
        empty = all(value is None for value in new)
        for number in group.columns:
            function = rules.function(number)
            if empty or function is None:
                made[number] = second.get(number)
            else:
                made[number] = function.join(first.get(number), second.get(number))
        made |= dict(zip(group.sequence, old if swapped else new, strict=True))
    return made
