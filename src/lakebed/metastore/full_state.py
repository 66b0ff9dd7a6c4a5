"""Everything that a checkpoint of a version holds, from one consistent read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc
from sqlalchemy import Connection

from lakebed.core.actions import AddFile, DomainMetadata, FileKey, Metadata, Protocol, RemoveFile, SetTransaction
from lakebed.core.file_tags import is_unsettled
from lakebed.core.unsettled import unsettled_domain
from lakebed.metastore.changes import load_removes
from lakebed.metastore.files import FileSet, load_files
from lakebed.metastore.part import Head, Part, find_head
from lakebed.metastore.states import domains_at, state_at, transactions_at, version_before


@dataclass(frozen=True)
class FullState:
    """A table at one version with all that its open log would tell of it."""

    version: int
    timestamp: int
    metadata: Metadata
    protocol: Protocol
    files: FileSet = field(hash=False)
    """Settled and unsettled ones."""
    removes: Sequence[RemoveFile] = field(hash=False)
    """The settled files that left lately and are not back."""
    transactions: Sequence[SetTransaction] = field(hash=False)
    domains: Sequence[DomainMetadata] = field(hash=False)

    def adds(self) -> Iterator[AddFile]:
        """The settled files: all that the open log knows as files."""
        return self.files.filter(pc.invert(self.files.data["unsettled"])).adds()

    def unsettled(self) -> Iterator[DomainMetadata]:
        """The unsettled files, as the open log carries them."""
        return map(unsettled_domain, self.files.filter(self.files.data["unsettled"]).adds())


class FullStates(Part):
    """The part of the metastore that checkpoints are made from."""

    def full_state(self, table_id: str, version: int | None = None, *, tombstones_after: int) -> FullState:
        """The whole state at a version, the newest by default, with the files that were removed after a time.

        Raises NotFoundError for the table and the version.
        """

        def work(connection: Connection) -> FullState:
            head = find_head(connection, table_id)
            state = state_at(connection, self._cache, head, version)
            files = load_files(connection, head, state.version)
            return FullState(
                version=state.version,
                timestamp=state.timestamp,
                metadata=state.metadata,
                protocol=state.protocol,
                files=files,
                removes=_tombstones(connection, head, files, tombstones_after),
                transactions=list(transactions_at(connection, head, state.version).values()),
                domains=list(domains_at(connection, head, state).values()),
            )

        return self._database.read(work)


def _tombstones(connection: Connection, head: Head, files: FileSet, after: int) -> list[RemoveFile]:
    """The last remove of each settled file that left since ``after`` and did not come back as one."""
    start = version_before(connection, head, after)
    removed = load_removes(connection, {"num": head.num, "after": start, "upto": files.version})
    last: dict[FileKey, RemoveFile] = {}
    for version in sorted(removed):
        settled = (r for r in removed[version] if not is_unsettled(r))
        last.update({r.key: r for r in settled if (r.deletion_timestamp or after + 1) > after})
    back = pc.is_in(files.data["path"], pa.array({path for path, _ in last}, pa.large_string()))
    for add in files.filter(pc.and_not(back, files.data["unsettled"])).adds():
        last.pop(add.key, None)
    return list(last.values())
