"""Rows of a file by their positions, dead or not; row groups without any of them are not read.

Where the positions of a row group lie near each other, only the pages around them are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64

from lakebed.core.actions import AddFile
from lakebed.delta.foreign import FilePlace, place
from lakebed.engine.scan import ScanOrder, named
from lakebed.engine.tracked_scan import tracked_batch, tracked_columns, tracked_schema
from lakebed.storage.deletion_vector import keep_mask
from lakebed.storage.parquet_encoder import keeps
from lakebed.storage.parquet_reader import ParquetFileReader

# How much larger rows are in memory than in a file, about.
UNPACKED = 4
_FEWEST_ROWS = 256
_BUFFER = 128 * 1024
_LARGE_GROUP = 10_000
"""Rows of a row group from which it pays to read a part of it."""


def chosen_rows(order: ScanOrder, add: AddFile, positions: BitMap64, share: int) -> Iterator[pa.Table]:
    """The tracked rows at these positions, with their kinds, in file order, in tables of up to ``share`` bytes or so.

    Raises FileMissingError, CorruptFileError.
    """
    at = place(order.store, add)
    schema = tracked_schema(order, tombstones=True)
    batch_rows = _batch_rows(add, share, order.options.max_row_group_rows)
    buffer = 0 if add.size <= share else _BUFFER
    with named(order), ParquetFileReader(at.store, at.path, buffer_size=buffer) as file:
        for group in file.row_groups([]):
            start, stop = group.start, group.start + group.num_rows
            if not positions.range_cardinality(start, stop):
                continue
            window = _window(positions, start, stop)
            near = _near(at, file, tracked_columns(order), window) if 0 < len(window) <= batch_rows else None
            batches = file.batches(tracked_columns(order), batch_rows, [group.index]) if near is None else [near[1]]
            start = start if near is None else near[0]
            for batch in batches:
                wanted = positions.range_cardinality(start, start + batch.num_rows)
                if wanted:
                    rows = tracked_batch(order, add, batch, start)
                    if wanted < batch.num_rows:
                        rows = rows.filter(pc.invert(keep_mask(positions, start, batch.num_rows)))
                    yield pa.Table.from_arrays(rows.select(schema.names).columns, schema=schema)
                start += batch.num_rows


def _window(positions: BitMap64, start: int, stop: int) -> range:
    """From the first to the last of the positions in a row group that has some; empty if that is most of the group."""
    first = positions[positions.rank(start - 1) if start else 0]
    last = positions[positions.rank(stop - 1) - 1]
    worth_it = stop - start >= _LARGE_GROUP and 2 * (last + 1 - first) <= stop - start
    return range(first, last + 1) if worth_it else range(0)


def _near(
    at: FilePlace, file: ParquetFileReader, columns: Sequence[str] | None, window: range
) -> tuple[int, pa.RecordBatch] | None:
    """The rows of a window, and where it begins, by polars, which passes over other pages.

    None if polars cannot read them, or not as Arrow would.
    """
    known = file.schema
    schema = known if columns is None else pa.schema([known.field(name) for name in columns if name in known.names])
    if not at.store.location.is_local or not schema.names or not keeps(schema):
        return None
    path = at.store.path(at.path)
    try:
        found = pl.scan_parquet(path, glob=False, hive_partitioning=False).select(schema.names)
        rows = found.slice(window.start, len(window)).collect().to_arrow(compat_level=pl.CompatLevel.oldest())
        rows = rows.cast(schema).combine_chunks()
    except (pl.exceptions.PolarsError, pa.ArrowException, OSError):
        # Arrow reads what polars cannot, and says what is wrong with a file that nobody can read.
        return None
    (batch,) = rows.to_batches()
    return window.start, batch


def _batch_rows(add: AddFile, share: int, most: int) -> int:
    row_size = add.size * UNPACKED / (add.num_records or 1)
    return min(most, max(_FEWEST_ROWS, int(share / max(row_size, 1))))
