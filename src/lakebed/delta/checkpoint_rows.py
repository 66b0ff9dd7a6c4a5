"""The rows of a Parquet checkpoint, or of a sidecar of one, as actions.

Files are read in batches and taken apart column by column: a checkpoint of a million files becomes a
million ``AddFile`` objects and never a million nested dicts on the way.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakebed.core.actions import (
    Action,
    AddFile,
    DeletionVector,
    DomainMetadata,
    Metadata,
    Protocol,
    RemoveFile,
    SetTransaction,
    UnknownAction,
    from_object,
)
from lakebed.core.errors import CorruptFileError
from lakebed.delta.stats_parsed import stats_json
from lakebed.storage.failure import translated

BATCH_ROWS = 1 << 16
SIDECAR = "sidecar"

_FILE_COLUMNS = (
    "path", "partitionValues", "size", "modificationTime", "dataChange", "stats", "stats_parsed", "tags",
    "deletionVector", "baseRowId", "defaultRowCommitVersion", "clusteringProvider",
    "deletionTimestamp", "extendedFileMetadata",
)  # fmt: skip
_SMALL: Mapping[str, type[Any]] = {kind.KEY: kind for kind in (Protocol, Metadata, SetTransaction, DomainMetadata)}
_PartitionValues = Mapping[str, str | None]
_NOTHING: dict[str, Any] = {}  # one for all files; a million empty dicts are not free


def read_rows(source: Any, name: str) -> Iterator[Action]:
    """Every action of the Parquet file ``source``; ``name`` is for messages. Raises CorruptFileError.

    A V2 checkpoint's references to its sidecars come as ``UnknownAction("sidecar", …)``.
    """
    try:
        with translated("read", name, parsing=True):
            file = pq.ParquetFile(source)
            columns = _wanted(file)
            if not columns:
                names = ", ".join(file.schema_arrow.names)
                raise CorruptFileError(f"{name} has no column of a checkpoint", found=names)
            seen: dict[tuple[Any, ...], _PartitionValues] = {}
            for batch in file.iter_batches(BATCH_ROWS, columns=columns):
                yield from _batch_actions(batch, seen)
    except (TypeError, KeyError) as error:
        raise CorruptFileError(f"{name}: a row is not an action", found=str(error)) from error


def _wanted(file: pq.ParquetFile) -> list[str]:
    """The columns to read: ``stats_parsed``, by far the widest, only where ``stats`` is not enough."""
    schema = file.schema_arrow
    wanted = [name for name in (*_SMALL, SIDECAR) if name in schema.names]
    for name in (AddFile.KEY, RemoveFile.KEY):
        if name not in schema.names:
            continue
        present = set(_child_names(schema.field(name).type))
        texts = _valid_count(file, f"{name}.stats")
        if texts is not None and texts == _valid_count(file, f"{name}.path"):
            present.discard("stats_parsed")
        wanted += [f"{name}.{column}" for column in _FILE_COLUMNS if column in present]
    return wanted


def _child_names(struct: pa.StructType) -> list[str]:
    return [struct.field(i).name for i in range(struct.num_fields)]


def _valid_count(file: pq.ParquetFile, path: str) -> int | None:
    """How many values of a leaf column are not null; None if the footer does not say."""
    index = next((i for i in range(len(file.schema)) if file.schema.column(i).path == path), None)
    valid = 0
    for group in range(file.metadata.num_row_groups):
        statistics = None if index is None else file.metadata.row_group(group).column(index).statistics
        if statistics is None or not statistics.has_null_count:
            return None
        valid += statistics.num_values
    return valid


def _batch_actions(batch: pa.RecordBatch, seen: dict[tuple[Any, ...], _PartitionValues]) -> Iterator[Action]:
    for name, array in zip(batch.schema.names, batch.columns, strict=True):
        rows = array.filter(pc.is_valid(array))
        if len(rows) == 0:
            continue
        if name == AddFile.KEY:
            yield from _adds(rows, seen)
        elif name == RemoveFile.KEY:
            yield from _removes(rows, seen)
        elif name == SIDECAR:
            yield from (UnknownAction(SIDECAR, body) for body in rows.to_pylist())
        else:
            kind = _SMALL[name]
            yield from (_small(kind, rows.type, body) for body in rows.to_pylist())


def _small(kind: type[Any], struct: pa.StructType, body: dict[str, Any]) -> Action:
    action: Action = from_object(kind, _with_maps(struct, body))
    return action


def _with_maps(struct: pa.StructType, body: dict[str, Any]) -> dict[str, Any]:
    """``body`` without nulls and with its maps, which Arrow gives as pairs, as dicts."""
    result: dict[str, Any] = {}
    for i in range(struct.num_fields):
        field = struct.field(i)
        value = body[field.name]
        if value is None:
            continue
        if pa.types.is_map(field.type):
            value = dict(value)
        elif pa.types.is_struct(field.type):
            value = _with_maps(field.type, value)
        result[field.name] = value
    return result


class _Columns:
    """The children of a struct array whose rows are all valid; a child that is not there reads as nulls."""

    def __init__(self, rows: pa.StructArray) -> None:
        self._rows = rows
        self._names = frozenset(_child_names(rows.type))

    def array(self, name: str) -> pa.Array | None:
        return self._rows.field(name) if name in self._names else None

    def values(self, name: str, default: Any = None) -> list[Any]:
        array = self.array(name)
        if array is None:
            return [default] * len(self._rows)
        values: list[Any] = array.to_pylist()
        if default is not None and array.null_count:
            values = [default if value is None else value for value in values]
        return values

    def maps(self, name: str, seen: dict[tuple[Any, ...], _PartitionValues]) -> list[_PartitionValues | None]:
        """A map column as dicts; equal maps are one object, since a table has few partitions."""
        array = self.array(name)
        if array is None or array.null_count == len(array):
            return [None] * len(self._rows)
        offsets, keys, items = array.offsets.to_pylist(), array.keys.to_pylist(), array.items.to_pylist()
        maps: list[_PartitionValues | None] = []
        for start, end, valid in zip(offsets, offsets[1:], array.is_valid().to_pylist(), strict=False):
            if not valid:
                maps.append(None)
                continue
            pairs = tuple(zip(keys[start:end], items[start:end], strict=True))
            found = seen.get(pairs)
            if found is None:
                found = seen[pairs] = dict(pairs)
            maps.append(found)
        return maps

    def vectors(self) -> list[DeletionVector | None]:
        array = self.array("deletionVector")
        if array is None or array.null_count == len(array):
            return [None] * len(self._rows)
        return [None if body is None or body["storageType"] is None else _vector(body) for body in array.to_pylist()]

    def stats(self) -> list[str | None]:
        texts = self.values("stats")
        parsed = self.array("stats_parsed")
        if parsed is None or None not in texts:
            return texts
        return [
            text if text is not None or not valid.as_py() else stats_json(row.as_py() or {})
            for text, valid, row in zip(texts, parsed.is_valid(), parsed, strict=True)
        ]


def _vector(body: dict[str, Any]) -> DeletionVector:
    vector: DeletionVector = from_object(DeletionVector, body)
    return vector


def _adds(rows: pa.StructArray, seen: dict[tuple[Any, ...], _PartitionValues]) -> Iterator[AddFile]:
    columns = _Columns(rows)
    fields = zip(
        columns.values("path"),
        columns.maps("partitionValues", seen),
        columns.values("size", 0),
        columns.values("modificationTime", 0),
        columns.values("dataChange", False),
        columns.stats(),
        columns.maps("tags", seen),
        columns.vectors(),
        columns.values("baseRowId"),
        columns.values("defaultRowCommitVersion"),
        columns.values("clusteringProvider"),
        [_NOTHING] * len(rows),
        strict=True,
    )
    for path, partition, *rest in fields:
        if path is None:
            raise TypeError("an add without a path")
        yield AddFile(path, _NOTHING if partition is None else partition, *rest)


def _removes(rows: pa.StructArray, seen: dict[tuple[Any, ...], _PartitionValues]) -> Iterator[RemoveFile]:
    columns = _Columns(rows)
    fields = zip(
        columns.values("path"),
        columns.values("dataChange", False),
        columns.values("deletionTimestamp"),
        columns.values("extendedFileMetadata"),
        columns.maps("partitionValues", seen),
        columns.values("size"),
        columns.values("stats"),
        columns.maps("tags", seen),
        columns.vectors(),
        columns.values("baseRowId"),
        columns.values("defaultRowCommitVersion"),
        [_NOTHING] * len(rows),
        strict=True,
    )
    for path, *rest in fields:
        if path is None:
            raise TypeError("a remove without a path")
        yield RemoveFile(path, *rest)
