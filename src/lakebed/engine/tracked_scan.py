"""Rows with what tells them apart and apart from their earlier selves: row id, row version, and kind.

A row keeps its id for life, and its version is the one of the commit that last changed it. Files that were
rewritten carry both as hidden columns; in all others they follow from the file's ``add``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64

from lakebed.core.actions import AddFile, Metadata
from lakebed.core.file_tags import KIND_COLUMN, ROW_ID_COLUMN, ROW_VERSION_COLUMN
from lakebed.core.predicate import evaluate
from lakebed.core.schema import BYTE, LONG, MAPPING_NAME, Field
from lakebed.core.schema_arrow import field_to_arrow
from lakebed.delta.foreign import place
from lakebed.engine.scan import READ_THREADS, ScanOrder, by_field_id, known_dead, logical, named
from lakebed.engine.source import Source
from lakebed.engine.vectors import replaced_tombstones
from lakebed.storage.deletion_vector import keep_mask
from lakebed.storage.parquet_reader import read_batches

KIND = Field(KIND_COLUMN, BYTE)
DELETING = pa.array([1, 3], pa.int8())
"""The kinds of tombstones: -U and -D."""

_ROW_ID_NAME = "delta.rowTracking.materializedRowIdColumnName"
_ROW_VERSION_NAME = "delta.rowTracking.materializedRowCommitVersionColumnName"


def tracking_fields(metadata: Metadata) -> tuple[Field, Field]:
    """The columns of row id and row version; in tables of other writers they have other physical names.

    >>> [f.physical_name for f in tracking_fields(Metadata("t", "{}", configuration={_ROW_ID_NAME: "_row-id-7"}))]
    ['_row-id-7', '_lakebed_row_version']
    """
    named_by = metadata.configuration
    row_id, row_version = named_by.get(_ROW_ID_NAME), named_by.get(_ROW_VERSION_NAME)
    return (
        Field(ROW_ID_COLUMN, LONG, metadata={MAPPING_NAME: row_id or ROW_ID_COLUMN}),
        Field(ROW_VERSION_COLUMN, LONG, metadata={MAPPING_NAME: row_version or ROW_VERSION_COLUMN}),
    )


def tracked_schema(order: ScanOrder, *, tombstones: bool = False) -> pa.Schema:
    """The schema of tracked rows: the wanted columns, row id, row version, and the kind if tombstones are wanted.

    A tombstone may lack any column but the key: with ``tombstones`` no column says that it is never null.
    """
    hidden = [*tracking_fields(order.metadata), *([KIND] if tombstones else [])]
    columns = [f.with_nullable(True) for f in order.output] if tombstones else order.output
    return pa.schema([*columns, *map(field_to_arrow, hidden)])


def tracked(
    order: ScanOrder,
    source: Source,
    *,
    tombstones: bool = False,
    batch_rows: int | None = None,
    buffer_size: int = 0,
) -> Iterator[pa.Table]:
    """The live rows of a source, tracked, batch by batch in file order.

    With ``tombstones`` the present tombstones come too, though they are dead, and each row has its kind
    (0 where the file knows none). Row id and row version are null in a file that has not been committed.
    ``batch_rows`` is the size of a batch, ``buffer_size`` as for ``read_batches``.
    """
    at = place(order.store, source.add)
    dead = known_dead(order, source)
    schema = tracked_schema(order, tombstones=tombstones)
    replaced = replaced_tombstones(source.add)
    start = 0
    with named(order):
        batches = read_batches(
            at.store, at.path, tracked_columns(order), batch_rows or order.options.batch_size, buffer_size=buffer_size
        )
        for batch in batches:
            rows = tracked_batch(order, source.add, batch, start)
            kept = _kept(rows, dead, start, replaced if tombstones else None)
            start += batch.num_rows
            if order.predicate is not None and kept.num_rows:
                kept = kept.filter(evaluate(order.predicate, kept))
            if kept.num_rows:
                yield pa.Table.from_arrays(kept.select(schema.names).columns, schema=schema)


def read_tracked(order: ScanOrder, sources: Sequence[Source], *, tombstones: bool = False) -> pa.Table:
    """The live rows of all sources as one table, in their order; otherwise as ``tracked``."""

    def read(source: Source) -> list[pa.Table]:
        return list(tracked(order, source, tombstones=tombstones, batch_rows=order.options.max_row_group_rows))

    with ThreadPoolExecutor(max_workers=READ_THREADS, thread_name_prefix="lakebed-read") as pool:
        parts = [table for tables in pool.map(read, sources) for table in tables]
    return pa.concat_tables(parts) if parts else tracked_schema(order, tombstones=tombstones).empty_table()


def tracked_columns(order: ScanOrder) -> list[str] | None:
    """The physical columns to read; None for all."""
    if by_field_id(order.metadata):
        return None
    hidden = [*tracking_fields(order.metadata), KIND]
    return [f.physical_name for f in (*order.stored, *hidden)]


def tracked_batch(order: ScanOrder, add: AddFile, batch: pa.RecordBatch, start: int) -> pa.Table:
    """All physical rows of a batch, as the table's schema sees them, with the three hidden columns.

    ``start`` is the position of the first of them in the file.
    """
    rows = batch.num_rows
    tracking = tracking_fields(order.metadata)
    row_id, row_version, kinds = (_stored(batch, f) for f in (*tracking, KIND))
    hidden_names = {f.physical_name for f in (*tracking, KIND)}
    raw = pa.Table.from_batches([batch]).select([n for n in batch.schema.names if n not in hidden_names])
    seen = logical(order, add, raw, rows)
    if add.base_row_id is not None:
        first = add.base_row_id + start
        own = pa.arange(first, first + rows)
        row_id = own if row_id is None else pc.coalesce(row_id, own)
    if add.default_row_commit_version is not None:
        version = pa.scalar(add.default_row_commit_version, pa.int64())
        row_version = pa.repeat(version, rows) if row_version is None else pc.coalesce(row_version, version)
    kinds = pa.repeat(pa.scalar(0, pa.int8()), rows) if kinds is None else pc.coalesce(kinds, pa.scalar(0, pa.int8()))
    hidden = {
        ROW_ID_COLUMN: pa.nulls(rows, pa.int64()) if row_id is None else row_id,
        ROW_VERSION_COLUMN: pa.nulls(rows, pa.int64()) if row_version is None else row_version,
        KIND_COLUMN: kinds,
    }
    for name, values in hidden.items():
        seen = seen.append_column(name, values)
    return seen


def _stored(batch: pa.RecordBatch, hidden: Field) -> pa.Array | None:
    at = batch.schema.get_field_index(hidden.physical_name)
    return None if at < 0 else batch.column(at).cast(field_to_arrow(hidden).type)


def _kept(rows: pa.Table, dead: BitMap64 | None, start: int, replaced: BitMap64 | None) -> pa.Table:
    """The rows that are alive, and the present tombstones if ``replaced`` tells those that are not.

    A row that deletes is never alive.
    """
    live = None if dead is None or not rows.num_rows else keep_mask(dead, start, rows.num_rows)
    deletes = pc.is_in(rows.column(KIND_COLUMN), DELETING)
    if not pc.any(deletes).as_py():
        return rows if live is None else rows.filter(live)
    alive = pc.invert(deletes) if live is None else pc.and_not(live, deletes)
    if replaced is None:
        return rows.filter(alive)
    present = deletes if not replaced else pc.and_(deletes, keep_mask(replaced, start, rows.num_rows))
    return rows.filter(pc.or_(alive, present))
