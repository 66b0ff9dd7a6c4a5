"""Which way of finding changed keys in a bucket is the fastest: ``python -m bench.settle_kernels [--rows N]``.

A bucket is one file of sorted keys; the changed keys are a sorted sample. Beside the wall-clock time stands the
processor time of all threads, which counts when several buckets are matched at once. Small by default;
``--rows 2500000`` is a bucket of the size that the kernels were chosen for.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table

from lakebed.engine.resolving.kernel import INDEX, pairs, plain

Frame = pl.DataFrame

KEYS: dict[str, Callable[[pl.Series], Frame]] = {
    "int64": lambda n: pl.DataFrame({"a": n}),
    "string": lambda n: pl.DataFrame({"a": "user-" + n.cast(pl.String).str.zfill(12)}),
    "binary": lambda n: pl.DataFrame({"a": ("user-" + n.cast(pl.String).str.zfill(12)).cast(pl.Binary)}),
    "decimal(18,2)": lambda n: pl.DataFrame({"a": n.cast(pl.Decimal(18, 2))}),
    "decimal(38,2)": lambda n: pl.DataFrame({"a": n.cast(pl.Decimal(38, 2))}),
    "timestamp": lambda n: pl.DataFrame({"a": n.cast(pl.Datetime("us", "UTC"))}),
    "string, int64": lambda n: pl.DataFrame({"a": "shop" + (n // 1000).cast(pl.String).str.zfill(6), "b": n}),
    "date, int32": lambda n: pl.DataFrame({"a": (n // 400).cast(pl.Int32).cast(pl.Date), "b": n.cast(pl.Int32)}),
}


@dataclass(frozen=True)
class Case:
    """One bucket and its changed keys; ``rows`` has a position, ``keys`` an index."""

    rows: Frame
    keys: Frame

    @property
    def by(self) -> list[str]:
        """The key columns."""
        return [name for name in self.rows.columns if name != "position"]


def ours(case: Case) -> int:
    """What the engine does, from columns as they are read."""
    kinds = case.rows.schema
    rows, keys = (frame.with_columns(plain(pl.col(c), kinds[c]) for c in case.by) for frame in (case.rows, case.keys))
    return pairs(rows, keys, case.by).height


def semi_join(case: Case) -> int:
    """Polars' hash join, positions only."""
    return case.rows.join(case.keys, on=case.by, how="semi").height


def inner_join(case: Case) -> int:
    """Polars' hash join, with the number of the key."""
    return case.rows.join(case.keys, on=case.by, how="inner").height


def streaming_join(case: Case) -> int:
    """The same in polars' streaming engine."""
    joined = case.rows.lazy().join(case.keys.lazy(), on=case.by, how="inner")
    return int(joined.select(pl.len()).collect(engine="streaming").item())


def is_in(case: Case) -> int:
    """Polars' set membership, of structs for several columns."""
    value = pl.col(case.by[0]) if len(case.by) == 1 else pl.struct(case.by)
    wanted = case.keys.select(value.alias("set")).to_series()
    return int(case.rows.select(value.is_in(wanted.implode())).to_series().sum())


def search_sorted(case: Case) -> int | None:
    """A binary search for each key; one column only."""
    if len(case.by) > 1:
        return None
    values, wanted = case.rows["a"], case.keys["a"]
    place = values.search_sorted(wanted).clip(0, len(values) - 1)
    return int((values[place] == wanted).sum())


def arrow_index_in(case: Case) -> int | None:
    """Arrow's set membership; one column only."""
    if len(case.by) > 1:
        return None
    found = pc.index_in(case.rows["a"].to_arrow(), value_set=case.keys["a"].to_arrow())
    return int(len(found) - found.null_count)


def arrow_join(case: Case) -> int:
    """Arrow's hash join."""
    rows, keys = case.rows.to_arrow(), case.keys.to_arrow()
    return int(rows.join(keys, keys=case.by, join_type="inner").num_rows)


KERNELS = (ours, semi_join, inner_join, streaming_join, is_in, search_sorted, arrow_index_in, arrow_join)


def read_arrow(path: Path, columns: list[str]) -> pa.Table:
    """The key columns with Arrow."""
    return pq.ParquetFile(path, pre_buffer=True).read(columns=columns)


def read_arrow_to_polars(path: Path, columns: list[str]) -> Frame:
    """The key columns with Arrow, handed to polars."""
    frame = pl.from_arrow(read_arrow(path, columns))
    assert isinstance(frame, pl.DataFrame)
    return frame


def read_polars(path: Path, columns: list[str]) -> Frame:
    """The key columns with polars."""
    return pl.scan_parquet(path, glob=False).select(columns).collect()


READERS = (read_polars, read_arrow, read_arrow_to_polars)


def measured(work: Callable[[], object], times: int) -> str:
    """The best wall-clock and processor time in milliseconds."""
    wall, cpu = [], []
    for _ in range(times):
        start, used = time.perf_counter(), time.process_time()
        work()
        wall.append(time.perf_counter() - start)
        cpu.append(time.process_time() - used)
    return f"{min(wall) * 1000:.1f} ({min(cpu) * 1000:.0f})"


def kernel_lines(rows: int, shares: list[float], times: int) -> Iterator[list[str]]:
    """One line for each type of key and number of changed keys."""
    for kind, make in KEYS.items():
        numbers = pl.int_range(0, rows * 4, 4, eager=True)
        for share in shares:
            count = max(10, int(rows * share))
            # Half of the changed keys are new ones.
            changed = (pl.int_range(0, rows * 2, eager=True).sample(count, seed=1) * 2).sort()
            # As if read from files: nothing says that the columns are sorted.
            rows_of, keys_of = make(numbers).with_row_index("position"), make(changed).with_row_index(INDEX)
            case = Case(_forgetful(rows_of), _forgetful(keys_of))
            found = {kernel(case) for kernel in KERNELS} - {None}
            assert len(found) == 1, f"the kernels do not agree on {kind}: {found}"
            able = [kernel for kernel in KERNELS if kernel(case) is not None]
            cells = [measured(partial(kernel, case), times) if kernel in able else "-" for kernel in KERNELS]
            yield [kind, f"{count:,}", *cells]


def _forgetful(frame: Frame) -> Frame:
    """The same columns without polars' knowledge that they are sorted."""
    return pl.DataFrame(frame.to_arrow())


def reader_lines(rows: int, times: int, directory: Path) -> Iterator[list[str]]:
    """One line for each type of key."""
    for kind, make in KEYS.items():
        frame = make(pl.int_range(0, rows * 4, 4, eager=True))
        path = directory / f"{len(list(directory.iterdir()))}.parquet"
        other = pl.int_range(0, rows, eager=True).alias("other")
        frame.with_columns(other).write_parquet(path, compression_level=1, row_group_size=250_000)
        yield [kind, *(measured(partial(read, path, frame.columns), times) for read in READERS)]


def shown(title: str, head: list[str], lines: Iterator[list[str]]) -> Table:
    """The lines as a table, with numbers on the right."""
    table = Table(title=title)
    for name in head:
        table.add_column(name, justify="right" if name not in ("key", "keys") else "left")
    for line in lines:
        table.add_row(*line)
    return table


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m bench.settle_kernels", description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000, help="rows of the bucket")
    parser.add_argument("--times", type=int, default=3, help="runs, of which the best counts")
    parser.add_argument("--shares", type=float, nargs="+", default=[0.0, 0.02, 0.1], help="changed keys per row")
    options = parser.parse_args()
    console = Console(width=200)
    names = [kernel.__name__.replace("_", " ") for kernel in KERNELS]
    lines = kernel_lines(options.rows, options.shares, options.times)
    title = f"Changed keys in {options.rows:,} rows: wall-clock (processor) milliseconds"
    console.print(shown(title, ["keys", "changed", *names], lines))
    with tempfile.TemporaryDirectory() as directory:
        names = [read.__name__.replace("_", " ") for read in READERS]
        lines = reader_lines(options.rows, options.times, Path(directory))
        console.print(shown("Reading the key columns", ["keys", *names], lines))


if __name__ == "__main__":
    main()
