"""Assigning rows to buckets; dynamic buckets that grow beyond their target are split on the way."""

from __future__ import annotations

from collections import defaultdict

import pyarrow as pa
import pyarrow.compute as pc

from lakebed.core.bucketing import can_split, child, depth, fixed, leaves
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
        self._share = _Share(order.share_bits)
        self.new_splits: list[Bucket] = []

    @property
    def needs_hashes(self) -> bool:
        """Whether there is a choice at all."""
        return self._mode == DYNAMIC or (isinstance(self._mode, int) and self._mode > 1)

    def numbers(self, place: str, hashes: pa.Array) -> pa.Array:
        """The buckets (int64) of rows in one place; those that would grow beyond the target are split first."""
        if isinstance(self._mode, int):
            return fixed(hashes, self._mode).cast(pa.int64())
        self._share.saw(place, hashes)
        while True:
            found = leaves(hashes, self._splits[place])
            full = [number for number in self._crowded(place, found) if self._overflows(place, number, found, hashes)]
            if not full:
                return found
            for number in full:
                self._split(place, number)

    def wrote(self, place: str, number: int, rows: int) -> None:
        """Remember that a file of the bucket has been written."""
        self._rows[place, number] = self._rows.get((place, number), 0) + rows * self._times(place, number)

    def _crowded(self, place: str, found: pa.Array) -> list[int]:
        counts = pc.value_counts(found).to_pylist()
        return [
            entry["values"]
            for entry in counts
            if self._grown(place, entry["values"], entry["counts"]) > self._target and can_split(entry["values"])
        ]

    def _grown(self, place: str, number: int, rows: int) -> float:
        return self._rows.get((place, number), 0) + rows * self._times(place, number)

    def _times(self, place: str, number: int) -> float:
        return self._share.times(place, number) if number < 0 else 1.0

    def _overflows(self, place: str, number: int, found: pa.Array, hashes: pa.Array) -> bool:
        """Whether there are too many rows even when a key counts once: no split tells equal keys apart."""
        different = pc.count_distinct(hashes.filter(pc.equal(found, number))).as_py()
        return self._grown(place, number, different) > self._target

    def _split(self, place: str, number: int) -> None:
        self._splits[place].add(number)
        self.new_splits.append((place, number))
        # Rows that are there already stay where they are; by the hash, half of them belong to each child.
        share = self._rows.get((place, number), 0) / 2
        for bit in (0, 1):
            below = place, child(number, bit)
            self._rows[below] = self._rows.get(below, 0) + share


class _Share:
    """Which prefixes of the hash this writer has seen: the rows of a bucket are spread evenly over all of them."""

    def __init__(self, bits: int) -> None:
        self._bits = bits
        self._seen: dict[str, set[int]] = defaultdict(set)

    def saw(self, place: str, hashes: pa.Array) -> None:
        if self._bits:
            prefixes = pc.shift_right(hashes.view(pa.uint32()), pa.scalar(32 - self._bits, pa.uint32()))
            self._seen[place].update(pc.unique(prefixes).to_pylist())

    def times(self, place: str, number: int) -> float:
        """How many rows of a bucket there are, for each one that this writer has."""
        below = self._bits - depth(number)
        if below <= 0:
            return 1.0
        mine = sum((1 << self._bits | prefix) >> below == -number for prefix in self._seen[place])
        return (1 << below) / max(mine, 1)
