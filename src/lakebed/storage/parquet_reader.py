"""Reads Parquet data files: the footer alone, batch by batch, or whole."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import closing
from types import TracebackType

import pyarrow as pa
import pyarrow.parquet as pq

from lakebed.storage.failure import translated
from lakebed.storage.footer import RowGroup, row_groups
from lakebed.storage.store import Store


class ParquetFileReader:
    """One open Parquet file; its footer has been read.

    Raises ``FileMissingError`` or ``CorruptFileError`` with the file's name, here and when reading.
    """

    def __init__(self, store: Store, path: str, *, buffer_size: int = 0) -> None:
        """``buffer_size``: bytes of a column to fetch at a time; 0 fetches the columns of a row group at once,
        which is faster, above all on object stores, but holds them all in memory."""
        self._name = store.uri(path)
        self._source = store.open_input(path)
        try:
            with translated("read", self._name, parsing=True):
                # Spark's old INT96 timestamps would be nanoseconds, which end in the year 2262.
                self._file = pq.ParquetFile(
                    self._source,
                    buffer_size=buffer_size,
                    pre_buffer=buffer_size == 0,
                    coerce_int96_timestamp_unit="us",
                )
        except BaseException:
            self._source.close()
            raise

    def __enter__(self) -> ParquetFileReader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file; reading is over."""
        self._file.close(force=True)
        self._source.close()

    @property
    def schema(self) -> pa.Schema:
        """The file's own schema: physical names, field ids as metadata."""
        return self._file.schema_arrow

    @property
    def num_rows(self) -> int:
        """The rows of the file, dead ones included."""
        return int(self._file.metadata.num_rows)

    @property
    def num_row_groups(self) -> int:
        """How many parts the file has that can be read alone."""
        return int(self._file.num_row_groups)

    def row_groups(self, columns: Collection[str] | None = None) -> list[RowGroup]:
        """The row groups with their position and bounds, to decide which to read.

        ``columns`` are the physical names of those whose bounds and sizes matter; by default all.
        """
        with translated("read", self._name, parsing=True):
            return list(row_groups(self._file.metadata, self.schema, columns))

    def batches(
        self, columns: Sequence[str] | None, batch_size: int, row_groups: Sequence[int] | None = None
    ) -> Iterator[pa.RecordBatch]:
        """The rows in file order; memory holds one row group's compressed columns and one batch.

        ``columns`` are physical names of whole columns, in the wanted order; those that the file does
        not have are left out. An empty list gives batches that only have a row count.
        """
        wanted = self._existing(columns)
        groups = range(self._file.num_row_groups) if row_groups is None else row_groups
        for group in groups:
            batches = self._file.iter_batches(batch_size, row_groups=[group], columns=wanted)
            while True:
                with translated("read", self._name, parsing=True):
                    batch = next(batches, None)
                if batch is None:
                    break
                yield batch if wanted is None else batch.select(wanted)

    def table(self, columns: Sequence[str] | None, row_groups: Sequence[int] | None = None) -> pa.Table:
        """The rows as one table; ``columns`` as for ``batches``."""
        wanted = self._existing(columns)
        with translated("read", self._name, parsing=True):
            if row_groups is None:
                rows = self._file.read(columns=wanted)
            else:
                rows = self._file.read_row_groups(list(row_groups), columns=wanted)
        return rows if wanted is None else rows.select(wanted)

    def _existing(self, columns: Sequence[str] | None) -> list[str] | None:
        if columns is None:
            return None
        there = set(self.schema.names)
        return [name for name in columns if name in there]


def read_batches(
    store: Store,
    path: str,
    columns: Sequence[str] | None,
    batch_size: int,
    row_groups: Sequence[int] | None = None,
    *,
    buffer_size: int = 0,
) -> Iterator[pa.RecordBatch]:
    """The rows of a file as batches; see ``ParquetFileReader`` and its ``batches``."""
    with closing(ParquetFileReader(store, path, buffer_size=buffer_size)) as file:
        yield from file.batches(columns, batch_size, row_groups)


def read_table(
    store: Store, path: str, columns: Sequence[str] | None = None, row_groups: Sequence[int] | None = None
) -> pa.Table:
    """The rows of a file as one table; see ``ParquetFileReader.table``."""
    with closing(ParquetFileReader(store, path)) as file:
        return file.table(columns, row_groups)


def file_schema(store: Store, path: str) -> pa.Schema:
    """The file's own schema, from its footer."""
    with closing(ParquetFileReader(store, path)) as file:
        return file.schema


def file_row_groups(store: Store, path: str) -> list[RowGroup]:
    """The row groups of a file with their bounds, from its footer."""
    with closing(ParquetFileReader(store, path)) as file:
        return file.row_groups()
