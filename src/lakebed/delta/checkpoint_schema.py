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

_TEXTS = pa.map_(pa.string(), pa.string())
_VECTOR = pa.struct(
    [
        pa.field("storageType", pa.string(), nullable=False),
        pa.field("pathOrInlineDv", pa.string(), nullable=False),
        pa.field("offset", pa.int32()),
        pa.field("sizeInBytes", pa.int32(), nullable=False),
        pa.field("cardinality", pa.int64(), nullable=False),
    ]
)
_TXN = pa.struct(
    [
        pa.field("appId", pa.string(), nullable=False),
        pa.field("version", pa.int64(), nullable=False),
        pa.field("lastUpdated", pa.int64()),
    ]
)
_ADD = pa.struct(
    [
        pa.field("path", pa.string(), nullable=False),
        pa.field("partitionValues", _TEXTS, nullable=False),
        pa.field("size", pa.int64(), nullable=False),
        pa.field("modificationTime", pa.int64(), nullable=False),
        pa.field("dataChange", pa.bool_(), nullable=False),
        pa.field("stats", pa.string()),
        pa.field("tags", _TEXTS),
        pa.field("deletionVector", _VECTOR),
        pa.field("baseRowId", pa.int64()),
        pa.field("defaultRowCommitVersion", pa.int64()),
        pa.field("clusteringProvider", pa.string()),
    ]
)
_REMOVE = pa.struct(
    [
        pa.field("path", pa.string(), nullable=False),
        pa.field("deletionTimestamp", pa.int64()),
        pa.field("dataChange", pa.bool_(), nullable=False),
        pa.field("extendedFileMetadata", pa.bool_()),
        pa.field("partitionValues", _TEXTS),
        pa.field("size", pa.int64()),
        pa.field("deletionVector", _VECTOR),
        pa.field("baseRowId", pa.int64()),
        pa.field("defaultRowCommitVersion", pa.int64()),
    ]
)
_METADATA = pa.struct(
    [
        pa.field("id", pa.string(), nullable=False),
        pa.field("name", pa.string()),
        pa.field("description", pa.string()),
        pa.field(
            "format",
            pa.struct([pa.field("provider", pa.string(), nullable=False), pa.field("options", _TEXTS)]),
        ),
        pa.field("schemaString", pa.string(), nullable=False),
        pa.field("partitionColumns", pa.list_(pa.string())),
        pa.field("configuration", _TEXTS),
        pa.field("createdTime", pa.int64()),
    ]
)
_PROTOCOL = pa.struct(
    [
        pa.field("minReaderVersion", pa.int32(), nullable=False),
        pa.field("minWriterVersion", pa.int32(), nullable=False),
        pa.field("readerFeatures", pa.list_(pa.string())),
        pa.field("writerFeatures", pa.list_(pa.string())),
    ]
)
_DOMAIN = pa.struct(
    [
        pa.field("domain", pa.string(), nullable=False),
        pa.field("configuration", pa.string(), nullable=False),
        pa.field("removed", pa.bool_(), nullable=False),
    ]
)

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
