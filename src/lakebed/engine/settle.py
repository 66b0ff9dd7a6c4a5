"""Settling: the unsettled files of a unit are matched with its older files, and dead rows get vectors."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence

from pyroaring import BitMap64

from lakebed.core.actions import AddFile, DeletionVector
from lakebed.core.commit import Bucket
from lakebed.core.file_tags import is_unsettled, settled
from lakebed.core.keyed import KeySpec, Merge
from lakebed.core.predicate import Node, may_match_files
from lakebed.core.predicate import columns as columns_of
from lakebed.engine.draft import Draft
from lakebed.engine.keyed_read import about_keys
from lakebed.engine.resolving import dense
from lakebed.engine.resolving.key_columns import read_bytes
from lakebed.engine.resolving.known_dead import keep_dead, keeps_dead
from lakebed.engine.settle_order import SettleOrder, Settling
from lakebed.engine.settlement import Matched, Settlement, UnitFiles, made_for, size_of
from lakebed.engine.unit import Unit, pending, units_of, unsettled_units
from lakebed.engine.vectors import store_vectors, with_vector
from lakebed.engine.workforce import Workload

SETTLE_THREADS = 4
"""Where files are elsewhere: threads that wait for them."""


def settle_pending(draft: Draft) -> None:
    """Settle the draft's own upserts, where the table wants that of every commit and it has not been done yet."""
    key = KeySpec.of(draft.metadata)
    if key is None or key.merge is Merge.ON_READ or draft.unsettled:
        return
    waiting = pending(draft.adds)
    if not waiting:
        return
    draft.touched = _with_neighbours(draft, key, waiting)
    missing = {unit: files for unit, files in draft.touched.items() if unit not in draft.settlements}
    keep_settlements(draft, settle_units(draft, key, missing))


def keep_settlements(draft: Draft, made: Sequence[Settlement]) -> None:
    """Settlements that the draft lands with, as long as they hold."""
    for settlement in made:
        draft.settlements[settlement.unit] = settlement
        draft.note(settlement)


def settling(draft: Draft, key: KeySpec) -> Settling | None:
    """What lets writers of whole buckets settle them; None where the commit does not settle, or more is to come."""
    if key.merge is Merge.ON_READ or not draft.alone:
        return None
    return Settling(SettleOrder.of(draft, key), tuple(draft.live()))


def settle_into(
    draft: Draft, key: KeySpec, units: Mapping[Unit, Sequence[AddFile]], doomed: Node | None = None
) -> frozenset[Bucket]:
    """Settle these units as part of the draft, so that its next operation finds every row that counts in a file."""
    draft.settle(settle_units(draft, key, units, doomed=doomed))
    return frozenset(bucket for unit in units for bucket in unit.buckets)


def settle_for(draft: Draft, predicate: Node | None = None, *, deleting: bool = False) -> frozenset[Bucket]:
    """Settle all units of a key table that may hold rows for which ``predicate`` is true; returns their buckets.

    ``deleting``: these rows are deleted next. If keys alone tell which ones they are, their values are not merged:
    a value that cannot be must not keep anybody from deleting it.
    """
    key = KeySpec.of(draft.metadata)
    if key is None:
        return frozenset()
    dirty = unsettled_units(draft.live(), key)
    narrow = about_keys(predicate, key)
    if narrow is not None:
        kept = {add.path for members in dirty.values() for add in may_match_files(narrow, members, draft.metadata)}
        dirty = {unit: members for unit, members in dirty.items() if any(add.path in kept for add in members)}
    only_keys = deleting and predicate is not None and columns_of(predicate) <= set(key.key)
    return settle_into(draft, key, dirty, predicate if only_keys else None)


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
    doomed: Node | None = None,
) -> list[Settlement]:
    """Match the keys of each unit and write what follows from it: vectors in one file, other rows in files.

    ``distribute``: rows that were written without a bucket get one now. ``doomed``: keys whose rows need not be
    merged, since they are deleted next.
    """
    if not units:
        return []
    workload = Workload(
        work=lambda prefix: SettleOrder.of(draft, key, distribute=distribute, doomed=doomed, prefix=prefix).settle,
        size=_size(draft, key, distribute=distribute),
        made=made_for,
        threads=_threads(draft),
        measure="buckets",
    )
    return settlements(draft, workload.run(draft, list(units.items())))


def _threads(draft: Draft) -> int:
    """Where files are local threads compute, and more of them than cores only take Python's lock from each other."""
    return min(SETTLE_THREADS, os.cpu_count() or 1) if draft.handle.store.location.is_local else SETTLE_THREADS


def _size(draft: Draft, key: KeySpec, *, distribute: bool) -> Callable[[UnitFiles], int]:
    """What settling a unit makes somebody read: only the keys, unless rows are merged or written anew."""
    if key.combines or key.merge is Merge.COPY_ON_WRITE or distribute:
        return size_of
    order = SettleOrder.of(draft, key).order
    return lambda item: read_bytes(order, item[1])


def settlements(draft: Draft, matched: Sequence[Matched], *, data_change: bool = True) -> list[Settlement]:
    """Give every file its vector; all vectors that are not inline are in one file."""
    dead = [(add, rows) for one in matched for add, rows in (*one.staying, *one.fresh) if rows]
    same = {number for number, (add, rows) in enumerate(dead) if _is_same(add, rows)}
    written = store_vectors(draft.handle.store, [rows for _, rows in dead], never_inline=same)
    key = KeySpec.of(draft.metadata)
    if key is not None and keeps_dead(key) and dense.suits(key):
        for (_, rows), vector in zip(dead, written.vectors, strict=True):
            keep_dead(draft.handle.store, vector, rows)
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
    metrics = {"numSettledFiles": settled_files, "numMergedFiles": len(one.fresh)}
    return {**metrics, "numDeletedRows": one.deleted} if one.deleted else metrics
