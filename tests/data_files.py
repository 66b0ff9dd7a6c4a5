"""Data files of a table, made by the real writer, and the rows that they hold."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyroaring import BitMap64

from lakebed.core.actions import AddFile, DeletionVector, Metadata
from lakebed.core.file_tags import KIND_COLUMN, ROW_ID_COLUMN, ROW_VERSION_COLUMN, file_tags
from lakebed.core.location import Location
from lakebed.core.options import Options
from lakebed.core.partition import partition_path
from lakebed.core.properties import SYSTEM_CONFIGURATION
from lakebed.core.schema import BYTE, LONG, Field, Struct
from lakebed.core.schema_arrow import to_arrow
from lakebed.core.schema_ddl import from_ddl
from lakebed.core.schema_delta import to_delta
from lakebed.delta.paths import encode
from lakebed.engine.rewritten import Rewritten
from lakebed.engine.scan import ScanOrder
from lakebed.engine.source import Source
from lakebed.engine.tracked_scan import read_tracked
from lakebed.engine.write import WriteOrder
from lakebed.storage.deletion_vector import write_vectors
from lakebed.storage.parquet_writer import ParquetFileWriter
from lakebed.storage.store import Store, open_store

HIDDEN = {KIND_COLUMN: BYTE, ROW_ID_COLUMN: LONG, ROW_VERSION_COLUMN: LONG}
Row = Mapping[str, Any]


def metadata(
    schema: Struct | str,
    *,
    key: Sequence[str] = (),
    sequence: Sequence[str] = (),
    partitions: Sequence[str] = (),
    **configuration: str,
) -> Metadata:
    """The metadata of a table; columns have their own names in files unless ``schema`` says otherwise."""
    struct = from_ddl(schema) if isinstance(schema, str) else schema
    named = {f.name: f.physical_name for f in struct}
    keyed = {"lakebed.primary-key": json.dumps([named[name] for name in key]), "lakebed.buckets": "4"} if key else {}
    if sequence:
        keyed["lakebed.sequence"] = json.dumps([named[name] for name in sequence])
    return Metadata(
        "t", json.dumps(to_delta(struct)), tuple(partitions), {**SYSTEM_CONFIGURATION, **keyed, **configuration}
    )


@dataclass
class Lake:
    """One table's directory and what was put there."""

    root: Path
    options: Options = field(default_factory=lambda: Options(sync=False))

    @property
    def store(self) -> Store:
        return open_store(Location.parse(str(self.root)), self.options)

    def order(self, of: Metadata, **options: Any) -> WriteOrder:
        return WriteOrder(self.store, "shop.orders", of, self.options.updated(options))

    def scan(self, of: Metadata) -> ScanOrder:
        return ScanOrder(self.store, "shop.orders", of, self.options, tuple(of.schema.names))

    def add(
        self,
        of: Metadata,
        rows: Sequence[Row],
        *,
        base: int | None = 0,
        version: int | None = 1,
        bucket: int | None = None,
        values: Mapping[str, str | None] | None = None,
        hidden: Sequence[str] = (),
        dead: Sequence[int] = (),
    ) -> Source:
        """A file with these rows, committed as ``version``; ``hidden`` names the hidden columns that it has."""
        loose = KIND_COLUMN in hidden
        columns = [f if not loose else Field(f.name, f.type, True, f.metadata) for f in of.schema]
        schema = Struct((*columns, *(Field(name, HIDDEN[name]) for name in hidden)))
        folder = partition_path(list(values), list(values.values())) + "/" if values else ""
        path = f"{folder}{uuid.uuid4()}.parquet"
        with ParquetFileWriter(self.store, path, schema, self.options) as writer:
            writer.write(pa.Table.from_pylist([dict(row) for row in rows], schema=to_arrow(schema)))
            written = writer.close()
        stones = sum(1 for row in rows if row.get(KIND_COLUMN) in (1, 3))
        add = AddFile(
            path=encode(path),
            partition_values=dict(values or {}),
            size=written.size,
            modification_time=0,
            data_change=True,
            stats=written.stats_json,
            tags=None if bucket is None else file_tags(bucket, tombstones=stones),
            deletion_vector=self.vector(dead),
            base_row_id=base,
            default_row_commit_version=version,
        )
        return Source(add)

    def vector(self, dead: Sequence[int] | BitMap64) -> DeletionVector | None:
        if not dead:
            return None
        (one,) = write_vectors(self.store, [BitMap64(dead)]).vectors
        return DeletionVector(one.storage_type, one.path_or_inline, one.size_in_bytes, one.cardinality, one.offset)

    def tracked(self, of: Metadata, sources: Sequence[Source], *, tombstones: bool = False) -> list[dict[str, Any]]:
        return read_tracked(self.scan(of), sources, tombstones=tombstones).to_pylist()

    def files(self) -> list[str]:
        """Everything that is there, empty directories included."""
        found = [p for p in self.root.rglob("*") if p.is_file() or not any(p.iterdir())]
        return sorted(str(p.relative_to(self.root)) for p in found)


def committed(made: Sequence[Rewritten], lake: Lake, base: int = 1_000_000, version: int = 99) -> list[Source]:
    """The new files as the next version has them: with row ids of their own, and with their vectors."""
    sources = []
    for one in made:
        assert one.add.base_row_id is None
        assert one.add.data_change is False
        add = replace(
            one.add, base_row_id=base, default_row_commit_version=version, deletion_vector=lake.vector(one.dead)
        )
        sources.append(Source(add))
        base += one.add.num_records or 0
    return sources
