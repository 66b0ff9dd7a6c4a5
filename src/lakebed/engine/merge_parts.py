"""A merge with a large source: rows of both sides are dealt to parts by their keys, and each part is merged alone.

Whoever distributes the work brings the dealt rows of one part together, those of the source first. All rows that can
match each other are in one part, so that a part knows which of its rows match none.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from itertools import count

import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64

from lakebed.core.actions import AddFile, Metadata
from lakebed.core.bucketing import check_key_type, fixed
from lakebed.core.keyed import KeySpec
from lakebed.core.merge_plan import Action, key_column
from lakebed.core.murmur3 import spark_hash
from lakebed.core.predicate import evaluate
from lakebed.delta.foreign import place
from lakebed.engine.change_rows import Changed, ChangeOrder, ChangeWriter
from lakebed.engine.merge_rules import MergeRules, SourceRows, whole
from lakebed.engine.merge_source import Staged, StagedPart, StageOrder, read_part
from lakebed.engine.scan import ScanOrder, dead_rows, named
from lakebed.engine.tracked_scan import tracked_batch, tracked_columns, tracked_schema
from lakebed.storage.deletion_vector import from_arrow, keep_mask
from lakebed.storage.failure import translated
from lakebed.storage.parquet_reader import ParquetFileReader

SOURCE, TARGET = 0, 1
"""The sides, in the order in which a part gets their rows."""
FILE, POSITION = pa.field("_lakebed_file", pa.int32()), pa.field("_lakebed_position", pa.int64())
"""Where a row of the table is."""
MOST_PARTS = 4096
# Dealt rows wait until there are so many bytes of them, so that each part gets some at a time.
_DEALT = 32 << 20
# So many bytes of rows go to a part at once: several such pieces are in memory together.
_PIECE = 1 << 20
# The part of the memory limit for rows of the source, and for those of the table that are joined with them.
_SHARE = 8
_JOINED = 1 << 18


@dataclass(frozen=True)
class Dealing:
    """Which part a row belongs to."""

    rules: MergeRules
    parts: int
    modulus: int
    """A part is the hash modulo this number, modulo the number of parts."""

    @staticmethod
    def of(metadata: Metadata, rules: MergeRules, wanted: int) -> Dealing:
        """About as many parts as are wanted; one if rows that belong together cannot be told by a hash."""
        if not any(map(_is_hashed, rules.join.keys)) or not _inserts_are_apart(metadata, rules):
            return Dealing(rules, 1, 1)
        buckets = _aligned_buckets(metadata, rules)
        if buckets is None or wanted < buckets:
            return Dealing(rules, wanted, wanted if buckets is None else buckets)
        parts = -(-wanted // buckets) * buckets
        return Dealing(rules, parts, parts)

    def numbers(self, rows: pa.Table, side: int, first: int) -> pa.Array:
        """The part of each row; ``first`` is any number that tells batches apart."""
        if self.parts == 1:
            return pa.repeat(pa.scalar(0, pa.int32()), rows.num_rows)
        values = self.rules.key_values(rows, 1 - side)
        keys = [whole(values.column(at)) for at, pair in enumerate(self.rules.join.keys) if _is_hashed(pair)]
        hashes = fixed(spark_hash(keys), self.modulus)
        null = [key.is_null() for key in keys if key.null_count]
        if null:
            # Null equals nothing: wherever such a row is, it matches none; so they are spread evenly.
            anywhere = fixed(pa.arange(first, first + rows.num_rows).cast(pa.int32(), safe=False), self.modulus)
            for nulls in null:
                hashes = pc.if_else(nulls, anywhere, hashes)
        return hashes if self.modulus == self.parts else fixed(hashes, self.parts)


def _is_hashed(pair: tuple[object, object]) -> bool:
    """Whether equal values of a key have equal hashes."""
    mine, theirs = (getattr(node, "type", None) for node in pair)
    return mine == theirs and mine is not None and check_key_type(mine) is None


def _aligned_buckets(metadata: Metadata, rules: MergeRules) -> int | None:
    """The number of buckets, if the keys of the merge are just the primary key, so that a part has whole buckets."""
    key = KeySpec.of(metadata)
    if key is None or not isinstance(key.buckets, int):
        return None
    columns = [key_column(mine) for mine, _ in rules.join.keys]
    paths = tuple(None if column is None else column.path for column in columns)
    return key.buckets if paths == tuple((name,) for name in key.key) else None


def _inserts_are_apart(metadata: Metadata, rules: MergeRules) -> bool:
    """Whether inserted rows of one primary key are surely in one part, where the last of them counts."""
    key = KeySpec.of(metadata)
    if key is None or not rules.inserts:
        return True
    theirs = {
        column.path[0]: node
        for mine, node in rules.join.keys
        if (column := key_column(mine)) is not None and len(column.path) == 1
    }
    # Every key of the merge has to be of the primary key: another one would put rows of one key into two parts.
    hashed = [pair for pair in rules.join.keys if _is_hashed(pair)]
    if len(hashed) != len(key.key) or set(theirs) != set(key.key):
        return False
    return all(clause.values.get(name) == theirs[name] for clause in rules.inserts for name in key.key)


@dataclass(frozen=True)
class Dealt:
    """Rows that belong to one part."""

    part: int
    side: int
    number: int
    """Rows of the source are merged in the order of these."""
    rows: pa.RecordBatch = field(hash=False)


@dataclass(frozen=True)
class DealSource:
    """The work of dealing a part of the source."""

    dealing: Dealing
    order: StageOrder
    part: StagedPart
    first: int

    def run(self) -> Iterator[Dealt]:
        """Deal the rows."""
        return _deal(self.dealing, read_part(self.order, self.part), SOURCE, self.first)


@dataclass(frozen=True)
class DealTarget:
    """The work of dealing the live rows of some files of the table."""

    dealing: Dealing
    scan: ScanOrder
    """The columns that are needed; rows for which its predicate is not true cannot be touched."""
    files: tuple[tuple[int, AddFile], ...] = field(hash=False)

    def run(self) -> Iterator[Dealt]:
        """Deal the rows."""
        return _deal(self.dealing, self._tables(), TARGET, self.files[0][0] << 32)

    def _tables(self) -> Iterator[pa.Table]:
        for number, add in self.files:
            before = dead_rows(self.scan.store, add.deletion_vector) or BitMap64()
            at = place(self.scan.store, add)
            start = 0
            with named(self.scan), ParquetFileReader(at.store, at.path) as file:
                for batch in file.batches(tracked_columns(self.scan), self.scan.options.batch_size):
                    yield self._live(number, add, before, batch, start)
                    start += batch.num_rows

    def _live(self, number: int, add: AddFile, before: BitMap64, batch: pa.RecordBatch, start: int) -> pa.Table:
        rows = tracked_batch(self.scan, add, batch, start)
        rows = rows.append_column(FILE, pa.repeat(pa.scalar(number, FILE.type), batch.num_rows))
        rows = rows.append_column(POSITION, pa.arange(start, start + batch.num_rows))
        if before:
            rows = rows.filter(keep_mask(before, start, batch.num_rows))
        if self.scan.predicate is not None and rows.num_rows:
            rows = rows.filter(evaluate(self.scan.predicate, rows))
        schema = target_schema(self.scan)
        return pa.Table.from_arrays(rows.select(schema.names).columns, schema=schema)


def target_schema(scan: ScanOrder) -> pa.Schema:
    """The columns of dealt rows of the table."""
    return pa.schema([*tracked_schema(scan, tombstones=True), FILE, POSITION])


def _deal(dealing: Dealing, tables: Iterator[pa.Table], side: int, first: int) -> Iterator[Dealt]:
    waiting: dict[int, list[pa.Table]] = {}
    size = 0
    numbers = count(first)
    for rows in tables:
        if not rows.num_rows:
            continue
        parts = dealing.numbers(rows, side, next(numbers))
        order = pc.sort_indices(parts)
        counts = sorted((one["values"], one["counts"]) for one in pc.value_counts(parts).to_pylist())
        ordered = rows if len(counts) == 1 else rows.take(order)
        start = 0
        for part, length in counts:
            waiting.setdefault(part, []).append(ordered.slice(start, length))
            start += length
        size += rows.nbytes
        if size >= _DEALT:
            yield from _dealt(waiting, side, numbers)
            waiting, size = {}, 0
    yield from _dealt(waiting, side, numbers)


def _dealt(waiting: dict[int, list[pa.Table]], side: int, numbers: Iterator[int]) -> Iterator[Dealt]:
    for part, tables in waiting.items():
        for batch in pa.concat_tables(tables).combine_chunks().to_batches():
            for rows in _pieces(batch):
                yield Dealt(part, side, next(numbers), rows)


def _pieces(rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    length = max(1, rows.num_rows * _PIECE // max(1, rows.nbytes))
    for start in range(0, rows.num_rows, length):
        yield rows.slice(start, length)


@dataclass(frozen=True)
class MergedPart:
    """One part after the merge."""

    hits: dict[int, BitMap64] = field(hash=False)
    """By the number of a file: its rows that have changed."""
    changed: Changed
    updated: int
    deleted: int
    inserted: int


@dataclass(frozen=True)
class PartOrder:
    """How a part is merged; small and serialisable."""

    rules: MergeRules
    source: pa.Schema
    target: pa.Schema
    change: ChangeOrder
    memory: int

    def schema(self, side: int) -> pa.Schema:
        """The columns of dealt rows of one side."""
        return self.source if side == SOURCE else self.target

    def run(self, arriving: Iterator[tuple[int, pa.RecordBatch]]) -> MergedPart:
        """Merge the rows of one part, which come with their sides. Raises DataError, as the merge of a file does."""
        with ExitStack() as scope:
            spool = scope.enter_context(_Spool(self.source, self.memory // _SHARE))
            tables = self._gathered(arriving, spool)
            first = next(tables, None)
            source = SourceRows(self.rules, spool.rows())
            writer = scope.enter_context(ChangeWriter(self.change))
            seen: BitMap64 = BitMap64()
            hits: dict[int, BitMap64] = {}
            touched = deleted = 0
            while first is not None:
                found, theirs = self.rules.find(first, source)
                self.rules.refuse_several(found, source)
                seen |= from_arrow(theirs)
                deleted += self.rules.deleted(found)
                once = found.once
                changed = first.take(once.rows)
                touched += changed.num_rows
                _note(hits, changed)
                self.rules.change(writer, changed, once, source)
                first = next(tables, None)
            inserted = self.rules.insert(writer, source.rows, seen)
            return MergedPart(hits, writer.close(), touched - deleted, deleted, inserted)

    def _gathered(self, arriving: Iterator[tuple[int, pa.RecordBatch]], spool: _Spool) -> Iterator[pa.Table]:
        """The rows of the table, many at a time; before the first of them the spool has all of the source."""
        waiting: list[pa.RecordBatch] = []
        rows = size = 0
        for side, batch in arriving:
            if side == SOURCE:
                spool.add(batch)
                continue
            waiting.append(batch)
            rows += batch.num_rows
            size += batch.nbytes
            if rows >= _JOINED or size >= self.memory // _SHARE:
                yield pa.Table.from_batches(waiting, self.target)
                waiting, rows, size = [], 0, 0
        if waiting:
            yield pa.Table.from_batches(waiting, self.target)


def _note(hits: dict[int, BitMap64], rows: pa.Table) -> None:
    """Remember where rows are that change."""
    files, places = whole(rows.column(FILE.name)), whole(rows.column(POSITION.name))
    for number in pc.unique(files).to_pylist():
        hits.setdefault(number, BitMap64()).update(from_arrow(places.filter(pc.equal(files, number))))


class _Spool:
    """Rows that wait: in memory, and beyond a limit in a local file, of which only what is looked at is in memory."""

    def __init__(self, schema: pa.Schema, limit: int) -> None:
        self._schema = schema
        self._limit = limit
        self._batches: list[pa.RecordBatch] = []
        self._size = 0
        self._scope = ExitStack()
        self._path = ""
        self._writer: pa.RecordBatchWriter | None = None

    def __enter__(self) -> _Spool:
        return self

    def __exit__(self, *_: object) -> None:
        self._scope.close()

    def add(self, batch: pa.RecordBatch) -> None:
        """Take rows."""
        self._batches.append(batch)
        self._size += batch.nbytes
        if self._size >= self._limit:
            self._flush()

    def rows(self) -> pa.Table:
        """All of them."""
        if self._writer is None:
            return pa.Table.from_batches(self._batches, self._schema)
        self._flush()
        self._writer.close()
        with translated("read", self._path):
            return pa.ipc.open_file(self._scope.enter_context(pa.memory_map(self._path))).read_all()

    def _flush(self) -> None:
        if self._writer is None:
            folder = self._scope.enter_context(tempfile.TemporaryDirectory(prefix="lakebed-merge-"))
            self._path = os.path.join(folder, "source.arrow")
            with translated("write", self._path):
                sink = self._scope.enter_context(pa.OSFile(self._path, "wb"))
                self._writer = pa.ipc.new_file(sink, self._schema)
        with translated("write", self._path):
            for batch in self._batches:
                self._writer.write_batch(batch)
        self._batches, self._size = [], 0


@dataclass(frozen=True)
class PartsJob:
    """A whole merge in parts, ready to be distributed."""

    dealing: Dealing
    deals: tuple[DealSource | DealTarget, ...] = field(hash=False)
    order: PartOrder

    @staticmethod
    def of(dealing: Dealing, staged: Staged, scan: ScanOrder, files: list[AddFile], change: ChangeOrder) -> PartsJob:
        """The merge of a source into files of a table."""
        rules = dealing.rules
        scan = replace(scan, columns=_needed(rules, change, scan))
        sources = [
            DealSource(dealing, staged.order, part, number << 32)
            for number, part in enumerate(staged.parts)
            if part.rows
        ]
        targets = [DealTarget(dealing, scan, some) for some in _slices(files, scan.options.file_target_size)]
        order = PartOrder(rules, staged.order.schema, target_schema(scan), change, scan.options.writer_memory_limit)
        return PartsJob(dealing, (*sources, *targets), order)


def _needed(rules: MergeRules, change: ChangeOrder, scan: ScanOrder) -> tuple[str, ...]:
    """The columns of the table that have to be dealt: all, where a changed row is written anew."""
    rewrites = any(clause.action is Action.UPDATE or change.upsert is not None for clause in rules.clauses)
    needed = rules.looked_at
    some = tuple(name for name in scan.columns if name in needed) or scan.columns[:1]
    return scan.columns if rewrites else some


def _slices(files: list[AddFile], target: int) -> Iterator[tuple[tuple[int, AddFile], ...]]:
    """Numbered files, as many at a time as are worth a task."""
    some: list[tuple[int, AddFile]] = []
    size = 0
    for number, add in enumerate(files):
        some.append((number, add))
        size += add.size
        if size >= target:
            yield tuple(some)
            some, size = [], 0
    if some:
        yield tuple(some)
