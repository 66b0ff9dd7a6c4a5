"""Named steps of writing, committing and publishing.

``reach`` does nothing in production. Tests set an observer to stop, kill or count a process exactly at a
step, so that every step's crash is tried by name.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum


class Step(StrEnum):
    """The places where a process may die, in the order in which a write passes them."""

    WRITE_OPENED = "write.opened"
    WRITE_CLOSED = "write.closed"
    VECTOR_WRITTEN = "write.vector-written"
    COMMIT_PREPARED = "commit.prepared"
    COMMIT_BEGUN = "commit.begun"
    COMMIT_INSERTED = "commit.inserted"
    COMMIT_DONE = "commit.done"
    PUBLISH_BEGUN = "publish.begun"
    PUBLISH_WRITTEN = "publish.written"
    PUBLISH_MARKED = "publish.marked"
    CHECKPOINT_WRITTEN = "checkpoint.written"
    CHECKPOINT_POINTED = "checkpoint.pointed"
    COMPACT_WRITTEN = "compact.written"
    EXPIRE_FORGOTTEN = "expire.forgotten"
    EXPIRE_DONE = "expire.done"
    VACUUM_FOUND = "vacuum.found"
    VACUUM_CONDEMNED = "vacuum.condemned"
    VACUUM_DELETED = "vacuum.deleted"
    TRANSFER_TABLE = "transfer.table"


Observer = Callable[[Step], None]
_observers: list[Observer] = []


def observe(observer: Observer) -> Callable[[], None]:
    """Call ``observer`` at every step of this process; the returned function takes it off again.

    >>> seen = []
    >>> stop = observe(seen.append)
    >>> reach(Step.COMMIT_DONE); stop(); reach(Step.COMMIT_DONE)
    >>> seen
    [<Step.COMMIT_DONE: 'commit.done'>]
    """
    _observers.append(observer)
    return lambda: _observers.remove(observer)


def reach(step: Step) -> None:
    """Tell the observers, if there are any, that this process is at ``step``."""
    for observer in _observers:
        observer(step)
