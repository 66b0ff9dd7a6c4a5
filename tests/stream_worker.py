"""A driver with two queries: a feed of changes into a table, and that table's changes into sums. May be killed.

Arguments: the folder of the feed, the warehouse and the checkpoints; and ``run`` (until killed) or ``finish``.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from spark_sessions import spark_session

import lakebed

DDL = "id BIGINT, n BIGINT, s BIGINT, op STRING"
GROUPS = 100


def create(folder: Path) -> None:
    with lakebed.connect(folder / "warehouse") as lake:
        lake.create_table(
            "first", "id BIGINT, n BIGINT, s BIGINT", primary_key=["id"], sequence=["s"], buckets=2, merge="on-read"
        )
        lake.create_table(
            "sums", "g BIGINT, total BIGINT, rows BIGINT", primary_key=["g"], buckets=1, merge_engine="aggregation",
            properties={"fields.total.aggregate-function": "sum", "fields.rows.aggregate-function": "sum"},
        )  # fmt: skip


def start(spark: Any, folder: Path, *, all_there_is: bool) -> list[Any]:
    """Both queries; those that read all there is come one after the other."""
    feed = spark.readStream.schema(DDL).option("maxFilesPerTrigger", 1).parquet(str(folder / "feed"))
    changes = spark.readStream.format("lakebed").option("mode", "all").option("maxVersionsPerTrigger", 3)
    signed = changes.load("first").selectExpr(
        f"id % {GROUPS} as g",
        "n as total",
        "1L as rows",
        "if(_change_type in ('insert', 'update_postimage'), '+I', '-U') as op",
    )
    queries = []
    for name, frame in (("first", feed), ("sums", signed)):
        stream = frame.writeStream.format("lakebed").option("rowKind", "op")
        stream = stream.option("checkpointLocation", str(folder / "checkpoints" / name))
        stream = stream.trigger(availableNow=True) if all_there_is else stream.trigger(processingTime="0 seconds")
        queries.append(stream.start(name))
        if all_there_is:
            queries[-1].awaitTermination()
    return queries


@contextmanager
def maintained(lake: lakebed.Warehouse) -> Iterator[None]:
    """A thread of the driver looks after the tables meanwhile."""
    stop = threading.Event()
    thread = threading.Thread(target=lake.maintain, kwargs={"every": "15 seconds", "stop": stop})
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def main() -> None:
    folder = Path(sys.argv[1])
    with (
        spark_session("local[2]") as spark,
        lakebed.connect(folder / "warehouse", spark=spark) as lake,
        maintained(lake),
    ):
        finishes = sys.argv[2] == "finish"
        queries = start(spark, folder, all_there_is=finishes)
        if not finishes:
            spark.streams.awaitAnyTermination()
        for query in queries:
            query.awaitTermination()


if __name__ == "__main__":
    main()
