"""Rows with what the table knows of each: its file and its place in it, its version, bucket and partition."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa

from lakebed.core.actions import AddFile
from lakebed.core.commit import partition_key
from lakebed.core.file_tags import ROW_VERSION_COLUMN, bucket_of
from lakebed.core.predicate import evaluate
from lakebed.delta.foreign import place
from lakebed.engine.prefetch import prefetch
from lakebed.engine.scan import ScanOrder, known_dead, named, scan
from lakebed.engine.source import MergedRows, Source, Sources
from lakebed.engine.tracked_scan import tracked_batch, tracked_columns
from lakebed.storage.deletion_vector import keep_mask
from lakebed.storage.parquet_reader import read_batches

FACTS: dict[str, tuple[pa.DataType, Callable[[AddFile], object]]] = {
    "_file": (pa.string(), lambda add: add.file_path),
    "_row_index": (pa.int64(), lambda add: None),
    "_commit_version": (pa.int64(), lambda add: add.default_row_commit_version),
    "_bucket": (pa.int64(), bucket_of),
    "_partition": (pa.string(), lambda add: partition_key(add.partition_values)),
}
"""Type and, as far as a file tells it for all its rows, value of each metadata column.

A row that is in no file yet has none of them but its version; a row that was rewritten has a version of its own."""


def described_schema(order: ScanOrder, facts: Sequence[str]) -> pa.Schema:
    """The wanted columns, and then the facts."""
    return pa.schema([*order.output, *((name, FACTS[name][0]) for name in facts)])


def described(order: ScanOrder, sources: Sources, facts: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """The live rows of ``sources`` as batches, with these facts of each; without any it is ``scan``."""
    if not facts:
        return scan(order, sources)
    batches = (
        batch
        for source in sources
        for rows in (_merged(order, source, facts) if isinstance(source, MergedRows) else _live(order, source, facts))
        for batch in _wanted(order, rows, facts).to_batches(order.options.batch_size)
        if batch.num_rows
    )
    return prefetch(batches, order.options.prefetch)


def _wanted(order: ScanOrder, rows: pa.Table, facts: Sequence[str]) -> pa.Table:
    if order.predicate is not None and rows.num_rows:
        rows = rows.filter(evaluate(order.predicate, rows))
    return rows.select([*order.columns, *facts])


def _live(order: ScanOrder, source: Source, facts: Sequence[str]) -> Iterator[pa.Table]:
    at, dead = place(order.store, source.add), known_dead(order, source)
    start = 0
    with named(order):
        for batch in read_batches(at.store, at.path, tracked_columns(order), order.options.batch_size):
            count = batch.num_rows
            rows = tracked_batch(order, source.add, batch, start)
            own = {"_row_index": pa.arange(start, start + count), "_commit_version": rows[ROW_VERSION_COLUMN]}
            for name in facts:
                kind, of = FACTS[name]
                rows = rows.append_column(name, own[name] if name in own else _repeated(of(source.add), kind, count))
            if dead is not None and count:
                rows = rows.filter(keep_mask(dead, start, count))
            start += count
            yield rows


def _merged(order: ScanOrder, source: MergedRows, facts: Sequence[str]) -> Iterator[pa.Table]:
    for rows in source.tables(list(order.needed.names)):
        unknown = {name: pa.nulls(rows.num_rows, FACTS[name][0]) for name in facts}
        known = {**unknown, "_commit_version": rows[ROW_VERSION_COLUMN]}
        columns = {**{name: rows[name] for name in order.needed.names}, **{name: known[name] for name in facts}}
        yield pa.table(columns)


def _repeated(value: object, kind: pa.DataType, count: int) -> pa.Array:
    return pa.nulls(count, kind) if value is None else pa.repeat(pa.scalar(value, kind), count)
