"""Which rows only one of two states of a unit has: by positions in files, before any row is read.

A row that was only moved, as compaction does, has the same id and version in both states and is in neither answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import polars as pl
from pyroaring import BitMap64

from lakebed.core.actions import AddFile, Metadata
from lakebed.core.file_tags import is_unsettled
from lakebed.core.keyed import KeySpec
from lakebed.delta.foreign import place
from lakebed.engine.keyed_read import KeyedRead
from lakebed.engine.resolve import ResolveOrder
from lakebed.engine.row_ids import ID, VERSION, carries_ids, derived_ids, stored_ids
from lakebed.engine.scan import ScanOrder, known_dead, named
from lakebed.engine.source import MergedRows, Source, Sources, plain
from lakebed.storage.deletion_vector import from_arrow, to_arrow
from lakebed.storage.parquet_reader import ParquetFileReader

_FILE, _POSITION = "file", "position"


@dataclass(frozen=True)
class UnitState:
    """What a unit was at one version."""

    metadata: Metadata
    """The table's, at that version."""
    files: tuple[AddFile, ...]
    next_row_id: int
    """No row of the state has this id or a higher one."""


@dataclass(frozen=True)
class OnlyHere:
    """The rows that one state has and another has not."""

    metadata: Metadata
    """The table's, at the version of the state."""
    files: tuple[tuple[AddFile, BitMap64], ...] = field(hash=False)
    """Positions of rows, by file; never empty ones."""
    merged: tuple[MergedRows, ...] = ()
    """Rows that are in no file yet; they may be in both states."""

    def __bool__(self) -> bool:
        return bool(self.files or self.merged)


def difference(scan: ScanOrder, before: UnitState, after: UnitState) -> tuple[OnlyHere, OnlyHere]:
    """The rows that only the first state has, and those that only the second one has.

    Raises FileMissingError, CorruptFileError.
    """
    unchanged = _unchanged(before, after)
    old, old_merged = _live(scan, before, unchanged)
    new, new_merged = _live(scan, after, unchanged)
    nothing = BitMap64()
    removed, added = [], []
    for path, (add, rows) in old.items():
        left = rows - new[path][1] if path in new else rows
        if left:
            removed.append((add, left))
    for path, (add, rows) in new.items():
        left = rows - old.get(path, (add, nothing))[1]
        if left:
            added.append((add, left))
    removed, added = _without_moved(scan, before.next_row_id, removed, added)
    return (
        OnlyHere(before.metadata, tuple(removed), old_merged),
        OnlyHere(after.metadata, tuple(added), new_merged),
    )


def _unchanged(before: UnitState, after: UnitState) -> frozenset[str]:
    """The files that need no look: the same in both states, neither of which has anything to resolve."""
    if any(is_unsettled(add) for add in (*before.files, *after.files)):
        return frozenset()
    same = {add.key for add in before.files} & {add.key for add in after.files}
    return frozenset(add.path for add in after.files if add.key in same)


def _live(
    scan: ScanOrder, state: UnitState, without: frozenset[str]
) -> tuple[dict[str, tuple[AddFile, BitMap64]], tuple[MergedRows, ...]]:
    """The live rows of a state, by path."""
    sources = _sources(scan, state, [add for add in state.files if add.path not in without])
    live = {}
    for source in sources:
        if isinstance(source, Source):
            rows = BitMap64()
            rows.add_range(0, _num_rows(scan, source.add))
            dead = known_dead(scan, source)
            live[source.add.path] = (source.add, rows - dead if dead else rows)
    return live, tuple(source for source in sources if isinstance(source, MergedRows))


def _sources(scan: ScanOrder, state: UnitState, files: Sequence[AddFile]) -> Sources:
    key = KeySpec.of(state.metadata)
    if key is None or not any(is_unsettled(add) for add in files):
        return plain(files)
    order = ResolveOrder(scan.store, scan.table_name, state.metadata, key, scan.options)
    return KeyedRead(order).sources(files, None)


def _num_rows(scan: ScanOrder, add: AddFile) -> int:
    if add.num_records is not None:
        return add.num_records
    at = place(scan.store, add)
    with named(scan), ParquetFileReader(at.store, at.path) as file:
        return file.num_rows


Chosen = list[tuple[AddFile, BitMap64]]


def _without_moved(scan: ScanOrder, next_row_id: int, removed: Chosen, added: Chosen) -> tuple[Chosen, Chosen]:
    """Both without the rows that are in both: the same row, last changed by the same version."""
    if not removed or not added:
        return removed, added
    new = list(_identities(scan, added, only_before=next_row_id))
    if not new:
        return removed, added
    old = list(_identities(scan, removed))
    if not old:
        return removed, added
    by = [ID, VERSION]
    moved = pl.concat(old).join(pl.concat(new), on=by, how="inner", suffix=" after")
    return (
        _minus(removed, moved.select(_FILE, _POSITION)),
        _minus(added, moved.select(pl.col(f"{_FILE} after").alias(_FILE), pl.col(f"{_POSITION} after"))),
    )


def _minus(chosen: Chosen, moved: pl.DataFrame) -> Chosen:
    positions = moved.columns[1]
    gone = {number: rows[positions] for (number,), rows in moved.partition_by(_FILE, as_dict=True).items()}
    kept = []
    for number, (add, rows) in enumerate(chosen):
        left = rows - from_arrow(gone[number].to_arrow()) if number in gone else rows
        if left:
            kept.append((add, left))
    return kept


def _identities(scan: ScanOrder, chosen: Chosen, only_before: int | None = None) -> Iterator[pl.DataFrame]:
    """Row id and version of each row, with its place; of files that may hold ids below ``only_before``.

    Files of writers that do not track rows have no ids: their rows are never the same.
    """
    for number, (add, rows) in enumerate(chosen):
        if add.base_row_id is None:
            continue
        if carries_ids(scan, add):
            found = stored_ids(scan, add, rows)
        elif only_before is not None and add.base_row_id >= only_before:
            continue
        else:
            found = derived_ids(add, rows)
        frame = pl.DataFrame({name: found.column(name) for name in (ID, VERSION)})
        places = pl.Series(_POSITION, to_arrow(rows))
        yield frame.with_columns(pl.lit(number, pl.Int64).alias(_FILE), places)
