"""Merges the unsettled files of a bucket with its older rows, for the engines that combine the rows of a key.

Which rows are dead is known at once, from key columns alone. The new rows are made when they are asked for: files
are sorted by key, so that they are read once, side by side, and the rows of each key are folded when all are there.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64

from lakebed.core.actions import AddFile
from lakebed.core.errors import DataError
from lakebed.core.file_tags import BATCH, KIND_COLUMN, ROW_ID_COLUMN, ROW_VERSION_COLUMN
from lakebed.core.merging import MergeSpec
from lakebed.core.predicate import Node, evaluate
from lakebed.engine.combining.chosen_rows import UNPACKED, chosen_rows
from lakebed.engine.combining.folding import FILE, Folding
from lakebed.engine.combining.places import Places, find_places
from lakebed.engine.key_order import sorted_rows
from lakebed.engine.key_runs import Run, fan_in, in_order, key_columns, merge, narrowed, resorted, scratch
from lakebed.engine.resolve import BucketFiles, ResolveOrder, refuse_fork
from lakebed.engine.scan import ScanOrder
from lakebed.engine.tracked_scan import DELETING, tracked_schema

__all__ = ["Combined", "Doomed", "combine"]

# The part of the memory limit for rows that are read and wait to be merged; merging makes copies of them.
_READING = 4
# Text columns are put together in one piece, and Arrow counts their bytes with 32 bits.
_LARGEST = 1 << 30


@dataclass
class Doomed:
    """The keys whose rows a delete takes away in the same commit: no value of theirs is merged, so none can fail."""

    where: Node
    """A predicate on key columns only."""
    rows: int = 0
    """How many rows have not been made for it so far."""


@dataclass(frozen=True)
class Combined:
    """What the unsettled files of a bucket make of it."""

    dead: Mapping[str, BitMap64] = field(hash=False)
    """By path: all dead positions, old and new, of each settled file whose dead rows changed, and all rows of the
    unsettled files. Nobody may change them."""
    order: ResolveOrder
    files: BucketFiles
    places: Places = field(hash=False)

    def tables(
        self, columns: Sequence[str] | None = None, *, tombstones: bool = False, doomed: Doomed | None = None
    ) -> Iterator[pa.Table]:
        """The new rows of the changed keys, sorted by key, part by part: made anew by every call.

        They have the wanted columns (by default all of the table), a row id, which is null, and the row version;
        that is null too where the commit of a merged row is still to come. With ``tombstones`` the keys that are
        deleted come too, each row has its kind, and every column may be null. Of ``doomed`` keys only tombstones are
        made. Raises FileMissingError, CorruptFileError, DataError for rows that cannot be merged.
        """
        names = self.order.metadata.schema.names if columns is None else columns
        return _Rows(self, tuple(names), tombstones, doomed).tables()


def combine(order: ResolveOrder, files: BucketFiles, places: Places | None = None) -> Combined:
    """The dead rows of a bucket whose engine combines rows, and a maker of its new rows.

    ``places`` are those that ``find_places`` has found already. Raises FileMissingError, CorruptFileError, and
    LakebedError after a fork.
    """
    refuse_fork(order)
    found = find_places(order, files) if places is None else places
    unsettled = {add.path: BitMap64(range(add.num_records or 0)) for add in files.unsettled}
    return Combined({**found.dead, **unsettled}, order, files, found)


class _Rows:
    """One making of the new rows."""

    def __init__(self, combined: Combined, columns: tuple[str, ...], tombstones: bool, doomed: Doomed | None) -> None:
        order = combined.order
        self._key = order.key.key
        self._places = combined.places
        self._tombstones = tombstones
        self._doomed = doomed
        self._spec = spec = MergeSpec.of(order.metadata)
        self._scan = _scan(order, spec.required(columns))
        self._required = [f.name for f in order.metadata.schema.select(columns) if not f.nullable]
        self._schema = tracked_schema(_scan(order, columns), tombstones=tombstones)
        self._reading = min(order.options.writer_memory_limit // _READING, _LARGEST)
        settled = sorted(combined.files.settled, key=lambda add: add.base_row_id or 0)
        states = _chosen(settled, self._places.states)
        self._inputs = [*states, *_chosen(combined.files.unsettled, self._places.changes)]
        sizes = (add.size * UNPACKED for add, _ in self._inputs)
        self._most = fan_in(sizes, len(self._schema), order.options.writer_memory_limit)
        self._folding = Folding(spec, len(states), _batches([add for add, _ in self._inputs[len(states) :]]))

    def tables(self) -> Generator[pa.Table, None, None]:
        with ExitStack() as scope:
            folder = scope.enter_context(scratch())
            runs = list(self._runs(folder))
            if sum(add.size for add, _ in self._inputs) * UNPACKED > self._reading:
                runs = narrowed(runs, self._in_order, folder, self._key, self._reading // self._most, self._most)
            for rows in scope.enter_context(closing(merge(runs, pa.concat_tables))):
                yield from self._made(rows)

    def _made(self, rows: pa.Table) -> Iterator[pa.Table]:
        """What the rows of some keys become, in the order of the keys."""
        tombstones = None
        if self._doomed is not None:
            gone = evaluate(self._doomed.where, rows).fill_null(False)
            if pc.any(gone).as_py():
                tombstones = self._removed(rows.filter(gone), self._doomed)
                rows = rows.filter(pc.invert(gone))
        made = self._finished(self._fold(rows)) if rows.num_rows else rows
        parts = [part for part in (tombstones, made) if part is not None and part.num_rows]
        if len(parts) == 1:
            yield parts[0]
        elif parts:
            both = pa.concat_tables(parts)
            order = sorted_rows(key_columns(both, self._key))
            yield both if order is None else both.take(order)

    def _removed(self, rows: pa.Table, doomed: Doomed) -> pa.Table | None:
        """What is left of keys whose rows are deleted: their tombstones, if any are remembered."""
        deciding = [*self._spec.required(()), KIND_COLUMN, ROW_VERSION_COLUMN, FILE]
        state = self._fold(rows.select(deciding))
        deletes = pc.is_in(state.column(KIND_COLUMN), DELETING)
        tombstones = state.filter(deletes)
        doomed.rows += state.num_rows - tombstones.num_rows
        if not self._tombstones or not tombstones.num_rows:
            return None
        for f in self._schema:
            if f.name not in tombstones.column_names:
                tombstones = tombstones.append_column(f.name, pa.nulls(tombstones.num_rows, f.type))
        return self._finished(tombstones.drop_columns([ROW_ID_COLUMN]))

    def _fold(self, rows: pa.Table) -> pa.Table:
        try:
            return self._folding.fold(rows)
        except DataError as error:
            raise DataError(f"table {self._scan.table_name}: {error.title}", error.problems, fix=error.fix) from error

    def _runs(self, folder: str) -> Iterator[Run]:
        share = max(1, self._reading // max(1, min(len(self._inputs), self._most)))
        for number, (add, positions) in enumerate(self._inputs):
            if add.path not in self._places.unsorted:
                yield Run(add.path, self._read(number, add, positions, share), self._key, share)
                continue
            rows = self._read(number, add, positions, self._reading)
            for part in resorted(rows, self._key, self._reading, folder):
                yield Run(add.path, part, self._key, share, checked=False)

    def _read(self, number: int, add: AddFile, positions: BitMap64, share: int) -> Iterator[pa.Table]:
        """The rows with the number of their file."""
        for rows in chosen_rows(self._scan, add, positions, share):
            numbers = pa.repeat(pa.scalar(number, pa.int32()), rows.num_rows)
            yield rows.drop_columns([ROW_ID_COLUMN]).append_column(FILE, numbers)

    def _in_order(self, tables: Sequence[pa.Table]) -> pa.Table:
        return in_order(tables, (*self._key, FILE))

    def _finished(self, state: pa.Table) -> pa.Table:
        """The rows as they are wanted. Raises DataError for a live one that lacks what must be there."""
        deletes = pc.is_in(state.column(KIND_COLUMN), DELETING)
        live = state.filter(pc.invert(deletes)) if pc.any(deletes).as_py() else state
        for column in self._required:
            if live.column(column).null_count:
                raise self._missing(live, column)
        rows = state if self._tombstones else live
        rows = rows.append_column(ROW_ID_COLUMN, pa.nulls(rows.num_rows, pa.int64()))
        return pa.Table.from_arrays(rows.select(self._schema.names).columns, schema=self._schema)

    def _missing(self, rows: pa.Table, column: str) -> DataError:
        found = rows.filter(pc.is_null(rows.column(column)))
        example = found.slice(0, 1).select(self._key).to_pylist()[0]
        return DataError(
            f"table {self._scan.table_name}: merging leaves {found.num_rows} rows without column {column!r}, "
            "which is never null",
            (f"for example {example}",),
            fix="let the column be null, or delete the rows by their keys",
        )


def _scan(order: ResolveOrder, columns: tuple[str, ...]) -> ScanOrder:
    return ScanOrder(order.store, order.table_name, order.metadata, order.options, columns)


def _batches(files: Sequence[AddFile]) -> tuple[int, ...]:
    """For each file the number of its batch: files that follow each other and have the same mark are one."""
    numbers: list[int] = []
    for at, add in enumerate(files):
        mark = (add.tags or {}).get(BATCH)
        same = at > 0 and mark is not None and mark == (files[at - 1].tags or {}).get(BATCH)
        numbers.append(numbers[-1] if same else at)
    return tuple(numbers)


def _chosen(files: Sequence[AddFile], places: Mapping[str, BitMap64]) -> list[tuple[AddFile, BitMap64]]:
    return [(add, places[add.path]) for add in files if add.path in places]
