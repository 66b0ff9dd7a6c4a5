"""Committing drafts: one outcome for all of them, and files deleted only if they certainly did not land."""

from __future__ import annotations

from collections.abc import Sequence

from lakebed.core.commit import Committed, Conflict, Landed, PreparedCommit, Recompute
from lakebed.core.errors import CommitUnknownError, ConflictError, LakebedError
from lakebed.core.steps import Step, reach
from lakebed.engine.draft import Draft
from lakebed.engine.publication import follow


def land(drafts: Sequence[Draft]) -> tuple[Committed, ...] | Recompute:
    """Commit all drafts together, then publish them.

    Returns ``Recompute`` when only positions are out of date; the drafts' files are then already deleted.
    Raises ConflictError, naming both commits, and CommitUnknownError, in which case the files stay.
    """
    changed = [draft for draft in drafts if draft.claims]
    if not changed:
        return ()
    prepared = [draft.prepare() for draft in changed]
    try:
        reach(Step.COMMIT_PREPARED)
        outcome = changed[0].handle.metastore.commit(prepared)
    except CommitUnknownError:
        raise
    except LakebedError:
        discard(changed)
        raise
    except BaseException as interruption:
        _clean_up(changed, prepared, interruption)
        raise
    if isinstance(outcome, Landed):
        for draft, done in zip(changed, outcome.commits, strict=True):
            if done.repeated:
                draft.discard()
            else:
                draft.tidy()
            draft.published = follow(draft.handle, draft.metadata, done)
        return outcome.commits
    discard(changed)
    if isinstance(outcome, Conflict):
        raise conflict_error(outcome)
    return outcome


def _clean_up(drafts: Sequence[Draft], prepared: Sequence[PreparedCommit], interruption: BaseException) -> None:
    """After Ctrl-C or the like, which may have come before or after COMMIT: the commit's id tells."""
    try:
        landed = drafts[0].handle.metastore.has_landed(prepared)
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
