"""Where the rows are that a merge needs, from key columns alone: changed keys, and what settled files have of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import polars as pl
from pyroaring import BitMap64

from lakebed.core.actions import AddFile
from lakebed.engine.resolving.kernel import INDEX
from lakebed.engine.resolving.key_file import open_keys
from lakebed.engine.resolving.matching import Found, match_files
from lakebed.engine.resolving.order import POSITION, BucketFiles, ResolveOrder
from lakebed.engine.resolving.ranges import KeyRange, key_ranges
from lakebed.engine.vectors import replaced_tombstones
from lakebed.storage.deletion_vector import from_arrow


@dataclass(frozen=True)
class Places:
    """Positions in files, by path. Nobody may change them."""

    dead: Mapping[str, BitMap64]
    """All dead rows, old and new, of each settled file whose dead rows changed."""
    states: Mapping[str, BitMap64]
    """The rows of settled files that the changed keys have: live ones, and tombstones if the table keeps them."""
    changes: Mapping[str, BitMap64]
    """The rows of unsettled files that are merged: all, or those of the wanted keys."""
    replaced_tombstones: Mapping[str, BitMap64]
    """All tombstones that are not what their key has come to, of each settled file in which there are more by now."""
    unsorted: frozenset[str]
    """Files whose rows, as far as they matter, are not in the order of their keys. Nobody writes such files."""


def find_places(order: ResolveOrder, files: BucketFiles) -> Places:
    """Match the keys of the unsettled files with the settled ones; ``order.key_bytes`` bounds the keys in memory."""
    places = _Places()
    for span in key_ranges(order, files.unsettled) if files.unsettled else ():
        keys = _changed(order, files, span, places)
        for found in match_files(order, files.settled, keys, state=bool(order.key.sequence)):
            places.note_settled(found)
    return Places(places.dead, places.states, places.changes, places.tombstones, frozenset(places.unsorted))


def _changed(order: ResolveOrder, files: BucketFiles, span: KeyRange, places: _Places) -> pl.DataFrame:
    """The keys of the range that unsettled files have, sorted and numbered."""
    by = order.layout.keys
    parts: list[pl.DataFrame] = []
    for add in files.unsettled:
        for rows in _key_frames(order, add, span):
            ordered = rows.sort(by, maintain_order=True)
            places.note_changed(add.path, ordered[POSITION])
            parts.append(ordered.select(by).unique())
    return pl.concat(parts).unique().sort(by).with_row_index(INDEX)


def _key_frames(order: ResolveOrder, add: AddFile, span: KeyRange) -> Iterator[pl.DataFrame]:
    with open_keys(order, add, sequence=False, kind=False, where=order.where) as file:
        for frame in [file.frame([]), *file.frames(span.groups(file))]:
            yield span.filter(frame, order.layout.keys)


@dataclass
class _Places:
    """What is known after some ranges of the keys."""

    dead: dict[str, BitMap64] = field(default_factory=dict)
    states: dict[str, BitMap64] = field(default_factory=dict)
    changes: dict[str, BitMap64] = field(default_factory=dict)
    tombstones: dict[str, BitMap64] = field(default_factory=dict)
    unsorted: set[str] = field(default_factory=set)

    def note_settled(self, found: Found) -> None:
        path = found.add.path
        rows = pl.concat([frame.select(INDEX, POSITION) for frame in (found.live, found.gone)])
        self._collect(self.states, path, rows.sort(INDEX, POSITION)[POSITION])
        if found.live.height:
            self.dead[path] = self.dead.get(path, found.before) | from_arrow(found.live[POSITION].to_arrow())
        if found.gone.height:
            known = self.tombstones.get(path) or replaced_tombstones(found.add)
            self.tombstones[path] = known | from_arrow(found.gone[POSITION].to_arrow())

    def note_changed(self, path: str, positions: pl.Series) -> None:
        self._collect(self.changes, path, positions)

    def _collect(self, into: dict[str, BitMap64], path: str, positions: pl.Series) -> None:
        """Add positions that come in the order of their keys."""
        if not len(positions):
            return
        known = into.get(path, BitMap64())
        if not positions.is_sorted() or (known and positions[0] < known.max()):
            self.unsorted.add(path)
        into[path] = known | from_arrow(positions.to_arrow())
