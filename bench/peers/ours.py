"""Lakebed: a primary-key table in a warehouse of its own."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pyarrow as pa

import lakebed
from bench.peers.contenders import BUCKETS, KEY

NAME = "rows"


class OnRead:
    """Upserts write files only; the first reader, or settle, finds out which older rows they replace."""

    merge = "on-read"

    def __init__(self, folder: Path) -> None:
        self._lake = lakebed.connect(folder)

    def prepare(self, rows: pa.Table) -> pa.Table:
        """Arrow, as it is."""
        return rows

    def load(self, rows: pa.Table) -> None:
        """A settled table: the upserts that follow are the only ones that are not."""
        self._lake.create_table(NAME, rows.schema, primary_key=[KEY], buckets=BUCKETS, merge=self.merge)
        self.open()
        self._table.upsert(rows)
        self.settle()

    def open(self) -> None:
        """Connected, and the schema is known."""
        self._table = self._lake.table(NAME)

    def upsert(self, rows: pa.Table) -> None:
        """One commit, flushed to the disk and published."""
        self._table.upsert(rows)

    def read(self) -> pa.Table | pl.DataFrame:
        """All rows of the latest version."""
        return self._table.to_arrow()

    def settle(self) -> None:
        """Deletion vectors for what is unsettled."""
        self._table.settle()

    def compact(self) -> None:
        """Dead rows leave the files."""
        self._table.compact(full=True)


class OnWrite(OnRead):
    """Each upsert settles its own files."""

    merge = "on-write"


class OnReadFrame(OnRead):
    """The same table, read into polars."""

    def read(self) -> pl.DataFrame:
        """All rows of the latest version."""
        return self._table.to_polars()


class OnWriteFrame(OnReadFrame):
    """Each upsert settles its own files."""

    merge = "on-write"


class EveryRow(OnRead):
    """The files of the same table, as polars reads them: with the rows that have died."""

    def read(self) -> pl.DataFrame:
        """All rows of all files."""
        root = self._table.location.removeprefix("file://")
        paths = [f"{root}/{path}" for path in self._table.files()["path"].to_pylist()]
        return pl.scan_parquet(paths, glob=False, hive_partitioning=False).collect()
