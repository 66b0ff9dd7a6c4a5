"""Writing and reading the same rows, against plain polars and plain pyarrow on the same disk.

Lakebed and the plain libraries take turns within each round, so that a busy machine slows all of them; the
ratio is that of the best times. Lakebed flushes data, log and metastore to the disk; the plain writers do so
only where it says fsync. Polars compresses at zstd's level 3 unless told otherwise, pyarrow and Lakebed at 1.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

import lakebed
from bench.report import Line
from bench.sample import rows
from bench.servers import scratch

ROUNDS = 5
WRITE_GOAL, READ_GOAL = 1.3, 1.2
FILTER = "city = 'city-042'"


def run(*, quick: bool) -> list[Line]:
    """Write, read whole, read a part, read after a scattered delete."""
    data = rows(100_000 if quick else 2_500_000)
    rounds = 2 if quick else ROUNDS
    with scratch("throughput") as root, lakebed.connect(root / "warehouse") as lake:
        (root / "plain").mkdir()
        lines = list(_writes(lake, data, root / "plain", rounds))
        table = lake.create_table("t", data.schema)
        table.append(data)
        lines += _reads(table, data, rounds)
    return lines


def best(actions: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """The least seconds of each action; they take turns, in an order that changes from round to round."""
    seconds: dict[str, list[float]] = {name: [] for name in actions}
    for number in range(rounds):
        names = list(actions)
        for name in names[number % len(names) :] + names[: number % len(names)]:
            begun = time.perf_counter()
            actions[name]()
            seconds[name].append(time.perf_counter() - begun)
    return {name: min(taken) for name, taken in seconds.items()}


def _writes(lake: lakebed.Warehouse, data: pa.Table, folder: Path, rounds: int) -> Iterator[Line]:
    numbers = count()
    frame = pl.from_arrow(data)
    assert isinstance(frame, pl.DataFrame)

    empty = [lake.create_table(f"w{number}", data.schema) for number in range(2 * rounds)]
    waiting = iter(empty)

    def ours(what: Any) -> None:
        next(waiting).append(what)

    def plain(write: Callable[[Path], object], *, flush: bool) -> None:
        path = folder / f"{next(numbers)}.parquet"
        write(path)
        if flush:
            _flush(path)
        path.unlink()

    def polars(path: Path) -> None:
        frame.write_parquet(path, compression="zstd")

    def polars_level(path: Path) -> None:
        frame.write_parquet(path, compression="zstd", compression_level=1)

    def arrow(path: Path) -> None:
        pq.write_table(data, path, compression="zstd")

    taken = best(
        {
            "arrow data": lambda: ours(data),
            "polars data": lambda: ours(frame),
            "polars": lambda: plain(polars, flush=False),
            "polars at our level 1": lambda: plain(polars_level, flush=False),
            "pyarrow": lambda: plain(arrow, flush=False),
            "polars + fsync": lambda: plain(polars, flush=True),
            "pyarrow + fsync": lambda: plain(arrow, flush=True),
        },
        rounds,
    )
    for table in empty:
        lake.drop_table(table.name, purge=True)
    size = data.nbytes / 1e6
    for source in ("arrow data", "polars data"):
        for other in ("polars", "polars at our level 1", "pyarrow", "polars + fsync", "pyarrow + fsync"):
            goal = WRITE_GOAL if source == "arrow data" and "fsync" not in other else None
            yield _ratio(f"append of {source} / {other}", taken[source], taken[other], goal, size)


def _flush(path: Path) -> None:
    for place in (path, path.parent):
        descriptor = os.open(place, os.O_RDONLY)
        os.fsync(descriptor)
        os.close(descriptor)


def _paths(table: lakebed.Table) -> list[str]:
    root = urlsplit(table.location).path
    return [os.path.join(root, path) for path in table.files()["path"].to_pylist()]


def _reads(table: lakebed.Table, data: pa.Table, rounds: int) -> list[Line]:
    paths = _paths(table)
    check = table.to_arrow()
    if check.num_rows != data.num_rows or check["id"].null_count:
        raise RuntimeError(f"{data.num_rows} rows were written, {check.num_rows} were read")
    size = data.nbytes / 1e6
    chosen = pl.col("city") == "city-042"
    pairs: dict[str, tuple[Callable[[], object], Callable[[], object], float | None]] = {
        "to_arrow / pyarrow": (table.to_arrow, lambda: pq.read_table(paths), READ_GOAL),
        "to_polars / polars": (table.to_polars, lambda: pl.read_parquet(paths), READ_GOAL),
        "one column, to_arrow / pyarrow": (
            lambda: table.to_arrow(["price"]),
            lambda: pq.read_table(paths, columns=["price"]),
            None,
        ),
        "filtered, to_arrow / pyarrow": (
            lambda: table.to_arrow(where=FILTER),
            lambda: pq.read_table(paths, filters=[("city", "==", "city-042")]),
            None,
        ),
        "to_batches / pyarrow": (lambda: list(table.to_batches()), lambda: pq.read_table(paths), None),
        "filtered, to_polars / polars": (
            lambda: table.to_polars(where=FILTER),
            lambda: pl.scan_parquet(paths).filter(chosen).collect(),
            None,
        ),
    }
    lines = [_compare(what, ours, plain, goal, rounds, size) for what, (ours, plain, goal) in pairs.items()]
    deleted = table.delete("id % 10 = 3").metrics["numDeletedRows"]
    what = f"to_arrow after a delete of {deleted:,} scattered rows / pyarrow with them"
    return [*lines, _compare(what, table.to_arrow, lambda: pq.read_table(paths), None, rounds, size)]


def _compare(
    what: str,
    ours: Callable[[], object],
    plain: Callable[[], object],
    goal: float | None,
    rounds: int,
    size: float,
) -> Line:
    taken = best({"ours": ours, "plain": plain}, rounds)
    return _ratio(what, taken["ours"], taken["plain"], goal, size)


def _ratio(what: str, ours: float, plain: float, goal: float | None, size: float) -> Line:
    note = f"{ours:.3f} s against {plain:.3f} s; {size / ours:,.0f} MB/s against {size / plain:,.0f} MB/s"
    return Line(what, ours / plain, "x", goal, note=note)
