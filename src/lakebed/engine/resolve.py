"""Matches the unsettled files of a bucket with its older rows: which rows are dead, by key and sequence columns alone.

The engines here are those that choose among the rows of a key: ``deduplicate`` and ``first-row``. The engines that
combine rows are in ``combine``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import accumulate, pairwise

import polars as pl
import pyarrow as pa
from pyroaring import BitMap64

from lakebed.core.actions import AddFile
from lakebed.core.errors import LakebedError
from lakebed.core.file_tags import tombstones_of
from lakebed.core.keyed import MergeEngine
from lakebed.engine.resolving.dense import resolve_dense
from lakebed.engine.resolving.kernel import INDEX, at_least, plain, winners
from lakebed.engine.resolving.key_file import open_keys
from lakebed.engine.resolving.matching import DELETES, Found, match_files
from lakebed.engine.resolving.order import KIND, POSITION, BucketFiles, ResolveOrder
from lakebed.engine.resolving.ranges import KeyRange, key_ranges
from lakebed.engine.scan import READ_THREADS, ScanOrder
from lakebed.engine.vectors import replaced_tombstones
from lakebed.storage.deletion_vector import from_arrow
from lakebed.storage.forked import polars_is_lost

__all__ = ["BucketFiles", "Matched", "Resolution", "ResolveOrder", "match", "refuse_fork", "resolve"]

_DELETE = "delete"


@dataclass(frozen=True)
class Resolution:
    """Which rows are dead once the bucket's unsettled files are matched."""

    dead: Mapping[str, BitMap64]
    """By path: all dead positions, old and new, of each file whose dead rows changed. Nobody may change them."""
    replaced: int = 0
    """Rows of settled files that a newer row replaced."""
    deleted: int = 0
    """Rows of settled files that a delete took away."""
    inserted: int = 0
    """Live rows of the unsettled files whose key no settled file had."""
    replaced_tombstones: Mapping[str, BitMap64] = field(default_factory=dict)
    """By path: the tombstones that are not what their key has come to, of each file in which there are more by now.
    Only tables that remember deleted keys have any."""


@dataclass(frozen=True)
class Matched:
    """The live rows of one file whose key is among the wanted ones, in the order of their positions."""

    positions: pa.Int64Array
    index: pa.Int64Array
    """For each of them the number of its key's row."""


def resolve(order: ResolveOrder, files: BucketFiles) -> Resolution:
    """The dead rows of a bucket whose engine is ``deduplicate`` or ``first-row``.

    Raises FileMissingError, CorruptFileError, and LakebedError after a fork.
    """
    refuse_fork(order)
    if not files.unsettled:
        return Resolution({})
    direct = resolve_dense(order, files)
    if direct is not None:
        return Resolution(direct.dead, direct.replaced, 0, direct.inserted)
    dead: dict[str, BitMap64] = {}
    tombstones: dict[str, BitMap64] = {}
    replaced = deleted = inserted = 0
    for span in key_ranges(order, files.unsettled):
        part = _Range(order, files, span).resolve()
        for into, found in ((dead, part.dead), (tombstones, part.replaced_tombstones)):
            for path, positions in found.items():
                into[path] = into[path] | positions if path in into else positions
        replaced, deleted, inserted = replaced + part.replaced, deleted + part.deleted, inserted + part.inserted
    return Resolution(dead, replaced, deleted, inserted, tombstones)


def match(order: ResolveOrder, files: Sequence[AddFile], keys: pa.Table) -> dict[str, Matched]:
    """Where the live rows with these keys are: for each file that has any, by path.

    ``keys`` has the key columns by their names. A key may be there several times, and so is its row then.
    """
    refuse_fork(order)
    by = order.layout.keys
    wanted = pl.from_arrow(keys.select(order.key.key).rename_columns(by))
    assert isinstance(wanted, pl.DataFrame)
    plain_keys = wanted.select(plain(pl.col(name), wanted.schema[name]) for name in by).with_row_index(INDEX)
    found = match_files(order, files, plain_keys.sort(by), state=False)
    matched = {}
    for one in found:
        live = one.live.sort(POSITION, INDEX)
        if live.height:
            index = live[INDEX].cast(pl.Int64).to_arrow()
            matched[one.add.path] = Matched(live[POSITION].to_arrow(), index)
    return matched


@dataclass(frozen=True)
class _Range:
    """The resolution of one range of the keys."""

    order: ResolveOrder
    files: BucketFiles
    span: KeyRange

    def resolve(self) -> Resolution:
        layout, first = self.order.layout, self.order.key.engine is MergeEngine.FIRST_ROW
        rows, deletes, starts = self._changed()
        puts = rows.filter(~deletes) if first else rows
        candidates = winners(puts, layout.keys, layout.sequences, first=first)
        if first:
            candidates = candidates.with_columns((~deletes).arg_true()[candidates[INDEX]].alias(INDEX))
        found = match_files(self.order, self.files.settled, candidates, state=bool(layout.sequences))
        offered = rows.select(*layout.sequences, deletes.alias(_DELETE))
        beaten = [self._beaten(one, offered, first) for one in found]
        alive = pl.zeros(rows.height, pl.Boolean, eager=True).scatter(candidates[INDEX], True)
        for one in beaten:
            alive = alive.scatter(one.lost, False)
        tombstones: dict[str, BitMap64] = {}
        if self.order.key.keeps_tombstones:
            tombstones = self._losers(rows[POSITION], deletes & ~alive, starts)
            tombstones |= {b.path: b.tombstones for b in beaten if b.tombstones is not None}
        alive &= ~deletes
        dead = {
            **self._losers(rows[POSITION], ~alive, starts),
            **{b.path: b.dead for b in beaten if b.dead is not None},
        }
        replaced, deleted = sum(b.replaced for b in beaten), sum(b.deleted for b in beaten)
        return Resolution(dead, replaced, deleted, int(alive.sum()) - replaced, tombstones)

    def _changed(self) -> tuple[pl.DataFrame, pl.Series, list[int]]:
        """The keys of the unsettled files in fold order, which rows are deletes, and where each file's rows start."""
        with ThreadPoolExecutor(READ_THREADS, "lakebed-resolve") as pool:
            parts = list(pool.map(self._changed_in, self.files.unsettled))
        rows = pl.concat([part.drop(KIND) for part in parts], rechunk=True)
        deletes = pl.concat([part[KIND] for part in parts], rechunk=True)
        starts = list(accumulate((part.height for part in parts), initial=0))
        return rows, deletes, starts

    def _changed_in(self, add: AddFile) -> pl.DataFrame:
        """The keys of one unsettled file; ``kind`` tells whether a row is a delete."""
        order, kinds = self.order, tombstones_of(add) > 0
        deletes = pl.col(KIND).is_in(DELETES).fill_null(False) if kinds else pl.lit(False)
        with open_keys(order, add, sequence=bool(order.key.sequence), kind=kinds, where=order.where) as file:
            frames = [self.span.filter(frame, order.layout.keys) for frame in file.frames(self.span.groups(file))]
            rows = pl.concat(frames) if frames else file.frame([])
        return rows.select(pl.exclude(KIND), deletes.alias(KIND))

    def _beaten(self, found: Found, offered: pl.DataFrame, first: bool) -> _Beaten:
        """What the candidates did to a settled file's rows, or these to them."""
        if first:
            return _Beaten(found.add.path, None, found.live[INDEX])
        sequence = self.order.layout.sequences
        mine = [f"{name} of the candidate" for name in sequence]
        offered = offered.rename(dict(zip(sequence, mine, strict=True)))
        live = pl.concat([found.live, offered[found.live[INDEX]]], how="horizontal")
        gone = pl.concat([found.gone, offered[found.gone[INDEX]]], how="horizontal")
        newer = at_least(mine, sequence)
        killed = live.filter(newer)
        lost = pl.concat([live.filter(~newer)[INDEX], gone.filter(~newer)[INDEX]])
        past = from_arrow(gone.filter(newer)[POSITION].to_arrow())
        tombstones = replaced_tombstones(found.add) | past if past else None
        dead = found.before | from_arrow(killed[POSITION].to_arrow()) if killed.height else None
        deleted = int(killed[_DELETE].sum())
        return _Beaten(found.add.path, dead, lost, killed.height - deleted, deleted, tombstones)

    def _losers(self, positions: pl.Series, dead: pl.Series, starts: Sequence[int]) -> dict[str, BitMap64]:
        """The dead rows of the unsettled files that have any."""
        found = {}
        for add, (start, stop) in zip(self.files.unsettled, pairwise(starts), strict=True):
            mine = positions.slice(start, stop - start).filter(dead.slice(start, stop - start))
            if len(mine):
                found[add.path] = from_arrow(mine.to_arrow())
        return found


@dataclass(frozen=True)
class _Beaten:
    path: str
    dead: BitMap64 | None
    """All dead positions of the file; None if none came along."""
    lost: pl.Series
    """The candidates that were older than what the file has."""
    replaced: int = 0
    deleted: int = 0
    tombstones: BitMap64 | None = None
    """All its replaced tombstones; None if none came along."""


def refuse_fork(order: ResolveOrder | ScanOrder) -> None:
    """Raise LakebedError in a process in which polars would hang."""
    if polars_is_lost():
        raise LakebedError(
            f"table {order.table_name}: keys cannot be matched in a process that was forked from one that used polars",
            fix="start processes with multiprocessing.get_context('spawn')",
        )
