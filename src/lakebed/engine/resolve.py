"""Matches the unsettled files of a bucket with its older rows: which rows are dead, by key and sequence columns alone.

The engines here are those that choose among the rows of a key: ``deduplicate`` and ``first-row``. The engines that
combine rows are in ``combine``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import polars as pl
import pyarrow as pa
from pyroaring import BitMap64

from lakebed.core.actions import AddFile
from lakebed.core.errors import LakebedError
from lakebed.core.file_tags import tombstones_of
from lakebed.core.keyed import MergeEngine
from lakebed.engine.resolving.kernel import INDEX, WINS, at_least, mark_winners, plain
from lakebed.engine.resolving.key_file import open_keys
from lakebed.engine.resolving.matching import DELETES, Found, match_files
from lakebed.engine.resolving.order import KIND, POSITION, BucketFiles, ResolveOrder
from lakebed.engine.resolving.ranges import KeyRange, key_ranges
from lakebed.storage.deletion_vector import from_arrow
from lakebed.storage.forked import polars_is_lost

__all__ = ["BucketFiles", "Matched", "Resolution", "ResolveOrder", "match", "refuse_fork", "resolve"]

_FILE = "file"


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
    dead: dict[str, BitMap64] = {}
    replaced = deleted = inserted = 0
    for span in key_ranges(order, files.unsettled):
        part = _Range(order, files, span).resolve()
        for path, positions in part.dead.items():
            dead[path] = dead[path] | positions if path in dead else positions
        replaced, deleted, inserted = replaced + part.replaced, deleted + part.deleted, inserted + part.inserted
    return Resolution(dead, replaced, deleted, inserted)


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
        rows = self._changed()
        first = self.order.key.engine is MergeEngine.FIRST_ROW
        dropped = rows.clear()
        if first:
            dropped, rows = rows.filter(pl.col(KIND)), rows.filter(~pl.col(KIND))
        layout = self.order.layout
        marked = mark_winners(rows, layout.keys, layout.sequences, first=first)
        candidates = marked.filter(pl.col(WINS)).with_row_index(INDEX)
        found = match_files(self.order, self.files.settled, candidates, state=bool(layout.sequences))
        beaten = [self._beaten(one, candidates, first) for one in found]
        lost = pl.concat([b.lost for b in beaten]).unique() if beaten else pl.Series(dtype=pl.UInt32)
        defeated = pl.col(INDEX).is_in(lost.implode())
        alive = candidates.filter(~(defeated | pl.col(KIND)))
        losers = [marked.filter(~pl.col(WINS)), candidates.filter(defeated | pl.col(KIND)), dropped]
        dead = {**self._positions(losers), **{b.path: b.dead for b in beaten if b.dead is not None}}
        replaced, deleted = sum(b.replaced for b in beaten), sum(b.deleted for b in beaten)
        return Resolution(dead, replaced, deleted, alive.height - replaced)

    def _changed(self) -> pl.DataFrame:
        """The keys of the unsettled files in fold order; ``kind`` tells whether a row is a delete."""
        order = self.order
        frames: list[pl.DataFrame] = []
        for number, add in enumerate(self.files.unsettled):
            kinds = tombstones_of(add) > 0
            sequence = bool(order.key.sequence)
            with open_keys(order, add, sequence=sequence, kind=kinds, where=order.where) as file:
                deletes = pl.col(KIND).is_in(DELETES).fill_null(False) if kinds else pl.lit(False)
                for frame in [file.frame([]), *file.frames(self.span.groups(file))]:
                    rows = self.span.filter(frame, order.layout.keys)
                    origin = pl.lit(number, pl.UInt32).alias(_FILE)
                    frames.append(rows.select(pl.exclude(KIND), deletes.alias(KIND), origin))
        return pl.concat(frames)

    def _beaten(self, found: Found, candidates: pl.DataFrame, first: bool) -> _Beaten:
        """What the candidates did to a settled file's rows, or these to them."""
        if first:
            return _Beaten(found.add.path, None, found.live[INDEX])
        sequence = self.order.layout.sequences
        mine = [f"{name} of the candidate" for name in sequence]
        columns = [pl.col(KIND).alias("delete"), *(pl.col(a).alias(b) for a, b in zip(sequence, mine, strict=True))]
        offered = candidates.select(columns)
        live = pl.concat([found.live, offered[found.live[INDEX]]], how="horizontal")
        gone = pl.concat([found.gone, offered[found.gone[INDEX]]], how="horizontal")
        newer = at_least(mine, sequence)
        killed = live.filter(newer)
        lost = pl.concat([live.filter(~newer)[INDEX], gone.filter(~newer)[INDEX]])
        deleted = int(killed["delete"].sum())
        if not killed.height:
            return _Beaten(found.add.path, None, lost)
        dead = found.before | from_arrow(killed[POSITION].to_arrow())
        return _Beaten(found.add.path, dead, lost, killed.height - deleted, deleted)

    def _positions(self, parts: Iterable[pl.DataFrame]) -> dict[str, BitMap64]:
        rows = pl.concat([part.select(_FILE, POSITION) for part in parts])
        groups = rows.partition_by(_FILE, as_dict=True, include_key=False)
        return {
            self.files.unsettled[number].path: from_arrow(g[POSITION].to_arrow()) for (number,), g in groups.items()
        }


@dataclass(frozen=True)
class _Beaten:
    path: str
    dead: BitMap64 | None
    """All dead positions of the file; None if none came along."""
    lost: pl.Series
    """The candidates that were older than what the file has."""
    replaced: int = 0
    deleted: int = 0


def refuse_fork(order: ResolveOrder) -> None:
    """Raise LakebedError in a process in which polars would hang."""
    if polars_is_lost():
        raise LakebedError(
            f"table {order.table_name}: keys cannot be matched in a process that was forked from one that used polars",
            fix="start processes with multiprocessing.get_context('spawn')",
        )
