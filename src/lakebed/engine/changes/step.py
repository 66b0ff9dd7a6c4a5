"""Change rows: what became of each row of a unit between two versions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64

from lakebed.core.actions import AddFile
from lakebed.core.change_rows import (
    AFTER,
    APPEND,
    BEFORE,
    CHANGE_FIELDS,
    CHANGE_TYPE,
    COMMIT_TIMESTAMP,
    COMMIT_VERSION,
    DELETE,
    INSERT,
    KIND_CHANGES,
)
from lakebed.core.conform import adapt
from lakebed.core.file_tags import KIND_COLUMN, ROW_VERSION_COLUMN
from lakebed.core.keyed import KeySpec
from lakebed.core.predicate import Node, evaluate
from lakebed.core.schema import Struct
from lakebed.core.schema_arrow import field_to_arrow, to_arrow
from lakebed.engine.changes.difference import OnlyHere, UnitState, difference
from lakebed.engine.changes.equality import differ
from lakebed.engine.combining.chosen_rows import chosen_rows
from lakebed.engine.resolve import refuse_fork
from lakebed.engine.row_ids import READ_SHARE
from lakebed.engine.scan import ScanOrder, dead_rows, named
from lakebed.engine.source import MergedRows
from lakebed.engine.unit import Unit
from lakebed.storage.parquet_writer import reinterpreted

Rows = Iterator[pa.Table]


@dataclass(frozen=True)
class ChangeOrder:
    """What every part of one read of changes has to know; serialisable."""

    scan: ScanOrder
    """Sees all rows with the metadata of the range's end; has all columns of the table, and no predicate."""
    columns: tuple[str, ...]
    """The table's columns that are wanted."""
    where: Node | None
    """Chooses change rows; it may look at the columns of changes too."""
    mode: str
    times: Mapping[int, int] = field(hash=False)
    """When each version of the range was committed, in milliseconds, as far as it has not expired."""
    described: bool = True
    """Whether the columns of changes come out."""

    @cached_property
    def made(self) -> pa.Schema:
        """The schema of change rows with all columns. Rows that are gone may lack what must be there by now."""
        columns = [f.with_nullable(True) for f in self.scan.output]
        return pa.schema([*columns, *map(field_to_arrow, CHANGE_FIELDS)])

    @cached_property
    def output(self) -> pa.Schema:
        """The schema of the rows that come out."""
        return pa.schema([self.made.field(name) for name in self.columns_out.names])

    @cached_property
    def columns_out(self) -> Struct:
        """The same as a schema of ours."""
        columns = (replace(f, nullable=True) for f in self.scan.metadata.schema.select(self.columns))
        return Struct((*columns, *(CHANGE_FIELDS if self.described else ())))

    def chosen(self, rows: pa.Table) -> pa.Table:
        """The change rows that qualify, with the wanted columns."""
        if self.where is not None and rows.num_rows:
            rows = rows.filter(evaluate(self.where, rows))
        return rows.select(self.output.names)


@dataclass(frozen=True)
class Label:
    """Which version a change belongs to: one for all, or each row's own where that is one of the range."""

    version: int
    own: bool = False
    oldest: int = 0
    """A row's own version counts from this one on, up to ``newest``."""
    newest: int = 0

    def versions(self, of_rows: pa.ChunkedArray | None, count: int) -> pa.Array | pa.ChunkedArray:
        """The version of each change, of whose rows these are the versions; None where there is no row any more."""
        one = pa.scalar(self.version, pa.int64())
        if not self.own or of_rows is None:
            return pa.repeat(one, count)
        within = pc.and_(pc.greater_equal(of_rows, self.oldest), pc.less_equal(of_rows, self.newest))
        return pc.if_else(pc.fill_null(within, False), of_rows, one)


@dataclass(frozen=True)
class Step:
    """The work order of one task: one unit at two versions."""

    order: ChangeOrder
    unit: Unit
    before: UnitState
    after: UnitState
    label: Label
    inserted: str = INSERT
    """What a row is called that had none before."""

    @property
    def size(self) -> int:
        """About the bytes that have to be looked at."""
        return sum(add.size for add in self._differing)

    @property
    def num_files(self) -> int:
        """How many files have to be looked at."""
        return len({add.path for add in self._differing})

    @property
    def _differing(self) -> list[AddFile]:
        same = {add.key for add in self.before.files} & {add.key for add in self.after.files}
        return [add for add in (*self.before.files, *self.after.files) if add.key not in same]

    def tables(self) -> Rows:
        """The change rows that are wanted. Raises FileMissingError, CorruptFileError, DataError for merges."""
        refuse_fork(self.order.scan)
        removed, added = difference(self.order.scan, self.before, self.after)
        key = KeySpec.of(self.order.scan.metadata)
        if key is None or not removed or not added or self._only_added_count(added):
            found = self._apart(removed, added)
        else:
            found = self._matched(removed, added, key)
        for rows in found:
            chosen = self.order.chosen(rows)
            if chosen.num_rows:
                yield chosen

    def _only_added_count(self, added: OnlyHere) -> bool:
        """Whether rows need no look at what they replace, which may lie in every page of a large file.

        Merged rows need it: they may be the same in both states.
        """
        return self.order.mode == APPEND and not added.merged

    def _apart(self, removed: OnlyHere, added: OnlyHere) -> Rows:
        """No row before has to do with one after."""
        if self.order.mode != APPEND:
            for rows in _read(self.order.scan, removed):
                yield self._made(rows, DELETE, None)
        for rows in _read(self.order.scan, added):
            yield self._made(rows, self.inserted, rows.column(ROW_VERSION_COLUMN))

    def _matched(self, removed: OnlyHere, added: OnlyHere, key: KeySpec) -> Rows:
        """Rows of the same key are one change, or none if they are equal."""
        old, new = (_whole(self.order.scan, side) for side in (removed, added))
        pairs = _pairs(old, new, key.key)
        both = [pairs[name].to_arrow() for name in ("before", "after")]
        images = old.take(both[0]), new.take(both[1])
        changed = differ(*images, self.order.scan.columns)
        before, after = (rows.filter(changed) for rows in images)
        versions = after.column(ROW_VERSION_COLUMN)
        if self.order.mode == APPEND:
            yield self._made(after, self.inserted, versions)
        else:
            yield self._made(_others(old, both[0]), DELETE, None)
            yield self._made(before, BEFORE, versions)
            yield self._made(after, AFTER, versions)
        inserts = _others(new, both[1])
        yield self._made(inserts, self.inserted, inserts.column(ROW_VERSION_COLUMN))

    def _made(self, rows: pa.Table, change: str, versions: pa.ChunkedArray | None) -> pa.Table:
        kinds = pa.repeat(pa.scalar(change), rows.num_rows)
        return made(self.order, rows, kinds, self.label.versions(versions, rows.num_rows))


@dataclass(frozen=True)
class RawStep:
    """The work order of one task: the rows of files of a unit that one version has written, unmerged."""

    order: ChangeOrder
    unit: Unit
    files: tuple[AddFile, ...]
    version: int

    @property
    def size(self) -> int:
        """The bytes of the files."""
        return sum(add.size for add in self.files)

    @property
    def num_files(self) -> int:
        """How many files there are."""
        return len(self.files)

    def tables(self) -> Rows:
        """The rows that the version has changed, whatever has become of them; a row's kind says what it does."""
        keyless = KeySpec.of(self.order.scan.metadata) is None
        for add in self.files:
            with named(self.order.scan):
                dead = dead_rows(self.order.scan.store, add.deletion_vector) if keyless else None
            positions = BitMap64()
            positions.add_range(0, add.num_records or 0)
            for rows in chosen_rows(self.order.scan, add, positions - dead if dead else positions, READ_SHARE):
                mine = rows.filter(pc.equal(rows.column(ROW_VERSION_COLUMN), self.version))
                kinds = pa.array(KIND_CHANGES).take(mine.column(KIND_COLUMN).combine_chunks())
                version = pa.repeat(pa.scalar(self.version, pa.int64()), mine.num_rows)
                chosen = self.order.chosen(made(self.order, mine, kinds, version))
                if chosen.num_rows:
                    yield chosen


def made(order: ChangeOrder, rows: pa.Table, kinds: pa.Array, versions: pa.Array | pa.ChunkedArray) -> pa.Table:
    """The rows as change rows."""
    columns = {name: rows.column(name) for name in order.scan.columns}
    changes = {CHANGE_TYPE: kinds, COMMIT_VERSION: versions, COMMIT_TIMESTAMP: _times(order.times, versions)}
    found = {**columns, **changes}
    return pa.table([found[name] for name in order.made.names], schema=order.made)


def _times(times: Mapping[int, int], versions: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    known = pa.array(times.keys(), pa.int64())
    moments = pc.multiply(pa.array(times.values(), pa.int64()), 1000).cast(pa.timestamp("us", "UTC"))
    return moments.take(pc.index_in(versions, known))


def _read(scan: ScanOrder, side: OnlyHere) -> Rows:
    """The rows, as the scan's schema sees them, with the version of each."""
    wanted = [*scan.columns, ROW_VERSION_COLUMN]
    for add, positions in side.files:
        for rows in chosen_rows(scan, add, positions, READ_SHARE):
            yield rows.select(wanted)
    for merged in side.merged:
        yield from _merged(scan, side, merged)


def _merged(scan: ScanOrder, side: OnlyHere, merged: MergedRows) -> Rows:
    """Rows in no file, which have the schema of their own version."""
    then = side.metadata.schema
    physical = to_arrow(then, physical=True)
    now = [f.with_nullable(True) for f in scan.output]
    for rows in merged.tables(then.names):
        batches = [reinterpreted(batch, physical) for batch in rows.select(then.names).to_batches()]
        seen = adapt(pa.Table.from_batches(batches, physical), scan.metadata.schema)
        seen = pa.Table.from_arrays(seen.columns, schema=pa.schema(now))
        yield seen.append_column(ROW_VERSION_COLUMN, rows.column(ROW_VERSION_COLUMN))


def _whole(scan: ScanOrder, side: OnlyHere) -> pa.Table:
    empty = pa.schema([*(f.with_nullable(True) for f in scan.output), (ROW_VERSION_COLUMN, pa.int64())])
    parts = [pa.Table.from_arrays(rows.columns, schema=empty) for rows in _read(scan, side)]
    return pa.concat_tables([empty.empty_table(), *parts])


def _pairs(old: pa.Table, new: pa.Table, key: tuple[str, ...]) -> pl.DataFrame:
    """The row numbers ``before`` and ``after`` of the keys that both have."""
    names = [f"k{at}" for at in range(len(key))]
    frames = [pl.DataFrame(dict(zip(names, rows.select(key).columns, strict=True))) for rows in (old, new)]
    numbered = (frame.with_row_index(name) for frame, name in zip(frames, ("before", "after"), strict=True))
    return next(numbered).join(next(numbered), on=names, how="inner")


def _others(rows: pa.Table, taken: pa.Array) -> pa.Table:
    """The rows but those with these numbers."""
    return rows.filter(pc.invert(pc.is_in(pa.arange(0, rows.num_rows), taken.cast(pa.int64()))))
