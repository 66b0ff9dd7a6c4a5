"""Which rows of a block go into which upsert file, in which order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc

from lakebed.core.bucketing import ROOT
from lakebed.core.keyed import MergeEngine
from lakebed.core.murmur3 import spark_hash
from lakebed.core.partition import encode_value
from lakebed.engine.bucket_rows import BucketRows
from lakebed.engine.key_order import moves, runs, same_as_before, sorted_rows, survivors
from lakebed.engine.partitioning import codes
from lakebed.engine.row_block import RowBlock
from lakebed.engine.upsert_order import UpsertOrder


@dataclass(frozen=True)
class FilePlan:
    """One file: where it belongs, and its rows."""

    partition_values: dict[str, str | None]
    place: str
    number: int
    rows: Callable[[], pa.Array | None]
    """The numbers of the rows in the block, in order; None for all as they are. Sorting them takes a while."""


@dataclass(frozen=True)
class FoldOrder:
    """The columns of a block that say which rows have one key, and in which order these are folded."""

    keys: list[pa.Array]
    ranks: list[pa.Array]
    engine: MergeEngine

    @classmethod
    def of(cls, block: RowBlock, order: UpsertOrder) -> FoldOrder:
        """The columns of a block; they are taken from it at once."""
        schema = order.metadata.schema
        keys = [block.column(schema[name].physical_name) for name in order.key.key]
        ranks = [block.column(schema[name].physical_name) for name in order.key.sequence]
        helpers = iter(range(len(order.sort_by)))
        for name in order.sort_by:
            stored = schema.find(name)
            ranks.append(block.helper(next(helpers)) if stored is None else block.column(stored.physical_name))
        return cls(keys, ranks, order.key.engine)

    def folded(self, rows: pa.Array | None) -> tuple[pa.Array | None, pa.Array]:
        """Some rows, all if None, in the order of a file, without those that another row of their key replaces.

        The second value says whether a row has the key of the row before it.
        """
        keys = [_at(key, rows) for key in self.keys]
        order = sorted_rows([*keys, *(_at(rank, rows) for rank in self.ranks)])
        if order is not None:
            rows, keys = _chosen(rows, order), [key.take(order) for key in keys]
        same = same_as_before(keys)
        stay = survivors(same, self.engine)
        if stay is None:
            return rows, same
        rows = _chosen(rows, pc.indices_nonzero(stay))
        return rows, pa.repeat(pa.scalar(False), len(rows) - 1)


@dataclass(frozen=True)
class _Partitions:
    codes: pa.Array | None
    """The partition of each row; None if there is only one."""
    values: list[dict[str, str | None]]
    rows: list[pa.Array | None]


class UpsertLayout:
    """Divides one block of rows into files. The columns that decide are taken from the block at once."""

    def __init__(self, block: RowBlock, order: UpsertOrder, buckets: BucketRows) -> None:
        self._order = order
        self._buckets = buckets
        self._fold = FoldOrder.of(block, order)
        self._partitions = _partitions(block, order)

    @cached_property
    def _hashes(self) -> pa.Array | None:
        return spark_hash(self._fold.keys) if self._buckets.needs_hashes else None

    @property
    def partitions(self) -> list[dict[str, str | None]]:
        """The partitions of all rows, also of those that another row of the block replaces."""
        return self._partitions.values

    def files(self) -> Iterator[FilePlan]:
        """The files, in the order in which they have to be folded."""
        if self._order.key.spans_partitions:
            for number, rows in self._by_bucket("", None):
                ordered, same = self._fold.folded(rows)
                for values, some in self._by_partition(ordered, same):
                    yield FilePlan(values, "", number, lambda chosen=some: chosen)  # type: ignore[misc]
            return
        for values, here in zip(self._partitions.values, self._partitions.rows, strict=True):
            place = self._order.key.place(values)
            for number, rows in self._by_bucket(place, here):
                yield FilePlan(values, place, number, lambda some=rows: self._fold.folded(some)[0])  # type: ignore[misc]

    def _by_bucket(self, place: str, rows: pa.Array | None) -> Iterator[tuple[int, pa.Array | None]]:
        if self._hashes is None:
            yield (0 if isinstance(self._order.key.buckets, int) else ROOT), rows
            return
        for number, at in runs(self._buckets.numbers(place, _at(self._hashes, rows))):
            yield number, _chosen(rows, at)

    def _by_partition(
        self, rows: pa.Array | None, same: pa.Array
    ) -> Iterator[tuple[dict[str, str | None], pa.Array | None]]:
        """The rows of a bucket that spans partitions.

        Where rows of one key are in several partitions, no order of two files could be right for all keys: rows
        after a key's move to another partition go to further files.
        """
        values = self._partitions.values
        if self._partitions.codes is None:
            yield values[0], rows
            return
        where = _at(self._partitions.codes, rows)
        turn = pc.multiply(moves(same, where), len(values)) if same.true_count else 0
        for number, at in runs(pc.add(where, turn)):
            yield values[number % len(values)], _chosen(rows, at)


def _partitions(block: RowBlock, order: UpsertOrder) -> _Partitions:
    fields = list(order.metadata.partition_schema)
    if not fields:
        return _Partitions(None, [{}], [None])
    columns = [block.column(f.physical_name) for f in fields]
    numbers, distinct = codes(columns)
    groups = [at for _, at in runs(numbers)] if len(distinct) > 1 else [None]
    values = [
        {
            field.physical_name: encode_value(column[0 if at is None else at[0].as_py()].as_py(), field.type)
            for field, column in zip(fields, columns, strict=True)
        }
        for at in groups
    ]
    return _Partitions(numbers if len(groups) > 1 else None, values, groups)


def _at(column: pa.Array, rows: pa.Array | None) -> pa.Array:
    return column if rows is None else column.take(rows)


def _chosen(rows: pa.Array | None, at: pa.Array) -> pa.Array:
    return at if rows is None else rows.take(at)
