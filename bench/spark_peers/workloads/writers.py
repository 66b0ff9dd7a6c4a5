"""Workload 7: several writers upsert into one table at the same time, some of the keys the same.

What a row says follows from its key alone, but for the column ``channel``, which names the writer. So what must
be there do not depend on who was last, only on which upserts succeeded. The keys that all batches share must in the end
be of one writer: an upsert is seen as a whole or not at all. Nobody tries again by himself: an upsert that the system
refuses is a failure that its user would have to handle.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench.spark_peers.engines.engine import Shape
from bench.spark_peers.work import Work, digest
from bench.spark_peers.worker import said

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from bench.spark_peers.engines.engine import Table


@dataclass(frozen=True)
class Tried:
    """One upsert of one writer."""

    batch: int
    error: str


def run(work: Work) -> None:
    """Each writer is a thread of the driver with batches of its own."""
    from pyspark.sql import functions as f

    sizes, places = work.sizes, work.places
    with work.table("t", Shape(crowd=True)) as table:
        table.load(work.rows(places.base))

        def write(writer: int) -> list[Tried]:
            return [_try(work, table, writer * sizes.writes + number) for number in range(sizes.writes)]

        def together() -> tuple[float, list[Tried]]:
            begun = time.perf_counter()
            with ThreadPoolExecutor(sizes.writers) as pool:
                tried = [one for found in pool.map(write, range(sizes.writers)) for one in found]
            return time.perf_counter() - begun, tried

        seconds, tried = work.step("writers", together, table=table)
        good = [one.batch for one in tried if not one.error]
        work.note("writers", failed=len(tried) - len(good), per_second=len(good) / seconds)
        for text in sorted({one.error for one in tried if one.error}):
            work.tell({"said": text})
        if not good:
            raise RuntimeError(f"no upsert succeeded: {tried[0].error}")
        expected = work.engine.root / f"expected_{work.name}"
        _expected(work, good).write.parquet(str(expected))
        table.expect(expected)
        work.same("rows", digest(table.read().drop("channel")), digest(work.rows(expected).drop("channel")))
        shared = table.read().where(f"id < {sizes.rows // 100}").agg(f.count_distinct("channel")).first()
        work.same("writers of the shared keys", list(shared or ()), [1])


def _expected(work: Work, batches: list[int]) -> DataFrame:
    """What is there after these upserts in any order; of the writers of a key it takes the one whose name is last."""
    from pyspark.sql import functions as f

    base = work.rows(work.places.base)
    written = work.spark.read.parquet(*(str(work.places.batch("writer", number)) for number in batches))
    newest = written.groupBy("id").agg(f.max_by(f.struct(*base.columns), "channel").alias("row")).select("row.*")
    return base.join(newest, "id", "left_anti").select(base.columns).unionByName(newest)


def _try(work: Work, table: Table, batch: int) -> Tried:
    try:
        table.upsert(work.rows(work.places.batch("writer", batch)))
    except Exception as error:
        return Tried(batch, said(error))
    return Tried(batch, "")
