"""Assigning rows to buckets; dynamic buckets that grow beyond their target are split on the way."""

from __future__ import annotations

from collections import defaultdict

import pyarrow as pa
import pyarrow.compute as pc

from lakebed.core.bucketing import can_split, child, fixed, leaves
from lakebed.core.commit import Bucket
from lakebed.core.keyed import DYNAMIC
from lakebed.engine.upsert_order import UpsertOrder


class BucketRows:
    """Tells the bucket of each row, and remembers how full dynamic buckets are."""

    def __init__(self, order: UpsertOrder) -> None:
        self._mode = order.key.buckets
        self._target = order.target_rows
        self._splits: dict[str, set[int]] = defaultdict(set, {place: set(of) for place, of in order.splits.items()})
        self._rows: dict[Bucket, float] = dict(order.rows_in)
        self.new_splits: list[Bucket] = []

    @property
    def needs_hashes(self) -> bool:
        """Whether there is a choice at all."""
        return self._mode == DYNAMIC or (isinstance(self._mode, int) and self._mode > 1)

    def numbers(self, place: str, hashes: pa.Array) -> pa.Array:
        """The buckets (int64) of rows in one place; those that would grow beyond the target are split first."""
        if isinstance(self._mode, int):
            return fixed(hashes, self._mode).cast(pa.int64())
        while True:
            found = leaves(hashes, self._splits[place])
            full = [number for number in self._crowded(place, found) if self._overflows(place, number, found, hashes)]
            if not full:
                return found
            for number in full:
                self._split(place, number)

    def wrote(self, place: str, number: int, rows: int) -> None:
        """Remember that a file of the bucket has been written."""
        self._rows[place, number] = self._rows.get((place, number), 0) + rows

    def _crowded(self, place: str, found: pa.Array) -> list[int]:
        counts = pc.value_counts(found).to_pylist()
        return [
            entry["values"]
            for entry in counts
            if self._rows.get((place, entry["values"]), 0) + entry["counts"] > self._target
            and can_split(entry["values"])
        ]

    def _overflows(self, place: str, number: int, found: pa.Array, hashes: pa.Array) -> bool:
        """Whether there are too many rows even when a key counts once: no split tells equal keys apart."""
        different = pc.count_distinct(hashes.filter(pc.equal(found, number))).as_py()
        return bool(self._rows.get((place, number), 0) + different > self._target)

    def _split(self, place: str, number: int) -> None:
        self._splits[place].add(number)
        self.new_splits.append((place, number))
        # Rows that are there already stay where they are; by the hash, half of them belong to each child.
        share = self._rows.get((place, number), 0) / 2
        for bit in (0, 1):
            below = place, child(number, bit)
            self._rows[below] = self._rows.get(below, 0) + share
