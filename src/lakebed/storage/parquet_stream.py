"""Writes one Parquet data file row group by row group, when its rows do not fit into memory together."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.types as pat

from lakebed.core.options import Options
from lakebed.core.statistics import build_stats
from lakebed.storage import parquet_encoder
from lakebed.storage.failure import translated
from lakebed.storage.footer import Leaf, Path, file_bounds
from lakebed.storage.parquet_writer import WrittenFile, has_nan
from lakebed.storage.store import Store


class ParquetStream:
    """A data file that grows by row groups and appears, whole, when it is closed.

    On object stores the row groups are sent as they come. Whoever fails must ``abort``.
    """

    def __init__(self, store: Store, path: str, schema: pa.Schema, options: Options, leaves: Sequence[Leaf]) -> None:
        """``schema`` is that of the file, with physical names; ``leaves`` are those that get statistics."""
        self.path = path
        self.num_rows = 0
        self._store = store
        self._schema = parquet_encoder.file_schema(schema)
        self._leaves = leaves
        self._unordered: set[Path] = set()
        self._nulls: Counter[Path] = Counter()
        self._options = options
        self._writer: pq.ParquetWriter | None = None
        self._footer: list[pq.FileMetaData] = []
        self._name = store.uri(path)
        self._target = ExitStack()
        with translated("write", self._name):
            self._sink = self._opened()

    @property
    def size(self) -> int:
        """The bytes of the row groups so far."""
        return int(self._sink.tell())

    def write(self, rows: pa.Table) -> None:
        """Add one row group with these rows, which have the file's columns."""
        for leaf in self._leaves:
            if leaf.path not in self._unordered and has_nan(rows, leaf):
                self._unordered.add(leaf.path)
            if pat.is_nested(leaf.type) and len(leaf.path) == 1:
                self._nulls[leaf.path] += rows.column(leaf.path[0]).null_count
        with translated("write", self._name):
            stored = rows.replace_schema_metadata(None).cast(self._schema)
            if self._writer is None:
                ascending = parquet_encoder.ascending(stored, self._schema)
                self._writer = self._begun(parquet_encoder.repetitive(stored), ascending)
            self._writer.write_table(stored, row_group_size=max(1, rows.num_rows))
        self.num_rows += rows.num_rows

    def close(self) -> WrittenFile:
        """Finish the file, durably if the option ``sync`` says so, and describe it."""
        with translated("write", self._name):
            (self._writer or self._begun(True)).close()
            size = self.size
            self._sink.close()
            self._target.close()
        bounds = file_bounds(self._footer[0], self._leaves, without=self._unordered)
        bounds.null_counts.update(self._nulls)
        stats = build_stats(self.num_rows, bounds.mins, bounds.maxs, bounds.null_counts, tight=True)
        return WrittenFile(self.path, size, self.num_rows, stats, time.time_ns() // 1_000_000)

    def abort(self) -> None:
        """Take the file away, whatever state it is in; directories made for it go when they are empty."""
        # What cannot be written to a file that goes anyway is of no interest.
        with suppress(OSError, pa.ArrowException):
            if self._writer is not None:
                self._writer.close()
        with suppress(OSError, pa.ArrowException):
            self._sink.close()
        # The block of a staged file has failed: that is what keeps it from appearing.
        self._target.__exit__(_AbortedError, _AbortedError(), None)
        self._store.delete(self.path)
        self._store.remove_empty_parents(self.path)

    def _begun(self, dictionary: bool | list[str], ascending: Sequence[str] = ()) -> pq.ParquetWriter:
        return parquet_encoder.open_writer(
            self._sink, self._schema, self._options, dictionary=dictionary, ascending=ascending, footer=self._footer
        )

    def _opened(self) -> Any:
        if not self._store.location.is_local:
            return self._store.open_output(self.path)
        return pa.OSFile(self._target.enter_context(self._store.staged(self.path)), "wb")


class _AbortedError(Exception):
    """Tells a staged file that it is not wanted."""
