"""Changes and streams: what a read of changes costs against a full one, and how long micro-batches take.

Ten million rows of ten columns in four buckets; then commits of one percent of as many rows: new keys, neighbouring
keys, and keys anywhere. A read of the changes of such a commit and a read of the whole table take turns, the best of
several counts; the table is read as it is after the commit. What the changes tell is counted before a time is believed.

Micro-batches are in ``bench.stream_latency``.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
from rich.console import Console

import lakebed
from bench.report import Line
from bench.sample import rows
from bench.servers import scratch
from bench.spark_parts import session
from bench.stream_latency import Latency, Pace

ROWS = 10_000_000
SHARE = 100
"""One row in so many changes."""
BUCKETS = 4
GOAL = 0.1


@dataclass
class ChangeCost:
    """One run, in a folder."""

    root: Path
    rows: int
    tries: int
    spark: Any
    console: Console
    lines: list[Line] = field(default_factory=list)

    def run(self) -> list[Line]:
        """All of it, without Spark and with it."""
        schema = rows(1).schema
        with lakebed.connect(self.root / "lake", spark=self.spark) as lake:
            plain = lake.create_table("plain", schema)
            plain.append(rows(self.rows))
            self._appended(plain)
            lake.drop_table("plain", purge=True)
            keyed = lake.create_table("keyed", schema, primary_key=["id"], buckets=BUCKETS)
            keyed.upsert(rows(self.rows))
            self._upserted(keyed)
        return self.lines

    def _appended(self, table: lakebed.Table) -> None:
        before = table.version
        table.append(rows(self.rows // SHARE, seed=1))
        self._compared("1 % appended, no key", table, before, {"insert": self.rows // SHARE})

    def _upserted(self, table: lakebed.Table) -> None:
        count = self.rows // SHARE
        chance = np.random.default_rng(2)
        new = np.arange(self.rows, self.rows + count)
        neighbours = np.arange(count) + self.rows // 3
        anywhere = np.sort(chance.choice(self.rows, count, replace=False))
        updated = {"update_preimage": count, "update_postimage": count}
        for what, ids, told in (
            ("1 % new keys", new, {"insert": count}),
            ("1 % updated, neighbouring keys", neighbours, updated),
            ("1 % updated, keys anywhere", anywhere, updated),
        ):
            before = table.version
            table.upsert(self._batch(ids))
            self._compared(what, table, before, told)
        what = "1 % updated, keys anywhere, mode"
        self._compared(f"{what} append", table, before, {"insert": count}, mode="append")
        self._compared(f"{what} skip-merge", table, before, {"insert": count}, mode="skip-merge")
        self._limit(table, before, anywhere)

    def _limit(self, table: lakebed.Table, version: int, ids: npt.NDArray[np.int64]) -> None:
        """What the images before cost polars, the fastest reader of such files, told which rows it wants."""
        root = table.location.removeprefix("file://")
        paths = table.at(version=version).files()["path"].to_pylist()
        files = pl.scan_parquet([f"{root}/{path}" for path in paths], hive_partitioning=False)
        wanted = pl.DataFrame({"id": ids}).lazy()
        self._ratio(
            "the images before alone, keys anywhere, by polars",
            lambda: files.join(wanted, on="id", how="semi").collect(),
            files.collect,
            goal=None,
        )

    def _batch(self, ids: npt.NDArray[np.int64]) -> Any:
        return rows(len(ids), seed=int(ids[0]), ids=ids.astype(np.int64))

    def _compared(
        self, what: str, table: lakebed.Table, before: int, told: Mapping[str, int], mode: str = "combine"
    ) -> None:
        """Both reads in turns, without Spark and with it."""
        found = table.changes(before, mode=mode).to_arrow()["_change_type"].value_counts().to_pylist()
        if {one["values"]: one["counts"] for one in found} != dict(told):
            raise RuntimeError(f"{what}: expected {dict(told)}, found {found}")
        self._ratio(what, lambda: table.changes(before, mode=mode).to_arrow(), table.to_arrow)
        if self.spark is not None:
            self._ratio(
                f"{what}, Spark", lambda: _read(table.changes(before, mode=mode).df()), lambda: _read(table.df())
            )

    def _ratio(
        self, what: str, changes: Callable[[], object], whole: Callable[[], object], goal: float | None = GOAL
    ) -> None:
        mine, its = [], []
        for _ in range(self.tries):
            its.append(_seconds(whole))
            mine.append(_seconds(changes))
        note = f"{min(mine):.3f} s against {min(its):.3f} s, best of {self.tries}"
        self.lines.append(Line(f"changes: {what} / full read", min(mine) / min(its), "x", goal, note=note))
        self.console.print(f"{what}: {note}", style="dim", highlight=False)


def _read(frame: Any) -> None:
    """Every value reaches a sink that does nothing."""
    frame.write.format("noop").mode("overwrite").save()


def _seconds(work: Callable[[], object]) -> float:
    gc.collect()
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


@contextmanager
def running(folder: Path) -> Iterator[Any]:
    """A local session of Spark with all cores."""
    spark = session(folder)
    try:
        yield spark
    finally:
        spark.stop()


def run(*, quick: bool) -> list[Line]:
    """The whole benchmark, or a hundredth of it."""
    console = Console(stderr=True)
    share = 100 if quick else 1
    pace = Pace(rows=Pace.rows // share, batches=20) if quick else Pace()
    with scratch("streams") as root, running(root) as spark:
        cost = ChangeCost(root, ROWS // share, 3, spark, console).run()
        return [*cost, *Latency(root, pace, spark, console).run()]
