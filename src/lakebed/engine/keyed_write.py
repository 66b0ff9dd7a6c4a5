"""Writing upsert files: rows are conformed, assigned to buckets, sorted by key and written in bounded memory."""

from __future__ import annotations

import os
import uuid
from collections import deque
from concurrent.futures import Future
from contextlib import ExitStack, closing
from dataclasses import replace
from threading import BoundedSemaphore

import pyarrow as pa

from lakebed.core.actions import AddFile
from lakebed.core.commit import partition_key
from lakebed.core.errors import StorageError
from lakebed.core.file_tags import BATCH, KIND_COLUMN, file_tags
from lakebed.core.keyed import Merge
from lakebed.core.schema import BYTE, Field, Struct
from lakebed.core.schema_arrow import to_arrow
from lakebed.core.steps import Step, reach
from lakebed.delta.paths import encode
from lakebed.engine.bucket_paths import new_path
from lakebed.engine.bucket_rows import BucketRows
from lakebed.engine.crew import Crew
from lakebed.engine.keyed_rows import IncomingRows, KeyedPart, nullable
from lakebed.engine.large_batch import LargeBatch
from lakebed.engine.refused_rows import RefusedKeys
from lakebed.engine.resolving import dense
from lakebed.engine.resolving.key_columns import keep_written
from lakebed.engine.resolving.order import ResolveOrder
from lakebed.engine.row_block import RowBlock
from lakebed.engine.upsert_layout import FilePlan, UpsertLayout
from lakebed.engine.upsert_order import Upserted, UpsertOrder
from lakebed.storage.footer import indexed
from lakebed.storage.parquet_writer import write_file

__all__ = ["KeyedWriter", "UpsertOrder", "Upserted", "write_upserts"]

# Beside the rows that are collected, their sorted copy and the encoder's pages need memory.
_SHARE = 3
# If the whole batch is sorted, runs of it are merged at the same time.
_SHARE_IF_SORTED = 5
# Arrow counts the bytes of a text column with 32 bits.
_LARGEST_BLOCK = 1 << 30
# What is left over from smaller parts of the limit is kept for the next block: to fetch it from the system again would
# take a good part of a small upsert's time.
_RELEASED_SHARE = 8
# Files that are sorted, encoded and flushed at a time.
_AT_ONCE = 4
# The keys of a batch are kept for the commit to settle them, if they are so small a part of the limit.
_KEPT_SHARE = 32
_KEY_BYTES = 8


class KeyedWriter:
    """Writes rows as upsert files of one table; memory stays below ``writer_memory_limit`` whatever comes in.

    Rows are collected, and at a share of the limit sorted and written, one file per partition and bucket; so a
    large upsert gives several files of a bucket, in fold order. Where ``sort_by`` orders the batch as a whole, its
    parts wait in local files instead, and are written at the end, key range by key range. Use it as a context
    manager: leaving it by an exception removes every file it has written.
    """

    def __init__(self, order: UpsertOrder) -> None:
        self._order = order
        self._options = order.options.for_upserts()
        schema = order.metadata.schema
        self._loose = to_arrow(nullable(schema), physical=True)
        self._file = to_arrow(schema, physical=True)
        kind = Field(KIND_COLUMN, BYTE)
        self._file_with_kinds = to_arrow(Struct((*nullable(schema, but=order.key.key), kind)), physical=True)
        self._indexed = indexed(self._file, order.indexed_columns)
        self._buckets = BucketRows(order)
        self._turns = BoundedSemaphore(max(2, os.cpu_count() or 1))
        share = _SHARE_IF_SORTED if order.sort_by else _SHARE
        self._block_bytes = max(1, min(order.options.writer_memory_limit // share, _LARGEST_BLOCK))
        self._incoming: tuple[pa.Schema, IncomingRows] | None = None
        self._parts: list[KeyedPart] = []
        self._bytes = 0
        self._large = LargeBatch(order)
        self._matched_next = _matched_next(order)
        self._refused = RefusedKeys(order.key.key)
        self._done: list[AddFile] = []
        self._paths: list[str] = []
        self._seen = 0
        self._partitions: set[str] = set()
        self._closed = False
        self.rows = 0
        self.deletes = 0

    def __enter__(self) -> KeyedWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if kind is not None:
            self.abort()

    def expect(self, schema: pa.Schema) -> None:
        """Check that rows of this schema fit, as far as types tell. Raises DataError that lists every problem."""
        if self._incoming is None or not self._incoming[0].equals(schema):
            self._incoming = schema, IncomingRows(self._order, schema, self._block_bytes)

    def write(self, batch: pa.RecordBatch) -> None:
        """Take in rows. Raises DataError that lists every problem of a part of them; ``close`` tells null keys."""
        if self._closed:
            raise StorageError(f"table {self._order.table_name}: the writer is closed")
        self.expect(batch.schema)
        assert self._incoming is not None
        for part in self._incoming[1].parts(batch, self._seen, self._refused):
            # All rows without a key are counted; they are refused at the end in any case.
            if not self._refused:
                self._collect(part)
        self._seen += batch.num_rows

    def check(self) -> None:
        """Raise DataError if any row so far had no key."""
        if self._refused:
            raise self._refused.error(self._order.table_name)

    def close(self) -> Upserted:
        """Write what is left, and tell what was written. Raises DataError if any row had no key."""
        self.check()
        if self._large:
            self._take_back()
        self._flush()
        self._closed = True
        if self._order.key.combines and len(self._done) > 1:
            # Rows of one key may be in several files, and are merged as one batch all the same.
            batch = uuid.uuid4().hex
            self._done = [replace(add, tags={**(add.tags or {}), BATCH: batch}) for add in self._done]
        return Upserted(self._done, self.rows, self.deletes, self._buckets.new_splits, frozenset(self._partitions))

    def abort(self) -> None:
        """Remove everything that was written; the table's directory is as it was."""
        self._closed = True
        self._parts.clear()
        self._large.remove()
        self._order.store.delete_many(self._paths)
        for path in self._paths:
            self._order.store.remove_empty_parents(path)
        self._done.clear()

    def _collect(self, part: KeyedPart) -> None:
        size = part.nbytes
        if self._parts and self._bytes + size > self._block_bytes:
            if self._order.sort_by:
                self._put_aside()
            else:
                self._flush()
        self._parts.append(part)
        self._bytes += size
        self.rows += part.rows.num_rows
        self.deletes += 0 if part.kinds is None else len(part.kinds) - part.kinds.null_count

    def _put_aside(self) -> None:
        self._large.put(self._block())
        pa.default_memory_pool().release_unused()

    def _take_back(self) -> None:
        """Write the whole batch; a key's rows are sorted together, since they are never in two blocks."""
        self._put_aside()
        with closing(self._large.parts()) as keys:
            for parts in keys:
                size = sum(part.nbytes for part in parts)
                if self._parts and self._bytes + size > self._block_bytes:
                    self._flush()
                self._parts += parts
                self._bytes += size
        self._large.remove()

    def _block(self) -> RowBlock:
        self._bytes = 0
        return RowBlock(self._parts, self._loose)

    def _flush(self) -> None:
        if not self._parts:
            return
        is_large = self._bytes * _RELEASED_SHARE >= self._order.options.writer_memory_limit
        block = self._block()
        layout = UpsertLayout(block, self._order, self._buckets)
        self._partitions.update(map(partition_key, layout.partitions))
        with Crew() as crew:
            # While keys are hashed and divided. If it fails, the first file to be written meets the same error.
            crew.submit(block.begin, self._file)
            plans = list(layout.files())
            paths = [new_path(plan.partition_values, plan.number, self._order.prefix) for plan in plans]
            block.expect(len(plans))
            writing: deque[Future[AddFile]] = deque()
            for path, plan in zip(paths, plans, strict=True):
                reach(Step.WRITE_OPENED)
                self._paths.append(path)
                writing.append(crew.submit(self._write_file, block, path, plan))
                if len(writing) == _AT_ONCE:
                    self._done.append(writing.popleft().result())
            self._done.extend(one.result() for one in writing)
        for plan, add in zip(plans, self._done[-len(plans) :], strict=True):
            self._buckets.wrote(plan.place, plan.number, add.num_records or 0)
        if is_large:
            pa.default_memory_pool().release_unused()

    @property
    def _keys_are_small(self) -> bool:
        return self.rows * _KEY_BYTES <= self._order.options.writer_memory_limit // _KEPT_SHARE

    def _write_file(self, block: RowBlock, path: str, plan: FilePlan) -> AddFile:
        """Put the rows of one file in order and write it; files are written by several threads."""
        with ExitStack() as turn:
            # Not all at a time: then all would wait for the disk at the same time, and nobody would compute.
            turn.enter_context(self._turns)
            rows = plan.rows()
            kinds = block.kinds(rows)
            schema = self._file if kinds is None else self._file_with_kinds
            taken = block.taken(rows, kinds, schema)
            if self._matched_next is not None and self._keys_are_small and not isinstance(taken, pa.Table):
                keep_written(self._matched_next, encode(path), taken)
            tombstones = 0 if kinds is None else len(kinds) - kinds.null_count
            written = write_file(self._order.store, path, taken, schema, self._options, self._indexed, turn.close)
        reach(Step.WRITE_CLOSED)
        return AddFile(
            path=encode(path),
            partition_values=plan.partition_values,
            size=written.size,
            modification_time=written.mtime_ms,
            data_change=True,
            stats=written.stats_json,
            tags=file_tags(plan.number, unsettled=self._order.unsettled, tombstones=tombstones),
        )


def _matched_next(order: UpsertOrder) -> ResolveOrder | None:
    """How the commit matches the keys of the files, if it does so by whole columns of them."""
    key = order.key
    if key.merge is Merge.ON_READ or not dense.suits(key):
        return None
    return ResolveOrder(order.store, order.table_name, order.metadata, key, order.options)


def write_upserts(reader: pa.RecordBatchReader, order: UpsertOrder) -> Upserted:
    """Write all rows as upsert files; on any error nothing remains.

    What the types alone tell is checked before the first row is taken.
    """
    with KeyedWriter(order) as writer:
        writer.expect(reader.schema)
        for batch in reader:
            if batch.num_rows:
                writer.write(batch)
        return writer.close()
