"""Compaction of one bucket, or of one partition of a table without a key: which files, and their new form.

Live rows are written anew, into files of about the target size, with their row ids and the versions that last
changed them. What readers of the table see does not change.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc

from lakebed.core.actions import Metadata
from lakebed.core.commit import partition_key
from lakebed.core.errors import InputError
from lakebed.core.file_tags import KIND_COLUMN, bucket_of, is_unsettled, tombstones_of
from lakebed.core.keyed import KeySpec
from lakebed.core.options import Options
from lakebed.core.properties import value_of
from lakebed.engine.key_order import runs as by_number
from lakebed.engine.key_order import same_as_before, sorted_rows
from lakebed.engine.key_runs import (
    Run,
    UnsortedError,
    fan_in,
    in_order,
    key_columns,
    merge,
    narrowed,
    resorted,
    scratch,
)
from lakebed.engine.prefetch import prefetch
from lakebed.engine.rewritten import RewriteWriter, Rewritten
from lakebed.engine.scan import ScanOrder
from lakebed.engine.source import Source
from lakebed.engine.tracked_scan import DELETING, tracked
from lakebed.engine.vectors import replaced_tombstones
from lakebed.engine.write import WriteOrder

__all__ = ["BucketOf", "Rewritten", "choose", "rewrite", "waste"]

BucketOf = Callable[[pa.Table], pa.Array]
"""The bucket numbers of rows, by the table's present column names."""

Rows = Generator[pa.Table, None, None]

# A file below this part of the target size is a small one.
_SMALL = 2
# The part of the memory limit for rows that are read and wait to be merged.
_READING = 4
# Text columns are put together in one piece, and Arrow counts their bytes with 32 bits.
_LARGEST = 1 << 30
# How much larger rows are in memory than in a file, about.
_UNPACKED = 4
_BUFFER = 128 * 1024
_FEWEST_ROWS = 256
# The bytes of a row of which nothing is known.
_GUESS = 64.0


def choose(
    sources: Sequence[Source], metadata: Metadata, options: Options, *, full: bool, joined: bool = False
) -> list[list[Source]]:
    """Which of the files of a bucket, or of a partition of a table without a key, to rewrite together.

    Those with many dead rows, and the small ones if there are many; with ``full`` all with dead rows, and the
    small ones if there is more than one. What a rewrite has made is never chosen again as long as nothing else
    changes. Unsettled files are passed over: they have to be settled first. ``joined`` tells that rows from elsewhere
    come as well, which counts as one small file more.

    >>> from lakebed.core.actions import AddFile
    >>> files = [Source(AddFile(f"{n}", {}, 10, 0, True, stats='{"numRecords":1}')) for n in range(5)]
    >>> [[source.add.path for source in group] for group in choose(files, Metadata("t", "{}"), Options(), full=False)]
    [['0', '1', '2', '3', '4']]
    >>> choose(files[:1], Metadata("t", "{}"), Options(), full=True)
    []
    """
    spec = KeySpec.of(metadata)
    ratio = float(value_of("compaction-dead-ratio", metadata.configuration))
    # A rewrite may leave one small file: packing one alone would never end.
    many = 2 if full else max(2, int(value_of("compaction-small-files", metadata.configuration)))
    groups = []
    for files in _by_partition([s for s in sources if not is_unsettled(s.add)]).values():
        wasteful = [waste(s, spec) > 0 if full else waste(s, spec) >= ratio for s in files]
        small = [s.add.size * _SMALL < options.file_target_size for s in files]
        only_small = sum(little and not bad for little, bad in zip(small, wasteful, strict=True))
        packs = only_small + any(wasteful) + joined >= many
        chosen = [s for s, bad, little in zip(files, wasteful, small, strict=True) if bad or (packs and little)]
        if chosen:
            groups.append(chosen)
    return groups


def waste(source: Source, spec: KeySpec | None) -> float:
    """The share of a file's rows that a rewrite would drop."""
    vector = source.add.deletion_vector
    dead = len(source.dead) if source.dead is not None else vector.cardinality if vector else 0
    keeps = spec is not None and spec.keeps_tombstones
    kept = tombstones_of(source.add) - len(replaced_tombstones(source.add)) if keeps else 0
    # Other writers may not say how many rows there are; then any that is dead is one too many.
    return max(0, dead - kept) / max(source.add.num_records or dead, 1)


def _by_partition(sources: Sequence[Source]) -> dict[str, list[Source]]:
    groups: dict[str, list[Source]] = defaultdict(list)
    for source in sources:
        groups[partition_key(source.add.partition_values)].append(source)
    return groups


def rewrite(order: WriteOrder, sources: Sequence[Source], *, bucket_of: BucketOf | None = None) -> list[Rewritten]:
    """Write the live rows of ``sources`` as new files; on any error nothing remains.

    Rows keep their partition, and their bucket unless ``bucket_of`` tells another; files of a table with a key
    are sorted by it. Tombstones are kept if the table remembers deleted keys, but for those that a later row of
    their key replaces. Rows in memory are limited by ``writer_memory_limit``, however large the sources are; the
    pages of open files and the encoder come on top. Raises InputError when sources of several buckets come
    without ``bucket_of``.
    """
    unsorted: set[str] = set()
    while True:
        try:
            return _Rewrite(order, sources, bucket_of, unsorted).run()
        except UnsortedError as found:
            # Nobody writes such files, but a table must not be harmed by one. What was written is gone.
            unsorted.add(found.name)


class _Rewrite:
    """One attempt; the files whose paths are in ``unsorted`` are sorted first."""

    def __init__(
        self, order: WriteOrder, sources: Sequence[Source], bucket_of: BucketOf | None, unsorted: set[str]
    ) -> None:
        self._order = order
        self._sources = sources
        self._bucket_of = bucket_of
        self._unsorted = unsorted
        self._spec = KeySpec.of(order.metadata)
        keeps = self._spec is not None and self._spec.keeps_tombstones
        self._tombstones = keeps and any(tombstones_of(source.add) for source in sources)
        self._scan = ScanOrder(
            order.store, order.table_name, order.metadata, order.options, tuple(order.metadata.schema.names)
        )
        self._reading = min(order.options.writer_memory_limit // _READING, _LARGEST)

    def run(self) -> list[Rewritten]:
        key = self._spec.key if self._spec else ()
        with RewriteWriter(
            self._order, key=key, tombstones=self._tombstones, row_size=_row_size(self._sources)
        ) as writer:
            for group in _by_partition(self._sources).values():
                self._write(writer, group)
                writer.finish()
            return writer.close()

    def _write(self, writer: RewriteWriter, group: Sequence[Source]) -> None:
        values = _partition_values(group[0], self._order.metadata)
        bucket = _bucket(group, self._order.table_name) if self._bucket_of is None else None
        with ExitStack() as scope:
            tables = self._unordered(group) if self._spec is None else self._merged(group, self._spec, scope)
            scope.enter_context(closing(tables))
            # Rows are read and merged while those before them are encoded.
            for rows in scope.enter_context(closing(prefetch(tables, 1))):
                for number, part in self._by_bucket(rows, bucket):
                    writer.write(values, number, part)

    def _by_bucket(self, rows: pa.Table, bucket: int | None) -> Iterator[tuple[int | None, pa.Table]]:
        if self._bucket_of is None:
            yield bucket, rows
            return
        numbers = self._bucket_of(rows)
        whole = pa.concat_arrays(numbers.chunks) if isinstance(numbers, pa.ChunkedArray) else numbers
        for number, at in by_number(whole):
            yield number, rows if len(at) == rows.num_rows else rows.take(at)

    def _unordered(self, group: Sequence[Source]) -> Rows:
        for source in group:
            yield from self._rows(source, self._reading)

    def _rows(self, source: Source, share: int) -> Iterator[pa.Table]:
        """The rows of a source in tables that are small against ``share`` bytes."""
        wanted = int(share / (_row_size([source]) * _UNPACKED))
        batch = min(self._order.options.max_row_group_rows, max(_FEWEST_ROWS, wanted))
        buffer = 0 if source.add.size <= share else _BUFFER
        return tracked(self._scan, source, tombstones=self._tombstones, batch_rows=batch, buffer_size=buffer)

    def _merged(self, group: Sequence[Source], spec: KeySpec, scope: ExitStack) -> Rows:
        scratch = _Scratch(scope)

        def combine(heads: Sequence[pa.Table]) -> pa.Table:
            return in_order(heads, spec.key)

        most = self._open_at_once(group)
        runs = list(self._runs(group, spec, scratch, most))
        if len(runs) > most and sum(s.add.size for s in group) * _UNPACKED > self._reading:
            runs = narrowed(runs, combine, scratch.folder, spec.key, self._reading // most, most)
        merged = merge(runs, combine)
        return _each_without_replaced(merged, spec) if self._tombstones else merged

    def _open_at_once(self, group: Sequence[Source]) -> int:
        sizes = (source.add.size * _UNPACKED for source in group)
        return fan_in(sizes, len(self._order.metadata.schema), self._order.options.writer_memory_limit)

    def _runs(self, group: Sequence[Source], spec: KeySpec, scratch: _Scratch, most: int) -> Iterator[Run]:
        share = max(1, self._reading // min(len(group), most))
        for source in group:
            path = source.add.path
            if path not in self._unsorted:
                yield Run(path, self._rows(source, share), spec.key, share)
                continue
            for part in resorted(self._rows(source, self._reading), spec.key, self._reading, scratch.folder):
                yield Run(path, part, spec.key, share, checked=False)


@dataclass(frozen=True)
class _Scratch:
    """A local directory for what does not fit into memory; it is made when it is needed, which is rare."""

    scope: ExitStack

    @cached_property
    def folder(self) -> str:
        return self.scope.enter_context(scratch())


def _row_size(sources: Sequence[Source]) -> float:
    """About how many bytes of a file a row takes."""
    counted = [(source.add.size, rows) for source in sources if (rows := source.add.num_records)]
    return max(1.0, sum(size for size, _ in counted) / sum(rows for _, rows in counted)) if counted else _GUESS


def _bucket(group: Sequence[Source], table: str) -> int | None:
    numbers = {bucket_of(source.add) for source in group}
    if len(numbers) > 1:
        raise InputError(
            f"table {table}: files of several buckets are not rewritten together",
            found=", ".join(map(str, numbers)),
            fix="pass bucket_of=, which tells the bucket of each row",
        )
    return numbers.pop()


def _partition_values(source: Source, metadata: Metadata) -> Mapping[str, str | None]:
    """In the order of the table's partition columns, which is that of directories."""
    given = source.add.partition_values
    return {f.physical_name: given.get(f.physical_name) for f in metadata.partition_schema}


def _each_without_replaced(tables: Rows, spec: KeySpec) -> Rows:
    with closing(tables):
        for rows in tables:
            yield _without_replaced(rows, spec)


def _without_replaced(rows: pa.Table, spec: KeySpec) -> pa.Table:
    """Rows sorted by key without the tombstones that another row of their key has made meaningless."""
    deletes = pc.is_in(rows.column(KIND_COLUMN), DELETING).combine_chunks()
    if not deletes.true_count:
        return rows
    keys, ranks = key_columns(rows, spec.key), key_columns(rows, spec.sequence)
    order = sorted_rows([*keys, *ranks, pc.invert(deletes).cast(pa.int8())])
    if order is not None:
        rows, deletes, keys = rows.take(order), deletes.take(order), [key.take(order) for key in keys]
    replaced = pa.concat_arrays([same_as_before(keys), pa.array([False])])
    return rows.filter(pc.invert(pc.and_(deletes, replaced)))
