"""Rows straight into polars, file by file, where polars reads them as Arrow would; else through Arrow."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import polars as pl
import pyarrow as pa
from pyroaring import BitMap64

from lakebed.core.errors import LakebedError
from lakebed.core.options import MIB
from lakebed.core.schema_check import RESERVED_PREFIX
from lakebed.delta.foreign import place
from lakebed.engine.resolving.key_columns import KnownKeys
from lakebed.engine.scan import (
    READ_THREADS,
    ScanOrder,
    by_field_id,
    constant,
    known_dead,
    qualifying,
    read_all,
    read_source,
    skips_groups,
)
from lakebed.engine.source import MergedRows, Source, Sources
from lakebed.storage.deletion_vector import keep_mask
from lakebed.storage.forked import polars_is_lost
from lakebed.storage.parquet_encoder import keeps

LARGE = 8 * MIB
"""From this size on, files are read by polars on the way to Arrow."""
_LARGEST_TEXT = 2**31 - 1
_DEAD_SHARE = 0.1
"""From this share of dead rows on, polars is made to decode only the others."""
_POSITION = f"{RESERVED_PREFIX}position"
_CHEAP = (pl.Boolean, pl.Int8, pl.Int16, pl.Int32, pl.Date, pl.Float32)
"""The types of columns that cost little to decode, the cheapest first."""


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


def read_rows(order: ScanOrder, sources: Sources) -> pa.Table:
    """The live rows of ``sources`` as one Arrow table: what ``read_all`` gives, by way of polars if they are large."""
    if not sources or polars_is_lost() or not _worth_it(order, sources):
        return read_all(order, sources)
    wanted = _frame(order.needed_arrow.empty_table()).schema
    with ThreadPoolExecutor(max_workers=READ_THREADS, thread_name_prefix="lakebed-read") as pool:
        return pa.concat_tables(pool.map(lambda source: _read_arrow(order, source, wanted), sources))


def _worth_it(order: ScanOrder, sources: Sources) -> bool:
    size = sum(source.add.size for source in sources if isinstance(source, Source))
    return (
        size >= LARGE
        and bool(order.stored)
        and order.store.location.is_local
        and not by_field_id(order.metadata)
        and keeps(order.needed_arrow)
    )


def _read_arrow(order: ScanOrder, source: Source | MergedRows, wanted: pl.Schema) -> pa.Table:
    if isinstance(source, MergedRows) or skips_groups(order, source.add):
        return read_source(order, source)
    frame = _live(order, source, wanted)
    if frame is None:
        return read_source(order, source)
    try:
        rows = frame.to_arrow(compat_level=_layout(frame)).cast(order.needed_arrow)
    except pa.ArrowException:
        return read_source(order, source)  # more text than an Arrow column of it can hold in one piece
    return qualifying(order, rows)


def _layout(rows: pl.DataFrame) -> pl.CompatLevel:
    """The layout in which Arrow gets texts: as polars has them, so that they are copied only once, where it casts them.

    Arrow does not cast such texts inside of lists; and of more than 2 GiB it makes wrong ones, without an error.
    """
    if any(kind.is_nested() for kind in rows.dtypes):
        return pl.CompatLevel.oldest()
    texts = pl.col(pl.String).str.len_bytes(), pl.col(pl.Binary).bin.size()
    sizes = rows.select(size.cast(pl.UInt64).sum() for size in texts)
    fits = all(size <= _LARGEST_TEXT for size in (sizes.row(0) if sizes.width else ()))
    return pl.CompatLevel.newest() if fits else pl.CompatLevel.oldest()


def _frame(rows: pa.Table) -> pl.DataFrame:
    frame = pl.from_arrow(rows, rechunk=False)
    assert isinstance(frame, pl.DataFrame)
    return frame


def _read(order: ScanOrder, source: Source | MergedRows, wanted: pl.Schema) -> pl.DataFrame:
    frame = None if isinstance(source, MergedRows) else _live(order, source, wanted)
    return _frame(read_source(order, source)) if frame is None else frame.select(order.columns)


def _live(order: ScanOrder, source: Source, wanted: pl.Schema) -> pl.DataFrame | None:
    """The live rows of a file with all needed columns; None if polars cannot read it, or not as Arrow would."""
    at = place(order.store, source.add)
    if not at.store.location.is_local:
        return None
    dead = known_dead(order, source)
    known = KnownKeys.of(order)
    keys = None if known is None else known.find(order, source.add)
    raw = _read_plain(at.store.path(at.path), order, wanted, dead, source.add.num_records, keys)
    if raw is None:
        return None
    fixed = [f for f in order.needed if f.name not in order.stored.names]
    values = [pl.Series(f.name, constant(source.add, f, raw.height), wanted[f.name]) for f in fixed]
    return raw.with_columns(values).select(order.needed.names)


def _read_plain(
    path: str, order: ScanOrder, wanted: pl.Schema, dead: BitMap64 | None, rows: int | None, keys: pl.Series | None
) -> pl.DataFrame | None:
    """The live rows of a file, its columns under their names of today; None if polars cannot, or unlike Arrow.

    ``keys`` is a column that is in memory already, from when what was unsettled was resolved.
    """
    names = {f.physical_name: f.name for f in order.stored}
    try:
        found = pl.read_parquet_schema(path)
        if any(found.get(physical) != wanted[name] for physical, name in names.items()):
            return None
        known = None if keys is None else keys.name
        columns = [pl.col(physical).alias(name) for physical, name in names.items() if name != known]
        if dead and rows:
            live = pl.Series(keep_mask(dead, 0, rows))
            read_too = {physical: found[physical] for physical, name in names.items() if name != known}
            found_rows = _only(path, read_too, live, len(dead))
            keys = None if keys is None else keys.filter(live)
        else:
            found_rows = pl.scan_parquet(path, glob=False, hive_partitioning=False)
        read = found_rows.select(columns).collect()
        return read if keys is None else read.with_columns(keys)
    except (pl.exceptions.PolarsError, OSError):
        # Arrow reads what polars cannot, and says what is wrong with a file that nobody can read.
        return None


def _only(path: str, columns: Mapping[str, pl.DataType], live: pl.Series, dead: int) -> pl.LazyFrame:
    """The live rows of a file, of which these columns are read.

    If some are dead, polars decodes no others but of one column: it does so for a predicate that looks at a column of
    the file, and this one looks at the number of the row besides. Tables with two dead rows for each live one are read
    in a tenth less time and a quarter less memory.
    """
    plain = [name for name, kind in columns.items() if not kind.is_nested()]
    if dead < _DEAD_SHARE * len(live) or not plain:
        return pl.scan_parquet(path, glob=False, hive_partitioning=False).filter(live)

    numbered = pl.scan_parquet(
        path, glob=False, hive_partitioning=False, row_index_name=_POSITION, use_statistics=False
    )
    chosen = pl.col(_POSITION).map_batches(partial(_alive, live), return_dtype=pl.Boolean, is_elementwise=True)
    cheapest = min(plain, key=lambda name: _cost(columns[name]))
    return numbered.filter(chosen & (pl.col(cheapest).is_null() | True)).drop(_POSITION)


def _alive(live: pl.Series, positions: pl.Series) -> pl.Series:
    """Whether the rows at these ascending positions are; most often, they follow each other."""
    if not positions.len():
        return live.clear()
    first, last = positions[0], positions[-1]
    return live.slice(first, positions.len()) if last - first + 1 == positions.len() else live.gather(positions)


def _cost(kind: pl.DataType) -> int:
    """A column with less of it is decoded faster."""
    return next((at for at, cheap in enumerate(_CHEAP) if cheap == kind), len(_CHEAP))
