"""Writes one Parquet data file: rows are collected in memory, the file appears whole at the end."""

from __future__ import annotations

import os
import time
from collections.abc import Collection
from dataclasses import dataclass
from types import TracebackType

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
            with self._store.staged(self.path) as target:
                parquet_encoder.encode(rows, self._options, self._store.uri(self.path), target)
                size = os.path.getsize(target) if isinstance(target, str) else target.getbuffer().nbytes
                stats = self._statistics(rows, pq.read_metadata(target))
        except BaseException as failure:
            self._abort_after(failure)
            raise
        self._release()
        now = time.time_ns() // 1_000_000
        self._written = WrittenFile(self.path, size, rows.num_rows, stats, now)
        return self._written

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
        return pa.record_batch(_Reinterpreted(batch, self._physical))

    def _statistics(self, rows: pa.Table, metadata: pq.FileMetaData) -> str:
        unordered = {leaf.path for leaf in self._indexed if _has_nan(rows, leaf)}
        bounds = file_bounds(metadata, self._indexed, without=unordered)
        for leaf in self._indexed:
            if pat.is_nested(leaf.type) and len(leaf.path) == 1:
                bounds.null_counts[leaf.path] = rows.column(leaf.path[0]).null_count
        return build_stats(rows.num_rows, bounds.mins, bounds.maxs, bounds.null_counts, tight=True)


class _Reinterpreted:
    """A batch under another schema that differs in names and metadata only; nothing is copied."""

    def __init__(self, batch: pa.RecordBatch, schema: pa.Schema) -> None:
        self._batch = batch
        self._schema = schema

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]:
        _, content = self._batch.__arrow_c_array__()
        return self._schema.__arrow_c_schema__(), content


def _has_nan(rows: pa.Table, leaf: Leaf) -> bool:
    if not pat.is_floating(leaf.type):
        return False
    column = rows.column(leaf.path[0])
    for name in leaf.path[1:]:
        column = pc.struct_field(column, name)
    return bool(pc.any(pc.is_nan(column)).as_py())
