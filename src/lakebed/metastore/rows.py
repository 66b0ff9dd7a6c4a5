"""Actions as rows and rows as actions. What comes back equals what was stored, to the letter of its texts."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from lakebed.core.actions import AddFile, DeletionVector, Metadata, Protocol, RemoveFile, from_object, to_object
from lakebed.core.commit import Bucket
from lakebed.core.file_tags import bucket_of, is_unsettled

Row = Mapping[Any, Any]
FileRow = dict[str, Any]
VectorRow = dict[str, Any]

OWN = ("stats", "tags", "extra", "base_row_id", "default_row_commit_version")
"""What a new vector may change of its file; null in the vector's row where it does not."""


def dump(value: Any) -> str:
    """JSON as short as it gets."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def dump_metadata(metadata: Metadata) -> str:
    """A metadata or protocol action's body as text."""
    return dump(to_object(metadata))


def dump_protocol(protocol: Protocol) -> str:
    """A protocol action's body as text."""
    return dump(to_object(protocol))


def load_metadata(text: str) -> Metadata:
    """The inverse of ``dump_metadata``."""
    metadata: Metadata = from_object(Metadata, json.loads(text))
    return metadata


def load_protocol(text: str) -> Protocol:
    """The inverse of ``dump_protocol``."""
    protocol: Protocol = from_object(Protocol, json.loads(text))
    return protocol


def dump_buckets(buckets: frozenset[Bucket]) -> str | None:
    """Buckets as text; None if there are none."""
    return dump(sorted(buckets)) if buckets else None


def load_buckets(text: str | None) -> frozenset[Bucket]:
    """The inverse of ``dump_buckets``."""
    return frozenset((path, number) for path, number in json.loads(text)) if text else frozenset()


def own_values(add: AddFile) -> dict[str, Any]:
    """The columns of ``OWN`` for an add."""
    extra = dict(add.extra)
    if add.clustering_provider is not None:
        extra["clusteringProvider"] = add.clustering_provider
    return {
        "stats": add.stats,
        "tags": None if add.tags is None else dump(dict(add.tags)),
        "extra": dump(extra) if extra else None,
        "base_row_id": add.base_row_id,
        "default_row_commit_version": add.default_row_commit_version,
    }


def file_row(add: AddFile, *, table_num: int, file_id: int, partition_id: int, version: int) -> FileRow:
    """A new file; its vector, if it comes with one, has a row of its own."""
    return {
        "table_num": table_num,
        "id": file_id,
        "path": add.path,
        "partition_id": partition_id,
        "size": add.size,
        "modification_time": add.modification_time,
        "num_records": add.num_records,
        "bucket": bucket_of(add),
        "unsettled": is_unsettled(add),
        "data_change": add.data_change,
        "added_version": version,
        "removed_version": None,
        "removed_at": None,
        "removed_data_change": None,
        **own_values(add),
    }


def vector_row(add: AddFile, file: Row, *, version: int) -> VectorRow:
    """The vector that ``add`` gives to ``file``."""
    vector = add.deletion_vector
    assert vector is not None
    return {
        "table_num": file["table_num"],
        "file_id": file["id"],
        "added_version": version,
        "removed_version": None,
        "storage_type": vector.storage_type,
        "path_or_inline_dv": vector.path_or_inline_dv,
        "start": vector.offset,
        "size_in_bytes": vector.size_in_bytes,
        "cardinality": vector.cardinality,
        "data_change": add.data_change,
        **{name: value if value != file[name] else None for name, value in own_values(add).items()},
    }


def is_new_vector(add: AddFile, remove: RemoveFile, file: Row, partition_id: int | None) -> bool:
    """Whether remove and add of one path only give the file another vector, and rows can tell it exactly.

    If not, for instance when a restore takes the vector away again, or when an unsettled file settles, the add
    is a new file row.
    """
    if add.deletion_vector is None or add.data_change != remove.data_change:
        return False
    same = (add.size, add.modification_time, partition_id, add.num_records, bucket_of(add), is_unsettled(add)) == (
        file["size"],
        file["modification_time"],
        file["partition_id"],
        file["num_records"],
        file["bucket"],
        bool(file["unsettled"]),
    )
    # A null in the vector's row means "as the file", so it cannot stand for "none any more".
    return same and all(value is not None or file[name] is None for name, value in own_values(add).items())


def vector_of(row: Row) -> DeletionVector | None:
    """The deletion vector in a row that was joined with vectors; None if there is none."""
    if row["storage_type"] is None:
        return None
    return DeletionVector(
        row["storage_type"], row["path_or_inline_dv"], row["size_in_bytes"], row["cardinality"], row["start"]
    )


def add_of(row: Row, partition: Mapping[str, str | None]) -> AddFile:
    """The add that a joined row tells."""
    extra = json.loads(row["extra"]) if row["extra"] else {}
    return AddFile(
        path=row["path"],
        partition_values=partition,
        size=row["size"],
        modification_time=row["modification_time"],
        data_change=bool(row["data_change"]),
        stats=row["stats"],
        tags=None if row["tags"] is None else json.loads(row["tags"]),
        deletion_vector=vector_of(row),
        base_row_id=row["base_row_id"],
        default_row_commit_version=row["default_row_commit_version"],
        clustering_provider=extra.pop("clusteringProvider", None),
        extra=extra,
    )


def remove_of(row: Row, partition: Mapping[str, str | None]) -> RemoveFile:
    """The remove that a joined row of a removed file tells."""
    return RemoveFile(
        path=row["path"],
        data_change=bool(row["removed_data_change"]),
        deletion_timestamp=row["removed_at"],
        extended_file_metadata=True,
        partition_values=partition,
        size=row["size"],
        tags=None if row["tags"] is None else json.loads(row["tags"]),
        deletion_vector=vector_of(row),
        base_row_id=row["base_row_id"],
        default_row_commit_version=row["default_row_commit_version"],
    )
