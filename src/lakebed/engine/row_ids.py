"""The ids and versions of rows of a file, by position: what rows are known by wherever they are moved to."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64

from lakebed.core.actions import AddFile
from lakebed.core.file_tags import KIND_COLUMN, ROW_ID_COLUMN, ROW_VERSION_COLUMN
from lakebed.core.options import MIB
from lakebed.delta.foreign import place
from lakebed.engine.combining.chosen_rows import chosen_rows
from lakebed.engine.scan import ScanOrder, named
from lakebed.engine.tracked_scan import tracking_fields
from lakebed.storage.deletion_vector import to_arrow
from lakebed.storage.parquet_reader import ParquetFileReader

READ_SHARE = 16 * MIB
"""About how many bytes of rows are read at a time."""
ID, VERSION, KIND = "id", "version", "kind"


def carries_ids(scan: ScanOrder, add: AddFile) -> bool:
    """Whether the file was rewritten, so that its rows have ids from before."""
    at = place(scan.store, add)
    with named(scan), ParquetFileReader(at.store, at.path) as file:
        return tracking_fields(scan.metadata)[0].physical_name in file.schema.names


def stored_ids(scan: ScanOrder, add: AddFile, rows: BitMap64) -> pa.Table:
    """``id``, ``version`` and ``kind`` of the rows, of which there are some, at these positions of a file that carries
    them."""
    narrow = replace(scan, columns=scan.metadata.schema.names[:1], predicate=None)
    hidden = [ROW_ID_COLUMN, ROW_VERSION_COLUMN, KIND_COLUMN]
    parts = [part.select(hidden) for part in chosen_rows(narrow, add, rows, READ_SHARE)]
    return pa.concat_tables(parts).rename_columns([ID, VERSION, KIND])


def derived_ids(add: AddFile, rows: BitMap64) -> pa.Table:
    """``id`` and ``version`` of the rows of a file that are where they were first written."""
    own = pa.table({ID: pc.add(to_arrow(rows), add.base_row_id)})
    version = pa.scalar(add.default_row_commit_version, pa.int64())
    return own.append_column(VERSION, pa.repeat(version, own.num_rows))
