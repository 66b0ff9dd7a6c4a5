"""The one read path: data files minus their deletion vectors, as the table's schema sees them."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa
from pyroaring import BitMap64

from lakebed.core.actions import AddFile, DeletionVector, Metadata
from lakebed.core.conform import adapt
from lakebed.core.errors import FileMissingError
from lakebed.core.options import Options
from lakebed.core.partition import decode_values
from lakebed.core.predicate import Node, evaluate
from lakebed.core.predicate import columns as columns_of
from lakebed.core.properties import COLUMN_MAPPING_MODE
from lakebed.core.schema import Field, Struct
from lakebed.core.schema_arrow import to_arrow
from lakebed.delta.foreign import place, to_physical_names
from lakebed.engine.prefetch import prefetch
from lakebed.engine.row_groups import matching_groups
from lakebed.engine.source import MergedRows, Source, Sources
from lakebed.storage.deletion_vector import keep_mask, read_vector
from lakebed.storage.footer import RowGroup
from lakebed.storage.parquet_reader import ParquetFileReader, read_table
from lakebed.storage.store import Store

READ_THREADS = 4


@dataclass(frozen=True)
class ScanOrder:
    """All that one reader needs to know; small and serialisable."""

    store: Store
    table_name: str
    metadata: Metadata
    options: Options
    columns: tuple[str, ...]
    predicate: Node | None = None

    @cached_property
    def output(self) -> pa.Schema:
        """The schema of the batches that come out."""
        return to_arrow(self.metadata.schema.select(self.columns))

    @cached_property
    def needed(self) -> Struct:
        """The wanted columns and those that the predicate looks at, in table order."""
        wanted = set(self.columns) | (columns_of(self.predicate) if self.predicate is not None else set())
        return Struct(tuple(f for f in self.metadata.schema if f.name in wanted))

    @cached_property
    def needed_arrow(self) -> pa.Schema:
        """The Arrow schema of the needed columns."""
        return to_arrow(self.needed)

    @cached_property
    def stored(self) -> Struct:
        """The needed columns that come from the file; partition columns come from the log."""
        return Struct(tuple(f for f in self.needed if f.name not in self.metadata.partition_columns))


def scan(order: ScanOrder, sources: Sources) -> Iterator[pa.RecordBatch]:
    """The live rows of ``sources`` as batches, in their order, with bounded memory."""
    batches = (batch for source in sources for batch in _scan_source(order, source))
    return prefetch(batches, order.options.prefetch)


def read_all(order: ScanOrder, sources: Sources) -> pa.Table:
    """The live rows of ``sources`` as one table, in their order."""
    if len(sources) == 1:
        return read_source(order, sources[0])
    with ThreadPoolExecutor(max_workers=READ_THREADS, thread_name_prefix="lakebed-read") as pool:
        parts = list(pool.map(lambda source: read_source(order, source), sources))
    return pa.concat_tables(parts) if parts else order.output.empty_table()


def dead_rows(store: Store, vector: DeletionVector | None) -> BitMap64 | None:
    """The dead row positions that a file's vector names; None without one."""
    if vector is None:
        return None
    return read_vector(
        store,
        vector.storage_type,
        vector.path_or_inline_dv,
        vector.offset,
        vector.size_in_bytes,
        allow_absolute=True,  # a clone made by another engine; we never write such vectors
    )


@contextmanager
def named(order: ScanOrder) -> Iterator[None]:
    """A file that the table names and that is gone: say whose it is, and what helps."""
    try:
        yield
    except FileMissingError as error:
        raise FileMissingError(
            f"table {order.table_name}: a file of this version is missing: {error.what}",
            fix="bring it back from a backup, or restore() a version without it; "
            "only Lakebed may delete files of its tables",
        ) from error


def positions(order: ScanOrder, add: AddFile) -> Iterator[tuple[int, pa.Table]]:
    """The physical rows of a file, dead ones too, with the position of each batch's first row.

    Row groups in which the order's predicate is true nowhere are left out.
    """
    at = place(order.store, add)
    with named(order), ParquetFileReader(at.store, at.path) as reader:
        groups = _groups(order, reader)
        start = 0
        for group in [None] if groups is None else groups:
            start = start if group is None else group.start
            chosen = None if group is None else [group.index]
            for batch in reader.batches(_physical(order), order.options.batch_size, chosen):
                yield start, logical(order, add, pa.Table.from_batches([batch]), batch.num_rows)
                start += batch.num_rows


def _groups(order: ScanOrder, reader: ParquetFileReader) -> list[RowGroup] | None:
    """The row groups to read; None for all."""
    return None if by_field_id(order.metadata) else matching_groups(reader, order.stored, order.predicate)


def skips_groups(order: ScanOrder, add: AddFile) -> bool:
    """Whether the predicate makes parts of the file unnecessary to read."""
    if order.predicate is None:
        return False
    at = place(order.store, add)
    with named(order), ParquetFileReader(at.store, at.path) as reader:
        return _groups(order, reader) is not None


def known_dead(order: ScanOrder, source: Source) -> BitMap64 | None:
    """The dead rows of a source; None if there are none."""
    if source.dead is not None:
        return source.dead
    with named(order):
        return dead_rows(order.store, source.add.deletion_vector)


def _scan_source(order: ScanOrder, source: Source | MergedRows) -> Iterator[pa.RecordBatch]:
    if isinstance(source, MergedRows):
        names = list(order.needed.names)
        parts = (_keep(order, rows.select(names), None, 0) for rows in source.tables(names))
    else:
        dead = known_dead(order, source)
        parts = (_keep(order, rows, dead, start) for start, rows in positions(order, source.add))
    for live in parts:
        if live.num_rows:
            yield from live.to_batches(order.options.batch_size)


def read_source(order: ScanOrder, source: Source | MergedRows) -> pa.Table:
    """The live rows of one source."""
    stored = _physical(order)
    if isinstance(source, MergedRows) or not stored or skips_groups(order, source.add):
        return pa.Table.from_batches(list(_scan_source(order, source)), order.output)
    at = place(order.store, source.add)
    dead = known_dead(order, source)
    with named(order):
        raw = read_table(at.store, at.path, stored)
    return _keep(order, logical(order, source.add, raw, raw.num_rows), dead, 0)


def by_field_id(metadata: Metadata) -> bool:
    """Whether the columns of data files are matched by field id, so that their names mean nothing."""
    return metadata.configuration.get(COLUMN_MAPPING_MODE) == "id"


def _physical(order: ScanOrder) -> list[str] | None:
    """The top-level columns to read; None (all) when they must be matched by field id."""
    if by_field_id(order.metadata):
        return None
    return [f.physical_name for f in order.stored]


def logical(order: ScanOrder, add: AddFile, raw: pa.Table, rows: int) -> pa.Table:
    """A file's physical rows with today's names and types, partition columns filled in."""
    if by_field_id(order.metadata):
        raw = to_physical_names(raw, order.metadata.schema)
    stored = iter(adapt(raw, order.stored).columns if len(order.stored) else ())
    partitioned = set(order.metadata.partition_columns)
    columns = [constant(add, f, rows) if f.name in partitioned else next(stored) for f in order.needed]
    return pa.table(columns, schema=order.needed_arrow)


def constant(add: AddFile, column: Field, rows: int) -> pa.Array:
    """The value of a partition column, once for each row."""
    text = add.partition_values.get(column.physical_name)
    value = decode_values([text], column.type)[0]
    return pa.repeat(value, rows) if value.is_valid else pa.nulls(rows, value.type)


def _keep(order: ScanOrder, rows: pa.Table, dead: BitMap64 | None, start: int) -> pa.Table:
    """The rows that are alive and qualify, with only the wanted columns."""
    if dead is not None and rows.num_rows:
        rows = rows.filter(keep_mask(dead, start, rows.num_rows))
    return qualifying(order, rows)


def qualifying(order: ScanOrder, rows: pa.Table) -> pa.Table:
    """The rows for which the predicate is true, with only the wanted columns."""
    if order.predicate is not None and rows.num_rows:
        rows = rows.filter(evaluate(order.predicate, rows))
    return rows.select(list(order.columns))
