"""Hand-made Delta tables: what real writers here cannot produce, built file by file."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyroaring import BitMap64

from lakebed.core.location import Location
from lakebed.storage.deletion_vector import write_vectors
from lakebed.storage.store import Store, open_store

Body = dict[str, Any]


def field(name: str, kind: Any, mapping: tuple[int, str] | None = None, **metadata: Any) -> Body:
    if mapping is not None:
        metadata |= {"delta.columnMapping.id": mapping[0], "delta.columnMapping.physicalName": mapping[1]}
    return {"name": name, "type": kind, "nullable": True, "metadata": metadata}


def struct(*fields: Body) -> Body:
    return {"type": "struct", "fields": list(fields)}


class TableBuilder:
    """Writes the files of one Delta table by hand."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.log = root / "_delta_log"
        self.log.mkdir(parents=True)

    @property
    def store(self) -> Store:
        return open_store(Location.parse(self.root))

    def protocol(self, *readers: str, writers: Iterable[str] = ()) -> Body:
        features = {"readerFeatures": list(readers), "writerFeatures": [*readers, *writers]}
        return {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, **features}}

    def metadata(
        self, *fields: Body, partition_by: Iterable[str] = (), configuration: Mapping[str, str] | None = None
    ) -> Body:
        return {
            "metaData": {
                "id": str(uuid.uuid4()),
                "format": {"provider": "parquet", "options": {}},
                "schemaString": json.dumps(struct(*fields)),
                "partitionColumns": list(partition_by),
                "configuration": dict(configuration or {}),
                "createdTime": 1,
            }
        }

    def start(self, *readers: str, fields: Iterable[Body] = (field("id", "long"),)) -> None:
        """Version 0 with a plain schema."""
        self.commit(0, self.protocol(*readers), self.metadata(*fields))

    def add(
        self,
        path: str,
        rows: pa.Table | None = None,
        dead: Iterable[int] = (),
        where: str = "file",
        **more: Any,
    ) -> Body:
        """An add action, and its file and vector if there are rows."""
        body: Body = {
            "path": path,
            "partitionValues": {},
            "size": 1,
            "modificationTime": 1,
            "dataChange": True,
        }
        if rows is not None:
            target = self.root / path
            target.parent.mkdir(parents=True, exist_ok=True)
            pq.write_table(rows, target)
            body |= {"size": target.stat().st_size, "stats": json.dumps({"numRecords": rows.num_rows})}
        if dead:
            body["deletionVector"] = self.vector(dead, where)
            body["stats"] = json.dumps({"numRecords": rows.num_rows if rows else 9, "tightBounds": False})
        return {"add": body | more}

    def vector(self, dead: Iterable[int], where: str) -> Body:
        """A vector: ``inline``, in a ``file``, in a ``prefix`` directory, or with an ``absolute`` path."""
        prefix = "ab" if where == "prefix" else ""
        written = write_vectors(self.store, [BitMap64(dead)], prefix, 1000 if where == "inline" else 0)
        [vector] = written.vectors
        body = {
            "storageType": vector.storage_type,
            "pathOrInlineDv": vector.path_or_inline,
            "sizeInBytes": vector.size_in_bytes,
            "cardinality": vector.cardinality,
        }
        if vector.offset is not None:
            body["offset"] = vector.offset
        if where == "absolute":
            assert written.path is not None
            body |= {"storageType": "p", "pathOrInlineDv": self.store.uri(written.path)}
        return body

    def commit(self, version: int, *actions: Body) -> Path:
        path = self.log / f"{version:020d}.json"
        path.write_text("".join(json.dumps(action) + "\n" for action in actions))
        return path

    def rows(self, path: Path, actions: Iterable[Body], schema: pa.Schema) -> Path:
        """Actions as a Parquet checkpoint or sidecar with the columns of ``schema``."""
        path.parent.mkdir(exist_ok=True)
        bodies = [dict(action) for action in actions]
        columns = [pa.array([_pairs(b.get(f.name), f.type) for b in bodies], f.type) for f in schema]
        pq.write_table(pa.Table.from_arrays(columns, schema=schema), path)
        return path


def _pairs(value: Any, kind: pa.DataType) -> Any:
    """Python's dicts as Arrow takes them for maps."""
    if value is None:
        return None
    if pa.types.is_map(kind):
        return list(value.items())
    if pa.types.is_struct(kind):
        return {f.name: _pairs(value.get(f.name), f.type) for f in (kind.field(i) for i in range(kind.num_fields))}
    return value
