"""How long micro-batches of upserts take, from the first row read to the checkpoint that knows of their commit.

A file of 10,000 upserts after the other, with keys anywhere in a table of a million rows, goes through Structured
Streaming into the table, while ``lake.maintain`` looks after it in a thread of the driver. Each batch must do the
same work, so that the last ones may take no longer than the first.
"""

from __future__ import annotations

import statistics
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from rich.console import Console

import lakebed
from bench.report import Line
from bench.sample import rows

WARM_UP = 5
"""Batches that the JVM needs to find itself; they do not count."""
ENDS = 50
"""So many of the first batches are compared with as many of the last."""
GOAL = 1.2
EVERY = "10 seconds"


@dataclass(frozen=True)
class Pace:
    """How much is done."""

    rows: int = 1_000_000
    size: int = 10_000
    batches: int = 200
    buckets: int = 4


@dataclass
class Latency:
    """One run, in a folder, in one session."""

    root: Path
    pace: Pace
    spark: Any
    console: Console
    ways: tuple[str, ...] = ("sink", "foreachBatch")
    merges: tuple[str, ...] = ("on-write",)
    lines: list[Line] = field(default_factory=list)

    def run(self) -> list[Line]:
        """A table of each kind, written in each way; and what Spark takes without a table."""
        self._make_feed()
        for merge in self.merges:
            for way in self.ways:
                self._measured(merge, way)
        return self.lines

    def _make_feed(self) -> None:
        feed = self.root / "feed"
        feed.mkdir()
        chance = np.random.default_rng(3)
        for number in range(WARM_UP + self.pace.batches):
            ids = chance.choice(self.pace.rows, self.pace.size, replace=False).astype(np.int64)
            pq.write_table(rows(self.pace.size, seed=100 + number, ids=ids), feed / f"{number:05}.parquet")

    def _measured(self, merge: str, way: str) -> None:
        with lakebed.connect(self.root / f"{merge}-{way}", spark=self.spark) as lake:
            schema = rows(1).schema
            table = lake.create_table("t", schema, primary_key=["id"], buckets=self.pace.buckets, merge=merge)
            table.upsert(rows(self.pace.rows))
            with _maintained(lake):
                took = self._stream(table, way, f"{merge}-{way}")
            self._check(table)
            files = table.files().num_rows
        self._report(f"{way}, {merge}", took, f"{files} files in the end")

    def _stream(self, table: lakebed.Table, way: str, name: str) -> list[float]:
        """Milliseconds of each batch."""
        self.spark.conf.set("spark.sql.streaming.numRecentProgressUpdates", str(10 * self.pace.batches))
        schema = self.spark.read.parquet(str(self.root / "feed" / "00000.parquet")).schema
        feed = self.spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(self.root / "feed"))
        checkpoint = str(self.root / "checkpoints" / name)
        stream = feed.writeStream.option("checkpointLocation", checkpoint).trigger(availableNow=True)
        if way == "sink":
            query = stream.format("lakebed").start("t")
        else:
            query = stream.foreachBatch(_nothing(table.stream_writer("upsert", checkpoint=checkpoint))).start()
        query.awaitTermination()
        done = [one for one in query.recentProgress if one["numInputRows"]]
        slow = sorted(done, key=lambda one: one["durationMs"]["triggerExecution"])[len(done) // 2]
        self.console.print(f"a batch in the middle: {slow['durationMs']}", style="dim", highlight=False)
        return [float(one["durationMs"]["triggerExecution"]) for one in done]

    def _check(self, table: lakebed.Table) -> None:
        """Raise RuntimeError unless the table has what the feed says."""
        parts = sorted((self.root / "feed").glob("*.parquet"))
        newest: dict[int, str] = {}
        for path in parts:
            part = pq.read_table(path, columns=["id", "reference"])
            newest.update(zip(part["id"].to_pylist(), part["reference"].to_pylist(), strict=True))
        found = table.to_arrow(["id", "reference"])
        kept = dict(zip(found["id"].to_pylist(), found["reference"].to_pylist(), strict=True))
        if len(kept) != self.pace.rows or any(kept[id] != reference for id, reference in newest.items()):
            raise RuntimeError("the table has not what the feed says")

    def _report(self, what: str, took: list[float], note: str) -> None:
        counted = sorted(took[WARM_UP:])
        ends = min(ENDS, len(counted) // 2)
        first, last = (statistics.median(part) for part in (took[WARM_UP:][:ends], took[-ends:]))
        many = f"{len(counted)} batches of {self.pace.size:,}"
        high = counted[min(len(counted) - 1, round(0.99 * len(counted)))]
        self._add(f"micro-batch by {what}: median", statistics.median(counted) / 1000, "s", None, many)
        self._add(f"micro-batch by {what}: 99th percentile", high / 1000, "s", None, note)
        growth = f"medians {last / 1000:.2f} s and {first / 1000:.2f} s of {ends} each"
        self._add(f"micro-batch by {what}: last / first", last / first, "x", GOAL, growth)

    def _add(self, what: str, value: float, unit: str, goal: float | None, note: str) -> None:
        self.lines.append(Line(what, value, unit, goal, note=note))
        self.console.print(f"{what}: {value:.2f} {unit} ({note})", style="dim", highlight=False)


def _nothing(work: Callable[[Any, int], object]) -> Callable[[Any, int], None]:
    """Spark wants no answer of a function for each batch."""

    def run(batch: Any, number: int) -> None:
        work(batch, number)

    return run


@contextmanager
def _maintained(lake: lakebed.Warehouse) -> Iterator[None]:
    """A thread that looks after the tables."""
    stop = threading.Event()
    thread = threading.Thread(target=lake.maintain, kwargs={"every": EVERY, "stop": stop})
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
