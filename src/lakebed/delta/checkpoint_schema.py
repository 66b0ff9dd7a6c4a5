"""The columns of a checkpoint, and actions as rows of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from lakebed.core.actions import (
    Action,
    AddFile,
    DeletionVector,
    DomainMetadata,
    Metadata,
    Protocol,
    RemoveFile,
    SetTransaction,
    to_object,
)

# All fields are nullable: Arrow checks a required member of a struct in rows where the struct itself is null.
_TEXTS = pa.map_(pa.string(), pa.string())
_VECTOR = pa.struct(
    [
        ("storageType", pa.string()),
        ("pathOrInlineDv", pa.string()),
        ("offset", pa.int32()),
        ("sizeInBytes", pa.int32()),
        ("cardinality", pa.int64()),
    ]
)
_TXN = pa.struct([("appId", pa.string()), ("version", pa.int64()), ("lastUpdated", pa.int64())])
_ADD = pa.struct(
    [
        ("path", pa.string()),
        ("partitionValues", _TEXTS),
        ("size", pa.int64()),
        ("modificationTime", pa.int64()),
        ("dataChange", pa.bool_()),
        ("stats", pa.string()),
        ("tags", _TEXTS),
        ("deletionVector", _VECTOR),
        ("baseRowId", pa.int64()),
        ("defaultRowCommitVersion", pa.int64()),
        ("clusteringProvider", pa.string()),
    ]
)
_REMOVE = pa.struct(
    [
        ("path", pa.string()),
        ("deletionTimestamp", pa.int64()),
        ("dataChange", pa.bool_()),
        ("extendedFileMetadata", pa.bool_()),
        ("partitionValues", _TEXTS),
        ("size", pa.int64()),
        ("deletionVector", _VECTOR),
        ("baseRowId", pa.int64()),
        ("defaultRowCommitVersion", pa.int64()),
    ]
)
_METADATA = pa.struct(
    [
        ("id", pa.string()),
        ("name", pa.string()),
        ("description", pa.string()),
        ("format", pa.struct([("provider", pa.string()), ("options", _TEXTS)])),
        ("schemaString", pa.string()),
        ("partitionColumns", pa.list_(pa.string())),
        ("configuration", _TEXTS),
        ("createdTime", pa.int64()),
    ]
)
_PROTOCOL = pa.struct(
    [
        ("minReaderVersion", pa.int32()),
        ("minWriterVersion", pa.int32()),
        ("readerFeatures", pa.list_(pa.string())),
        ("writerFeatures", pa.list_(pa.string())),
    ]
)
_DOMAIN = pa.struct([("domain", pa.string()), ("configuration", pa.string()), ("removed", pa.bool_())])

SCHEMA = pa.schema(
    [
        pa.field(SetTransaction.KEY, _TXN),
        pa.field(AddFile.KEY, _ADD),
        pa.field(RemoveFile.KEY, _REMOVE),
        pa.field(Metadata.KEY, _METADATA),
        pa.field(Protocol.KEY, _PROTOCOL),
        pa.field(DomainMetadata.KEY, _DOMAIN),
    ]
)


def small_rows(actions: Iterable[Action]) -> pa.RecordBatch:
    """Rows of actions of any kind; for the few that are not files."""
    rows: list[dict[str, Any]] = []
    for action in actions:
        assert not isinstance(action, AddFile | RemoveFile)
        rows.append({getattr(action, "KEY"): to_object(action)})  # noqa: B009
    columns = [pa.array([row.get(f.name) for row in rows], f.type) for f in SCHEMA]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


def add_rows(adds: Sequence[AddFile]) -> pa.RecordBatch:
    """Rows of live files. A checkpoint states what is there; it changes no data."""
    columns: dict[str, list[Any]] = {
        "path": [a.path for a in adds],
        "partitionValues": [_pairs(a.partition_values) for a in adds],
        "size": [a.size for a in adds],
        "modificationTime": [a.modification_time for a in adds],
        "dataChange": [False] * len(adds),
        "stats": [a.stats for a in adds],
        "tags": [_pairs(a.tags) for a in adds],
        "deletionVector": [_vector(a.deletion_vector) for a in adds],
        "baseRowId": [a.base_row_id for a in adds],
        "defaultRowCommitVersion": [a.default_row_commit_version for a in adds],
        "clusteringProvider": [a.clustering_provider for a in adds],
    }
    return _rows(AddFile.KEY, columns, len(adds))


def remove_rows(removes: Sequence[RemoveFile]) -> pa.RecordBatch:
    """Rows of tombstones, without statistics and tags."""
    columns: dict[str, list[Any]] = {
        "path": [r.path for r in removes],
        "deletionTimestamp": [r.deletion_timestamp for r in removes],
        "dataChange": [False] * len(removes),
        "extendedFileMetadata": [r.extended_file_metadata for r in removes],
        "partitionValues": [_pairs(r.partition_values) for r in removes],
        "size": [r.size for r in removes],
        "deletionVector": [_vector(r.deletion_vector) for r in removes],
        "baseRowId": [r.base_row_id for r in removes],
        "defaultRowCommitVersion": [r.default_row_commit_version for r in removes],
    }
    return _rows(RemoveFile.KEY, columns, len(removes))


def _rows(key: str, columns: Mapping[str, list[Any]], count: int) -> pa.RecordBatch:
    kind = SCHEMA.field(key).type
    fields = [kind.field(i) for i in range(kind.num_fields)]
    filled = pa.StructArray.from_arrays([pa.array(columns[f.name], f.type) for f in fields], fields=fields)
    arrays = [filled if f.name == key else pa.nulls(count, f.type) for f in SCHEMA]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def _pairs(texts: Mapping[str, str | None] | None) -> list[tuple[str, str | None]] | None:
    return None if texts is None else list(texts.items())


def _vector(vector: DeletionVector | None) -> dict[str, Any] | None:
    return None if vector is None else to_object(vector)
