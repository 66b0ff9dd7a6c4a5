"""A table at one version, and the pure step from one version to the next."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

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
from lakebed.core.errors import CorruptFileError
from lakebed.core.schema import Struct


@dataclass(frozen=True)
class Snapshot:
    """Everything that a table is at ``version``. It never changes."""

    version: int
    protocol: Protocol
    metadata: Metadata
    files: Mapping[FileKey, AddFile] = field(default_factory=dict, hash=False)
    tombstones: Mapping[FileKey, RemoveFile] = field(default_factory=dict, hash=False)
    transactions: Mapping[str, SetTransaction] = field(default_factory=dict, hash=False)
    domains: Mapping[str, DomainMetadata] = field(default_factory=dict, hash=False)
    timestamp: int | None = None

    @property
    def schema(self) -> Struct:
        """The table's columns at this version."""
        return self.metadata.schema


class Replay:
    """Reconciles actions in the order of their commits; ``snapshot`` freezes the result.

    The mutable heart of ``apply``: replaying a long log costs one pass, not one copy per version.
    """

    def __init__(self, base: Snapshot | None = None) -> None:
        self._protocol = base.protocol if base else None
        self._metadata = base.metadata if base else None
        self._files = dict(base.files) if base else {}
        self._tombstones = dict(base.tombstones) if base else {}
        self._transactions = dict(base.transactions) if base else {}
        self._domains = dict(base.domains) if base else {}
        self._timestamp = base.timestamp if base else None

    def add(self, actions: Iterable[Action]) -> None:
        """Take in the actions of one commit, or the rows of one checkpoint."""
        for action in actions:
            match action:
                case AddFile():
                    self._files[action.key] = action
                    self._tombstones.pop(action.key, None)
                case RemoveFile():
                    self._files.pop(action.key, None)
                    self._tombstones[action.key] = action
                case Protocol():
                    self._protocol = action
                case Metadata():
                    self._metadata = action
                case SetTransaction():
                    self._transactions[action.app_id] = action
                case DomainMetadata():
                    if action.removed:
                        self._domains.pop(action.domain, None)
                    else:
                        self._domains[action.domain] = action
                case CommitInfo():
                    self._timestamp = self._timestamp if action.timestamp is None else action.timestamp
                case _:
                    pass  # cdc files and later protocols' actions are no part of the state

    def snapshot(self, version: int) -> Snapshot:
        """The state so far as an immutable snapshot. Raises CorruptFileError if the log began nowhere."""
        if self._protocol is None or self._metadata is None:
            missing = "protocol" if self._protocol is None else "metaData"
            raise CorruptFileError(
                f"version {version} has no {missing} action", fix="the log's first commit or checkpoint is missing"
            )
        return Snapshot(
            version=version,
            protocol=self._protocol,
            metadata=self._metadata,
            files=MappingProxyType(dict(self._files)),
            tombstones=MappingProxyType(dict(self._tombstones)),
            transactions=MappingProxyType(dict(self._transactions)),
            domains=MappingProxyType(dict(self._domains)),
            timestamp=self._timestamp,
        )


def apply(actions: Sequence[Action], snapshot: Snapshot | None) -> Snapshot:
    """The snapshot after one more commit; ``snapshot`` is None before the first.

    >>> from lakebed.core.actions import Metadata, Protocol
    >>> empty = '{"type":"struct","fields":[{"name":"id","type":"long","nullable":true,"metadata":{}}]}'
    >>> first = apply([Protocol(1, 2), Metadata("t", empty)], None)
    >>> second = apply([AddFile("a.parquet", {}, 10, 0, True)], first)
    >>> second.version, len(first.files), len(second.files)
    (1, 0, 1)
    """
    replay = Replay(snapshot)
    replay.add(actions)
    return replay.snapshot(0 if snapshot is None else snapshot.version + 1)
