"""The yardstick: Spark and Parquet without any table.

What is written is written as it comes, so a write does less than any table's: nobody finds the older rows of a key.
What is read are the rows that are live, in files that Spark has written: what a table's read comes near at best.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

from bench.spark_peers.engines.engine import BUCKETS, Engine, NotOfferedError, Shape, Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Plain(Engine):
    """No settings, no JARs."""

    def table(self, name: str, shape: Shape) -> Table:
        """A folder of folders."""
        return PlainTable(self.spark, self.root / name, shape)


class PlainTable(Table):
    """Each write has a folder of its own; the first one is read until others are expected."""

    def __init__(self, spark: SparkSession, folder: Path, shape: Shape) -> None:
        self.spark = spark
        self.folder = folder
        self.shape = shape
        self._live = folder / "write-0"
        self._writes = 0
        self._numbers = Lock()
        self._rewrites = 0

    def load(self, rows: DataFrame) -> None:
        """One write."""
        self._write(rows)

    def upsert(self, rows: DataFrame) -> None:
        """The new rows only."""
        self._write(rows)

    def append(self, rows: DataFrame) -> None:
        """The new rows only."""
        self._write(rows)

    def read(self) -> DataFrame:
        """The rows that are live."""
        return self.spark.read.parquet(str(self._live))

    def delete(self, where: str) -> None:
        """A rewrite without them."""
        self._rewrite(self.read().where(f"NOT ({where})"))

    def update(self, to: Mapping[str, str], where: str) -> None:
        """A rewrite with the new values."""
        from pyspark.sql import functions as f

        rows = self.read()
        self._rewrite(
            rows.select(
                *(
                    f.expr(f"CASE WHEN {where} THEN {to[name]} ELSE {name} END").alias(name) if name in to else name
                    for name in rows.columns
                )
            )
        )

    def compact(self) -> None:
        """A rewrite of what is live."""
        self._rewrite(self.read())

    def version(self) -> int:
        """How often it was written."""
        return self._writes

    def changes(self, since: int) -> DataFrame:
        """The folders that came since: the rows that a table would have to find."""
        if self._writes == since:
            raise NotOfferedError("nothing was written")
        return self.spark.read.parquet(*(str(self._folder(number)) for number in range(since, self._writes)))

    def expect(self, live: Path) -> None:
        """Spark writes them once more, sorted by the key as the tables have them; partitions stay as they are."""
        if self.shape.partition is not None:
            return
        self._live = self.folder / "live"
        rows = self.spark.read.parquet(str(live)).repartition(BUCKETS, *self.shape.key)
        rows.sortWithinPartitions(*self.shape.key).write.mode("overwrite").parquet(str(self._live))

    def _write(self, rows: DataFrame) -> None:
        writer = rows.write if self.shape.partition is None else rows.write.partitionBy(self.shape.partition)
        if self.shape.partition is not None:
            writer.mode("append").parquet(str(self._live))
            return
        with self._numbers:  # there may be several writers
            number = self._writes
            self._writes += 1
        writer.parquet(str(self._folder(number)))

    def _rewrite(self, rows: DataFrame) -> None:
        self._rewrites += 1
        old, new = self._live, self.folder / f"rewrite-{self._rewrites}"
        rows.write.parquet(str(new))
        self._live = new
        shutil.rmtree(old)

    def _folder(self, number: int) -> Path:
        return self.folder / f"write-{number}"
