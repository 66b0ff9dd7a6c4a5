"""One of those who use a table at the same time: a streaming writer, a compactor, or a vacuum. A process each.

Arguments: the folder of the warehouse, ``write``, ``compact`` or ``vacuum``, and for a writer its number. Compactor and
vacuum end when the file ``done`` is there.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import lakebed

DDL = "id BIGINT, n BIGINT, s BIGINT, op STRING"
RETAIN = "10 seconds"


def write(folder: Path, number: int) -> None:
    """A query that writes all of its feed; one that vacuum was too fast for is started again, as by an operator."""
    from pyspark.errors import StreamingQueryException
    from spark_sessions import spark_session

    with spark_session("local[1]") as spark, lakebed.connect(folder / "warehouse", spark=spark):
        while True:
            try:
                _query(spark, folder, number).awaitTermination()
                return
            except StreamingQueryException as error:
                if "vacuum has deleted" not in str(error):
                    raise
                print("again:", str(error)[:500], flush=True)


def _query(spark: Any, folder: Path, number: int) -> Any:
    feed = spark.readStream.schema(DDL).option("maxFilesPerTrigger", 1).parquet(str(folder / f"feed-{number}"))
    stream = feed.writeStream.format("lakebed").option("rowKind", "op").trigger(availableNow=True)
    return stream.option("checkpointLocation", str(folder / f"checkpoint-{number}")).start("t")


def compact(folder: Path) -> None:
    """Settles and rewrites everything, again and again."""
    with lakebed.connect(folder / "warehouse") as lake:
        table = lake.table("t")
        while not (folder / "done").exists():
            try:
                table.settle()
                table.compact(full=True)
            except lakebed.ConflictError as error:
                if "vacuum has deleted" not in str(error):
                    raise
            time.sleep(0.2)


def vacuum(folder: Path) -> None:
    """Retains as little as writers can live with."""
    with lakebed.connect(folder / "warehouse") as lake:
        while not (folder / "done").exists():
            found = lake.table("t").vacuum(RETAIN)
            if found.paths:
                print("removed", len(found.paths), "files, now from", found.versions, flush=True)
            time.sleep(0.2)


if __name__ == "__main__":
    root, role = Path(sys.argv[1]), sys.argv[2]
    if role == "write":
        write(root, int(sys.argv[3]))
    else:
        {"compact": compact, "vacuum": vacuum}[role](root)
