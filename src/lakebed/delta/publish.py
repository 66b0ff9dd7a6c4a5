"""Publishing: the metastore's commits become files of the open log, in order, each exactly once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from lakebed.core.errors import CorruptFileError, MetastoreError
from lakebed.core.steps import Step, reach
from lakebed.delta.paths import commit_path
from lakebed.storage.store import Store

BATCH = 100


class PublicationSource(Protocol):
    """Where the commits of one table come from."""

    def unpublished(self, limit: int) -> Sequence[tuple[int, str]]:
        """The oldest commits that are not marked as published: version and file body, without gaps."""
        ...

    def mark_published(self, version: int) -> None:
        """Every commit up to and including ``version`` is in the log."""
        ...


def publish(store: Store, source: PublicationSource, upto: int | None = None) -> int:
    """Write every commit (up to ``upto``) that is not yet in the log; returns the last one, or -1.

    Several publishers may run at once, and any of them may die at any step: a commit's bytes are fixed, so
    the one that comes second finds its own bytes and goes on. Raises CorruptFileError, and publishes
    nothing further, if it finds other bytes.

    >>> import tempfile
    >>> from lakebed.core.location import Location
    >>> from lakebed.storage.store import open_store
    >>> class Commits:
    ...     marked = -1
    ...     def unpublished(self, limit):
    ...         return [(v, "{}\\n") for v in range(3) if v > self.marked]
    ...     def mark_published(self, version):
    ...         self.marked = version
    >>> store = open_store(Location.parse(tempfile.mkdtemp()))
    >>> publish(store, Commits())
    2
    """
    last = -1
    while True:
        batch = [(v, body) for v, body in source.unpublished(BATCH) if upto is None or v <= upto]
        if not batch:
            return last
        _check_order(batch, last)
        for version, body in batch:
            reach(Step.PUBLISH_BEGUN)
            _write_once(store, version, body.encode())
            reach(Step.PUBLISH_WRITTEN)
        last = batch[-1][0]
        source.mark_published(last)
        reach(Step.PUBLISH_MARKED)


def publish_next(store: Store, source: PublicationSource, version: int, body: str) -> None:
    """Write one commit of which every earlier one is in the log, as ``publish`` would, without asking for more."""
    reach(Step.PUBLISH_BEGUN)
    _write_once(store, version, body.encode())
    reach(Step.PUBLISH_WRITTEN)
    source.mark_published(version)
    reach(Step.PUBLISH_MARKED)


def _check_order(batch: list[tuple[int, str]], last: int) -> None:
    """A gap in the log would hide every later version from readers, so it is refused before it is written.

    Between two batches another publisher may have gone ahead; inside one nothing can be missing.
    """
    versions = [version for version, _ in batch]
    expected = list(range(versions[0], versions[0] + len(versions)))
    if versions != expected or versions[0] <= last:
        raise MetastoreError(
            "the commits to publish are not in order",
            expected=f"versions {max(expected[0], last + 1)} and on, without a gap",
            found=", ".join(map(str, versions)),
            fix="nothing of this batch was published; check the metastore",
        )


def _write_once(store: Store, version: int, body: bytes) -> None:
    path = commit_path(version)
    if store.put_if_absent(path, body) or store.read(path) == body:
        return
    raise CorruptFileError(
        f"{store.location}: {path} is not the commit that Lakebed made as version {version}",
        expected="the bytes that the metastore holds",
        found="another writer's commit",
        fix="stop the other writer, which must not write into a table that Lakebed manages; then move its "
        "file away and publish() again. To have its version instead of Lakebed's, drop_table() after that, put "
        "the file back, delete Lakebed's later ones from the log, and register() the table again",
    )
