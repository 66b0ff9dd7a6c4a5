"""After the commit: the open log follows the metastore."""

from __future__ import annotations

import itertools
import warnings

from lakebed.core.actions import Metadata, now_ms
from lakebed.core.commit import Committed
from lakebed.core.errors import CorruptFileError, FileMissingError, LakebedError, NotFoundError
from lakebed.core.properties import value_of
from lakebed.delta.checkpoint import write_checkpoint
from lakebed.delta.publish import publish, publish_next
from lakebed.engine.draft import Handle

TOMBSTONE_MS = 7 * 24 * 3600 * 1000
"""How long a checkpoint remembers removed files, so that vacuum of other engines may find them."""


class PublicationWarning(UserWarning):
    """A commit has landed, but the open log could not be written yet; the next writer will."""


class _Source:
    """What ``publish`` needs of the metastore, for one table; used for one pass.

    A batch that is not full was the last one: later commits are published by those who make them.
    """

    def __init__(self, handle: Handle) -> None:
        self._handle = handle
        self._ended = False
        self.first: int | None = None
        """The oldest version that had to be published; None if there was none."""

    def unpublished(self, limit: int) -> list[tuple[int, str]]:
        if self._ended:
            return []
        found = self._handle.metastore.unpublished(self._handle.table_id, limit)
        self._ended = len(found) < limit
        if found and self.first is None:
            self.first = found[0][0]
        return found

    def mark_published(self, version: int) -> None:
        self._handle.metastore.mark_published(self._handle.table_id, version)


def publish_versions(handle: Handle) -> int:
    """Write every version that the open log does not have yet, in order; returns the newest in the log.

    Raises StorageError if the log cannot be written; what was committed stays committed.
    """
    last = _publish(handle, None)
    return handle.metastore.published(handle.table_id) if last is None else last


def _publish(handle: Handle, metadata: Metadata | None, done: Committed | None = None) -> int | None:
    """Publish, and write a checkpoint when its time has come; the last version written, None if none was.

    ``metadata`` is the table's present one and ``done`` the commit just made, if the caller knows them.
    """
    source = _Source(handle)
    if done is not None and done.body is not None:
        publish_next(handle.store, source, done.version, done.body)
        first = last = done.version
    else:
        last = publish(handle.store, source)
        if source.first is None:
            return None
        first = source.first
    metadata = metadata or handle.metastore.state(handle.table_id).metadata
    interval = int(value_of("checkpoint-interval", metadata.configuration))
    if last // interval > max(first - 1, 0) // interval:
        try:
            checkpoint(handle)
        except LakebedError as error:
            warnings.warn(
                PublicationWarning(
                    f"table {handle.name}: the log is complete, but a checkpoint of it could not be written ({error}); "
                    "checkpoint() tries again"
                ),
                stacklevel=2,
            )
    return last


def follow(handle: Handle, metadata: Metadata | None = None, done: Committed | None = None) -> bool:
    """Publish after a commit that has landed: a failure here is a warning, never a failed commit.

    Returns whether the log has the commit. ``metadata`` is the table's present one and ``done`` the commit, if the
    caller knows them.
    """
    try:
        _publish(handle, metadata, done)
        return True
    except LakebedError as error:
        # Raising would tell the caller that nothing was committed, and a second try would write the rows twice.
        # Another writer's commit in its place does not go away by trying again.
        later = "" if isinstance(error, CorruptFileError) else "; the next write or publish() will write it"
        warnings.warn(
            PublicationWarning(
                f"table {handle.name}: the commit has landed, but its log file could not be written ({error}){later}"
            ),
            stacklevel=2,
        )
        return False


def checkpoint(handle: Handle) -> int:
    """Write a checkpoint of the newest version, publishing it first if need be; returns that version."""
    publish(handle.store, _Source(handle))
    while True:
        version = handle.metastore.published(handle.table_id)
        try:
            write_state(handle, version)
            return version
        except (NotFoundError, FileMissingError):
            # It may have expired meanwhile; then there is a newer one, which is as good.
            if handle.metastore.published(handle.table_id) == version:
                raise


def write_state(handle: Handle, version: int) -> None:
    """Write a checkpoint of a version that is in the log. Raises NotFoundError if it has expired."""
    full = handle.metastore.full_state(handle.table_id, version, tombstones_after=now_ms() - TOMBSTONE_MS)
    write_checkpoint(
        handle.store,
        version,
        protocol=full.protocol,
        metadata=full.metadata,
        transactions=full.transactions,
        domains=itertools.chain(full.domains, full.unsettled()),
        adds=full.adds(),
        removes=full.removes,
    )
