"""A fresh process that runs one part of the benchmark of Spark. Run by spark.py."""

from __future__ import annotations

import contextlib
import gc
import io
import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console

import lakebed
from bench.processor import cpu_seconds
from bench.report import Line
from bench.sample import rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PARTS = ("input", "live", "load", "on-read", "on-write", "read", "files")
"""In the order in which one needs what another has left."""
ROWS = 10_000_000
SIZE = 2_000_000
UPSERTS = 10
INPUT_FILES = 4
"""Files of an input; Spark has as many tasks at least."""
SMALL_FILES = 20_000
NEW_KEYS = 0.05
KEY = "id"
ONE = "price"
KEYLESS, BUCKETED, UPSERT = 1.15, 1.6, 1.7
ALL_COLUMNS, ONE_COLUMN = 1.2, 4.0
UNSETTLED_SECONDS, PLAN_SECONDS, SECOND = 1.5, 2.0, 1.1
UNSETTLED, SETTLED, COMPACTED = "unsettled", "settled", "compacted"
"""Tags of the versions that are read."""


@dataclass(frozen=True)
class Amount:
    """How much is done."""

    rows: int = ROWS
    size: int = SIZE
    upserts: int = UPSERTS
    tries: int = 3
    small_files: int = SMALL_FILES


class Cost(NamedTuple):
    """What a piece of work took."""

    seconds: float
    cpu: float
    """Processor seconds of this process, the JVM and its Python workers: other work on the machine adds less to it."""


@dataclass
class Contest:
    """One part, in a folder, in one session."""

    spark: SparkSession
    root: Path
    amount: Amount
    console: Console
    lines: list[Line] = field(default_factory=list)

    def run(self, part: str) -> list[Line]:
        """The lines of one part."""
        work: dict[str, Callable[[], None]] = {
            "input": self._input,
            "live": self._make_live,
            "load": self._load,
            "on-read": partial(self._upserts, "on-read"),
            "on-write": partial(self._upserts, "on-write"),
            "read": self._read,
            "files": self._files,
        }
        work[part]()
        return self.lines

    def _input(self) -> None:
        """What is written."""
        self._store(self._base, rows(self.amount.rows))
        for number in range(self.amount.upserts):
            seed = 1 + number
            among = int(self.amount.rows * (1 + NEW_KEYS))
            ids = np.random.default_rng(seed).choice(among, self.amount.size, replace=False)
            self._store(self._batch(number), rows(self.amount.size, seed=seed, ids=ids.astype(np.int64)))
        self._say("input made")

    def _make_live(self) -> None:
        """What is live in the end, found out by numpy, as plain Spark writes it: by the hash of the key."""
        inputs = [self._base, *(self._batch(number) for number in range(self.amount.upserts))]
        last = np.zeros(int(self.amount.rows * (1 + NEW_KEYS)), np.int64)
        for number, folder in enumerate(inputs):
            last[pq.read_table(folder, columns=[KEY])[KEY].to_numpy()] = number
        chosen = self.root / "chosen"
        shutil.rmtree(chosen, ignore_errors=True)
        chosen.mkdir()
        for number, folder in enumerate(inputs):
            table = pq.read_table(folder)
            pq.write_table(table.filter(pa.array(last[table[KEY].to_numpy()] == number)), chosen / f"{number}.parquet")
        live = self._frame(chosen).repartition(KEY).sortWithinPartitions(KEY)
        live.write.mode("overwrite").parquet(str(self.root / "live"))
        shutil.rmtree(chosen)
        self._say(f"{self._live().count():,} live rows")

    def _load(self) -> None:
        schema = self._frame(self._base).schema
        self._warm_up()
        for what, goal, keys in (
            ("load without a key", KEYLESS, {}),
            ("load into 4 buckets", BUCKETED, {"primary_key": [KEY], "buckets": 4}),
        ):
            plain, ours = [], []
            for number in range(self.amount.tries):
                plain.append(_cost(partial(self._plain_write, self._base)))
                with self._fresh("load") as lake:
                    table = lake.create_table("t", schema, **keys)
                    write = table.upsert if keys else table.append
                    ours.append(_cost(partial(write, self._frame(self._base))))
                    if number == 0:
                        self._check(table.df(), self._frame(self._base))
            self._ratio(f"{what} / df.write.parquet", ours, plain, goal)
            if not keys:
                passed = [_cost(self._pass_rows) for _ in range(self.amount.tries)]
                self._ratio("rows to Python by mapInArrow, nothing written / df.write.parquet", passed, plain, None)
        shutil.rmtree(self.root / "load")

    def _pass_rows(self) -> None:
        """What it takes that Python gets the rows at all."""
        self._frame(self._base).mapInArrow(_counted, "rows BIGINT").toArrow()

    def _upserts(self, merge: str) -> None:
        """The table stays, with tags for the states that are read."""
        self._warm_up()
        with self._fresh(merge) as lake:
            table = lake.create_table("t", self._frame(self._base).schema, primary_key=[KEY], buckets=4, merge=merge)
            table.upsert(self._frame(self._base))
            table.settle()
            plain, ours = [], []
            for number in range(self.amount.upserts):
                batch = self._batch(number)
                plain.append(_cost(partial(self._plain_write, batch)))
                ours.append(_cost(partial(table.upsert, self._frame(batch))))
            what = f"upsert of {self.amount.size:,}, {merge} / df.write.parquet"
            self._ratio(what, ours, plain, UPSERT, total=True)
            if merge == "on-read":
                table.tag(UNSETTLED)
                self._add("settle", _cost(table.settle).seconds, "s", None, "")
                table.tag(SETTLED)
                self._add("compact, full", _cost(partial(table.compact, full=True)).seconds, "s", None, "")
                table.tag(COMPACTED)
            self._check(table.df(), self._live())

    def _read(self) -> None:
        """Reads of the table that settles on write, as its upserts leave it, and of the states of the other one."""
        with lakebed.connect(self.root / "on-write", spark=self.spark) as lake:
            table = lake.table("t")
            self._check(table.df(), self._live())
            dead, files = sum(table.files()["dead_rows"].to_pylist()), table.files().num_rows
            self._say(f"on-write: {files} files, {dead:,} dead rows")
            every, ours = self._best("live", self._live), self._best("on-write", table.df)
            self._ratio("read of all columns, on-write / plain", ours, every, ALL_COLUMNS)
            one = self._best("live", lambda: self._live().select(ONE))
            ours = self._best("on-write", lambda: table.df().select(ONE))
            self._ratio("read of one column, on-write / plain", ours, one, ONE_COLUMN)
        with lakebed.connect(self.root / "on-read", spark=self.spark) as lake:
            table = lake.table("t")
            settled, bare = partial(table.at(tag=SETTLED).df), self._bare(table)
            self._check(settled(), self._live())
            every = self._best("live", self._live)
            clean = self._best("settled", settled)
            self._ratio("read of all columns, settled / plain", clean, every, ALL_COLUMNS)
            again = self._best("bare", lambda: bare)
            self._ratio("plain Spark on the same files, dead rows too / plain", again, every, None)
            self._unsettled(table, clean)
            self._check(table.at(tag=UNSETTLED).df(), self._live())
            again = self._best("compacted", table.at(tag=COMPACTED).df)
            self._ratio("read of all columns, compacted / plain", again, every, None)
            one = self._best("live", lambda: self._live().select(ONE))
            again = self._best("settled", lambda: settled().select(ONE))
            self._ratio("read of one column, settled / plain", again, one, ONE_COLUMN)
            again = self._best("bare", lambda: bare.select(ONE))
            self._ratio("the same files, dead rows too, one column / plain", again, one, None)
            again = self._best("compacted", lambda: table.at(tag=COMPACTED).df().select(ONE))
            self._ratio("read of one column, compacted / plain", again, one, None)

    def _unsettled(self, table: Any, settled: list[Cost]) -> None:
        first, best = _cost(lambda: _drain(table.at(tag=UNSETTLED).df())), min(settled)
        note = f"{first.seconds:.2f} s against {best.seconds:.2f} s; processor time {first.cpu - best.cpu:+.2f} s"
        what = "read, unsettled, first: beyond the settled one"
        self._add(what, first.seconds - best.seconds, "s", UNSETTLED_SECONDS, note)
        second = self._best("unsettled", table.at(tag=UNSETTLED).df)
        self._ratio("read, unsettled, second / settled", second, settled, SECOND)

    def _files(self) -> None:
        """Many small files, one in each partition, written at once."""
        count = self.amount.small_files
        if not (self.root / "many").exists():
            with self._fresh("many") as lake:
                table = lake.create_table("t", "part BIGINT, id BIGINT", partition_by=["part"])
                table.append(pa.table({"part": np.arange(count), "id": np.arange(count)}))
        self._warm_up()
        with lakebed.connect(self.root / "many", spark=self.spark) as lake:
            table = lake.table("t")
            seconds = _cost(lambda: _planned(table.df())).seconds
            what = f"plan of {count:,} small files, first in the process"
            self._add(what, seconds, "s", PLAN_SECONDS, "df() and Spark's physical plan")
            seconds = min(_cost(lambda: _planned(table.df())).seconds for _ in range(3))
            self._add(f"plan of {count:,} small files, later, best of 3", seconds, "s", PLAN_SECONDS, "")
            seconds = _cost(lambda: _planned(table.df(where="part = 17"))).seconds
            self._add("the same with a predicate on the partition", seconds, "s", PLAN_SECONDS, "")
            found = table.df().count()
            if found != count:
                raise RuntimeError(f"{count:,} rows were written, {found:,} are there")

    def _bare(self, table: Any) -> DataFrame:
        """The files of the settled version without any deletion vector."""
        paths = [f"{table.location}/{path}" for path in table.at(tag=SETTLED).files()["path"].to_pylist()]
        return self.spark.read.parquet(*paths)

    def _best(self, what: str, frame: Callable[[], DataFrame]) -> list[Cost]:
        """The first try only warms up."""
        tries = [_cost(lambda: _drain(frame())) for _ in range(1 + self.amount.tries)]
        self._say(f"  {what}: {', '.join(f'{one.seconds:.2f} s ({one.cpu:.1f} cpu)' for one in tries)}")
        return tries[1:]

    def _warm_up(self) -> None:
        self._plain_write(self._batch(0))
        _drain(self._live().limit(1000))

    def _fresh(self, name: str) -> Any:
        shutil.rmtree(self.root / name, ignore_errors=True)
        return lakebed.connect(self.root / name, spark=self.spark)

    def _live(self) -> DataFrame:
        return self._frame(self.root / "live")

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
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        step = -(-table.num_rows // INPUT_FILES)
        for part in range(INPUT_FILES):
            pq.write_table(table.slice(part * step, step), folder / f"{part}.parquet")

    def _ratio(
        self, what: str, ours: list[Cost], plain: list[Cost], goal: float | None, *, total: bool = False
    ) -> None:
        chosen = sum if total else min
        mine, its = (Cost(*(chosen(part) for part in zip(*costs, strict=True))) for costs in (ours, plain))
        how = f"{len(ours)} in turns" if total else f"best of {len(ours)}"
        note = f"{mine.seconds:.2f} s against {its.seconds:.2f} s, {how}; processor time {mine.cpu / its.cpu:.2f} x"
        self._add(what, mine.seconds / its.seconds, "x", goal, note)

    def _add(self, what: str, value: float, unit: str, goal: float | None, note: str) -> None:
        self.lines.append(Line(what, value, unit, goal, note=note))
        self._say(f"{what}: {value:.2f} {unit} ({note})")

    def _say(self, text: str) -> None:
        self.console.print(text, style="dim", highlight=False)


def _drain(frame: DataFrame) -> None:
    """Every value reaches a sink that does nothing."""
    frame.write.format("noop").mode("overwrite").save()


def _counted(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield pa.record_batch([pa.array([sum(batch.num_rows for batch in batches)])], ["rows"])


def _planned(frame: DataFrame) -> None:
    """Spark knows how it would read the frame."""
    with contextlib.redirect_stdout(io.StringIO()):
        frame.explain()


def _digest(frame: DataFrame) -> list[Any]:
    from pyspark.sql import functions as f

    hashed = f.xxhash64(*sorted(frame.columns)).cast("decimal(38,0)")
    return list(frame.agg(f.count("*"), f.sum(hashed)).first() or ())


def _cost(work: Callable[[], object]) -> Cost:
    gc.collect()
    cpu, start = cpu_seconds(), time.perf_counter()
    work()
    return Cost(time.perf_counter() - start, cpu_seconds() - cpu)


def session(folder: Path) -> SparkSession:
    """A local session with all processors."""
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


def main(text: str) -> None:
    """Run the part that the JSON text names; its lines go to standard output."""
    order = json.loads(text)
    root = Path(order["root"])
    spark = session(root)
    try:
        lines = Contest(spark, root, Amount(**order["amount"]), Console(stderr=True)).run(order["part"])
    finally:
        spark.stop()
    print(json.dumps([asdict(line) for line in lines]))


if __name__ == "__main__":
    main(sys.argv[1])
