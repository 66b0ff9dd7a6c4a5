"""The rows of a log that exists already, made version by version and written in batches.

Rows of files wait in memory only while the file is live; one that is removed is complete and goes to the
database with its batch. So memory follows the size of the table, not of its history.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Table, update

from lakebed.core.actions import Action, AddFile, CommitInfo, DomainMetadata, Metadata, Protocol, RemoveFile
from lakebed.core.commit import ROW_TRACKING, FinalCommit, Kind, partition_key
from lakebed.core.errors import CorruptFileError
from lakebed.core.file_tags import is_unsettled
from lakebed.core.unsettled import from_log
from lakebed.metastore import schema
from lakebed.metastore.bulk import copy_rows
from lakebed.metastore.landing import Landing, check_whole, domain_rows, of_kind, transaction_rows, version_row
from lakebed.metastore.part import Head
from lakebed.metastore.records import LoggedVersion
from lakebed.metastore.rows import (
    FileRow,
    VectorRow,
    dump_metadata,
    dump_protocol,
    file_row,
    is_new_vector,
    vector_row,
)

_FLUSH = 20_000
_OPERATIONS: Mapping[str, Kind] = {
    "CREATE TABLE": Kind.CREATE,
    "CREATE TABLE AS SELECT": Kind.CREATE,
    "STREAMING UPDATE": Kind.APPEND,
    "DELETE": Kind.DELETE,
    "UPDATE": Kind.UPDATE,
    "MERGE": Kind.MERGE,
    "OPTIMIZE": Kind.COMPACT,
    "RESTORE": Kind.RESTORE,
}


def kind_of(actions: Sequence[Action]) -> Kind:
    """What a logged commit was: as Lakebed noted it, else by its operation, else by what it did."""
    info = next((a.values for a in actions if isinstance(a, CommitInfo)), {})
    noted = info.get("lakebed")
    noted = noted.get("kind") if isinstance(noted, dict) else None
    if noted in set(Kind):
        return Kind(noted)
    known = _OPERATIONS.get(str(info.get("operation", "")))
    if known is not None:
        return known
    if of_kind(actions, RemoveFile):
        return Kind.OVERWRITE
    return Kind.APPEND if of_kind(actions, AddFile) else Kind.ALTER


class LogRows:
    """Writes the rows of one table's log; used once."""

    def __init__(self, connection: Connection, head: Head) -> None:
        self._connection = connection
        self._head = head
        self._num = head.num
        self._waiting: dict[Table, list[dict[str, Any]]] = {}
        self._live: dict[str, FileRow] = {}
        self._vectors: dict[str, tuple[VectorRow, str]] = {}
        self._partitions: dict[str, int] = {}
        self._metadata: Metadata | None = None
        self._protocol: Protocol | None = None
        self._commit_ids: set[str] = set()
        self._version = self._timestamp = self._schema_version = -1
        self._next_file_id = self._next_row_id = 0

    def take_in(self, history: Iterable[LoggedVersion]) -> int:
        """Write everything; returns the last version. Raises CorruptFileError for a gap or an empty log."""
        for logged in history:
            if self._version >= 0 and logged.version != self._version + 1:
                raise CorruptFileError(
                    f"table {self._head}: its log has a gap",
                    expected=f"version {self._version + 1}",
                    found=f"version {logged.version}",
                )
            self._take_version(logged.version, logged.timestamp, from_log(logged.actions))
        if self._version < 0:
            raise CorruptFileError(f"table {self._head}: its log has no version")
        for path in list(self._live):
            self._release(path)
        for table in list(self._waiting):
            self._flush(table)
        self._move_head()
        return self._version

    def _take_version(self, version: int, timestamp: int, actions: Sequence[Action]) -> None:
        first = self._version < 0
        self._version = version
        self._timestamp = max(timestamp, self._timestamp + 1)
        if first:
            check_whole(actions, str(self._head))
        removes: list[RemoveFile] = of_kind(actions, RemoveFile)
        if first:
            self._take_tombstones(removes)
        # A remove of another vector, or of a file that is not there, changes nothing.
        self._take_files(of_kind(actions, AddFile), {r.path: r for r in removes if self._is_live(r)})
        self._take_schema(actions)
        for domain in of_kind(actions, DomainMetadata):
            self._take_mark(domain)
        self._put(schema.transactions, transaction_rows(self._num, version, actions))
        self._put(schema.domains, domain_rows(self._num, version, actions))
        self._put(schema.versions, [self._version_row(actions)])

    def _version_row(self, actions: Sequence[Action]) -> dict[str, Any]:
        info = next((a.values for a in actions if isinstance(a, CommitInfo)), {})
        commit_id = str(info.get("txnId") or f"version-{self._version}")
        if commit_id in self._commit_ids:
            commit_id = f"{commit_id}-version-{self._version}"
        self._commit_ids.add(commit_id)
        final = FinalCommit(self._version, self._timestamp, tuple(actions), self._next_row_id)
        return version_row(self._num, Landing(final, commit_id, kind_of(actions)))

    def _take_tombstones(self, removes: Sequence[RemoveFile]) -> None:
        """Files that had left before the log begins: rows that no version shows, for the next checkpoint."""
        for remove in removes:
            add = AddFile(
                path=remove.path,
                partition_values=remove.partition_values or {},
                size=remove.size or 0,
                modification_time=0,
                data_change=remove.data_change,
                tags=remove.tags,
                deletion_vector=remove.deletion_vector,
                base_row_id=remove.base_row_id,
                default_row_commit_version=remove.default_row_commit_version,
            )
            self._enter(add)
            self._leave(remove)

    def _take_files(self, adds: Sequence[AddFile], removes: Mapping[str, RemoveFile]) -> None:
        kept = set()
        for add in adds:
            row, remove = self._live.get(add.path), removes.get(add.path)
            if row is None or remove is None:
                continue
            partition_id = self._partitions.get(partition_key(add.partition_values))
            if is_new_vector(add, remove, row, partition_id):
                kept.add(add.path)
                self._end_vector(add.path)
                self._set_vector(add, row)
        for path, remove in removes.items():
            if path not in kept:
                self._leave(remove)
        for add in adds:
            if add.path in kept:
                continue
            if add.path in self._live:
                # Other writers add a live file again to give it new statistics.
                self._leave(add.remove(data_change=False, timestamp=self._timestamp))
            self._enter(add)

    def _is_live(self, remove: RemoveFile) -> bool:
        """Whether the logical file that leaves is there."""
        if remove.path not in self._live:
            return False
        if is_unsettled(remove) != self._live[remove.path]["unsettled"]:
            return False
        present = self._vectors.get(remove.path)
        return remove.key[1] == (None if present is None else present[1])

    def _enter(self, add: AddFile) -> None:
        key = partition_key(add.partition_values)
        if key not in self._partitions:
            self._partitions[key] = len(self._partitions)
            self._put(schema.partitions, [{"table_num": self._num, "id": self._partitions[key], "key": key}])
        row = file_row(
            add,
            table_num=self._num,
            file_id=self._next_file_id,
            partition_id=self._partitions[key],
            version=self._version,
        )
        self._next_file_id += 1
        self._live[add.path] = row
        if add.deletion_vector is not None:
            self._set_vector(add, row)

    def _set_vector(self, add: AddFile, row: FileRow) -> None:
        assert add.deletion_vector is not None
        self._vectors[add.path] = vector_row(add, row, version=self._version), add.deletion_vector.unique_id

    def _end_vector(self, path: str) -> None:
        if path in self._vectors:
            vector, _ = self._vectors.pop(path)
            self._put(schema.vectors, [{**vector, "removed_version": self._version}])

    def _leave(self, remove: RemoveFile) -> None:
        self._end_vector(remove.path)
        row = self._live.pop(remove.path)
        row["removed_version"] = self._version
        row["removed_at"] = remove.deletion_timestamp
        row["removed_data_change"] = remove.data_change
        self._put(schema.files, [row])

    def _release(self, path: str) -> None:
        """A file that stays live to the end goes to the database as it is."""
        self._put(schema.files, [self._live.pop(path)])
        if path in self._vectors:
            self._put(schema.vectors, [self._vectors.pop(path)[0]])

    def _take_schema(self, actions: Sequence[Action]) -> None:
        metadata, protocol = of_kind(actions, Metadata), of_kind(actions, Protocol)
        if not metadata and not protocol:
            return
        self._metadata = metadata[-1] if metadata else self._metadata
        self._protocol = protocol[-1] if protocol else self._protocol
        assert self._metadata is not None
        assert self._protocol is not None
        self._schema_version = self._version
        row = {
            "table_num": self._num,
            "version": self._version,
            "metadata": dump_metadata(self._metadata),
            "protocol": dump_protocol(self._protocol),
            "metadata_changed": bool(metadata),
            "protocol_changed": bool(protocol),
        }
        self._put(schema.schemas, [row])

    def _take_mark(self, domain: DomainMetadata) -> None:
        if domain.domain == ROW_TRACKING and not domain.removed:
            mark = json.loads(domain.configuration).get("rowIdHighWaterMark", -1)
            self._next_row_id = max(self._next_row_id, mark + 1)

    def _put(self, table: Table, rows: list[dict[str, Any]]) -> None:
        waiting = self._waiting.setdefault(table, [])
        waiting.extend(rows)
        if len(waiting) >= _FLUSH:
            self._flush(table)

    def _flush(self, table: Table) -> None:
        copy_rows(self._connection, table, self._waiting.pop(table))

    def _move_head(self) -> None:
        self._connection.execute(
            update(schema.tables)
            .where(schema.tables.c.num == self._num)
            .values(
                version=self._version,
                timestamp=self._timestamp,
                schema_version=self._schema_version,
                next_row_id=self._next_row_id,
                next_file_id=self._next_file_id,
                next_partition_id=len(self._partitions),
            )
        )
