"""The files that a rewrite makes: rows come in the wanted order, files of about the target size come out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64

from lakebed.core.actions import AddFile, Metadata
from lakebed.core.commit import partition_key
from lakebed.core.errors import StorageError
from lakebed.core.file_tags import KIND_COLUMN, file_tags
from lakebed.core.properties import value_of
from lakebed.core.schema import Field, Struct
from lakebed.core.schema_arrow import to_arrow
from lakebed.core.steps import Step, reach
from lakebed.delta.paths import encode
from lakebed.engine.bucket_paths import new_path
from lakebed.engine.tracked_scan import DELETING, KIND, tracking_fields
from lakebed.engine.vectors import loosened
from lakebed.engine.write import WriteOrder
from lakebed.storage.deletion_vector import from_arrow
from lakebed.storage.footer import indexed
from lakebed.storage.parquet_stream import ParquetStream
from lakebed.storage.parquet_writer import WrittenFile, reinterpreted, write_file

# Rows that wait take this part of the memory limit; the rest is for those that are being sorted and encoded.
_WAITING = 2
# Up to this many times the target size, one file is better than two.
_ONE_FILE = 2


@dataclass(frozen=True)
class Rewritten:
    """A file that a rewrite has made, not in the table yet."""

    add: AddFile
    dead: BitMap64 = field(default_factory=BitMap64, hash=False)
    """The positions of its tombstones: they must be dead in the file's vector, which is the caller's to write."""


@dataclass(frozen=True)
class Layout:
    """The columns of new files: the table's own, then hidden ones, which have no statistics."""

    names: list[str]
    physical: pa.Schema

    @staticmethod
    def of(metadata: Metadata, key: tuple[str, ...], *, tombstones: bool) -> Layout:
        """With ``tombstones``, rows have a kind and only the key must be there."""
        fields: list[Field] = list(metadata.schema)
        if tombstones:
            fields = [f if f.name in key else replace(f, nullable=True) for f in fields] + [KIND]
        if metadata.configuration.get("delta.enableRowTracking") == "true":
            fields += tracking_fields(metadata)
        return Layout([f.name for f in fields], to_arrow(Struct(tuple(fields)), physical=True))

    def stored(self, rows: pa.Table) -> pa.Table:
        """Tracked rows as the file has them."""
        batches = rows.select(self.names).to_batches()
        return pa.Table.from_batches([reinterpreted(batch, self.physical) for batch in batches], self.physical)


@dataclass
class _Target:
    """The rows of one bucket: those that wait, and the file that has begun to take them."""

    values: Mapping[str, str | None]
    bucket: int | None
    waiting: list[pa.Table] = field(default_factory=list)
    rows: int = 0
    size: int = 0
    stream: ParquetStream | None = None
    dead: BitMap64 = field(default_factory=BitMap64)

    def taken(self) -> pa.Table:
        """The rows that wait, which wait no longer."""
        rows = pa.concat_tables(self.waiting)
        self.waiting, self.rows, self.size = [], 0, 0
        return rows


class RewriteWriter:
    """Writes tracked rows as new files of a table; those that wait take half of ``writer_memory_limit``.

    Rows of a bucket that fit into memory become one file. Otherwise they are written row group by row group, and
    the next file begins when one has reached its target size. Use it as a context manager: leaving it by an
    exception removes every file it has written.
    """

    def __init__(self, order: WriteOrder, *, key: tuple[str, ...], tombstones: bool, row_size: float) -> None:
        """``row_size``: about how many bytes of a file a row takes.

        With ``tombstones`` rows have a kind, and the kinds of -U and -D make tombstones.
        """
        self._order = order
        self._plain = Layout.of(order.metadata, key, tombstones=False)
        self._full = Layout.of(order.metadata, key, tombstones=True) if tombstones else self._plain
        self._tombstones = tombstones
        wanted = int(value_of("statistics-columns", order.metadata.configuration))
        self._leaves = indexed(to_arrow(order.metadata.schema, physical=True), wanted)
        self._target_size = order.options.file_target_size
        self._row_size = max(row_size, 1.0)
        self._group_rows = min(order.options.max_row_group_rows, max(1, int(self._target_size / self._row_size)))
        self._targets: dict[tuple[str, int | None], _Target] = {}
        self._done: list[Rewritten] = []
        self._paths: list[str] = []

    def __enter__(self) -> RewriteWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if error is not None:
            try:
                self.abort()
            except StorageError as left:
                # The first failure is what the caller must see.
                error.add_note(f"and not all files could be removed: {left}")

    def write(self, values: Mapping[str, str | None], bucket: int | None, rows: pa.Table) -> None:
        """Take in rows of one partition and bucket, in the order in which the files have them."""
        if not rows.num_rows:
            return
        place = (partition_key(values), bucket)
        target = self._targets.setdefault(place, _Target(values, bucket))
        target.waiting.append(rows)
        target.rows += rows.num_rows
        target.size += rows.nbytes
        limit = self._order.options.writer_memory_limit // _WAITING
        while sum(one.size for one in self._targets.values()) > limit:
            self._pour(max(self._targets.values(), key=lambda one: one.size))

    def finish(self) -> None:
        """No more rows come for the buckets so far."""
        for target in self._targets.values():
            if target.stream is None and 0 < target.rows * self._row_size <= self._target_size * _ONE_FILE:
                self._write_whole(target)
            elif target.rows:
                self._pour(target)
            if target.stream is not None:
                self._close(target)
        self._targets.clear()

    def close(self) -> list[Rewritten]:
        """Finish all files and return them."""
        self.finish()
        return self._done

    def abort(self) -> None:
        """Remove everything that was written; the table's directory is as it was."""
        for target in self._targets.values():
            if target.stream is not None:
                target.stream.abort()
        self._targets.clear()
        self._order.store.delete_many(self._paths)
        for path in self._paths:
            self._order.store.remove_empty_parents(path)
        self._done.clear()

    def _write_whole(self, target: _Target) -> None:
        rows = target.taken()
        target.dead = _deleting(rows, 0) if self._tombstones else BitMap64()
        layout = self._full if target.dead else self._plain
        path = self._new_path(target)
        options = self._order.options
        stored = layout.stored(rows)
        written = write_file(self._order.store, path, stored, layout.physical, options, self._leaves)
        self._add(target, written)

    def _pour(self, target: _Target) -> None:
        """Write the rows that wait as row groups, into as many files as they need."""
        rows = target.taken()
        for start in range(0, rows.num_rows, self._group_rows):
            part = rows.slice(start, self._group_rows)
            if target.stream is None:
                path, layout = self._new_path(target), self._full.physical
                target.stream = ParquetStream(self._order.store, path, layout, self._order.options, self._leaves)
            if self._tombstones:
                target.dead |= _deleting(part, target.stream.num_rows)
            target.stream.write(self._full.stored(part))
            if target.stream.size >= self._target_size:
                self._close(target)
        del rows, part
        pa.default_memory_pool().release_unused()

    def _close(self, target: _Target) -> None:
        assert target.stream is not None
        written = target.stream.close()
        target.stream = None
        self._add(target, written)

    def _new_path(self, target: _Target) -> str:
        path = new_path(target.values, target.bucket, self._order.prefix)
        self._paths.append(path)
        return path

    def _add(self, target: _Target, written: WrittenFile) -> None:
        reach(Step.COMPACT_WRITTEN)
        stats = written.stats_json
        tags = None if target.bucket is None else file_tags(target.bucket, tombstones=len(target.dead))
        add = AddFile(
            path=encode(written.path),
            partition_values=dict(target.values),
            size=written.size,
            modification_time=written.mtime_ms,
            data_change=False,
            stats=loosened(stats, written.num_rows) if target.dead else stats,
            tags=tags,
        )
        self._done.append(Rewritten(add, target.dead))
        target.dead = BitMap64()


def _deleting(rows: pa.Table, start: int) -> BitMap64:
    """The positions of rows that delete their key, counted from ``start``."""
    deletes = pc.is_in(rows.column(KIND_COLUMN), DELETING)
    return from_arrow(pc.add(pc.indices_nonzero(deletes).cast(pa.int64()), start))
