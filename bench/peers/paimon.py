"""pypaimon: Apache Paimon in Python, on a catalog of plain directories. Runs in the environment of the peers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
from pypaimon import CatalogFactory, Schema

from bench.peers.contenders import BUCKETS, KEY, LEVEL

NAME = "default.rows"
_NATIVE = {"write.native.enabled": "true", "commit.native.enabled": "true", "read.native.enabled": "true"}
_PYTHON = dict.fromkeys(_NATIVE, "false")


class Paimon:
    """The package as it is installed: written in Python, merging on read."""

    how = _PYTHON

    def __init__(self, folder: Path) -> None:
        self._catalog = CatalogFactory.create({"warehouse": folder.as_uri()})

    def prepare(self, rows: pa.Table) -> pa.Table:
        """Arrow, with a key that is declared to have no nulls, as Paimon wants it."""
        return rows.cast(_schema(rows.schema))

    def load(self, rows: pa.Table) -> None:
        """Written by the Rust writer also where Python is measured afterwards: the same files, and it is quick."""
        options = {
            "bucket": str(BUCKETS),
            "file.format": "parquet",
            "file.compression": "zstd",
            "file.compression.zstd-level": str(LEVEL),
        }
        self._catalog.create_database("default", True)
        schema = Schema.from_pyarrow_schema(_schema(rows.schema), primary_keys=[KEY], options=options)
        self._catalog.create_table(NAME, schema, False)
        _write(self._catalog.get_table(NAME).copy(_NATIVE), rows)
        self.open()

    def open(self) -> None:
        """The schema is read."""
        self._table = self._catalog.get_table(NAME).copy(self.how)

    def upsert(self, rows: pa.Table) -> None:
        """One batch write and one commit; in a primary-key table that is an upsert."""
        _write(self._table, rows)

    def read(self) -> pa.Table:
        """Plan the latest snapshot and read its splits."""
        builder = self._table.new_read_builder()
        return builder.new_read().to_arrow(builder.new_scan().plan().splits())


class PaimonRust(Paimon):
    """The same with pypaimon-rust, which must be installed and switched on: Rust writes and reads."""

    how = _NATIVE


def _write(table: Any, rows: pa.Table) -> None:
    builder = table.new_batch_write_builder()
    writer, commit = builder.new_write(), builder.new_commit()
    try:
        writer.write_arrow(rows)
        commit.commit(writer.prepare_commit())
    finally:
        writer.close()
        commit.close()


def _schema(schema: pa.Schema) -> pa.Schema:
    return pa.schema([field.with_nullable(field.name != KEY) for field in schema])
