"""deltalake (delta-rs): the documented upsert is a merge that updates what matches and inserts the rest."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder, WriterProperties, write_deltalake

from bench.peers.contenders import KEY, LEVEL

_PROPERTIES = WriterProperties(compression="ZSTD", compression_level=LEVEL)


class Delta:
    """A Delta table without partitions; delta-rs knows no buckets."""

    def __init__(self, folder: Path) -> None:
        self._path = str(folder)

    def prepare(self, rows: pa.Table) -> pa.Table:
        """Arrow, as it is."""
        return rows

    def load(self, rows: pa.Table) -> None:
        """Sorted by the key, so that statistics could help a merge."""
        write_deltalake(self._path, rows.sort_by(KEY), writer_properties=_PROPERTIES)
        self.open()

    def open(self) -> None:
        """The log is read."""
        self._table = DeltaTable(self._path)

    def upsert(self, rows: pa.Table) -> None:
        """One merge."""
        merge = self._table.merge(
            rows, f"t.{KEY} = s.{KEY}", source_alias="s", target_alias="t", writer_properties=_PROPERTIES
        )
        merge.when_matched_update_all().when_not_matched_insert_all().execute()

    def read(self) -> pa.Table:
        """All rows of the version that is open, as to_arrow of Lakebed returns them."""
        return self._table.to_pyarrow_table()


class DeltaQuery(Delta):
    """Reads through delta-rs's query engine, into Arrow's string views."""

    def read(self) -> Any:
        """The rows of a query without conditions."""
        return QueryBuilder().register("rows", self._table).execute("SELECT * FROM rows").read_all()
