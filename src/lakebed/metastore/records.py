"""What the metastore tells of namespaces, tables, versions and tags."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lakebed.core.actions import Action, AddFile, Metadata, Protocol, RemoveFile
from lakebed.core.commit import Kind


@dataclass(frozen=True)
class TableRecord:
    """A table's entry in the catalogue."""

    table_id: str
    namespace: str
    name: str
    location: str
    created: int
    version: int
    """The head when the entry was read."""

    def __str__(self) -> str:
        return f"{self.namespace}.{self.name}"


@dataclass(frozen=True)
class TableState:
    """A table at one version, without its files."""

    table_id: str
    version: int
    timestamp: int
    metadata: Metadata
    protocol: Protocol
    schema_version: int
    """The version that last changed the metadata or the protocol."""
    next_row_id: int


@dataclass(frozen=True)
class VersionRecord:
    """One commit in a table's history."""

    version: int
    timestamp: int
    kind: Kind
    commit_id: str
    info: Mapping[str, Any] = field(hash=False)
    published: bool


@dataclass(frozen=True)
class Tag:
    """A name for a version."""

    name: str
    version: int
    created: int
    retain_until: int | None
    """Until when, in milliseconds, the version must be kept; None: until the tag is deleted."""


@dataclass(frozen=True)
class Consumer:
    """A named reader of changes."""

    name: str
    version: int
    """It has read all changes up to this one."""
    updated: int
    until: int
    """Until when, in milliseconds, the changes after that version are kept for it."""
    whole: bool = False
    """It has read nothing yet, and begins with all rows of that version."""


@dataclass(frozen=True)
class VersionChanges:
    """What one version added to and removed from the table."""

    version: int
    timestamp: int
    kind: Kind
    adds: Sequence[AddFile] = ()
    removes: Sequence[RemoveFile] = ()
    other_actions: Sequence[Action] = ()
    """Actions that the metastore only keeps: change files, and actions of later protocols."""


@dataclass(frozen=True)
class LoggedVersion:
    """One version of an existing log, to be imported.

    The first one may be any version if its actions are the whole state, as in a checkpoint.
    """

    version: int
    timestamp: int
    actions: Sequence[Action] = field(hash=False)
