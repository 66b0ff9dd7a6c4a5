"""Streaming queries for tests: a feed of files, and checkpoints that can be set back."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import lakebed


class Feed:
    """A stream of files; each is a micro-batch."""

    def __init__(self, spark: Any, folder: Path) -> None:
        self.spark, self.folder = spark, folder
        self.data = folder / "feed"
        self.data.mkdir()
        self.files = 0
        self.began = time.time() - 10_000

    def put(self, **columns: Any) -> None:
        """Another batch, visible at once and whole."""
        hidden = self.data / f".{self.files}.parquet"
        pq.write_table(pa.table(columns), hidden)
        # Spark takes files in the order of their times, which may be the same for files that are made at once.
        os.utime(hidden, (self.began + self.files,) * 2)
        hidden.rename(self.data / f"{self.files:05}.parquet")
        self.files += 1

    def frame(self, ddl: str) -> Any:
        return self.spark.readStream.schema(ddl).option("maxFilesPerTrigger", 1).parquet(str(self.data))

    def run(self, frame: Any, table: str, name: str = "query", mode: str = "append", **options: str) -> Any:
        """All that is there, batch by batch."""
        stream = frame.writeStream.format("lakebed").outputMode(mode).trigger(availableNow=True)
        stream = stream.option("checkpointLocation", str(self.checkpoint(name))).options(**options)
        query = stream.start(table)
        query.awaitTermination()
        return query

    def checkpoint(self, name: str = "query") -> Path:
        return self.folder / "checkpoints" / name

    def forget_last_commit(self, name: str = "query") -> None:
        """As if the process had died after the sink's commit, before the checkpoint knew of it."""
        done = sorted((self.checkpoint(name) / "commits").glob("[0-9]*"), key=lambda path: int(path.name))
        for path in (done[-1], done[-1].with_name(f".{done[-1].name}.crc")):
            path.unlink(missing_ok=True)


def rows(table: lakebed.Table, *columns: str) -> list[tuple[Any, ...]]:
    return sorted((tuple(row.values()) for row in table.to_arrow(list(columns) or None).to_pylist()), key=repr)


def files_on_disk(table: lakebed.Table) -> set[str]:
    root = Path(table.location.removeprefix("file://"))
    return {str(path.relative_to(root)) for path in root.rglob("*.parquet") if "_delta_log" not in path.parts}


def end_promises(table: lakebed.Table) -> None:
    """An hour passes for those who read lazily."""
    from sqlalchemy import delete

    from lakebed.metastore import schema

    table._handle.metastore._database.write(lambda connection: connection.execute(delete(schema.leases)))
