"""A final commit becomes rows, inside the transaction that holds the table's row."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, and_, bindparam, insert, select, update

from lakebed.core.actions import (
    Action,
    AddFile,
    CommitInfo,
    DomainMetadata,
    Metadata,
    Protocol,
    RemoveFile,
    SetTransaction,
    to_lines,
)
from lakebed.core.commit import ROW_TRACKING, Bucket, FinalCommit, Kind, partition_key
from lakebed.core.errors import InputError
from lakebed.core.file_tags import is_unsettled
from lakebed.metastore import schema
from lakebed.metastore.bulk import insert_rows
from lakebed.metastore.cache import Cache
from lakebed.metastore.lookup import one_of
from lakebed.metastore.part import Head
from lakebed.metastore.rows import (
    FileRow,
    Row,
    VectorRow,
    dump,
    dump_buckets,
    dump_metadata,
    dump_protocol,
    file_row,
    is_new_vector,
    vector_of,
    vector_row,
)

_FILES = schema.files.c
_VECTORS = schema.vectors.c


class NotLiveError(Exception):
    """A commit removes a file that the head does not have."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path


class AlreadyLiveError(Exception):
    """A commit adds a file that the head already has."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path


@dataclass(frozen=True)
class Landing:
    """A commit that is about to be stored: the final actions, and what the version's row says of them."""

    final: FinalCommit
    commit_id: str
    kind: Kind
    buckets: frozenset[Bucket] = frozenset()
    body: str | None = None
    """The text of the log file; None if it is there already."""


@dataclass
class FileChanges:
    """The rows that a commit's files become."""

    files: list[FileRow]
    vectors: list[VectorRow]
    removed: list[tuple[int, RemoveFile]]
    """Rows of files that end, with the remove that ends them."""
    ended_vectors: list[int]
    """Files whose present vector ends."""


def of_kind(actions: Iterable[Action], kind: type[Any]) -> list[Any]:
    """The actions of one kind, in order."""
    return [action for action in actions if isinstance(action, kind)]


def other_actions(actions: Iterable[Action]) -> str | None:
    """The actions that have no rows of their own, as lines of the log; None if there are none."""
    stored = (Protocol, Metadata, AddFile, RemoveFile, SetTransaction, DomainMetadata, CommitInfo)
    return to_lines(action for action in actions if not isinstance(action, stored)) or None


def store(connection: Connection, cache: Cache, head: Head, landing: Landing, *, careful: bool) -> None:
    """Insert the rows of one commit and move the table's row on.

    ``careful``: look first whether the added files are live already, instead of leaving that to the unique
    index. Raises NotLiveError and AlreadyLiveError.
    """
    actions = landing.final.actions
    partition_ids, next_partition_id = _partitions(connection, cache, head, of_kind(actions, AddFile))
    changes = _file_changes(connection, head, landing.final, partition_ids, careful=careful)
    _end_rows(connection, head, landing.final, changes)
    insert_rows(connection, schema.files, changes.files)
    insert_rows(connection, schema.vectors, changes.vectors)
    schema_version = _store_schema(connection, cache, head, landing.final)
    insert_rows(connection, schema.transactions, transaction_rows(head.num, landing.final.version, actions))
    insert_rows(connection, schema.domains, domain_rows(head.num, landing.final.version, actions))
    insert_rows(connection, schema.versions, [version_row(head.num, landing)])
    connection.execute(
        _MOVE,
        {
            "moved": head.num,
            "to_version": landing.final.version,
            "to_timestamp": landing.final.timestamp,
            "to_schema_version": schema_version,
            "to_row_id": landing.final.next_row_id,
            "to_file_id": head.next_file_id + len(changes.files),
            "to_partition_id": next_partition_id,
        },
    )


_MOVE = (
    update(schema.tables)
    .where(schema.tables.c.num == bindparam("moved"))
    .values(
        version=bindparam("to_version"),
        timestamp=bindparam("to_timestamp"),
        schema_version=bindparam("to_schema_version"),
        next_row_id=bindparam("to_row_id"),
        next_file_id=bindparam("to_file_id"),
        next_partition_id=bindparam("to_partition_id"),
    )
)


def version_row(num: int, landing: Landing) -> dict[str, Any]:
    """The row of one version."""
    final = landing.final
    info = next((a.values for a in final.actions if isinstance(a, CommitInfo)), {})
    return {
        "table_num": num,
        "version": final.version,
        "commit_id": landing.commit_id,
        "timestamp": final.timestamp,
        "kind": landing.kind.value,
        "data_change": any(a.data_change for a in final.actions if isinstance(a, AddFile | RemoveFile)),
        "next_row_id": final.next_row_id,
        "info": dump(dict(info)),
        "buckets": dump_buckets(landing.buckets),
        "other_actions": other_actions(final.actions),
        "body": landing.body,
    }


def transaction_rows(num: int, version: int, actions: Sequence[Action]) -> list[dict[str, Any]]:
    """One row for each application that the commit names; the last action of it counts."""
    last = {txn.app_id: txn for txn in of_kind(actions, SetTransaction)}
    return [
        {
            "table_num": num,
            "app_id": txn.app_id,
            "committed_version": version,
            "app_version": txn.version,
            "last_updated": txn.last_updated,
        }
        for txn in last.values()
    ]


def domain_rows(num: int, version: int, actions: Sequence[Action]) -> list[dict[str, Any]]:
    """One row for each domain that the commit sets; the row ids' mark is the version's ``next_row_id``."""
    last = {domain.domain: domain for domain in of_kind(actions, DomainMetadata)}
    last.pop(ROW_TRACKING, None)
    return [
        {
            "table_num": num,
            "domain": domain.domain,
            "committed_version": version,
            "configuration": domain.configuration,
            "removed": domain.removed,
        }
        for domain in last.values()
    ]


def _store_schema(connection: Connection, cache: Cache, head: Head, final: FinalCommit) -> int:
    """Store metadata and protocol if the commit changes either; the version that last did."""
    metadata = of_kind(final.actions, Metadata)
    protocol = of_kind(final.actions, Protocol)
    if not metadata and not protocol:
        return head.schema_version
    if not (metadata and protocol):
        old_metadata, old_protocol = cache.schema(connection, head.num, head.schema_version)
    new_metadata: Metadata = metadata[-1] if metadata else old_metadata
    new_protocol: Protocol = protocol[-1] if protocol else old_protocol
    connection.execute(
        insert(schema.schemas),
        {
            "table_num": head.num,
            "version": final.version,
            "metadata": dump_metadata(new_metadata),
            "protocol": dump_protocol(new_protocol),
            "metadata_changed": bool(metadata),
            "protocol_changed": bool(protocol),
        },
    )
    return final.version


def _partitions(
    connection: Connection, cache: Cache, head: Head, adds: Sequence[AddFile]
) -> tuple[Mapping[str, int], int]:
    """The numbers of the partitions that the commit adds files to; new ones are stored."""
    keys = list(dict.fromkeys(partition_key(add.partition_values) for add in adds))
    ids = cache.partition_ids(connection, head.num, head.partition_epoch, keys)
    new = [key for key in keys if key not in ids]
    ids.update((key, head.next_partition_id + place) for place, key in enumerate(new))
    rows = [{"table_num": head.num, "id": ids[key], "key": key} for key in new]
    insert_rows(connection, schema.partitions, rows)
    return ids, head.next_partition_id + len(new)


_LIVE_ROWS = (
    select(
        schema.files,
        _VECTORS.storage_type,
        _VECTORS.path_or_inline_dv,
        _VECTORS.start,
        _VECTORS.size_in_bytes,
        _VECTORS.cardinality,
    )
    .outerjoin(
        schema.vectors,
        and_(
            _VECTORS.table_num == _FILES.table_num,
            _VECTORS.file_id == _FILES.id,
            _VECTORS.removed_version.is_(None),
        ),
    )
    .where(_FILES.table_num == bindparam("num"), _FILES.removed_version.is_(None), one_of(_FILES.path, "paths"))
)


def _live_rows(connection: Connection, num: int, paths: Iterable[str]) -> dict[str, Row]:
    """The live files of these paths, each with its vector."""
    rows = connection.execute(_LIVE_ROWS, {"num": num, "paths": list(paths)}).mappings()
    return {row["path"]: row for row in rows}


def _file_changes(
    connection: Connection,
    head: Head,
    final: FinalCommit,
    partition_ids: Mapping[str, int],
    *,
    careful: bool,
) -> FileChanges:
    adds: list[AddFile] = of_kind(final.actions, AddFile)
    leaving: list[RemoveFile] = of_kind(final.actions, RemoveFile)
    removes = {remove.path: remove for remove in leaving}
    looked_up = {*removes, *(add.path for add in adds)} if careful else removes
    live = _live_rows(connection, head.num, looked_up) if looked_up else {}
    for remove in leaving:
        if remove.path not in live or not _is_row_of(remove, live[remove.path]):
            raise NotLiveError(remove.path)
    changes = FileChanges([], [], [], [])
    kept: set[str] = set()
    for add in adds:
        if add.path in live and add.path not in removes:
            raise AlreadyLiveError(add.path)
        partition_id = partition_ids[partition_key(add.partition_values)]
        replaced = removes.get(add.path)
        if replaced is not None and is_new_vector(add, replaced, live[add.path], partition_id):
            kept.add(add.path)
            changes.vectors.append(vector_row(add, live[add.path], version=final.version))
            continue
        row = file_row(
            add,
            table_num=head.num,
            file_id=head.next_file_id + len(changes.files),
            partition_id=partition_id,
            version=final.version,
        )
        changes.files.append(row)
        if add.deletion_vector is not None:
            changes.vectors.append(vector_row(add, row, version=final.version))
    changes.removed.extend((live[path]["id"], remove) for path, remove in removes.items() if path not in kept)
    changes.ended_vectors.extend(live[path]["id"] for path in removes if live[path]["storage_type"] is not None)
    return changes


def _is_row_of(remove: RemoveFile, row: Row) -> bool:
    """Whether the live row is the logical file that leaves: a file that settled meanwhile is another one."""
    vector = vector_of(row)
    key = row["path"], vector.unique_id if vector else None
    return remove.key == key and is_unsettled(remove) == bool(row["unsettled"])


_END_VECTORS = (
    update(schema.vectors)
    .where(_VECTORS.table_num == bindparam("num"), _VECTORS.removed_version.is_(None), one_of(_VECTORS.file_id, "ids"))
    .values(removed_version=bindparam("at_version"))
)
_END_FILES = (
    update(schema.files)
    .where(_FILES.table_num == bindparam("num"), one_of(_FILES.id, "ids"))
    .values(
        removed_version=bindparam("at_version"),
        removed_at=bindparam("at_time"),
        removed_data_change=bindparam("changing_data"),
    )
)


def _end_rows(connection: Connection, head: Head, final: FinalCommit, changes: FileChanges) -> None:
    shared = {"num": head.num, "at_version": final.version}
    if changes.ended_vectors:
        connection.execute(_END_VECTORS, {**shared, "ids": changes.ended_vectors})
    alike: dict[tuple[int | None, bool], list[int]] = defaultdict(list)
    for file_id, remove in changes.removed:
        alike[remove.deletion_timestamp, remove.data_change].append(file_id)
    for (at_time, changing_data), ids in alike.items():
        connection.execute(_END_FILES, {**shared, "ids": ids, "at_time": at_time, "changing_data": changing_data})


def check_whole(actions: Sequence[Action], name: str) -> None:
    """The first commit of a table must say what the table is. Raises InputError."""
    if not of_kind(actions, Metadata) or not of_kind(actions, Protocol):
        raise InputError(f"table {name}: the first commit needs metadata and protocol")
