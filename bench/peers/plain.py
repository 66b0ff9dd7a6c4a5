"""The yardstick: the same rows as plain Parquet files, sorted by the key, without any table around them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from bench.peers.contenders import BUCKETS, KEY, LEVEL

LIVE = "live.parquet"
"""The file of the rows that are live after all upserts; the benchmark puts it there."""
LIVE_LZ4 = "live-lz4.parquet"
"""The same rows, compressed as Lakebed's upserts are."""


class Polars:
    """Sorts and writes with polars; an upsert is a new file that replaces nothing."""

    flush = False

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._written = 0

    def prepare(self, rows: pa.Table) -> pl.DataFrame:
        """A polars frame."""
        frame = pl.from_arrow(rows)
        assert isinstance(frame, pl.DataFrame)
        return frame

    def load(self, rows: pl.DataFrame) -> None:
        """The rows, sorted, in the file of the live ones."""
        self._folder.mkdir(parents=True, exist_ok=True)
        write(rows, self._folder / LIVE, flush=self.flush)

    def open(self) -> None:
        """Nothing is needed."""

    def upsert(self, rows: pl.DataFrame) -> None:
        """The rows, sorted, in a file of their own."""
        write(rows, self._folder / f"upsert-{self._written}.parquet", flush=self.flush)
        self._written += 1

    def read(self) -> pl.DataFrame:
        """The live rows."""
        return pl.read_parquet(self._folder / LIVE)


class PolarsLz4(Polars):
    """The same with the codec of Lakebed's upserts: how much of a difference is due to that."""

    def load(self, rows: pl.DataFrame) -> None:
        """The rows, sorted, in the file of the live ones."""
        self._folder.mkdir(parents=True, exist_ok=True)
        write(rows, self._folder / LIVE_LZ4, codec="lz4")

    def upsert(self, rows: pl.DataFrame) -> None:
        """The rows, sorted, in a file of their own."""
        write(rows, self._folder / f"upsert-lz4-{self._written}.parquet", codec="lz4")
        self._written += 1

    def read(self) -> pl.DataFrame:
        """The live rows."""
        return pl.read_parquet(self._folder / LIVE_LZ4)


class PolarsFlushed(Polars):
    """The same, and the files are on the disk when it returns, as those of Lakebed are."""

    flush = True


class PolarsBuckets(PolarsFlushed):
    """The least that a table with buckets writes: the rows divided by their key, in flushed files, and no table."""

    def upsert(self, rows: pl.DataFrame) -> None:
        """A sorted file for each remainder of the key; a hash would take longer."""
        for bucket in range(BUCKETS):
            some = rows.filter(pl.col(KEY) % BUCKETS == bucket)
            write(some, self._folder / f"upsert-{self._written}-{bucket}.parquet", flush=self.flush)
        self._written += 1


class Pyarrow(Polars):
    """Reads the same file with pyarrow."""

    def read(self) -> pa.Table:
        """The live rows."""
        return pq.read_table(self._folder / LIVE)


def write(rows: pl.DataFrame, path: Path, *, flush: bool = False, codec: Literal["zstd", "lz4"] = "zstd") -> None:
    """Sort the rows by the key and write them as one file."""
    rows.sort(KEY).write_parquet(path, compression=codec, compression_level=LEVEL if codec == "zstd" else None)
    if flush:
        for place in (path, path.parent):
            descriptor = os.open(place, os.O_RDONLY)
            os.fsync(descriptor)
            os.close(descriptor)
