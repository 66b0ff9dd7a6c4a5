"""A key table without a metastore: what the writer of upsert files needs, and what its files say."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from lakebed.core.actions import AddFile, Metadata
from lakebed.core.keyed import KeySpec
from lakebed.core.location import Location
from lakebed.core.options import Options
from lakebed.core.schema import Struct
from lakebed.core.schema_ddl import from_ddl
from lakebed.core.schema_delta import to_delta
from lakebed.delta.paths import decode
from lakebed.engine.inputs import to_reader
from lakebed.engine.keyed_write import Upserted, UpsertOrder, write_upserts
from lakebed.storage.store import open_store


def order_for(
    root: Path,
    schema: str | Struct,
    key: list[str],
    *,
    buckets: object = 1,
    partitions: tuple[str, ...] = (),
    sequence: tuple[str, ...] = (),
    engine: str = "deduplicate",
    properties: dict[str, str] | None = None,
    options: Options | None = None,
    **more: Any,
) -> UpsertOrder:
    struct = from_ddl(schema) if isinstance(schema, str) else schema
    struct = Struct(tuple(replace(f, nullable=f.nullable and f.name not in key) for f in struct))
    configuration = {
        "lakebed.primary-key": json.dumps([struct[name].physical_name for name in key]),
        "lakebed.sequence": json.dumps([struct[name].physical_name for name in sequence]),
        "lakebed.buckets": str(buckets),
        "lakebed.merge-engine": engine,
        **(properties or {}),
    }
    metadata = Metadata("t", json.dumps(to_delta(struct)), partitions, configuration)
    spec = KeySpec.of(metadata)
    assert spec is not None
    used = options or Options(sync=False)
    return UpsertOrder(open_store(Location.parse(root), used), "shop.orders", metadata, used, spec, **more)


def upsert(order: UpsertOrder, data: Any) -> Upserted:
    return write_upserts(to_reader(data, order.metadata.schema, order.table_name), order)


def content(order: UpsertOrder, file: AddFile) -> pa.Table:
    """The file as Arrow reads it, with its own schema."""
    return pq.ParquetFile(order.store.path(decode(file.path))).read()


def contents(order: UpsertOrder, done: Upserted) -> list[dict[str, Any]]:
    return [row for file in done.files for row in content(order, file).to_pylist()]
