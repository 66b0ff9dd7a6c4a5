"""Writes one Parquet data file: rows are collected in memory, the file appears whole at the end."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pyarrow.types as pat

from lakebed.core.errors import DataError, SchemaError, StorageError
from lakebed.core.options import Options
from lakebed.core.schema import Struct
from lakebed.core.schema_arrow import to_arrow
from lakebed.core.statistics import build_stats
from lakebed.storage import parquet_encoder
from lakebed.storage.footer import Leaf, file_bounds, indexed
from lakebed.storage.store import Store

if TYPE_CHECKING:
    import polars as pl

INDEXED_COLUMNS = 32
"""Columns with statistics unless the table says otherwise; Delta's default."""


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """A finished data file: ``path`` is below the store, ``stats_json`` is Delta's statistics text."""

    path: str
    size: int
    num_rows: int
    stats_json: str
    mtime_ms: int


def write_file(
    store: Store,
    path: str,
    rows: pa.Table | pl.DataFrame,
    schema: pa.Schema,
    options: Options,
    indexed_leaves: Sequence[Leaf],
    encoded: Callable[[], object] = lambda: None,
) -> WrittenFile:
    """Write rows that have the physical ``schema`` as one file, whole or not at all, and describe it.

    A polars frame must have a schema that ``parquet_encoder.keeps``. If it fails, directories may remain.
    ``encoded`` is called when what is left is to wait for the disk, or for the network.
    """
    name = store.uri(path)
    with store.staged(path) as target:
        if isinstance(rows, pa.Table):
            parquet_encoder.encode(rows, options, name, target)
        else:
            parquet_encoder.encode_frame(rows, schema, options, name, target)
        encoded()
        size = os.path.getsize(target) if isinstance(target, str) else target.getbuffer().nbytes
        stats = _statistics(rows, indexed_leaves, pq.read_metadata(target))
    return WrittenFile(path, size, len(rows), stats, time.time_ns() // 1_000_000)


class ParquetFileWriter:
    """Collects rows with the logical ``schema`` and writes them as one file with its physical names.

    Nothing is on the file system before ``close``. A caller that minds its memory looks at ``full``
    after each ``write`` and then closes this file and opens the next. Leaving the context by an exception
    aborts; leaving it normally closes.
    """

    def __init__(
        self,
        store: Store,
        path: str,
        schema: Struct,
        options: Options,
        *,
        indexed_columns: int | Collection[str] = INDEXED_COLUMNS,
    ) -> None:
        """``indexed_columns``: how many leaf columns get statistics (all if negative), or their
        physical names."""
        self.path = path
        self.buffered_bytes = 0
        self.num_rows = 0
        self._store = store
        self._options = options
        self._logical = to_arrow(schema)
        self._physical = to_arrow(schema, physical=True)
        self._indexed = indexed(self._physical, indexed_columns)
        self._batches: list[pa.RecordBatch] = []
        self._written: WrittenFile | None = None
        self._begun = False
        self._aborted = False

    def __enter__(self) -> ParquetFileWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self.abort()
        elif not self._aborted:
            self.close()

    @property
    def full(self) -> bool:
        """Whether the rows in memory have reached ``writer_memory_limit``."""
        return self.buffered_bytes >= self._options.writer_memory_limit

    def write(self, rows: pa.RecordBatch | pa.Table) -> None:
        """Take in rows. Raises ``SchemaError`` or ``DataError`` if they do not have the schema."""
        if self._aborted or self._written is not None:
            raise StorageError(f"{self._store.uri(self.path)}: the writer is closed")
        for batch in rows.to_batches() if isinstance(rows, pa.Table) else [rows]:
            if batch.num_rows:
                self._batches.append(self._renamed(batch))
                self.buffered_bytes += batch.nbytes
                self.num_rows += batch.num_rows

    def close(self) -> WrittenFile:
        """Write the file, durably if the option ``sync`` says so, and describe it.

        If it fails nothing remains. A second call gives the same description.
        """
        if self._written is not None:
            return self._written
        if self._aborted:
            raise StorageError(f"{self._store.uri(self.path)}: the writer was aborted")
        rows = pa.Table.from_batches(self._batches, self._physical)
        self._begun = True
        try:
            written = write_file(self._store, self.path, rows, self._physical, self._options, self._indexed)
        except BaseException as failure:
            self._abort_after(failure)
            raise
        self._release()
        self._written = written
        return written

    def abort(self) -> None:
        """Drop the rows, and the file if it was written; directories made for it go when they are empty."""
        self._release()
        self._written = None
        self._aborted = True
        if self._begun:
            self._store.delete(self.path)
            self._store.remove_empty_parents(self.path)
            self._begun = False

    def _abort_after(self, failure: BaseException) -> None:
        try:
            self.abort()
        except StorageError as left:
            # The first failure is what the caller must see.
            failure.add_note(f"and the file could not be removed: {left}")

    def _release(self) -> None:
        self._batches = []
        self.buffered_bytes = 0

    def _renamed(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        if batch.schema.types != self._logical.types or batch.schema.names != self._logical.names:
            try:
                batch = batch.cast(self._logical)
            except (pa.ArrowException, ValueError) as cause:
                raise SchemaError(
                    f"{self._store.uri(self.path)}: the rows do not have the table's schema", found=str(cause)
                ) from cause
        for column, field in zip(batch.columns, self._logical, strict=True):
            if column.null_count and not field.nullable:
                raise DataError(f"{self._store.uri(self.path)}: nulls in a column that cannot hold them", (field.name,))
        return reinterpreted(batch, self._physical)


def reinterpreted(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The batch under another schema that differs in names, nullability and metadata only; nothing is copied.

    >>> batch = pa.record_batch({"a": [1]})
    >>> reinterpreted(batch, pa.schema([("col-7", pa.int64())])).to_pylist()
    [{'col-7': 1}]
    """
    if not batch.num_rows:
        # An empty slice from further on would come with buffers that Arrow takes for too short.
        return pa.record_batch([pa.array([], field.type) for field in schema], schema=schema)
    return pa.record_batch(_Reinterpreted(batch, schema))


class _Reinterpreted:
    """A batch under another schema that differs in names and metadata only; nothing is copied."""

    def __init__(self, batch: pa.RecordBatch, schema: pa.Schema) -> None:
        self._batch = batch
        self._schema = schema

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]:
        _, content = self._batch.__arrow_c_array__()
        return self._schema.__arrow_c_schema__(), content


def _statistics(rows: pa.Table | pl.DataFrame, leaves: Sequence[Leaf], metadata: pq.FileMetaData) -> str:
    unordered = {leaf.path for leaf in leaves if has_nan(rows, leaf)}
    bounds = file_bounds(metadata, leaves, without=unordered)
    for leaf in leaves:
        if pat.is_nested(leaf.type) and len(leaf.path) == 1:
            bounds.null_counts[leaf.path] = _null_count(rows, leaf.path[0])
    return build_stats(len(rows), bounds.mins, bounds.maxs, bounds.null_counts, tight=True)


def _null_count(rows: pa.Table | pl.DataFrame, name: str) -> int:
    if isinstance(rows, pa.Table):
        return int(rows.column(name).null_count)
    return rows[name].null_count()


def has_nan(rows: pa.Table | pl.DataFrame, leaf: Leaf) -> bool:
    """Whether the leaf holds a NaN, so that its smallest and largest value say nothing."""
    if not pat.is_floating(leaf.type):
        return False
    if not isinstance(rows, pa.Table):
        series = rows[leaf.path[0]]
        for name in leaf.path[1:]:
            series = series.struct.field(name)
        # Polars would start its query engine for the question.
        return bool(pc.any(pc.is_nan(series.to_arrow())).as_py())
    column = rows.column(leaf.path[0])
    for name in leaf.path[1:]:
        column = pc.struct_field(column, name)
    return bool(pc.any(pc.is_nan(column)).as_py())
