"""Tables with Spark against plain Spark: load, upserts and reads in one session, in turns, on the same rows.

Ten million rows of ten columns, then ten upserts of two million random keys. The yardstick is what Spark does with the
same input and no table: ``df.write.parquet``, and ``spark.read.parquet`` of the rows that are live in the end. A write
and what it is compared with take turns; of reads the best of several counts. The rows are counted and summed
against plain Spark's before any time is believed.
"""

from __future__ import annotations

import gc
import os
import shutil
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console

import lakebed
from bench.report import Line
from bench.sample import rows
from bench.servers import scratch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROWS = 10_000_000
SIZE = 2_000_000
UPSERTS = 10
PARTS = 4
"""Files of the input; Spark has as many tasks at least."""
SMALL_FILES = 20_000
NEW_KEYS = 0.05
KEY = "id"
ONE = "price"
KEYLESS, BUCKETED, UPSERT = 1.15, 1.6, 1.7
ALL_COLUMNS, ONE_COLUMN = 1.2, 4.0
UNSETTLED_SECONDS, PLAN_SECONDS = 1.5, 2.0


@dataclass(frozen=True)
class Amount:
    """How much is done."""

    rows: int = ROWS
    size: int = SIZE
    upserts: int = UPSERTS
    tries: int = 3
    small_files: int = SMALL_FILES


@dataclass
class Contest:
    """One run, in a folder, in one session."""

    spark: SparkSession
    root: Path
    amount: Amount
    console: Console
    lines: list[Line] = field(default_factory=list)

    def run(self) -> list[Line]:
        """All of it."""
        self._make_input()
        self._keyless()
        for merge in ("on-read", "on-write"):
            self._keyed(merge)
        self._many_files()
        return self.lines

    def _make_input(self) -> None:
        self._store(self._base, rows(self.amount.rows))
        for number in range(self.amount.upserts):
            seed = 1 + number
            among = int(self.amount.rows * (1 + NEW_KEYS))
            ids = np.random.default_rng(seed).choice(among, self.amount.size, replace=False)
            self._store(self._batch(number), rows(self.amount.size, seed=seed, ids=ids.astype(np.int64)))
        self._plain_write(self._batch(0))
        self._say("input made, Spark warmed up")

    def _keyless(self) -> None:
        plain, ours = [], []
        for number in range(self.amount.tries):
            plain.append(_seconds(lambda: self._plain_write(self._base)))
            with lakebed.connect(self.root / f"keyless-{number}", spark=self.spark) as lake:
                table = lake.create_table("t", self._frame(self._base).schema)
                ours.append(_seconds(partial(table.append, self._frame(self._base))))
                self._check(table.df(), self._frame(self._base))
            shutil.rmtree(self.root / f"keyless-{number}")
        self._ratio("load without a key / df.write.parquet", ours, plain, KEYLESS)

    def _keyed(self, merge: str) -> None:
        with lakebed.connect(self.root / merge, spark=self.spark) as lake:
            schema = self._frame(self._base).schema
            if merge == "on-read":
                self._load(lake, schema)
            table = lake.create_table("t", schema, primary_key=[KEY], buckets=4, merge=merge)
            table.upsert(self._frame(self._base))
            table.settle()
            plain, ours = [], []
            for number in range(self.amount.upserts):
                batch = self._batch(number)
                plain.append(_seconds(partial(self._plain_write, batch)))
                ours.append(_seconds(partial(table.upsert, self._frame(batch))))
            what = f"upsert of {self.amount.size:,}, {merge} / df.write.parquet"
            self._ratio(what, ours, plain, UPSERT, total=True)
            self._reads(table, merge)

    def _load(self, lake: Any, schema: Any) -> None:
        plain, ours = [], []
        for number in range(self.amount.tries):
            plain.append(_seconds(lambda: self._plain_write(self._base)))
            table = lake.create_table(f"load{number}", schema, primary_key=[KEY], buckets=4)
            ours.append(_seconds(partial(table.upsert, self._frame(self._base))))
            lake.drop_table(f"load{number}", purge=True)
        self._ratio("load into 4 buckets / df.write.parquet", ours, plain, BUCKETED)

    def _reads(self, table: Any, merge: str) -> None:
        live = self._live()
        plain = [_seconds(lambda: _read(live())) for _ in range(self.amount.tries)]
        if merge == "on-read":
            first = _seconds(lambda: _read(table.df()))
            second = min(_seconds(lambda: _read(table.df())) for _ in range(self.amount.tries))
            self._check(table.df(), live())
            settle = _seconds(table.settle)
            self._add("settle", settle, "s", None, "as Spark jobs or in process, as the lake chooses")
        settled = [_seconds(lambda: _read(table.df())) for _ in range(self.amount.tries)]
        self._check(table.df(), live())
        if merge == "on-read":
            more = first - min(settled)
            self._add("read, unsettled, first: beyond the settled one", more, "s", UNSETTLED_SECONDS, f"{first:.2f} s")
            again = second / min(settled)
            self._add("read, unsettled, second / settled", again, "x", 1.1, f"{second:.2f} s")
        self._ratio(f"read of all columns, settled, {merge} / plain", settled, plain, ALL_COLUMNS)
        one = [_seconds(lambda: _read(table.df(columns=[ONE]))) for _ in range(self.amount.tries)]
        plain_one = [_seconds(lambda: _read(live().select(ONE))) for _ in range(self.amount.tries)]
        self._ratio(f"read of one column, settled, {merge} / plain", one, plain_one, ONE_COLUMN)
        if merge == "on-read":
            self._floor(table, plain, plain_one)

    def _floor(self, table: Any, plain: list[float], plain_one: list[float]) -> None:
        """What Spark needs for the same files without any deletion vector; then compaction."""
        paths = [f"{table.location}/{path}" for path in table.files()["path"].to_pylist()]
        bare = self.spark.read.parquet(*paths)
        every = [_seconds(lambda: _read(bare)) for _ in range(self.amount.tries)]
        self._ratio("plain Spark on the same files, dead rows too / plain", every, plain, None)
        every = [_seconds(lambda: _read(bare.select(ONE))) for _ in range(self.amount.tries)]
        self._ratio("the same, one column / plain, one column", every, plain_one, None)
        self._add("compact, full", _seconds(lambda: table.compact(full=True)), "s", None, "")
        compacted = [_seconds(lambda: _read(table.df())) for _ in range(self.amount.tries)]
        self._ratio("read of all columns, compacted / plain", compacted, plain, None)

    def _many_files(self) -> None:
        """Many small files: they are written once and registered by the appends of one table."""
        with lakebed.connect(self.root / "many", spark=self.spark) as lake:
            count = self.amount.small_files
            table = lake.create_table("t", "part BIGINT, id BIGINT", partition_by=["part"])
            table.append(pa.table({"part": np.arange(count), "id": np.arange(count)}))
        with lakebed.connect(self.root / "many", spark=self.spark) as lake:
            table = lake.table("t")
            planned = _seconds(lambda: table.df().schema)
            self._add(f"plan of {count:,} small files, first in the process", planned, "s", PLAN_SECONDS, "df()")
            found = table.df().count()
            if found != count:
                raise RuntimeError(f"{count:,} rows were written, {found:,} are there")

    def _live(self) -> Callable[[], DataFrame]:
        """Plain Parquet of the live rows, made by plain Spark."""
        path = self.root / "live"
        if not path.exists():
            from pyspark.sql import functions as f

            parts = [self._frame(self._base).withColumn("_at", f.lit(0))]
            parts += [self._frame(self._batch(n)).withColumn("_at", f.lit(1 + n)) for n in range(self.amount.upserts)]
            whole = parts[0]
            for part in parts[1:]:
                whole = whole.unionByName(part)
            last = whole.groupBy(KEY).agg(f.max("_at").alias("_at"))
            whole.join(last, [KEY, "_at"], "left_semi").drop("_at").write.parquet(str(path))
        return lambda: self.spark.read.parquet(str(path))

    def _check(self, ours: DataFrame, theirs: DataFrame) -> None:
        mine, its = _digest(ours), _digest(theirs)
        if mine != its:
            raise RuntimeError(f"the rows are wrong: expected {its}, found {mine}")

    def _plain_write(self, source: Path) -> None:
        self._frame(source).write.mode("overwrite").parquet(str(self.root / "plain"))

    def _frame(self, path: Path) -> DataFrame:
        return self.spark.read.parquet(str(path))

    @property
    def _base(self) -> Path:
        return self.root / "base"

    def _batch(self, number: int) -> Path:
        return self.root / f"batch-{number}"

    def _store(self, folder: Path, table: pa.Table) -> None:
        folder.mkdir(parents=True)
        step = -(-table.num_rows // PARTS)
        for part in range(PARTS):
            pq.write_table(table.slice(part * step, step), folder / f"{part}.parquet")

    def _ratio(
        self, what: str, ours: list[float], plain: list[float], goal: float | None, *, total: bool = False
    ) -> None:
        mine, its = (sum(ours), sum(plain)) if total else (min(ours), min(plain))
        how = f"{len(ours)} in turns" if total else f"best of {len(ours)}"
        self._add(what, mine / its, "x", goal, f"{mine:.2f} s against {its:.2f} s, {how}")

    def _add(self, what: str, value: float, unit: str, goal: float | None, note: str) -> None:
        self.lines.append(Line(what, value, unit, goal, note=note))
        self._say(f"{what}: {value:.2f} {unit} ({note})")

    def _say(self, text: str) -> None:
        self.console.print(text, style="dim", highlight=False)


def _read(frame: DataFrame) -> None:
    """Every value reaches a sink that does nothing."""
    frame.write.format("noop").mode("overwrite").save()


def _digest(frame: DataFrame) -> list[Any]:
    from pyspark.sql import functions as f

    hashed = f.xxhash64(*sorted(frame.columns)).cast("decimal(38,0)")
    return list(frame.agg(f.count("*"), f.sum(hashed)).first() or ())


def _seconds(work: Callable[[], object]) -> float:
    gc.collect()
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def _session(folder: Path) -> SparkSession:
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    settings = {
        "spark.driver.memory": "6g",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.parquet.compression.codec": "zstd",
        "spark.local.dir": str(folder / "local"),
        "spark.sql.warehouse.dir": str(folder / "spark"),
        "spark.log.level": "ERROR",
    }
    builder = SparkSession.builder.master(f"local[{os.cpu_count()}]").appName("lakebed bench")
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def run(*, quick: bool) -> list[Line]:
    """The whole benchmark, or a hundredth of it."""
    amount = Amount(ROWS // 100, SIZE // 100, 2, 1, 500) if quick else Amount()
    with scratch("spark") as root:
        spark = _session(root)
        try:
            return Contest(spark, root, amount, Console(stderr=True)).run()
        finally:
            spark.stop()
