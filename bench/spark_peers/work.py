"""What a workload works with: a session, tables of one contender, a clock, and a check of what came out."""

from __future__ import annotations

import gc
import hashlib
import os
import time
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from bench.processor import cpu_seconds
from bench.spark_peers.engines.engine import Engine, Shape, Table, files
from bench.spark_peers.places import Places
from bench.spark_peers.sizes import Sizes
from bench.spark_peers.workloads.names import ASKED

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame, SparkSession

Result = TypeVar("Result")
ASKING_SECONDS = 10.0
"""For so long the same is asked, if it is answered fast."""
ASKED_MOST = 20
"""But not more often than this."""


class WrongRowsError(Exception):
    """A contender has other rows than it must have; the text says how they differ."""


@dataclass
class Work:
    """One run of one workload by one contender."""

    spark: SparkSession
    engine: Engine
    places: Places
    sizes: Sizes
    tell: Callable[[dict[str, Any]], None]
    """Takes what has happened, as an object for JSON."""
    name: str
    """Part of the names of tables, so that every run has its own."""
    flush: bool = True
    """Whether everything is flushed to the disk before the clock starts; it need not while warming up."""
    digests: dict[str, list[Any]] = field(default_factory=dict)
    """Of expected rows, by their folders."""

    @contextmanager
    def table(self, suffix: str, shape: Shape | None = None) -> Iterator[Table]:
        """A table for as long as the context lasts."""
        made = self.engine.table(f"{self.name}_{suffix}", shape or Shape())
        yield made
        made.drop()

    def rows(self, folder: Path) -> DataFrame:
        """Rows of the input."""
        return self.spark.read.parquet(str(folder))

    def step(
        self,
        name: str,
        act: Callable[[], Result],
        *,
        table: Table | None = None,
        number: int = 0,
        source: Path | None = None,
    ) -> Result:
        """Do something by the clock. What it wrote below a table's folder counts, beside the bytes of its source."""
        before = {} if table is None or name == "load" else files(table.folder)
        gc.collect()
        if self.flush:
            os.sync()  # what was written before must not be on this one's bill
        self.tell({"begin": name})
        cpu, begun = cpu_seconds(), time.perf_counter()
        result = act()
        found = {"step": name, "number": number, "seconds": time.perf_counter() - begun, "cpu": cpu_seconds() - cpu}
        if table is not None:
            after = files(table.folder)
            new = {path: about for path, about in after.items() if before.get(path) != about}
            found |= {"written": _bytes(new), "new_files": len(new), "disk": _bytes(after), "files": len(after)}
        if source is not None:
            found["source"] = _bytes(files(source))
        self.tell(found)
        return result

    def ask(self, name: str, act: Callable[[], Result]) -> Result:
        """Ask the same of rows that do not change, again and again: a JVM compiles what it has run often.

        Some have compiled their readers before, while they wrote; others write without the JVM.
        """
        begun, number = time.perf_counter(), 0
        while True:
            result = self.step(name, act, number=number)
            number += 1
            waits = self.flush and number < ASKED_MOST and time.perf_counter() - begun < ASKING_SECONDS
            if number >= ASKED and not waits:
                return result

    def note(self, name: str, **figures: float) -> None:
        """Figures that are no times, of a step that has ended."""
        self.tell({"note": name, "figures": figures})

    def check(self, what: str, frame: DataFrame, expected: Path) -> None:
        """Count and hash the rows. Raises WrongRowsError if they are not those of the folder."""
        if str(expected) not in self.digests:
            self.digests[str(expected)] = digest(self.rows(expected))
        self.same(what, digest(frame), self.digests[str(expected)])

    def same(self, what: str, found: Any, expected: Any) -> None:
        """Raises WrongRowsError unless both are equal."""
        if found != expected:
            raise WrongRowsError(f"{what}: expected {str(expected)[:200]}, found {str(found)[:200]}")
        text = str(found)
        self.tell({"checked": what, "digest": text if len(text) < 100 else hashlib.sha256(text.encode()).hexdigest()})


def drain(frame: DataFrame) -> None:
    """Read all columns of all rows, and drop them. Spark's noop sink would do, but Delta fails to write into it
    from a table with deletion vectors (it pins no snapshot for the query of such a write)."""
    frame._jdf.queryExecution().toRdd().count()


def planned(frame: DataFrame) -> None:
    """Spark knows which task would read which file."""
    frame._jdf.queryExecution().toRdd().getNumPartitions()


def digest(frame: DataFrame) -> list[Any]:
    """How many rows there are, and the sum of a hash of each: the same in any order, and on any Spark."""
    from pyspark.sql import functions as f

    hashed = f.xxhash64(*(f.col(name) for name in sorted(frame.columns))).cast("decimal(38,0)")
    return list(frame.agg(f.count("*"), f.sum(hashed)).first() or ())


def _bytes(found: dict[str, tuple[int, int]]) -> int:
    return sum(size for size, _ in found.values())
