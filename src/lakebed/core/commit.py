"""What a writer hands to the metastore, and what comes back."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from lakebed.core.actions import (
    Action,
    AddFile,
    CommitInfo,
    DomainMetadata,
    FileKey,
    Metadata,
    Protocol,
    RemoveFile,
    SetTransaction,
)
from lakebed.core.errors import InputError

if TYPE_CHECKING:
    from lakebed.core.predicate.nodes import Node

ROW_TRACKING = "delta.rowTracking"
Bucket = tuple[str, int]
"""A bucket's place: the partition's path and the bucket's number."""


class Kind(StrEnum):
    """What an operation is, for the conflict rules and the history."""

    CREATE = "create"
    APPEND = "append"
    UPSERT = "upsert"
    SETTLE = "settle"
    COMPACT = "compact"
    DELETE = "delete"
    UPDATE = "update"
    MERGE = "merge"
    OVERWRITE = "overwrite"
    ALTER = "alter"
    RESTORE = "restore"


DELTA_OPERATION: Mapping[Kind, str] = {
    Kind.CREATE: "CREATE TABLE",
    Kind.APPEND: "WRITE",
    Kind.UPSERT: "MERGE",
    Kind.SETTLE: "OPTIMIZE",
    Kind.COMPACT: "OPTIMIZE",
    Kind.DELETE: "DELETE",
    Kind.UPDATE: "UPDATE",
    Kind.MERGE: "MERGE",
    Kind.OVERWRITE: "WRITE",
    Kind.ALTER: "ALTER TABLE",
    Kind.RESTORE: "RESTORE",
}


@dataclass(frozen=True)
class Claim:
    """What one operation of a commit relied on, so that a rebase can tell whether it still holds."""

    kind: Kind
    predicate: Node | None = None
    """The rows that the operation replaced or removed; None with ``reads_all`` False: no row at all."""
    reads_all: bool = False
    """The operation replaced or removed the whole table."""
    partitions: frozenset[str] = frozenset()
    """The partitions, as ``partition_key`` texts, that a dynamic overwrite replaced."""
    buckets: frozenset[Bucket] = frozenset()
    """The buckets that the operation wrote to or matched."""
    settles: bool = False
    """An upsert has matched its buckets with the files that it saw there: it must do so again if they change."""
    not_null: tuple[str, ...] = ()
    """Physical names of the columns that a schema change made non-null after looking at the data."""


@dataclass(frozen=True)
class PreparedCommit:
    """One table's share of a commit, made against ``read_version``; nothing in it is final yet."""

    table_id: str
    table_name: str
    commit_id: str
    read_version: int
    claims: tuple[Claim, ...]
    actions: tuple[Action, ...]
    made_for: Metadata | None = None
    """The table's metadata at ``read_version``; None for the commit that creates the table."""
    info: Mapping[str, Any] = field(default_factory=dict, hash=False)
    """Further entries for the commit's ``commitInfo``."""

    @property
    def kind(self) -> Kind:
        """The operation that history shows: the last one, since it decided the outcome."""
        return self.claims[-1].kind


@dataclass(frozen=True)
class Committed:
    """A commit that landed."""

    table_id: str
    version: int
    timestamp: int
    commit_id: str
    repeated: bool = False
    """The same application transaction had landed before, as this version; nothing was added."""
    body: str | None = field(default=None, repr=False, compare=False)
    """The text of the version's log file, if every earlier version is in the open log: it may be written at once."""


@dataclass(frozen=True)
class Landed:
    """All tables of the commit moved on, together."""

    commits: tuple[Committed, ...]


@dataclass(frozen=True)
class Conflict:
    """A commit that may not land; nothing was changed."""

    table_name: str
    mine: Kind
    version: int
    theirs: Kind
    reason: str
    fix: str


@dataclass(frozen=True)
class Recompute:
    """The data is fine, but positions or buckets must be matched again with ``version`` before it can land."""

    table_name: str
    version: int
    files: frozenset[FileKey] = frozenset()
    """Logical files of mine that maintenance has replaced."""
    buckets: frozenset[Bucket] = frozenset()
    """Buckets to settle again (an upsert), or to leave out (settle and compact)."""


CommitOutcome = Landed | Conflict | Recompute


@dataclass(frozen=True)
class FinalCommit:
    """The actions as they are stored and published, and the table's next free row id."""

    version: int
    timestamp: int
    actions: tuple[Action, ...]
    next_row_id: int


def partition_key(values: Mapping[str, str | None]) -> str:
    """Partition values (by physical name) as one canonical text.

    >>> partition_key({"b": None, "a": "1"})
    '{"a":"1","b":null}'
    """
    return json.dumps(dict(sorted(values.items())), separators=(",", ":"), ensure_ascii=False)


def finalise(
    prepared: PreparedCommit, *, version: int, timestamp: int, next_row_id: int, row_tracking: bool = True
) -> FinalCommit:
    """Give a prepared commit its version, its time and its row ids. Pure; called inside the transaction.

    Files that already carry row ids (a restored file, a new vector of an old file) keep them.
    """
    actions: list[Action] = []
    first = next_row_id
    for action in prepared.actions:
        if isinstance(action, AddFile) and row_tracking and action.base_row_id is None:
            if action.num_records is None:
                raise InputError(f"{prepared.table_name}: file {action.path} has no row count", fix="give numRecords")
            action = replace(action, base_row_id=next_row_id, default_row_commit_version=version)  # noqa: PLW2901
            next_row_id += action.num_records or 0
        elif isinstance(action, SetTransaction) and action.last_updated is None:
            action = replace(action, last_updated=timestamp)  # noqa: PLW2901
        elif isinstance(action, RemoveFile) and action.deletion_timestamp is None:
            action = replace(action, deletion_timestamp=timestamp)  # noqa: PLW2901
        actions.append(action)
    if next_row_id != first:
        mark = json.dumps({"rowIdHighWaterMark": next_row_id - 1}, separators=(",", ":"))
        actions.append(DomainMetadata(ROW_TRACKING, mark))
    info = {
        "operation": DELTA_OPERATION[prepared.kind],
        "operationParameters": {},
        "engineInfo": "Lakebed",
        **prepared.info,
        # The time and the id of a commit are not the caller's to say.
        "inCommitTimestamp": timestamp,
        "timestamp": timestamp,
        "txnId": prepared.commit_id,
        "lakebed": {"kind": prepared.kind.value, **prepared.info.get("lakebed", {})},
    }
    ordered = sorted(actions, key=lambda action: _ORDER.get(type(action), len(_ORDER)))
    return FinalCommit(version, timestamp, (CommitInfo(info), *ordered), next_row_id)


_ORDER: Mapping[type[Any], int] = {
    kind: rank for rank, kind in enumerate((Protocol, Metadata, DomainMetadata, SetTransaction, RemoveFile, AddFile))
}


@dataclass(frozen=True)
class Winner:
    """A commit that landed after the version that mine was made from."""

    version: int
    kind: Kind
    adds: Sequence[AddFile] = ()
    removes: Sequence[RemoveFile] = ()
    metadata: Metadata | None = None
    protocol: Protocol | None = None
    buckets: frozenset[Bucket] = frozenset()
    data_change: bool = True
