"""A block of rows in memory that are put in order and written: what an upsert sorts at a time."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from lakebed.core.file_tags import KIND_COLUMN
from lakebed.storage import parquet_encoder

if TYPE_CHECKING:
    import polars as pl

    from lakebed.engine.keyed_rows import KeyedPart

# The prefix of Lakebed's own columns keeps these apart from the table's.
_HELPER = "_lakebed_sort_"


class RowBlock:
    """Rows of several parts as one, used by several threads; ``parts`` is emptied, so that memory is not held twice."""

    def __init__(self, parts: list[KeyedPart], schema: pa.Schema) -> None:
        self.num_rows = sum(part.rows.num_rows for part in parts)
        self._kinds = _kinds(parts)
        self._helpers = [pa.concat_arrays(column) for column in zip(*(part.helpers for part in parts), strict=True)]
        table = pa.Table.from_batches([part.rows for part in parts], schema)
        parts.clear()
        self._table: pa.Table | None = table
        self._frame: pl.DataFrame | None = None
        self._lock = threading.Lock()
        self._wanted = 0
        self._columns: dict[str, pa.Array] = {}

    def column(self, name: str) -> pa.Array:
        """One column, by physical name, in one piece; only before ``begin`` and the first ``taken``."""
        if name not in self._columns:
            assert self._table is not None
            column = self._table.column(name)
            self._columns[name] = column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks)
        return self._columns[name]

    def helper(self, at: int) -> pa.Array:
        """One of the columns that only sort."""
        return self._helpers[at]

    def kinds(self, rows: pa.Array | None) -> pa.Array | None:
        """The kinds of some rows; None if none of them deletes."""
        if self._kinds is None:
            return None
        kinds = self._kinds if rows is None else self._kinds.take(rows)
        return kinds if kinds.null_count < len(kinds) else None

    def expect(self, times: int) -> None:
        """After so many calls of ``taken`` the block lets go of its rows."""
        self._wanted = times

    def begin(self, schema: pa.Schema) -> None:
        """Get ready for ``taken`` of files with this schema; no ``column`` may be asked for from now on."""
        if parquet_encoder.keeps(schema):
            self._polars()

    def taken(self, rows: pa.Array | None, kinds: pa.Array | None, schema: pa.Schema) -> pa.Table | pl.DataFrame:
        """Some rows in that order, all if None, as what the encoder takes fastest.

        ``schema`` is that of the file: it may say that less columns have nulls, and ends with the ``kinds``, if any.
        """
        found = self._taken(rows, kinds, schema)
        with self._lock:
            self._wanted -= 1
            if not self._wanted:
                self._frame, self._table = None, None
                self._columns.clear()
        return found

    def _taken(self, rows: pa.Array | None, kinds: pa.Array | None, schema: pa.Schema) -> pa.Table | pl.DataFrame:
        if parquet_encoder.keeps(schema):
            frame = self._polars()
            if rows is not None:
                frame = frame[_series(rows)]
            return frame if kinds is None else frame.with_columns(_series(kinds).alias(KIND_COLUMN))
        assert self._table is not None
        table = self._table if rows is None else self._table.take(rows)
        columns = table.columns if kinds is None else [*table.columns, kinds]
        return pa.Table.from_arrays(columns, schema=schema)

    def whole(self, rows: pa.Array | None) -> pa.Table:
        """Some rows in that order, all if None, with all that is known of them: ``KeyedPart.of`` reads it."""
        assert self._table is not None
        kinds = pa.nulls(self.num_rows, pa.int8()) if self._kinds is None else self._kinds
        table = self._table.append_column(KIND_COLUMN, kinds)
        for at, helper in enumerate(self._helpers):
            table = table.append_column(f"{_HELPER}{at}", helper)
        return table if rows is None else table.take(rows)

    def _polars(self) -> pl.DataFrame:
        import polars as pl

        with self._lock:
            if self._frame is None:
                frame = pl.from_arrow(self._table, rechunk=True)
                assert isinstance(frame, pl.DataFrame)
                self._frame, self._table = frame, None
                self._columns.clear()
            return self._frame


def _kinds(parts: Sequence[KeyedPart]) -> pa.Array | None:
    if all(part.kinds is None for part in parts):
        return None
    every = [pa.nulls(part.rows.num_rows, pa.int8()) if part.kinds is None else part.kinds for part in parts]
    return pa.concat_arrays(every)


def _series(array: pa.Array) -> pl.Series:
    import polars as pl

    return pl.Series(array)
