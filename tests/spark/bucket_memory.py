"""A driver that fills, upserts and compacts one large bucket on an executor of its own, and prints what that took.

python bucket_memory.py <directory> <MiB of the bucket> <MiB of the executor's heap> <MiB of writer_memory_limit>

Prints a line of JSON for each step: seconds, and the most memory that the executor (its JVM and all of its Python
workers) had, in MiB.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lakebed

ROW = 140
"""Bytes of a row: a key, and hashes, which do not compress."""
ROWS = "id, concat(sha2({0}, 512), sha2({0} || 'x', 512)) AS text, xxhash64(id, {1}) AS n"
SMALL_JVM = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:MaxHeapFreeRatio=30 -XX:MinHeapFreeRatio=10"
UPSERTED = 0.05
"""Which part of the keys the upsert touches, all over the bucket."""


SAME = ("count(*)", "sum(CAST(xxhash64(id) AS DECIMAL(38, 0)))", "bit_xor(xxhash64(id, 3))")
"""Of the same keys, each once, these are the same; counting distinct ones would sort them."""


class Watch:
    """Looks at the executor's processes all the time."""

    def __init__(self) -> None:
        self.peak = self.python = 0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._ended.wait(0.1):
            self._look()

    def _look(self) -> None:
        children = _children()
        executors = [pid for pid in _below(os.getpid(), children) if "CoarseGrainedExecutorBackend" in _command(pid)]
        if executors:
            workers = _below(executors[0], children)
            python = sum(map(_memory, workers))
            self.peak = max(self.peak, _memory(executors[0]) + python)
            self.python = max(self.python, python)

    def take(self) -> tuple[int, int]:
        """The peaks since the last call, in MiB: of all, and of the Python workers."""
        found = self.peak >> 10, self.python >> 10
        self.peak = self.python = 0
        return found

    def end(self) -> None:
        self._ended.set()
        self._thread.join()


def _children() -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
            found.setdefault(parent, []).append(int(entry.name))
    return found


def _below(pid: int, children: dict[int, list[int]]) -> list[int]:
    return [one for child in children.get(pid, []) for one in (child, *_below(child, children))]


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text(errors="replace")
    except OSError:
        return ""


def _memory(pid: int) -> int:
    """KiB of a process; what several share is divided among them."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("Pss:")), 0)


def session(heap: int) -> Any:
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.executor.memory": f"{heap}m",
        # A small JVM: no tables of a parallel collector, no optimising compiler, and the heap shrinks again.
        "spark.executor.extraJavaOptions": SMALL_JVM,
        # What is freed goes back to the system, as docs/spark.md recommends for small executors.
        "spark.executorEnv.MALLOC_ARENA_MAX": "1",
        "spark.executorEnv.MALLOC_TRIM_THRESHOLD_": "1000000",
        "spark.executorEnv.ARROW_DEFAULT_MEMORY_POOL": "system",
        "spark.network.timeout": "600s",
        "spark.sql.shuffle.partitions": "1",
    }
    builder = SparkSession.builder.master(f"local-cluster[1,1,{max(1024, heap)}]").appName("lakebed bucket")
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def frame(spark: Any, keys: str, salt: int) -> Any:
    return spark.sql(f"SELECT {ROWS.format('CAST(id AS STRING)', salt)} FROM {keys}").withColumn("text", _raw("text"))


def _raw(name: str) -> Any:
    from pyspark.sql import functions as F

    return F.unhex(name)


def main(folder: str, bucket: int, heap: int, limit: int) -> None:
    spark = session(heap)
    rows = (bucket << 20) // ROW
    watch = Watch()

    def step(name: str, work: Callable[[], Any]) -> None:
        began = time.monotonic()
        work()
        peak, python = watch.take()
        seconds = round(time.monotonic() - began)
        print(json.dumps({"step": name, "seconds": seconds, "peak": peak, "python": python}), flush=True)

    options: dict[str, Any] = {"writer_memory_limit": f"{limit}MiB", "key_cache_size": f"{limit}MiB", "prefetch": 0}
    with lakebed.connect(folder, spark=spark, distribute_from=0, sync=False, **options) as lake:
        table = lake.create_table("t", "id BIGINT NOT NULL, text BINARY, n BIGINT", primary_key=["id"], buckets=1)
        step("load", lambda: table.upsert(frame(spark, f"range(0, {rows}, 1, 16)", 1)))
        size = sum(table.files()["size"].to_pylist()) >> 20
        some = f"(SELECT id FROM range(0, {rows}, {round(1 / UPSERTED)}, 16))"
        step("upsert", lambda: table.upsert(frame(spark, some, 2)))
        step("compact", lambda: table.compact(full=True))
        counted = ("count_if(n = xxhash64(id, 2))", "count_if(n = xxhash64(id, 1))")
        found = table.df(["id", "n"]).selectExpr(*SAME, *counted).collect()[0]
        wanted = spark.range(rows).selectExpr(*SAME).collect()[0]
        print(json.dumps({"step": "check", "rows": rows, "bucket": size, "same": tuple(found)[:3] == tuple(wanted),
                          "new and old": list(found)[3:]}), flush=True)  # fmt: skip
    watch.end()
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
