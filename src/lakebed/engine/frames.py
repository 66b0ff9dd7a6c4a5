"""Rows straight into polars, file by file, where polars reads them as Arrow would; else through Arrow."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import polars as pl
import pyarrow as pa

from lakebed.core.errors import LakebedError
from lakebed.delta.foreign import place
from lakebed.engine.scan import READ_THREADS, ScanOrder, by_field_id, constant, known_dead, read_all, read_source
from lakebed.engine.source import MergedRows, Source, Sources
from lakebed.storage.deletion_vector import keep_mask
from lakebed.storage.forked import polars_is_lost


def read_frame(order: ScanOrder, sources: Sources) -> pl.DataFrame:
    """The live rows of ``sources`` as one frame, in file order: what ``read_all`` gives, in polars' types.

    Predicates are Arrow's to evaluate, and remote files its to fetch. Raises LakebedError after a fork.
    """
    if polars_is_lost():
        raise LakebedError(
            f"table {order.table_name}: polars does not work in a process that was forked from one that used it",
            fix="read with to_arrow(), or start processes with multiprocessing.get_context('spawn')",
        )
    if order.predicate is not None or by_field_id(order.metadata) or not order.stored or not sources:
        return _frame(read_all(order, sources))
    wanted = _frame(order.output.empty_table()).schema
    with ThreadPoolExecutor(max_workers=READ_THREADS, thread_name_prefix="lakebed-read") as pool:
        return pl.concat(pool.map(lambda source: _read(order, source, wanted), sources), rechunk=False)


def _frame(rows: pa.Table) -> pl.DataFrame:
    frame = pl.from_arrow(rows, rechunk=False)
    assert isinstance(frame, pl.DataFrame)
    return frame


def _read(order: ScanOrder, source: Source | MergedRows, wanted: pl.Schema) -> pl.DataFrame:
    if isinstance(source, MergedRows):
        return _frame(read_source(order, source))
    at = place(order.store, source.add)
    raw = _read_plain(at.store.path(at.path), order, wanted) if at.store.location.is_local else None
    if raw is None:
        return _frame(read_source(order, source))
    dead = known_dead(order, source)
    if dead is not None and raw.height:
        raw = raw.filter(pl.Series(keep_mask(dead, 0, raw.height)))
    fixed = [f for f in order.needed if f.name not in order.stored.names]
    values = [pl.Series(f.name, constant(source.add, f, raw.height), wanted[f.name]) for f in fixed]
    return raw.with_columns(values).select(order.columns)


def _read_plain(path: str, order: ScanOrder, wanted: pl.Schema) -> pl.DataFrame | None:
    """The stored columns of a file under their names of today; None if polars cannot, or would differ from Arrow."""
    names = {f.physical_name: f.name for f in order.stored}
    try:
        found = pl.read_parquet_schema(path)
        if any(found.get(physical) != wanted[name] for physical, name in names.items()):
            return None
        raw = pl.read_parquet(path, columns=list(names), glob=False, hive_partitioning=False)
    except (pl.exceptions.PolarsError, OSError):
        # Arrow reads what polars cannot, and says what is wrong with a file that nobody can read.
        return None
    return raw.rename(names)
