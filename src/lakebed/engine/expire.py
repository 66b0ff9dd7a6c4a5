"""Expiry: old versions are forgotten, by the metastore first and by the open log after it."""

from __future__ import annotations

from lakebed.core.errors import FileMissingError, NotFoundError
from lakebed.core.steps import Step, reach
from lakebed.delta.features import check_writable
from lakebed.delta.trim import before, begins_well, trim
from lakebed.engine.draft import Handle
from lakebed.engine.lease import end_pending
from lakebed.engine.publication import write_state
from lakebed.metastore import Expiring


def foresee(handle: Handle, moment: int) -> Expiring:
    """What ``expire`` would forget now; nothing is changed."""
    end_pending()
    state = handle.metastore.state(handle.table_id)
    check_writable(state.protocol, state.metadata, table=f"table {handle.name}")
    return handle.metastore.expiring(handle.table_id, handle.metastore.kept_from(handle.table_id, moment))


def expire(handle: Handle, moment: int) -> int:
    """Forget the versions that nobody needs to read the table as of any time from ``moment`` (ms) on; how many.

    The metastore goes first: what it does not know any more nobody reads through it, and the log still has it if
    all else fails. Cut off anywhere, the next expiry finishes the work. Raises StorageError, MetastoreError.
    """
    foreseen = foresee(handle, moment)
    forgotten = handle.metastore.expire(handle.table_id, foreseen.before, foreseen.kept)
    reach(Step.EXPIRE_FORGOTTEN)
    trim_log(handle)
    reach(Step.EXPIRE_DONE)
    return forgotten.versions


def trim_log(handle: Handle) -> None:
    """Let the open log begin where the versions without a gap do that are left, with a checkpoint.

    A log that went on from an older checkpoint would tell of versions whose files vacuum takes away.
    """
    first = handle.metastore.begins(handle.table_id)
    if not before(handle.store, first):
        return
    try:
        if not begins_well(handle.store, first):
            write_state(handle, first)
    except (NotFoundError, FileMissingError):
        if handle.metastore.begins(handle.table_id) > first:
            return  # another expiry has gone further meanwhile; the rest is its work
        raise
    trim(handle.store, first)
