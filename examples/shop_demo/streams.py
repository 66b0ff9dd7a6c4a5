"""The chapters that run on Spark's Structured Streaming, and the same work without Spark."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import polars as pl

import lakebed
from lakebed import cdc
from shop_demo.shop import Feed

KINDS = {"insert": "+I", "update_preimage": "-U", "update_postimage": "+U", "delete": "-D"}
"""What a change of the orders means for a sum over them."""


class NoSpark(Exception):
    """Spark does not start; the text says what helps."""


@contextmanager
def session(log: Path) -> Iterator[Any]:
    """A local Spark session of two cores; what the JVM and its workers print goes to a file. Raises NoSpark."""
    from pyspark.errors import PySparkRuntimeError
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    with _output_to(log):
        builder = SparkSession.builder.master("local[2]").appName("lakebed demo")
        for name, value in {
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
            "spark.sql.shuffle.partitions": "2",
            "spark.sql.session.timeZone": "UTC",
            "spark.sql.warehouse.dir": str(log.parent / "spark-warehouse"),
        }.items():
            builder = builder.config(name, value)
        try:
            spark = builder.getOrCreate()
        except PySparkRuntimeError as error:
            said = log.read_text("utf-8", "replace").strip().splitlines()
            raise NoSpark(
                "It needs Java 17 or newer: `make java` finds or installs it, or set JAVA_HOME; "
                f"--without-spark needs none. Java said: {said[0] if said else error}"
            ) from error
    yield spark
    spark.stop()


@contextmanager
def _output_to(path: Path) -> Iterator[None]:
    """Processes that are started in it write into a file; the JVM keeps what it was started with."""
    kept = os.dup(1), os.dup(2)
    with path.open("w") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        for target, saved in enumerate(kept, start=1):
            os.dup2(saved, target)
            os.close(saved)


class Streams:
    """The pipeline as two streaming queries; each call runs what is new, and stops."""

    def __init__(self, spark: Any, feed: Feed, checkpoints: Path) -> None:
        self._spark, self._feed, self._checkpoints = spark, feed, checkpoints

    def ingest(self, orders: lakebed.Table) -> None:
        """Messages that have arrived -> orders, a micro-batch for each file."""
        lines = self._spark.readStream.option("maxFilesPerTrigger", 1).text(str(self._feed.folder))
        parsed = cdc.parse(lines, "debezium", orders)
        self._run(parsed, orders, "ingest", rowKind=cdc.ROW_KIND)

    def total(self, orders: lakebed.Table, revenue: lakebed.Table) -> None:
        """Changes of the orders -> sums by city. Only what has changed is read."""
        kind = "CASE _change_type " + " ".join(f"WHEN '{k}' THEN '{v}'" for k, v in KINDS.items()) + " END AS op"
        changes = self._spark.readStream.format("lakebed").option("mode", "all").load(orders.name)
        self._run(changes.selectExpr("city", "cents", "1L AS orders", kind), revenue, "total", rowKind="op")

    def _run(self, frame: Any, table: lakebed.Table, name: str, **options: str) -> None:
        stream = frame.writeStream.format("lakebed").options(**options).trigger(availableNow=True)
        query = stream.option("checkpointLocation", str(self._checkpoints / name)).start(table.name)
        query.awaitTermination()


class Loops:
    """The same pipeline in this process, without Spark: it remembers itself what it has done."""

    def __init__(self, feed: Feed) -> None:
        self._feed, self._read, self._told = feed, 0, None

    def ingest(self, orders: lakebed.Table) -> None:
        """Messages that have arrived -> orders, a commit for each file."""
        for path in sorted(self._feed.folder.glob("*.jsonl"))[self._read :]:
            rows = cdc.parse(path.read_text("utf-8").splitlines(), "debezium", orders)
            orders.upsert(rows, row_kind=cdc.ROW_KIND, txn=("ingest", self._read))
            self._read += 1

    def total(self, orders: lakebed.Table, revenue: lakebed.Table) -> None:
        """Changes of the orders -> sums by city. Only what has changed is read."""
        changes = orders.changes("earliest" if self._told is None else self._told, mode="all")
        rows = changes.to_polars().select("city", "cents", orders=pl.lit(1), op=pl.col("_change_type").replace(KINDS))
        revenue.upsert(rows, row_kind="op")
        self._told = changes.end
