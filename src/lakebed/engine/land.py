"""Committing drafts: one outcome for all of them, and files deleted only if they certainly did not land."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import count

from lakebed.core.commit import CommitOutcome, Committed, Conflict, Landed, PreparedCommit, Recompute
from lakebed.core.conflict import misfit
from lakebed.core.errors import CommitUnknownError, ConflictError, FileMissingError, LakebedError, NotFoundError
from lakebed.core.steps import Step, reach
from lakebed.engine.draft import Draft
from lakebed.engine.publication import follow
from lakebed.engine.settle import settle_pending
from lakebed.engine.settlement import Settlement

_RACES = 12
"""How often an upsert settles again before it lands unsettled."""


def land(drafts: Sequence[Draft]) -> tuple[Committed, ...] | Recompute:
    """Settle what has to be settled, commit all drafts together, then publish them.

    An upsert that loses a race keeps its files and settles again only the buckets that the winner touched. Returns
    ``Recompute`` when positions of anything else are out of date; the drafts' files are then already deleted.
    Raises ConflictError, naming both commits, and CommitUnknownError, in which case the files stay.
    """
    changed = [draft for draft in drafts if draft.claims]
    if not changed:
        return ()
    for race in count():
        outcome = commit(changed)
        if isinstance(outcome, Landed):
            return landed(changed, outcome)
        late = next((draft for draft in changed if draft.handle.name == outcome.table_name), None)
        if isinstance(outcome, Recompute) and late is not None and late.can_move:
            try:
                _catch_up(late, outcome, race)
            except LakebedError:
                discard(changed)
                raise
            continue
        discard(changed)
        if isinstance(outcome, Conflict):
            raise conflict_error(outcome)
        return outcome
    raise AssertionError("the loop above does not end")


def _catch_up(draft: Draft, outcome: Recompute, race: int) -> None:
    """Base an upsert that has lost a race on the winner's version. Raises ConflictError if its rows do not fit it."""
    metastore, table_id = draft.handle.metastore, draft.handle.table_id
    try:
        base, known = metastore.state(table_id, outcome.version), True
    except NotFoundError:
        # It has expired already, and with it what has changed since.
        base, known = metastore.state(table_id), False
    # Whoever sees all that came between looks at the schema too; where it has expired, nobody has.
    if (problem := misfit(draft.adds.values(), base.metadata, draft.base.metadata)) is not None:
        raise ConflictError(
            f"table {draft.handle.name}: the upsert conflicts with a change of the schema, which landed meanwhile: "
            + problem,
            fix="nothing was changed; read the table's new schema and write again",
        )
    # Nobody may wait for ever: an upsert that is not settled cannot lose a race.
    draft.unsettled = race >= _RACES
    draft.move(base, lambda settlement: draft.unsettled or not known or is_stale(outcome, settlement))
    time.sleep(random.uniform(0, min(0.2, 0.002 * 2**race)))


def commit(drafts: Sequence[Draft]) -> CommitOutcome:
    """One attempt to settle and commit; files are deleted if it raises and has certainly not landed."""
    prepared: list[PreparedCommit] = []
    try:
        for draft in drafts:
            try:
                with cleaned_is_conflict(draft):
                    settle_pending(draft)
            except (FileMissingError, NotFoundError):
                if (outcome := _overtaken(draft)) is None:
                    raise
                return outcome
        prepared = [draft.prepare() for draft in drafts]
        reach(Step.COMMIT_PREPARED)
        return drafts[0].handle.metastore.commit(prepared)
    except CommitUnknownError:
        raise
    except LakebedError:
        discard(drafts)
        raise
    except BaseException as interruption:
        _clean_up(drafts, prepared, interruption)
        raise


@contextmanager
def cleaned_is_conflict(draft: Draft) -> Iterator[None]:
    """Raise ConflictError if a file that is missed is the draft's own: vacuum has deleted it before it could land."""
    try:
        yield
    except FileMissingError as error:
        store = draft.handle.store
        gone = next((path for path in draft.written if not store.exists(path)), None)
        if gone is None:
            raise
        raise ConflictError(
            f"table {draft.handle.name}: vacuum has deleted file {gone} before it was committed; it was older than the "
            "retention",
            fix="nothing was changed; run it again, and if it takes that long, vacuum with a longer retention",
        ) from error


def _overtaken(draft: Draft) -> Recompute | None:
    """When files of the draft's base are gone: where to begin again, if the table has moved on meanwhile."""
    head = draft.handle.metastore.head(draft.handle.table_id)
    if head == draft.base.version:
        return None
    # What the commits in between have changed nobody knows any more.
    buckets = frozenset(bucket for unit in draft.settlements for bucket in unit.buckets)
    return Recompute(draft.handle.name, head, buckets=buckets)


def is_stale(outcome: Recompute, settlement: Settlement) -> bool:
    """Whether the commits in between have changed what the settlement was made from."""
    return bool(settlement.unit.buckets & outcome.buckets or outcome.files & settlement.removes.keys())


def landed(drafts: Sequence[Draft], outcome: Landed) -> tuple[Committed, ...]:
    """After the commit: what is left over goes, and the open log follows."""
    for draft, done in zip(drafts, outcome.commits, strict=True):
        if done.repeated:
            draft.discard()
        else:
            draft.tidy()
        draft.published = follow(draft.handle, draft.metadata, done)
    return outcome.commits


def _clean_up(drafts: Sequence[Draft], prepared: Sequence[PreparedCommit], interruption: BaseException) -> None:
    """After Ctrl-C or the like, which may have come before or after COMMIT: the commit's id tells."""
    try:
        landed = bool(prepared) and drafts[0].handle.metastore.has_landed(prepared)
    except LakebedError as error:
        interruption.add_note(f"whether the commit has landed is not known, so its files stay: {error}")
        return
    if landed:
        interruption.add_note("the commit had landed already")
    else:
        discard(drafts)


def discard(drafts: Sequence[Draft]) -> None:
    """Delete what the drafts have written; only for commits that certainly did not land."""
    for draft in drafts:
        draft.discard()


def conflict_error(conflict: Conflict) -> ConflictError:
    """The error that names both commits and what to do."""
    return ConflictError(
        f"table {conflict.table_name}: the {conflict.mine} conflicts with version {conflict.version} "
        f"({conflict.theirs}), which landed meanwhile: {conflict.reason}",
        fix=f"nothing was changed; {conflict.fix}",
    )
