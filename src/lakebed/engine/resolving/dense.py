"""Resolving by direct addressing: keys that are one whole number out of a range that is not much larger than the rows.

Each possible key has a place in one array, where every unsettled file leaves its number, one after the other. The row
that counts is the one whose file's number is there in the end: no sort and no join.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64

from lakebed.core.actions import AddFile
from lakebed.core.file_tags import tombstones_of
from lakebed.core.keyed import KeySpec, MergeEngine
from lakebed.engine.resolving import places
from lakebed.engine.resolving.bounds import holding_files, overlapping_files
from lakebed.engine.resolving.key_columns import WholeKeys, kept_keys, num_bytes, whole_keys
from lakebed.engine.resolving.known_dead import known_dead
from lakebed.engine.resolving.numbers import KeyNumbers
from lakebed.engine.resolving.order import BucketFiles, ResolveOrder
from lakebed.storage.deletion_vector import from_arrow, from_bits

_SPARSE = 16
"""The range of the keys may be so many times larger than the rows of all files."""
_FEW = 128
"""Keys are few if there are so many times more rows: then the keys are searched for, not the rows looked up. To search
for one key takes about as long as to look up so many rows."""
_FEW_TAKEN = 16
"""With one key in so many places, or fewer, an array is cleared key by key."""
_SCATTERED = 4
"""So many keys for each row group leave hardly a group unread."""
_ROWS_AT_ONCE = 1 << 18
"""Rows of small files are looked up together, up to about so many."""
_MOST_FILES = 2**16 - 2
_AT_ONCE = 4
"""Units that are settled at a time share the memory for keys."""


@dataclass(frozen=True)
class DenseResolution:
    """The dead rows of each file in which there are more than before, by path, and how they came about."""

    dead: dict[str, BitMap64]
    replaced: int
    inserted: int


def resolve_dense(order: ResolveOrder, files: BucketFiles) -> DenseResolution | None:
    """The dead rows of a bucket by direct addressing; None if its keys or its rows are not for that."""
    if not _suits(order, files):
        return None
    changed = whole_keys(order, files.unsettled)
    if changed is None or not all(_are_places(keys) for keys in changed):
        return None
    older = _candidates(order, files, changed)
    if not _worth_it(order, files.unsettled, older):
        return None
    fresh = [keys.numbers for keys in changed]
    found = _Range.of(fresh, sum(add.num_records or 0 for add in older))
    settled = whole_keys(order, older) if found is not None else None
    if found is None or settled is None:
        return None
    dead, live = {}, 0
    for number, (add, mine) in enumerate(zip(files.unsettled, fresh, strict=True), 1):
        lost = found.losers(number, mine)
        live += len(mine) - len(lost)
        if lost:
            dead[add.path] = lost
    replaced = 0
    for add, positions in zip(older, found.owned([keys.numbers for keys in settled]), strict=True):
        killed = _killed(order, add, positions)
        if killed is not None:
            dead[add.path], count = killed
            replaced += count
    found.close()
    return DenseResolution(dead, replaced, live - replaced)


def suits(key: KeySpec) -> bool:
    """Whether the keys of such a table may be looked up directly, if the numbers are near enough to each other."""
    return key.engine is MergeEngine.DEDUPLICATE and not key.sequence and len(key.key) == 1


def _are_places(keys: WholeKeys) -> bool:
    """Whether keys of an unsettled file can be places in an array."""
    return keys.ascending and keys.rows.to_series().dtype == pl.Int64


def _suits(order: ResolveOrder, files: BucketFiles) -> bool:
    if not suits(order.key) or order.where is not None:
        return False
    if len(files.unsettled) > _MOST_FILES or any(map(tombstones_of, files.unsettled)):
        return False
    return num_bytes(order, (*files.unsettled, *files.settled)) <= order.options.key_cache_size // _AT_ONCE


def _candidates(order: ResolveOrder, files: BucketFiles, changed: Sequence[WholeKeys]) -> list[AddFile]:
    """The settled files that may hold one of the keys, or whose keys are known anyway."""
    if all(kept_keys(order, add) is not None for add in files.settled):
        return list(files.settled)
    ends = [(values[0], values[-1]) for keys in changed if len(values := keys.rows.to_series())]
    if not ends:
        return list(files.settled)
    key, by = order.layout.stored(sequence=False, kind=False), order.layout.keys
    if len(changed) == 1:
        return holding_files(files.settled, changed[0].rows, key, by)
    return overlapping_files(files.settled, min(low for low, _ in ends), max(high for _, high in ends), key)


def _worth_it(order: ResolveOrder, changed: Sequence[AddFile], older: Sequence[AddFile]) -> bool:
    """Whether the keys of the older files are known, or would be read anyway."""
    unknown = sum(add.num_records or 0 for add in older if kept_keys(order, add) is None)
    groups = unknown / order.options.max_row_group_rows
    return sum(add.num_records or 0 for add in changed) >= _SCATTERED * groups


def _killed(order: ResolveOrder, add: AddFile, positions: BitMap64) -> tuple[BitMap64, int] | None:
    """All dead rows of a settled file, and how many came along; None if none did."""
    if not positions:
        return None
    before = known_dead(order, add)
    after = before | positions
    more = len(after) - len(before)
    return (after, more) if more else None


@dataclass(frozen=True)
class _Range:
    """Which unsettled file, counted from 1, has each key between the lowest and the highest of them."""

    low: int
    high: int
    numbers: npt.NDArray[Any]
    nobody: int
    """The number in place of a file's where no file has the key."""
    changed: Sequence[KeyNumbers]

    @classmethod
    def of(cls, changed: Sequence[KeyNumbers], others: int) -> _Range | None:
        """All keys are ascending; None if the numbers are too far apart, or are none."""
        some = [keys for keys in changed if len(keys)]
        if not some:
            return None
        low, high = min(keys.ends[0] for keys in some), max(keys.ends[1] for keys in some)
        if 0 < low <= (high - low) // 8:
            low = 0  # so that keys are places as they are
        size = high - low + 1
        if size > _SPARSE * (others + sum(map(len, changed))):
            return None
        if len(changed) < places.NOBODY:
            owner, nobody = places.free.take(size), places.NOBODY
        else:
            owner, nobody = np.full(size, 2**16 - 1, np.uint16), 2**16 - 1
        for number, keys in enumerate(changed, 1):
            for taken in _places(keys, low):
                owner[taken] = number
        return cls(low, high, owner, nobody, some)

    def close(self) -> None:
        """Give the array back. Nothing can be looked up after that."""
        if self.numbers.dtype != np.uint8:
            return
        size = self.high - self.low + 1
        if _FEW_TAKEN * sum(map(len, self.changed)) > size:
            places.free.give_back(self.numbers, size)
        else:
            places.free.give_back(self.numbers, (some for keys in self.changed for some in _places(keys, self.low)))

    @cached_property
    def owner(self) -> pa.Array:
        """The same for Arrow."""
        return pa.array(self.numbers[: self.high - self.low + 1])

    @cached_property
    def wanted(self) -> KeyNumbers:
        """All keys of the unsettled files, ascending."""
        if len(self.changed) == 1:
            return self.changed[0]
        values = _positions(pl.Series(self.owner) != self.nobody).cast(pl.Int64) + self.low
        return KeyNumbers(values, ascending=True)

    def losers(self, number: int, keys: KeyNumbers) -> BitMap64:
        """The positions of a file's rows whose key a later file has."""
        return _bitmap(self._owner_of(keys.column) != number) if len(keys) else BitMap64()

    def owned(self, files: Sequence[KeyNumbers]) -> Iterator[BitMap64]:
        """The positions of each settled file's rows whose key any of the unsettled files has."""
        waiting: list[_Between] = []
        rows = 0
        for keys in files:
            alone = not len(keys) or not keys.ascending or self._are_few(keys)
            if not alone:
                waiting.append(_Between(keys, *keys.span(self.low, self.high)))
                rows += waiting[-1].length
            if alone or rows >= _ROWS_AT_ONCE:
                yield from self._looked_up(waiting)
                waiting, rows = [], 0
            if alone:
                yield self._owned(keys)
        yield from self._looked_up(waiting)

    def _owned(self, keys: KeyNumbers) -> BitMap64:
        """The same of one file: it is empty, in no order, or so large that the keys are searched for in it."""
        if not len(keys):
            return BitMap64()
        if keys.ascending:
            return self._searched(keys)
        inside = keys.series.is_between(self.low, self.high)
        if inside.all():
            return _bitmap(self._is_owned(keys.column))
        within = _positions(inside)
        return from_arrow(within.filter(self._is_owned(keys.column.take(within.to_arrow()))).to_arrow())

    def _are_few(self, keys: KeyNumbers) -> bool:
        """Whether the keys between the first and the last of these are few against them."""
        return _FEW * sum(some.span(*keys.ends)[1] for some in self.changed) <= len(keys)

    def _searched(self, keys: KeyNumbers) -> BitMap64:
        wanted, values = self.wanted.series.slice(*self.wanted.span(*keys.ends)), keys.series.rechunk()
        if not len(wanted):
            return BitMap64()
        at = values.search_sorted(wanted, "left")
        return from_arrow(at.filter(values.gather(at) == wanted).to_arrow())

    def _looked_up(self, files: Sequence[_Between]) -> Iterator[BitMap64]:
        """The positions in several files, found together: to ask costs more than the rows of a small one."""
        pieces = [piece for one in files if one.length for piece in one.column.chunks]
        if not pieces:
            yield from (BitMap64() for _ in files)
            return
        owned = self._is_owned(pa.chunked_array(pieces))
        ends = list(accumulate((one.length for one in files), initial=0))
        positions = _positions(owned).to_arrow()
        numbers = memoryview(positions.buffers()[1]).cast("I")[positions.offset : positions.offset + len(positions)]
        cuts = [bisect_left(numbers, end) for end in ends]
        for one, (begin, _), (start, stop) in zip(files, pairwise(ends), pairwise(cuts), strict=True):
            if not one.start and _is_dense(stop - start, one.length):
                yield from_bits(owned.slice(begin, one.length).to_arrow())
            else:
                found = positions.slice(start, stop - start)
                yield from_arrow(found if one.start == begin else pc.add(found.cast(pa.int64()), one.start - begin))

    def _is_owned(self, column: pa.ChunkedArray) -> pl.Series:
        return self._owner_of(column) != self.nobody

    def _owner_of(self, column: pa.ChunkedArray) -> pl.Series:
        """The owners of keys, all of which lie between the lowest and the highest.

        Arrow looks them up in less than half of polars' time; polars compares in less than a tenth of Arrow's.
        """
        wanted = [pc.subtract(piece, self.low) for piece in column.chunks] if self.low else column.chunks
        return pl.Series(pa.chunked_array([pc.take(self.owner, some, boundscheck=False) for some in wanted]))


def _places(keys: KeyNumbers, low: int) -> Iterator[npt.NDArray[np.int64]]:
    """The places of the keys in an array that begins at ``low``."""
    for piece in keys.column.chunks:
        numbers = piece.to_numpy()
        yield numbers - low if low else numbers


@dataclass(frozen=True)
class _Between:
    """The rows of a file, ascending by key, whose keys lie in the range."""

    keys: KeyNumbers
    start: int
    length: int

    @property
    def column(self) -> pa.ChunkedArray:
        return self.keys.column if self.length == len(self.keys) else self.keys.column.slice(self.start, self.length)


def _bitmap(dead: pl.Series) -> BitMap64:
    """The positions at which the series is true."""
    if _is_dense(int(dead.sum()), len(dead)):
        return from_bits(dead.to_arrow())
    return from_arrow(_positions(dead).to_arrow())


def _is_dense(positions: int, rows: int) -> bool:
    """Whether bits are put together faster than a list of positions."""
    return _SPARSE * positions > rows


def _positions(true: pl.Series, start: int = 0) -> pl.Series:
    """Where the series is true, counted from ``start``; ``arg_true`` takes several times as long."""
    return pl.int_range(start, start + len(true), dtype=pl.UInt32, eager=True).filter(true)
