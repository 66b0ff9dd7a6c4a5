"""Maintenance: settling for good, and compaction. Others go on writing; what they touch meanwhile is left out."""

from __future__ import annotations

import random
import time
import warnings
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count

from lakebed.core.actions import AddFile
from lakebed.core.commit import Claim, CommitOutcome, Committed, Conflict, Kind, Landed, Recompute, partition_key
from lakebed.core.conflict import unreadable
from lakebed.core.errors import CommitUnknownError, FileMissingError, InputError, LakebedError, NotFoundError
from lakebed.core.file_tags import is_unsettled
from lakebed.core.keyed import KeySpec, Merge
from lakebed.core.predicate import Node, may_match_files
from lakebed.core.predicate import columns as columns_of
from lakebed.core.properties import value_of
from lakebed.engine.carry_over import carried_over
from lakebed.engine.compact_order import CompactOrder
from lakebed.engine.draft import Draft, Handle
from lakebed.engine.land import commit, conflict_error, discard, is_stale, landed
from lakebed.engine.settle import keep_settlements, settle_units, settlements
from lakebed.engine.settlement import Matched, Settlement, made_for, size_of
from lakebed.engine.unit import Unit, units_of, unsettled_units
from lakebed.engine.workforce import Workload
from lakebed.metastore import TableState

COMPACT_THREADS = 2
_RACES = 12
"""How often work is fitted to what others have made of its buckets meanwhile."""


class UnsettledWarning(UserWarning):
    """Rows have landed, but are not settled yet; other Delta readers do not see them before they are."""


@dataclass(frozen=True)
class Maintained:
    """What became of a settle or a compaction."""

    committed: Committed | None
    """None if there was nothing to do, or nothing left of it."""
    done: tuple[Unit, ...] = ()
    lost: tuple[Unit, ...] = ()
    """Units that others changed meanwhile; the next run finds them."""


def settle(draft: Draft, where: Node | None) -> Maintained:
    """Settle all units of the table, or those of some partitions, in one commit."""
    key = KeySpec.of(draft.metadata)
    if key is None:
        return Maintained(None)
    units = unsettled_units(draft.live(), key)
    if where is not None:
        _refuse_rows(draft, where, key)
        kept = {add.path for files in units.values() for add in may_match_files(where, files, draft.metadata)}
        units = {unit: files for unit, files in units.items() if any(add.path in kept for add in files)}
    return land_units(draft, Kind.SETTLE, settle_units(draft, key, units, distribute=True))


def settle_after(draft: Draft) -> None:
    """After a commit: settle what it left unsettled though the table wants it settled.

    That is so when an upsert kept losing the race, and when the table wants it from now on. The commit has landed:
    a failure here is a warning.
    """
    if not (draft.unsettled or _wants_from_now(draft)):
        return
    try:
        for race in range(_RACES):
            if _settle_newest(draft.handle):
                return
            time.sleep(random.uniform(0, min(0.2, 0.002 * 2**race)))
        reason = f"others changed the same buckets {_RACES} times meanwhile"
    except LakebedError as error:
        reason = str(error)
    warnings.warn(
        UnsettledWarning(
            f"table {draft.handle.name}: the commit has landed, but its rows could not be settled ({reason}); "
            "settle() tries again"
        ),
        stacklevel=2,
    )


def settled_on_read(handle: Handle, state: TableState) -> TableState:
    """The state that a reader of the newest one reads: if the table wants that of readers, one that is settled.

    A reader that cannot write reads all the same: a failure is a warning.
    """
    wanted = value_of("settle-on-read", state.metadata.configuration) == "true"
    if not wanted or KeySpec.of(state.metadata) is None:
        return state
    if not handle.metastore.has_unsettled(handle.table_id, state.version):
        return state
    try:
        _settle_newest(handle)
    except LakebedError as error:
        warnings.warn(
            UnsettledWarning(
                f"table {handle.name}: what this read had to settle could not be kept ({error}); "
                "the next one does it again"
            ),
            stacklevel=5,
        )
    return handle.metastore.state(handle.table_id)


def _settle_newest(handle: Handle) -> bool:
    """Settle the newest version; whether that was all. A compaction may win the race, and settles nothing itself."""
    draft = Draft(handle, handle.metastore.state(handle.table_id))
    try:
        return not settle(draft, None).lost
    except CommitUnknownError:
        raise  # the files may be the table's
    except LakebedError as error:
        draft.discard()
        missing = isinstance(error, FileMissingError | NotFoundError)
        if missing and handle.metastore.head(handle.table_id) != draft.base.version:
            return False
        raise


def _wants_from_now(draft: Draft) -> bool:
    before, after = KeySpec.of(draft.base.metadata), KeySpec.of(draft.metadata)
    if before is None or after is None:
        return False
    return before.merge is Merge.ON_READ and after.merge is not Merge.ON_READ


def compact(draft: Draft, where: Node | None, *, full: bool) -> Maintained:
    """Rewrite the files of each unit that are worth it, in one commit. Files that are not settled are left alone."""
    key = KeySpec.of(draft.metadata)
    if where is not None:
        _refuse_rows(draft, where, key)
    return rewrite_units(draft, key, _packed_units(draft.live(where), key), full=full)


def rewrite_units(
    draft: Draft, key: KeySpec | None, units: Mapping[Unit, Sequence[AddFile]], *, full: bool
) -> Maintained:
    """Rewrite those of the files of settled units that are worth it, in one commit."""
    workload = Workload(
        work=lambda prefix: CompactOrder.of(draft, key, full=full, prefix=prefix).compact,
        size=size_of,
        made=made_for,
        threads=COMPACT_THREADS,
        measure="buckets",
    )
    chosen = CompactOrder.of(draft, key, full=full).worth_it(units)
    return _land_rewritten(draft, workload.run(draft, list(chosen.items())))


def _land_rewritten(draft: Draft, made: Sequence[Matched]) -> Maintained:
    """Commit rewritten files. Rows that upserts have killed meanwhile are dead in them too; units that have changed in
    another way are left out."""
    current = {one.unit: one for one in made}
    waiting = list(made)
    for race in count():
        keep_settlements(draft, settlements(draft, waiting, data_change=False))
        if not draft.settlements:
            break
        outcome = _commit(draft, Kind.COMPACT)
        if isinstance(outcome, Landed):
            landed([draft], outcome)
            done = tuple(draft.settlements)
            return Maintained(outcome.commits[0], done, tuple(one.unit for one in made if one.unit not in done))
        if isinstance(outcome, Conflict):
            discard([draft])
            raise conflict_error(outcome)
        stale = [current[unit] for unit, one in draft.settlements.items() if is_stale(outcome, one)]
        for one in stale:
            draft.forget(one.unit)
        waiting = _carried(draft, outcome, stale) if race < _RACES else []
        current.update({one.unit: one for one in waiting})
    discard([draft])
    return Maintained(None, (), tuple(one.unit for one in made))


def _carried(draft: Draft, outcome: Recompute, stale: Sequence[Matched]) -> list[Matched]:
    """Base the draft on the winner's version; what still holds there of the units that have lost the race to it."""
    try:
        base = draft.handle.metastore.state(draft.handle.table_id, outcome.version)
    except NotFoundError:  # it has expired already, and with it what has changed since
        return []
    if unreadable(base.metadata, draft.metadata) is not None:
        return []
    hopeful = [one for one in stale if not one.unit.buckets & outcome.buckets]
    draft.move(base, lambda _: False)
    return [found for one in hopeful if (found := carried_over(draft, one)) is not None]


def _packed_units(files: Sequence[AddFile], key: KeySpec | None) -> dict[Unit, list[AddFile]]:
    """What is packed together: the settled files of units, or the partitions of a table without a key.

    Unsettled files are newer than all settled ones of their unit, whoever has written these anew.
    """
    if key is not None:
        units = units_of(files, key)
        return {unit: [add for add in members if not is_unsettled(add)] for unit, members in units.items()}
    found: dict[Unit, list[AddFile]] = defaultdict(list)
    for add in files:
        found[Unit(partition_key(add.partition_values), frozenset())].append(add)
    return found


def _refuse_rows(draft: Draft, where: Node, key: KeySpec | None) -> None:
    """Raise InputError for a predicate that does not choose whole partitions."""
    partitions = ", ".join(draft.metadata.partition_columns)
    others = sorted(columns_of(where) - set(draft.metadata.partition_columns))
    if others:
        raise InputError(
            f"table {draft.handle.name}: maintenance works on whole partitions",
            expected=f"a predicate on {partitions}" if partitions else "no predicate: it has no partitions",
            found=f"one on {', '.join(others)}",
        )
    if key is not None and key.spans_partitions:
        raise InputError(
            f"table {draft.handle.name}: its buckets span partitions, since the primary key lacks a partition column",
            fix="leave out the predicate",
        )


def land_units(draft: Draft, kind: Kind, outcome_of: Iterable[Settlement]) -> Maintained:
    """Commit the outcome of maintenance; units that others have changed meanwhile are left out, not tried again."""
    for settlement in outcome_of:
        draft.settlements[settlement.unit] = settlement
        draft.note(settlement)
    lost: list[Unit] = []
    while draft.settlements:
        outcome = _commit(draft, kind)
        if isinstance(outcome, Landed):
            landed([draft], outcome)
            return Maintained(outcome.commits[0], tuple(draft.settlements), tuple(lost))
        if isinstance(outcome, Conflict):
            discard([draft])
            raise conflict_error(outcome)
        stale = [unit for unit, one in draft.settlements.items() if is_stale(outcome, one)]
        lost.extend(stale)
        for unit in stale:
            draft.forget(unit)
    discard([draft])
    return Maintained(None, (), tuple(lost))


def _commit(draft: Draft, kind: Kind) -> CommitOutcome:
    """One attempt; files are deleted if it raises and has certainly not landed."""
    draft.claims = [Claim(kind, buckets=frozenset(b for unit in draft.settlements for b in unit.buckets))]
    return commit([draft])
