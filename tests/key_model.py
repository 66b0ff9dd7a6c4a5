"""The truth of a primary-key table: a dict from key to row, folded commit by commit. Lakebed must never differ.

Beside the rows the model follows what is *settled*: what a read-optimised or foreign reader sees. When a commit may
or may not settle a key (that depends on buckets, which the model does not know), both are allowed, and what is seen
is held on to from then on.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

from key_merge import Key, Row, Rules, Slot, fold_batch
from model import ModelColumn, State

Slots = Mapping[Key, Slot]
Rows = Sequence[Mapping[str, Any]]
Test = Callable[[Mapping[str, Any]], bool]
"""A predicate; false for what SQL calls unknown."""


class Settles(Enum):
    """What a commit does to the settled state."""

    NOTHING = "nothing"
    SOME = "some buckets, at least those of the touched keys"
    MAYBE = "some buckets or none"
    ALL = "everything"


@dataclass
class KeyState:
    """One version: the slots of all keys, and the rows that are settled."""

    columns: tuple[ModelColumn, ...]
    slots: Slots
    merge: str
    before: KeyState | None = None
    """Whose settled rows are the ones that are not settled now."""
    settles: Settles = Settles.ALL
    touched: frozenset[Key] = frozenset()
    between: tuple[Slots, ...] = ()
    """States that existed while the commit was prepared: it may have settled up to any of them."""
    hidden: frozenset[int] = frozenset()
    """Columns that were dropped while an upsert was prepared: its files have values of them that no version shows."""
    _settled: dict[Key, Row] | None = None

    @property
    def rows(self) -> dict[Key, Row]:
        return _rows(self.slots)

    def visible(self) -> Counter[tuple[Any, ...]]:
        """What a reader of this version sees."""
        return State(self.columns, tuple(self.rows.values())).visible()

    def shown(self, row: Row | None) -> tuple[Any, ...] | None:
        return None if row is None else State(self.columns).shown(row)

    def settled(self) -> dict[Key, Row]:
        """The settled rows, once they are certain; see ``adopt``."""
        if self._settled is None:
            options = self.options()
            unclear = [key for key, choices in options.items() if len(choices) > 1]
            assert not unclear, f"adopt() must say first what is settled: {unclear}"
            self._settled = {key: choices[0] for key, choices in options.items() if choices[0] is not None}
        return self._settled

    def options(self) -> dict[Key, list[Row | None]]:
        """For each key the settled rows that are allowed now (None: no row), without repetitions."""
        old = {} if self.before is None else self.before.settled()
        new, between = self.rows, [_rows(slots) for slots in self.between]
        found: dict[Key, list[Row | None]] = {}
        for key in dict.fromkeys(itertools.chain(old, new, *between)):
            choices = [new.get(key)]
            if self.settles is Settles.NOTHING:
                choices = [old.get(key)]
            elif self.settles is Settles.MAYBE or (self.settles is Settles.SOME and key not in self.touched):
                choices += [old.get(key), *(rows.get(key) for rows in between)]
            found[key] = list({self.shown(row): row for row in reversed(choices)}.values())[::-1]
        return found

    def adopt(self, seen: Counter[tuple[Any, ...]]) -> None:
        """Check what a read-optimised reader saw of this version, and hold on to it."""
        left = Counter(seen)
        assert not [row for row, times in left.items() if times > 1], f"a row is settled twice: {seen}"
        settled: dict[Key, Row] = {}
        for key, choices in self.options().items():
            found = next((row for row in choices if row is not None and left[_tuple(self.shown(row))]), None)
            allowed = [self.shown(row) for row in choices]
            assert found is not None or None in allowed, f"key {key}: settled should be one of {allowed}, not {seen}"
            if found is not None:
                settled[key] = found
                left[_tuple(self.shown(found))] -= 1
        assert not +left, f"settled, but should not be: {+left}"
        assert self._settled in (None, settled)
        self._settled = settled


def _rows(slots: Slots) -> dict[Key, Row]:
    return {key: slot.row for key, slot in slots.items() if slot.row is not None}


def _tuple(shown: tuple[Any, ...] | None) -> tuple[Any, ...]:
    assert shown is not None
    return shown


@dataclass
class KeyModel:
    """The history of one key table; the index of a state is its version."""

    rules: Rules
    states: list[KeyState]
    tags: dict[str, int] = field(default_factory=dict)
    next_number: int = 100

    @classmethod
    def new(cls, rules: Rules, columns: Sequence[ModelColumn], merge: str = "on-write") -> KeyModel:
        return cls(rules, [KeyState(tuple(columns), {}, merge)])

    @property
    def now(self) -> KeyState:
        return self.states[-1]

    def column(self, number: int) -> ModelColumn:
        return next(c for c in self.now.columns if c.number == number)

    def upsert(self, rows: Rows, kinds: Sequence[str] | None = None, began: KeyState | None = None) -> None:
        """One upsert. Raises Refused if the table must refuse it; then nothing has happened.

        ``began`` is the version that it was prepared with: names mean the columns that had them then.
        """
        slots = dict(self.now.slots)
        touched = self._fold(slots, rows, kinds, began)
        settles = Settles.NOTHING if self.now.merge == "on-read" else Settles.SOME
        if began is not None and began.merge != self.now.merge:
            settles = Settles.MAYBE
        self._push(slots, settles=settles, touched=frozenset(touched))
        if began is not None:
            self.now.hidden |= {c.number for c in began.columns} - {c.number for c in self.now.columns}

    def delete_keys(self, keys: Rows) -> None:
        self.upsert(keys, ["-D"] * len(keys))

    def delete_where(self, test: Test, began: KeyState | None = None) -> int:
        """Remove the rows that pass; returns how many. Tombstones stay."""
        slots = self._without(test, began)
        gone = len(self.now.slots) - len(slots)
        self._push(slots, settles=Settles.MAYBE)
        return gone

    def overwrite(self, rows: Rows, test: Test | None = None) -> None:
        """Replace the rows that pass by new ones, in one commit; without a test all rows, and tombstones too."""
        self._replace({} if test is None else self._without(test), rows)

    def overwrite_partitions(self, rows: Rows, partition: str) -> None:
        """Replace the partitions that the new rows are in; their tombstones leave with the files."""
        touched = {row.get(partition) for row in rows}
        number = next(c.number for c in self.now.columns if c.name == partition)
        kept = self._without(lambda row: row[partition] in touched)
        for key, slot in list(kept.items()):
            if slot.row is not None:
                continue
            if number not in self.rules.key:
                # Which partition has the file with the tombstone is not the model's business.
                kept[key] = replace(slot, doubtful=True)
            elif key[self.rules.key.index(number)] in touched:
                del kept[key]
        self._replace(kept, rows)

    def _replace(self, kept: dict[Key, Slot], rows: Rows) -> None:
        self._fold(kept, rows, None)
        self._push(kept, settles=Settles.MAYBE)

    def several(self, changes: Iterable[Callable[[KeyModel], object]]) -> None:
        """Several changes in one commit."""
        draft = KeyModel(self.rules, [self.now], dict(self.tags), self.next_number)
        for change in changes:
            change(draft)
        self.next_number = draft.next_number
        between = tuple(state.slots for state in draft.states)
        self.states.append(replace(draft.now, before=self.now, settles=Settles.MAYBE, between=between, _settled=None))

    def settle(self, everything: bool = True) -> None:
        """A commit that changes no row: settle or compact."""
        self._push(self.now.slots, settles=Settles.ALL if everything else Settles.MAYBE)

    def restore(self, version: int) -> None:
        old = self.states[version]
        self.states.append(replace(old, before=old, settles=Settles.NOTHING, touched=frozenset(), _settled=None))

    def change_merge(self, merge: str) -> None:
        self._push(self.now.slots, settles=Settles.MAYBE)
        self.states[-1].merge = merge

    def add_column(self, name: str, kind: str) -> None:
        self._alter((*self.now.columns, ModelColumn(self.next_number, name, kind)))
        self.next_number += 1

    def drop_column(self, name: str) -> None:
        self._alter(tuple(c for c in self.now.columns if c.name != name))

    def rename_column(self, old: str, new: str) -> None:
        self._alter(tuple(replace(c, name=new) if c.name == old else c for c in self.now.columns))

    def widen_column(self, name: str, kind: str) -> None:
        self._alter(tuple(replace(c, type=kind) if c.name == name else c for c in self.now.columns))

    def named(self, row: Row, state: KeyState | None = None) -> dict[str, Any]:
        return {c.name: row.get(c.number) for c in (state or self.now).columns}

    def floor(self, key: Key) -> tuple[Any, ...] | None:
        """The sequence that a row of this key must reach for its effect to be certain."""
        slot = self.now.slots.get(key)
        return slot.sequence if slot is not None and slot.doubtful else None

    def _fold(
        self, slots: dict[Key, Slot], rows: Rows, kinds: Sequence[str] | None, began: KeyState | None = None
    ) -> set[Key]:
        numbers = {c.name: c.number for c in (began or self.now).columns}
        batches: dict[Key, list[tuple[Row, str]]] = {}
        for row, kind in zip(rows, kinds or ["+I"] * len(rows), strict=True):
            one = {numbers[name]: value for name, value in row.items()}
            batches.setdefault(self.rules.key_of(one), []).append((one, kind))
        columns = [c.number for c in self.now.columns]
        folded = {key: fold_batch(self.rules, columns, slots.get(key), batch) for key, batch in batches.items()}
        for key, slot in folded.items():
            slots.pop(key, None)
            if slot is not None:
                slots[key] = slot
        return set(batches)

    def _without(self, test: Test, began: KeyState | None = None) -> dict[Key, Slot]:
        slots = self.now.slots.items()
        return {key: slot for key, slot in slots if slot.row is None or not test(self.named(slot.row, began))}

    def _push(self, slots: Slots, settles: Settles, touched: frozenset[Key] = frozenset()) -> None:
        before = self.now
        self.states.append(
            KeyState(before.columns, slots, before.merge, before, settles, touched, hidden=before.hidden)
        )

    def _alter(self, columns: tuple[ModelColumn, ...]) -> None:
        # Rows that wait to be merged are merged by the rules that they were written for.
        settles = Settles.MAYBE if self.rules.engine in ("partial-update", "aggregation") else Settles.NOTHING
        self._push(self.now.slots, settles)
        self.states[-1].columns = columns
