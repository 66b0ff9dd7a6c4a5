"""pyiceberg: Apache Iceberg in Python, with a catalog in SQLite. Runs in the environment of the peers."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog

from bench.peers.contenders import KEY, LEVEL

NAME = "default.rows"


class Iceberg:
    """A table without partitions; pyiceberg has no buckets to upsert into."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._catalog = SqlCatalog("bench", uri=f"sqlite:///{folder}/catalog.db", warehouse=folder.as_uri())

    def prepare(self, rows: pa.Table) -> pa.Table:
        """Arrow, as it is."""
        return rows

    def load(self, rows: pa.Table) -> None:
        """Sorted by the key, so that statistics could help an upsert."""
        properties = {"write.parquet.compression-codec": "zstd", "write.parquet.compression-level": str(LEVEL)}
        self._catalog.create_namespace("default")
        self._catalog.create_table(NAME, schema=rows.schema, properties=properties).append(rows.sort_by(KEY))
        self.open()

    def open(self) -> None:
        """The metadata is read."""
        self._table = self._catalog.load_table(NAME)

    def upsert(self, rows: pa.Table) -> None:
        """The upsert of the package."""
        self._table.upsert(rows, join_cols=[KEY])

    def read(self) -> pa.Table:
        """All rows of the snapshot that is open."""
        return self._table.scan().to_arrow()
