"""The key columns of one data file, read as far as they can matter."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise

import polars as pl
import pyarrow as pa

from lakebed.core.actions import AddFile
from lakebed.core.conform import adapt
from lakebed.core.predicate import Node, evaluate
from lakebed.core.schema import Struct
from lakebed.core.schema_arrow import to_arrow
from lakebed.delta.foreign import place
from lakebed.engine.resolving.kernel import plain
from lakebed.engine.resolving.order import POSITION, ResolveOrder
from lakebed.engine.scan import named
from lakebed.storage.footer import Bounds, RowGroup
from lakebed.storage.parquet_reader import ParquetFileReader

_VALUE_BYTES = 16
SIZE = "size"
"""The column of bytes in what ``KeyFile.spaced_keys`` gives."""


@dataclass(frozen=True)
class KeyFile:
    """One open file. Its frames have the names of ``stored``, plain key columns, and each row's ``position``."""

    reader: ParquetFileReader
    path: str | None
    """Where polars finds it; None if only Arrow can read it, or reads it differently."""
    stored: Struct
    keys: tuple[str, ...]
    groups: tuple[RowGroup, ...]
    key: Struct
    """The key columns under their own names."""
    where: Node | None
    """Only the rows with such keys are wanted."""
    batch_bytes: int
    """How much is read at a time, but for a row group, which is read whole."""

    @property
    def num_bytes(self) -> int:
        """About what all its key columns take in memory."""
        return sum(self._size(group) for group in self.groups)

    def frames(self, groups: Sequence[RowGroup]) -> Iterator[pl.DataFrame]:
        """The rows of these groups, in order, in frames of bounded size."""
        batch: list[RowGroup] = []
        size = 0
        for group in groups:
            if batch and size + self._size(group) > self.batch_bytes:
                yield self.frame(batch)
                batch, size = [], 0
            batch.append(group)
            size += self._size(group)
        if batch:
            yield self.frame(batch)

    def frame(self, groups: Sequence[RowGroup]) -> pl.DataFrame:
        """The rows of these groups as one frame."""
        if not groups:
            return self._empty()
        rows = self._read_plain(groups) if _contiguous(groups) else None
        if rows is None:
            raw = self.reader.table([f.physical_name for f in self.stored], [g.index for g in groups])
            rows = _frame(adapt(raw, self.stored))
        rows = rows.with_columns(_positions(groups).alias(POSITION))
        if self.where is not None:
            rows = rows.filter(pl.Series(evaluate(self.where, _logical(rows, self.key))))
        return rows.with_columns(plain(pl.col(name), rows.schema[name]) for name in self.keys)

    def _empty(self) -> pl.DataFrame:
        rows = _frame(to_arrow(self.stored).empty_table())
        return rows.select(
            *(
                plain(pl.col(name), kind).alias(name) if name in self.keys else name
                for name, kind in rows.schema.items()
            ),
            pl.lit(0, pl.Int64).alias(POSITION),
        ).clear()

    def spaced_keys(self, step: int) -> pl.DataFrame:
        """Keys that lie about ``step`` bytes apart, with the ``size`` that each of them stands for."""
        every = max(1, step * sum(group.num_rows for group in self.groups) // max(1, self.num_bytes))
        found = [self._spaced(frame, every) for frame in self.frames(self.groups)]
        return pl.concat(found) if found else self._spaced(self.frame([]), every)

    def _spaced(self, rows: pl.DataFrame, every: int) -> pl.DataFrame:
        """Each n-th key; a frame's first one is always there."""
        spaced = rows.select(self.keys).gather_every(every)
        bytes_of_row = self.num_bytes / max(1, sum(group.num_rows for group in self.groups))
        return spaced.with_columns(pl.lit(every * bytes_of_row).alias(SIZE))

    def _size(self, group: RowGroup) -> int:
        return group.num_bytes + group.num_rows * _VALUE_BYTES * len(self.stored)

    def _read_plain(self, groups: Sequence[RowGroup]) -> pl.DataFrame | None:
        """The rows straight into polars, in half of Arrow's time; None if it cannot."""
        if self.path is None:
            return None
        start, stop = groups[0].start, groups[-1].start + groups[-1].num_rows
        columns = [pl.col(f.physical_name).alias(f.name) for f in self.stored]
        try:
            found = pl.scan_parquet(self.path, glob=False, hive_partitioning=False).select(columns)
            whole = len(groups) == len(self.groups)
            return (found if whole else found.slice(start, stop - start)).collect()
        except (pl.exceptions.PolarsError, OSError):
            # Arrow reads what polars cannot, and says what is wrong with a file that nobody can read.
            return None


@contextmanager
def open_keys(
    order: ResolveOrder, add: AddFile, *, sequence: bool, kind: bool, where: Node | None = None
) -> Iterator[KeyFile]:
    """The key columns of a file, on demand with those of sequence and kind.

    Raises FileMissingError, CorruptFileError.
    """
    at = place(order.store, add)
    stored = order.layout.stored(sequence=sequence, kind=kind)
    with named(order.scan), ParquetFileReader(at.store, at.path) as reader:
        physical = [f.physical_name for f in stored]
        found = {f.name: f.type for f in reader.schema}
        same = all(found.get(name) == kind for name, kind in zip(physical, to_arrow(stored).types, strict=True))
        path = at.store.path(at.path) if same and at.store.location.is_local else None
        groups = tuple(reader.row_groups(physical))
        if not same:
            # Bounds of an older type: the rows are widened, and the bounds are not worth it.
            groups = tuple(replace(group, bounds=Bounds()) for group in groups)
        yield KeyFile(reader, path, stored, order.layout.keys, groups, order.layout.key, where, order.key_bytes)


def _contiguous(groups: Sequence[RowGroup]) -> bool:
    return all(a.index + 1 == b.index for a, b in pairwise(groups))


def _positions(groups: Sequence[RowGroup]) -> pl.Series:
    if _contiguous(groups):
        return pl.int_range(groups[0].start, groups[-1].start + groups[-1].num_rows, eager=True)
    return pl.concat([pl.int_range(g.start, g.start + g.num_rows, eager=True) for g in groups])


def _logical(rows: pl.DataFrame, key: Struct) -> pa.Table:
    """The keys as predicates see them."""
    arrow = to_arrow(key)
    table = rows.select(f"k{i}" for i in range(len(key))).to_arrow(compat_level=pl.CompatLevel.oldest())
    return table.rename_columns(arrow.names).cast(pa.schema([f.with_nullable(True) for f in arrow]))


def _frame(rows: pa.Table) -> pl.DataFrame:
    frame = pl.from_arrow(rows)
    assert isinstance(frame, pl.DataFrame)
    return frame
