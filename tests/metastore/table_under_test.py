"""A table under test, and short words for what tests do to it."""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass, field
from typing import Any

from lakebed.core.actions import Action, AddFile, DeletionVector, Metadata, Protocol
from lakebed.core.commit import Claim, Committed, Kind, Landed, PreparedCommit
from lakebed.metastore import Metastore

SCHEMA = json.dumps(
    {
        "type": "struct",
        "fields": [
            {"name": "id", "type": "long", "nullable": True, "metadata": {}},
            {"name": "dt", "type": "string", "nullable": True, "metadata": {}},
        ],
    }
)
PROTOCOL = Protocol(3, 7, ("deletionVectors",), ("deletionVectors", "rowTracking", "domainMetadata"))


def metadata(table_id: str, **values: Any) -> Metadata:
    return Metadata(table_id, SCHEMA, partition_columns=("dt",), **values)


def add(path: str, dt: str | None = "1", rows: int = 10, **values: Any) -> AddFile:
    stats = json.dumps({"numRecords": rows, "nullCount": {"id": 0}})
    return AddFile(
        path, {"dt": dt}, **{"size": 100, "modification_time": 5, "data_change": True, "stats": stats, **values}
    )


def vector(name: str, cardinality: int = 1, offset: int | None = 1) -> DeletionVector:
    return DeletionVector("u", name, 40, cardinality, offset)


def prepare(
    table_id: str, actions: list[Action], read_version: int, kind: Kind = Kind.APPEND, **values: Any
) -> PreparedCommit:
    claims = values.pop("claims", (Claim(kind, **values.pop("claim", {})),))
    return PreparedCommit(
        table_id=table_id,
        table_name=values.pop("table_name", "default.t"),
        commit_id=values.pop("commit_id", str(uuid.uuid4())),
        read_version=read_version,
        claims=claims,
        actions=tuple(actions),
        **values,
    )


@dataclass
class Written:
    """A table under test, and short words for what tests do to it."""

    metastore: Metastore
    table_id: str
    name: str = "t"
    made: list[Committed] = field(default_factory=list)

    def commit(self, *actions: Action, kind: Kind = Kind.APPEND, read: int | None = None, **values: Any) -> Committed:
        """Commit and insist that it lands."""
        outcome = self.attempt(*actions, kind=kind, read=read, **values)
        assert isinstance(outcome, Landed), outcome
        return outcome.commits[0]

    def attempt(self, *actions: Action, kind: Kind = Kind.APPEND, read: int | None = None, **values: Any) -> Any:
        """Commit and return whatever comes of it."""
        version = self.metastore.head(self.table_id) if read is None else read
        return self.metastore.commit([self.prepare(*actions, kind=kind, read=version, **values)])

    def prepare(self, *actions: Action, kind: Kind = Kind.APPEND, read: int, **values: Any) -> PreparedCommit:
        return prepare(self.table_id, list(actions), read, kind, table_name=f"default.{self.name}", **values)

    def live(self, version: int | None = None) -> dict[str, AddFile]:
        return {a.path: a for a in self.metastore.files(self.table_id, version).adds()}

    def versions(self) -> list[int]:
        return [record.version for record in self.metastore.history(self.table_id)][::-1]


def create(metastore: Metastore, name: str = "t", namespace: str = "default") -> Written:
    table_id = str(uuid.uuid4())
    first = prepare(table_id, [PROTOCOL, metadata(table_id)], -1, Kind.CREATE, table_name=f"{namespace}.{name}")
    metastore.create_table(namespace, name, f"file:///lake/{namespace}/{name}-{table_id}", first)
    return Written(metastore, table_id, name)
