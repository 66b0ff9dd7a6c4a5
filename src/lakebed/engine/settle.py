"""Settling: the unsettled files of a unit are matched with its older files, and dead rows get vectors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from pyroaring import BitMap64

from lakebed.core.actions import AddFile, DeletionVector
from lakebed.core.commit import Bucket
from lakebed.core.file_tags import is_unsettled, settled, tombstones_of, without_tombstones
from lakebed.core.keyed import POSTPONE, KeySpec, Merge
from lakebed.core.predicate import Node, may_match_files
from lakebed.engine.combine import combine
from lakebed.engine.draft import Draft
from lakebed.engine.keyed_read import about_keys
from lakebed.engine.resolve import BucketFiles, ResolveOrder, resolve
from lakebed.engine.rewriter import Rewriter
from lakebed.engine.scan import dead_rows
from lakebed.engine.settlement import Settlement
from lakebed.engine.source import Source, plain
from lakebed.engine.unit import Unit, fold_order, pending, units_of, unsettled_units
from lakebed.engine.vectors import store_vectors, with_replaced, with_vector

SETTLE_THREADS = 4

Positions = Mapping[str, BitMap64]
"""Positions in files, by path."""


@dataclass
class Matched:
    """One unit after its keys have been matched."""

    unit: Unit
    leaving: list[AddFile] = field(default_factory=list)
    """Files without a row that matters any more."""
    staying: list[tuple[AddFile, BitMap64]] = field(default_factory=list)
    """Files of the table that change, and pending ones, each with all its dead rows."""
    fresh: list[tuple[AddFile, BitMap64]] = field(default_factory=list)
    """New files with merged or rewritten rows."""


def settle_pending(draft: Draft) -> None:
    """Settle the draft's own upserts, where the table wants that of every commit and it has not been done yet."""
    key = KeySpec.of(draft.metadata)
    if key is None or key.merge is Merge.ON_READ or draft.unsettled:
        return
    waiting = pending(draft.adds)
    if not waiting:
        return
    units = _with_neighbours(draft, key, waiting)
    missing = {unit: files for unit, files in units.items() if unit not in draft.settlements}
    for settlement in settle_units(draft, key, missing):
        draft.settlements[settlement.unit] = settlement
        draft.note(settlement)


def settle_into(draft: Draft, key: KeySpec, units: Mapping[Unit, Sequence[AddFile]]) -> frozenset[Bucket]:
    """Settle these units as part of the draft, so that its next operation finds every row that counts in a file."""
    draft.settle(settle_units(draft, key, units))
    return frozenset(bucket for unit in units for bucket in unit.buckets)


def settle_for(draft: Draft, predicate: Node | None = None) -> frozenset[Bucket]:
    """Settle all units of a key table that may hold rows for which ``predicate`` is true; returns their buckets."""
    key = KeySpec.of(draft.metadata)
    if key is None:
        return frozenset()
    dirty = unsettled_units(draft.live(), key)
    narrow = about_keys(predicate, key)
    if narrow is not None:
        kept = {add.path for members in dirty.values() for add in may_match_files(narrow, members, draft.metadata)}
        dirty = {unit: members for unit, members in dirty.items() if any(add.path in kept for add in members)}
    return settle_into(draft, key, dirty)


def settle_own(draft: Draft, key: KeySpec) -> frozenset[Bucket]:
    """Settle the units of the draft's own upserts as part of the draft, whatever the table's property says."""
    waiting = pending(draft.adds)
    return settle_into(draft, key, _with_neighbours(draft, key, waiting)) if waiting else frozenset()


def _with_neighbours(draft: Draft, key: KeySpec, files: Sequence[AddFile]) -> dict[Unit, list[AddFile]]:
    """The units of ``files``, with everything else that is in them."""
    touched = {key.bucket(add) for add in files}
    # Buckets of a fixed number overlap with no other.
    numbers = {number for _, number in touched} if isinstance(key.buckets, int) else None
    units = units_of(draft.live_in({place for place, _ in touched}, numbers), key)
    return {unit: members for unit, members in units.items() if unit.buckets & touched}


def settle_units(
    draft: Draft,
    key: KeySpec,
    units: Mapping[Unit, Sequence[AddFile]],
    *,
    distribute: bool = False,
) -> list[Settlement]:
    """Match the keys of each unit and write what follows from it: vectors in one file, other rows in files.

    ``distribute``: rows that were written without a bucket get one now.
    """
    if not units:
        return []
    work = _Work.of(draft, key, distribute=distribute)
    with ThreadPoolExecutor(max_workers=SETTLE_THREADS, thread_name_prefix="lakebed-settle") as pool:
        matched = list(pool.map(lambda unit: work.match(unit, units[unit]), units))
    return settlements(draft, matched)


@dataclass(frozen=True)
class _Work:
    """How the units of one table are settled."""

    order: ResolveOrder
    rewriter: Rewriter
    distribute: bool

    @staticmethod
    def of(draft: Draft, key: KeySpec, *, distribute: bool) -> _Work:
        handle = draft.handle
        order = ResolveOrder(
            store=handle.store, table_name=handle.name, metadata=draft.metadata, key=key, options=handle.options
        )
        return _Work(order, Rewriter.of(draft, key), distribute and key.buckets == POSTPONE)

    def match(self, unit: Unit, members: Sequence[AddFile]) -> Matched:
        """Settle one unit."""
        old = tuple(add for add in members if not is_unsettled(add))
        files = BucketFiles(old, fold_order(members))
        matched = self._combined(unit, files) if self.order.key.combines else self._resolved(unit, files)
        if self.order.key.merge is Merge.COPY_ON_WRITE:
            self._rewrite(matched, [(add, dead) for add, dead in matched.staying if dead or is_unsettled(add)])
        elif self.distribute:
            self._rewrite(matched, [(add, dead) for add, dead in matched.staying if is_unsettled(add)])
        return matched

    def _resolved(self, unit: Unit, files: BucketFiles) -> Matched:
        resolution = resolve(self.order, files)
        matched = Matched(unit)
        self._keep_changed(matched, files.settled, resolution.dead, resolution.replaced_tombstones)
        for add in files.unsettled:
            dead = resolution.dead.get(add.path) or BitMap64()
            self._keep(matched, _marked(add, resolution.replaced_tombstones), dead)
        return matched

    def _combined(self, unit: Unit, files: BucketFiles) -> Matched:
        """Merged rows get new files; of the older ones only the dead rows change."""
        combined = combine(self.order, files)
        matched = Matched(unit, leaving=list(files.unsettled))
        self._keep_changed(matched, files.settled, combined.dead, combined.places.replaced_tombstones)
        tables = combined.tables(tombstones=self.order.key.keeps_tombstones)
        sources = [Source(add, combined.dead.get(add.path)) for add in files.settled]
        matched.fresh.extend(self.rewriter.write(unit, tables, [*sources, *plain(files.unsettled)]))
        return matched

    def _keep_changed(self, matched: Matched, files: Sequence[AddFile], dead: Positions, replaced: Positions) -> None:
        """The settled files in which rows have died, or tombstones have been replaced."""
        for add in files:
            if add.path in dead or add.path in replaced:
                rows = dead.get(add.path) or dead_rows(self.order.store, add.deletion_vector) or BitMap64()
                self._keep(matched, _marked(add, replaced), rows)

    def _keep(self, matched: Matched, add: AddFile, dead: BitMap64) -> None:
        """The file stays with its dead rows, unless nothing in it matters any more."""
        if not self.order.key.keeps_tombstones:
            add = without_tombstones(add)
        if len(dead) == add.num_records and not tombstones_of(add):
            matched.leaving.append(add)
        else:
            matched.staying.append((add, dead))

    def _rewrite(self, matched: Matched, files: Sequence[tuple[AddFile, BitMap64]]) -> None:
        """Put the live rows of these files into new ones."""
        if not files:
            return
        matched.fresh.extend(self.rewriter.rewrite(matched.unit, [Source(add, dead) for add, dead in files]))
        paths = {add.path for add, _ in files}
        matched.leaving.extend(add for add, _ in files)
        matched.staying = [(add, dead) for add, dead in matched.staying if add.path not in paths]


def _marked(add: AddFile, replaced: Positions) -> AddFile:
    return with_replaced(add, replaced[add.path]) if add.path in replaced else add


def settlements(draft: Draft, matched: Sequence[Matched], *, data_change: bool = True) -> list[Settlement]:
    """Give every file its vector; all vectors that are not inline are in one file."""
    dead = [(add, rows) for one in matched for add, rows in (*one.staying, *one.fresh) if rows]
    same = {number for number, (add, rows) in enumerate(dead) if _is_same(add, rows)}
    written = store_vectors(draft.handle.store, [rows for _, rows in dead], never_inline=same)
    vectors = iter(written.vectors)
    made = () if written.path is None else (written.path,)
    found = []
    for one in matched:
        changed = [*one.leaving, *(add for add, _ in one.staying)]
        committed = [add for add in changed if add.path not in draft.adds]
        adds = {
            add.path: _finished(add, next(vectors) if rows else None, data_change)
            for add, rows in (*one.staying, *one.fresh)
        }
        found.append(
            Settlement(
                unit=one.unit,
                removes={add.key: add.remove(data_change=data_change) for add in committed},
                adds=adds,
                dropped=frozenset(add.path for add in one.leaving if add.path in draft.adds),
                written=(*made, *(add.file_path for add, _ in one.fresh)),
                metrics=_metrics(one),
            )
        )
    return found


def _is_same(add: AddFile, dead: BitMap64) -> bool:
    """Whether the file's vector is as it was; dead rows never come back."""
    return add.deletion_vector is not None and add.deletion_vector.cardinality == len(dead)


def _finished(add: AddFile, vector: DeletionVector | None, data_change: bool) -> AddFile:
    return with_vector(settled(add), vector, add.num_records or 0, data_change=data_change)


def _metrics(one: Matched) -> dict[str, int]:
    settled_files = sum(is_unsettled(add) for add in (*one.leaving, *(add for add, _ in one.staying)))
    return {"numSettledFiles": settled_files, "numMergedFiles": len(one.fresh)}
