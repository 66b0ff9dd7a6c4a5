"""A driver process on a real cluster whose tasks fail, are killed or come second; prints what became of the table.

Arguments: the master, a directory for the warehouse and for marks of what has happened, and the scenarios.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import lakebed

ROWS = 4000
# Every task writes files long before its last row, so that a failure finds some of them there.
LIMIT = "64kB"
PATIENCE = 120.0


def _marked(path: str) -> bool:
    """Whether this is the first call with that path, by any process."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


def _executor() -> int:
    """The JVM that this worker's daemon belongs to."""
    daemon = os.getppid()
    with open(f"/proc/{daemon}/stat") as file:
        return int(file.read().rpartition(")")[2].split()[1])


def _await_files(marks: str) -> None:
    """Wait until a task has written files; the mark says that there were some."""
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        if any(True for _ in Path(marks).glob("warehouse/default/t/**/*.parquet")):
            Path(f"{marks}/files").touch()
            return
        time.sleep(0.01)


def fails_once(marks: str) -> Callable[[int], int]:
    def at(i: int) -> int:
        if i == ROWS - 1 and _marked(f"{marks}/failed"):
            _await_files(marks)
            raise RuntimeError("the first attempt fails")
        return i

    return at


def executor_dies(marks: str) -> Callable[[int], int]:
    def at(i: int) -> int:
        if i == ROWS - 1 and _marked(f"{marks}/killed"):
            _await_files(marks)
            os.kill(_executor(), 9)
        return i

    return at


def always_fails(marks: str) -> Callable[[int], int]:
    def at(i: int) -> int:
        if i == ROWS - 1:
            _await_files(marks)
            raise RuntimeError("no attempt succeeds")
        return i

    return at


def second_comes_first(marks: str) -> Callable[[int], int]:
    """The first attempt of one task waits at its end until it is killed, which only a second attempt brings about."""

    def at(i: int) -> int:
        if i == ROWS - 1:
            from pyspark import TaskContext

            context = TaskContext.get()
            assert context is not None
            Path(f"{marks}/attempt-{context.attemptNumber()}").touch()
            if context.attemptNumber() == 0:
                _await_files(marks)
                while True:
                    os.sched_yield()
        return i

    return at


SCENARIOS: dict[str, Callable[[str], Callable[[int], int]]] = {
    "fails-once": fails_once,
    "executor-dies": executor_dies,
    "always-fails": always_fails,
    "second-comes-first": second_comes_first,
}


def _through(at: Callable[[int], int]) -> Callable[[Iterator[Any]], Iterator[Any]]:
    def run(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            for i in batch.column("id").to_pylist():
                at(i)
            yield batch

    return run


def report(table: Any) -> dict[str, Any]:
    """What the table holds, what no commit knows, and what vacuum leaves of that."""
    orphans = _orphans(table)
    left = _left_by_vacuum(table)
    ids = sorted(table.to_arrow()["id"].to_pylist())
    return {
        "version": table.version,
        "rows": len(ids),
        "right": ids == list(range(ROWS)) or ids == [],
        "orphans": sorted(orphans),
        "left": sorted(left),
    }


def _left_by_vacuum(table: Any) -> set[str]:
    """What no commit knows and vacuum does not remove.

    A worker whose executor was killed may write and rename for a while after the job has cleaned up; so vacuum runs
    until nothing is left, or until no worker can be alive any more.
    """
    until = time.monotonic() + PATIENCE
    while True:
        table.vacuum(timedelta(0))
        left = _orphans(table)
        if not left or time.monotonic() > until:
            return left


def _orphans(table: Any) -> set[str]:
    root = Path(table.location.removeprefix("file://"))
    there = {str(p.relative_to(root)) for p in root.rglob("*") if p.is_file() and "_delta_log" not in p.parts}
    return there - set(table.files()["path"].to_pylist()) - _vectors(there)


def _vectors(paths: set[str]) -> set[str]:
    return {path for path in paths if path.rpartition("/")[2].startswith("deletion_vector_")}


def run(spark: Any, scenario: str, folder: Path, key: bool) -> dict[str, Any]:
    marks = folder / f"{scenario}-{key}"
    marks.mkdir(parents=True)
    with lakebed.connect(marks / "warehouse", spark=spark, writer_memory_limit=LIMIT, shuffle="never") as lake:
        keyed = {"primary_key": ["id"], "buckets": 2} if key else {}
        table = lake.create_table("t", "id BIGINT, text STRING", **keyed)
        rows = spark.sql(f"SELECT id, repeat(CAST(id AS STRING), 20) AS text FROM range(0, {ROWS}, 1, 2)")
        rows = rows.mapInArrow(_through(SCENARIOS[scenario](str(marks))), rows.schema)
        error = None
        try:
            table.append(rows)
        except lakebed.LakebedError as failure:
            error = f"{type(failure).__name__}: {failure}"
        return {"error": error, "marks": sorted(p.name for p in marks.iterdir() if p.is_file()), **report(table)}


def main(master: str, folder: str, *scenarios: str) -> None:
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    builder = SparkSession.builder.master(master).appName("lakebed faults")
    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.executor.memory": "512m",
        # A machine that is busy with other things is no fault.
        "spark.worker.timeout": "600",
        "spark.network.timeout": "600s",
        "spark.executor.heartbeatInterval": "20s",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "200",
        "spark.speculation": str("second-comes-first" in scenarios).lower(),
        "spark.speculation.interval": "100ms",
        "spark.speculation.multiplier": "1.5",
        "spark.speculation.quantile": "0.5",
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    for scenario in scenarios:
        for key in (False, True):
            print(json.dumps({"scenario": scenario, "key": key, **run(spark, scenario, Path(folder), key)}), flush=True)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
