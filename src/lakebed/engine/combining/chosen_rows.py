"""Rows of a file by their positions, dead or not; row groups without any of them are not read."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64

from lakebed.core.actions import AddFile
from lakebed.delta.foreign import place
from lakebed.engine.scan import ScanOrder, named
from lakebed.engine.tracked_scan import tracked_batch, tracked_columns, tracked_schema
from lakebed.storage.deletion_vector import keep_mask
from lakebed.storage.parquet_reader import ParquetFileReader

# How much larger rows are in memory than in a file, about.
UNPACKED = 4
_FEWEST_ROWS = 256
_BUFFER = 128 * 1024


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
            for batch in file.batches(tracked_columns(order), batch_rows, [group.index]):
                wanted = positions.range_cardinality(start, start + batch.num_rows)
                if wanted:
                    rows = tracked_batch(order, add, batch, start)
                    if wanted < batch.num_rows:
                        rows = rows.filter(pc.invert(keep_mask(positions, start, batch.num_rows)))
                    yield pa.Table.from_arrays(rows.select(schema.names).columns, schema=schema)
                start += batch.num_rows


def _batch_rows(add: AddFile, share: int, most: int) -> int:
    row_size = add.size * UNPACKED / (add.num_records or 1)
    return min(most, max(_FEWEST_ROWS, int(share / max(row_size, 1))))
