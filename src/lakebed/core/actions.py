"""The typed actions of a commit, and their JSON form in the open log: one action per line.

Actions that this version does not know are kept as ``UnknownAction``, fields that it does not know in
``extra``; both are written back as they came.

>>> line = to_line(SetTransaction("stream-1", 7))
>>> line
'{"txn":{"appId":"stream-1","version":7}}'
>>> from_line(line)
SetTransaction(app_id='stream-1', version=7, last_updated=None, extra={})
"""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar
from urllib.parse import unquote

from lakebed.core.errors import CorruptFileError
from lakebed.core.schema import Struct
from lakebed.core.schema_delta import from_delta

JsonObject = Mapping[str, Any]


def now_ms() -> int:
    """The wall clock in milliseconds since the epoch, as the open log counts time."""
    return time.time_ns() // 1_000_000


def _extra() -> Any:
    return field(default_factory=dict, hash=False)


@dataclass(frozen=True)
class Format:
    """How data files are encoded; always Parquet."""

    provider: str = "parquet"
    options: Mapping[str, str] = _extra()
    extra: JsonObject = _extra()


@dataclass(frozen=True)
class DeletionVector:
    """Where the dead row positions of one data file are stored."""

    storage_type: str
    path_or_inline_dv: str
    size_in_bytes: int
    cardinality: int
    offset: int | None = None
    extra: JsonObject = _extra()

    @property
    def unique_id(self) -> str:
        """What tells this vector from any other of the table."""
        suffix = "" if self.offset is None else f"@{self.offset}"
        return f"{self.storage_type}{self.path_or_inline_dv}{suffix}"


FileKey = tuple[str, str | None]
"""A logical file: its path and the unique id of its deletion vector."""


@dataclass(frozen=True)
class Protocol:
    """What a reader and a writer of the table must understand."""

    KEY: ClassVar[str] = "protocol"
    min_reader_version: int
    min_writer_version: int
    reader_features: tuple[str, ...] | None = None
    writer_features: tuple[str, ...] | None = None
    extra: JsonObject = _extra()


@dataclass(frozen=True)
class Metadata:
    """The table itself: identity, schema, partitioning and properties."""

    KEY: ClassVar[str] = "metaData"
    id: str
    schema_string: str
    partition_columns: tuple[str, ...] = ()
    configuration: Mapping[str, str] = _extra()
    format: Format = field(default_factory=Format)
    name: str | None = None
    description: str | None = None
    created_time: int | None = None
    extra: JsonObject = _extra()

    @cached_property
    def schema(self) -> Struct:
        """All columns, in order."""
        return from_delta(self.schema_string)

    @property
    def partition_schema(self) -> Struct:
        """The partition columns, in partition order."""
        return self.schema.select(self.partition_columns)

    @property
    def data_schema(self) -> Struct:
        """The columns that are not partition columns."""
        return Struct(tuple(f for f in self.schema if f.name not in self.partition_columns))


@dataclass(frozen=True)
class RemoveFile:
    """A data file leaves the table."""

    KEY: ClassVar[str] = "remove"
    path: str
    data_change: bool
    deletion_timestamp: int | None = None
    extended_file_metadata: bool | None = None
    partition_values: Mapping[str, str | None] | None = field(default=None, hash=False)
    size: int | None = None
    stats: str | None = None
    tags: Mapping[str, str | None] | None = field(default=None, hash=False)
    deletion_vector: DeletionVector | None = None
    base_row_id: int | None = None
    default_row_commit_version: int | None = None
    extra: JsonObject = _extra()

    @property
    def key(self) -> FileKey:
        """The logical file that leaves."""
        return self.path, self.deletion_vector.unique_id if self.deletion_vector else None


@dataclass(frozen=True)
class AddFile:
    """A data file enters the table. ``path`` is URI-encoded, as in the log."""

    KEY: ClassVar[str] = "add"
    path: str
    partition_values: Mapping[str, str | None] = field(hash=False)
    size: int
    modification_time: int
    data_change: bool
    stats: str | None = None
    tags: Mapping[str, str | None] | None = field(default=None, hash=False)
    deletion_vector: DeletionVector | None = None
    base_row_id: int | None = None
    default_row_commit_version: int | None = None
    clustering_provider: str | None = None
    extra: JsonObject = _extra()

    @property
    def key(self) -> FileKey:
        """The logical file that enters."""
        return self.path, self.deletion_vector.unique_id if self.deletion_vector else None

    @property
    def file_path(self) -> str:
        """The decoded path, as the file system knows it."""
        return unquote(self.path)

    @cached_property
    def num_records(self) -> int | None:
        """Physical rows in the file, dead ones included; None if the log does not say."""
        if self.stats is None:
            return None
        try:
            count = json.loads(self.stats).get("numRecords")
        except (ValueError, AttributeError):
            return None
        return count if isinstance(count, int) else None

    def remove(self, *, data_change: bool = True, timestamp: int | None = None) -> RemoveFile:
        """The action that takes this file out of the table again.

        >>> AddFile("a.parquet", {}, 10, 0, True).remove(timestamp=5)
        RemoveFile(path='a.parquet', data_change=True, deletion_timestamp=5, ...)
        """
        return RemoveFile(
            path=self.path,
            data_change=data_change,
            deletion_timestamp=now_ms() if timestamp is None else timestamp,
            extended_file_metadata=True,
            partition_values=self.partition_values,
            size=self.size,
            tags=self.tags,
            deletion_vector=self.deletion_vector,
            base_row_id=self.base_row_id,
            default_row_commit_version=self.default_row_commit_version,
        )


@dataclass(frozen=True)
class AddCDCFile:
    """A file of change rows; it is not part of the table's data."""

    KEY: ClassVar[str] = "cdc"
    path: str
    partition_values: Mapping[str, str | None] = field(hash=False)
    size: int
    data_change: bool = False
    tags: Mapping[str, str | None] | None = field(default=None, hash=False)
    extra: JsonObject = _extra()


@dataclass(frozen=True)
class SetTransaction:
    """An application's own version: what makes a replayed write a no-op."""

    KEY: ClassVar[str] = "txn"
    app_id: str
    version: int
    last_updated: int | None = None
    extra: JsonObject = _extra()


@dataclass(frozen=True)
class DomainMetadata:
    """Named configuration of one domain; ``delta.*`` domains belong to the protocol."""

    KEY: ClassVar[str] = "domainMetadata"
    domain: str
    configuration: str
    removed: bool = False
    extra: JsonObject = _extra()


@dataclass(frozen=True)
class CommitInfo:
    """Free information about a commit: who, when, what."""

    KEY: ClassVar[str] = "commitInfo"
    values: JsonObject = _extra()

    @property
    def timestamp(self) -> int | None:
        """Milliseconds of the commit: the in-commit timestamp if there is one."""
        stamp = self.values.get("inCommitTimestamp")
        if stamp is None:
            stamp = self.values.get("timestamp")
        return stamp if isinstance(stamp, int) else None


@dataclass(frozen=True)
class UnknownAction:
    """An action of a later protocol; readers pass over it."""

    name: str
    body: Any = field(hash=False)


Action = (
    Protocol
    | Metadata
    | AddFile
    | RemoveFile
    | AddCDCFile
    | SetTransaction
    | DomainMetadata
    | CommitInfo
    | UnknownAction
)

_KNOWN: Mapping[str, type[Any]] = {
    kind.KEY: kind for kind in (Protocol, Metadata, AddFile, RemoveFile, AddCDCFile, SetTransaction, DomainMetadata)
}
_IRREGULAR = {"path_or_inline_dv": "pathOrInlineDv"}


def _camel(name: str) -> str:
    head, *rest = name.split("_")
    return _IRREGULAR.get(name, head + "".join(part.capitalize() for part in rest))


def _json_names(kind: type[Any]) -> dict[str, str]:
    return {_camel(f.name): f.name for f in dataclasses.fields(kind) if f.name != "extra"}


_NAMES: Mapping[type[Any], Mapping[str, str]] = {
    kind: _json_names(kind) for kind in (*_KNOWN.values(), Format, DeletionVector)
}
_PLAIN = frozenset({str, int, bool, float})
"""What JSON has as it is: most values of all."""
_NESTED: Mapping[str, type[Any]] = {"deletion_vector": DeletionVector, "format": Format}
_TUPLES = frozenset({"reader_features", "writer_features", "partition_columns"})


def _encode(value: Any) -> Any:
    if type(value) in _PLAIN:
        return value
    if type(value) in _NAMES:
        return to_object(value)
    if isinstance(value, tuple):
        return list(value)
    if isinstance(value, Mapping):
        return dict(value)
    return value


def to_object(action: Any) -> dict[str, Any]:
    """The JSON object of an action's body: absent fields are left out, unknown ones are kept."""
    body = {
        key: _encode(value)
        for key, name in _NAMES[type(action)].items()
        if (value := getattr(action, name)) is not None
    }
    body.update(getattr(action, "extra", {}))
    return body


def wrap(action: Action) -> dict[str, Any]:
    """The action as the one-entry JSON object of a log line."""
    if isinstance(action, UnknownAction):
        return {action.name: action.body}
    if isinstance(action, CommitInfo):
        return {action.KEY: dict(action.values)}
    return {action.KEY: to_object(action)}


def from_object(kind: type[Any], body: JsonObject) -> Any:
    """An action body parsed into its dataclass; raises TypeError when a required field is missing."""
    names = _NAMES[kind]
    known: dict[str, Any] = {}
    extra: dict[str, Any] = {}
    for key, value in body.items():
        name = names.get(key)
        if name is None:
            extra[key] = value
        elif value is None:
            continue
        elif name in _NESTED:
            known[name] = from_object(_NESTED[name], value)
        else:
            known[name] = tuple(value) if name in _TUPLES else value
    return kind(**known, extra=extra)


def unwrap(entry: JsonObject) -> Action | None:
    """The action of one log line's object; None for an empty one."""
    for name, body in entry.items():
        if body is None:
            continue
        if name == CommitInfo.KEY:
            return CommitInfo(dict(body))
        kind = _KNOWN.get(name)
        if kind is None:
            return UnknownAction(name, body)
        action: Action = from_object(kind, body)
        return action
    return None


def to_line(action: Action) -> str:
    """The action as one line of the log, without the line end."""
    return json.dumps(wrap(action), separators=(",", ":"), ensure_ascii=False)


def from_line(line: str) -> Action | None:
    """The action of one line of the log; None for a blank one. Raises CorruptFileError."""
    if not line.strip():
        return None
    try:
        entry = json.loads(line)
        if not isinstance(entry, dict):
            raise TypeError(f"a JSON object is needed, not {type(entry).__name__}")
        return unwrap(entry)
    except (ValueError, TypeError, AttributeError) as error:
        raise CorruptFileError("a line of the log is not an action", found=line[:120]) from error


def to_lines(actions: Iterable[Action]) -> str:
    """A whole commit file."""
    return "".join(to_line(action) + "\n" for action in actions)


def from_lines(text: str) -> tuple[Action, ...]:
    """All actions of a commit file. Raises CorruptFileError."""
    parsed = (from_line(line) for line in text.split("\n"))
    return tuple(action for action in parsed if action is not None)
