"""Where reading happens: one version of a table, whatever its files are known from."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from lakebed.core.actions import AddFile, Metadata
from lakebed.core.commit import partition_key
from lakebed.core.file_tags import bucket_of, is_unsettled
from lakebed.core.keyed import KeySpec
from lakebed.core.predicate import Node, may_match_files
from lakebed.core.snapshot import Snapshot
from lakebed.engine.draft import Draft, Handle
from lakebed.engine.keyed_read import KeyedRead, about_keys
from lakebed.engine.lease import Lease, promise, take
from lakebed.engine.plan import FILES_SCHEMA, plan
from lakebed.engine.plan import describe as describe_set
from lakebed.engine.resolve import ResolveOrder
from lakebed.engine.source import Sources, plain
from lakebed.metastore import TableState


class ReadPoint(ABC):
    """One readable state of a table."""

    version: int
    metadata: Metadata

    @abstractmethod
    def files(self, predicate: Node | None) -> Sequence[AddFile]:
        """The files that may hold rows for which ``predicate`` is true."""

    def sources(self, predicate: Node | None) -> Sources:
        """What to read for the rows for which ``predicate`` is true."""
        return plain(self.files(predicate))

    def settled_files(self, predicate: Node | None) -> Sequence[AddFile]:
        """The files that other Delta readers see, and that may hold rows for which ``predicate`` is true."""
        return [add for add in self.files(predicate) if not is_unsettled(add)]

    @property
    def state_id(self) -> Hashable | None:
        """What no other state has, in the warehouse, of this table or another; None if the state may change."""
        return None

    def lease(self) -> Lease | None:
        """Keep the state readable until the lease ends; None where nothing can. Raises NotFoundError if it is gone."""
        return None

    def promise(self) -> None:
        """Keep the state readable for a while, where that is possible. Raises NotFoundError if it is gone."""
        return

    def describe(self, predicate: Node | None) -> pa.Table:
        """The same files as a table for people."""
        return describe(self.files(predicate))


@dataclass(frozen=True)
class StoredPoint(ReadPoint):
    """A committed version, read from the metastore."""

    handle: Handle
    state: TableState

    @property
    def version(self) -> int:  # type: ignore[override]
        """The version that is read."""
        return self.state.version

    @property
    def metadata(self) -> Metadata:  # type: ignore[override]
        """The metadata of that version."""
        return self.state.metadata

    def files(self, predicate: Node | None) -> Sequence[AddFile]:
        """Planned by the metastore's indexes, then by statistics."""
        metastore, table_id = self.handle.metastore, self.handle.table_id
        return list(plan(metastore, table_id, self.version, self.metadata, predicate).adds())

    def sources(self, predicate: Node | None) -> Sources:
        """Files minus dead rows; what is not settled is resolved first."""
        key = KeySpec.of(self.metadata)
        if key is None or not self.handle.metastore.has_unsettled(self.handle.table_id, self.version):
            return plain(self.files(predicate))
        return _keyed_read(self.handle, self.metadata, key).sources(self.files(about_keys(predicate, key)), predicate)

    @property
    def state_id(self) -> Hashable | None:
        """The table and the version."""
        return self.handle.table_id, self.version

    def lease(self) -> Lease | None:
        """Noted in the metastore."""
        return take(self.handle, self.version)

    def promise(self) -> None:
        """Noted in the metastore."""
        promise(self.handle, self.version)

    def describe(self, predicate: Node | None) -> pa.Table:
        """Columnar all the way: no object per file."""
        metastore, table_id = self.handle.metastore, self.handle.table_id
        return describe_set(plan(metastore, table_id, self.version, self.metadata, predicate, whole=False))


@dataclass(frozen=True)
class DraftPoint(ReadPoint):
    """A transaction's own view: the version that it began with, and what it has done since."""

    draft: Draft

    @property
    def version(self) -> int:  # type: ignore[override]
        """The version that the transaction began with."""
        return self.draft.base.version

    @property
    def metadata(self) -> Metadata:  # type: ignore[override]
        """The metadata, pending changes included."""
        return self.draft.metadata

    def files(self, predicate: Node | None) -> Sequence[AddFile]:
        """Committed and pending files."""
        return self.draft.live(predicate)

    def lease(self) -> Lease | None:
        """Of the version that the transaction began with."""
        return take(self.draft.handle, self.version)

    def promise(self) -> None:
        """Of the version that the transaction began with."""
        promise(self.draft.handle, self.version)

    def sources(self, predicate: Node | None) -> Sources:
        """Files minus dead rows; pending upserts are resolved first."""
        key = KeySpec.of(self.metadata)
        if key is None:
            return plain(self.files(predicate))
        files = self.files(about_keys(predicate, key))
        return _keyed_read(self.draft.handle, self.metadata, key).sources(files, predicate)


@dataclass(frozen=True)
class LogPoint(ReadPoint):
    """A version read from an open log, without any metastore."""

    snapshot: Snapshot

    @property
    def version(self) -> int:  # type: ignore[override]
        """The version of the log."""
        return self.snapshot.version

    @property
    def metadata(self) -> Metadata:  # type: ignore[override]
        """The metadata of that version."""
        return self.snapshot.metadata

    def files(self, predicate: Node | None) -> Sequence[AddFile]:
        """The log's live files, pruned by partition and statistics."""
        files = list(self.snapshot.files.values())
        return files if predicate is None else may_match_files(predicate, files, self.metadata)


@dataclass(frozen=True)
class SettledPoint(ReadPoint):
    """Another state without what is not settled in it."""

    point: ReadPoint

    @property
    def version(self) -> int:  # type: ignore[override]
        """The version of that state."""
        return self.point.version

    @property
    def metadata(self) -> Metadata:  # type: ignore[override]
        """The metadata of that state."""
        return self.point.metadata

    def files(self, predicate: Node | None) -> Sequence[AddFile]:
        """Its settled files."""
        return self.point.settled_files(predicate)

    def lease(self) -> Lease | None:
        """Of that state."""
        return self.point.lease()

    def promise(self) -> None:
        """Of that state."""
        self.point.promise()


def _keyed_read(handle: Handle, metadata: Metadata, key: KeySpec) -> KeyedRead:
    order = ResolveOrder(store=handle.store, table_name=handle.name, metadata=metadata, key=key, options=handle.options)
    return KeyedRead(order, handle.distribution)


def describe(files: Sequence[AddFile]) -> pa.Table:
    """Files as a table for people."""
    return pa.table(
        {
            "path": [add.file_path for add in files],
            "partition": [partition_key(add.partition_values) for add in files],
            "size": [add.size for add in files],
            "rows": [add.num_records for add in files],
            "dead_rows": [add.deletion_vector.cardinality if add.deletion_vector else 0 for add in files],
            "added_version": [add.default_row_commit_version for add in files],
            "bucket": [bucket_of(add) for add in files],
            "unsettled": [is_unsettled(add) for add in files],
        },
        schema=FILES_SCHEMA,
    )
