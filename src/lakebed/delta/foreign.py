"""What tables of other writers have and ours never do: files elsewhere, and columns matched by field id."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import pyarrow as pa

from lakebed.core.actions import AddFile
from lakebed.core.location import Location
from lakebed.core.options import Options
from lakebed.core.schema import MAPPING_ID, Array, Field, Map, Struct, Type
from lakebed.delta.paths import decode, is_absolute
from lakebed.storage.store import Store, open_store

FIELD_ID = b"PARQUET:field_id"


@dataclass(frozen=True)
class FilePlace:
    """Where a data file is: a store, and the path below it."""

    store: Store
    path: str


def place(store: Store, add: AddFile) -> FilePlace:
    """Where the file of ``add`` is; ``store`` is the table's root.

    A shallow clone names files of another table by absolute paths or URIs. They are for reading only: the
    clone does not own them. Raises InputError for a path that leaves the table in any other way.

    >>> table = open_store(Location.parse("/lake/orders"))
    >>> place(table, AddFile("dt=1/a%20b.parquet", {}, 1, 0, True)).path
    'dt=1/a b.parquet'
    >>> elsewhere = place(table, AddFile("file:///lake/source/a.parquet", {}, 1, 0, True))
    >>> elsewhere.store.uri(elsewhere.path)
    'file:///lake/source/a.parquet'
    """
    if not is_absolute(add.path):
        return FilePlace(store, decode(add.path))
    if add.path.startswith("/"):
        target = Location(store.location.scheme, store.location.authority, decode(add.path))
    else:
        target = Location.parse(add.path)
    return FilePlace(_root_store(target.scheme, target.authority, store.options), target.path.lstrip("/"))


@lru_cache(maxsize=16)
def _root_store(scheme: str, authority: str, options: Options) -> Store:
    """One connection for all files of a shallow clone, not one per file."""
    return open_store(Location(scheme, authority, "/"), options)


def to_physical_names(table: pa.Table, schema: Struct) -> pa.Table:
    """The rows of a Parquet file with every column, at every depth, named by the schema's physical name.

    Columns are matched by their Parquet field id, as column mapping mode ``id`` demands. What has no id that
    the schema knows gets a name that no column has. No value is copied.

    >>> field = pa.field("c", pa.int64(), metadata={FIELD_ID: b"7"})
    >>> rows = pa.table([pa.array([1, 2])], schema=pa.schema([field]))
    >>> from lakebed.core.schema import LONG, MAPPING_NAME
    >>> amount = Field("amount", LONG, metadata={MAPPING_ID: 7, MAPPING_NAME: "col-7"})
    >>> to_physical_names(rows, Struct((amount,))).column_names
    ['col-7']
    """
    renamed = pa.schema(_renamed_fields(list(table.schema), schema), table.schema.metadata)
    batches = [pa.record_batch(_Relabelled(batch, renamed)) for batch in table.to_batches() if batch.num_rows]
    return pa.Table.from_batches(batches, renamed)


class _Relabelled:
    """A batch under another schema of the same layout, for Arrow's C data interface."""

    def __init__(self, batch: pa.RecordBatch, schema: pa.Schema) -> None:
        self._batch = batch
        self._schema = schema

    def __arrow_c_array__(self, requested_schema: Any = None) -> tuple[Any, Any]:
        return self._schema.__arrow_c_schema__(), self._batch.__arrow_c_array__()[1]


def _renamed_fields(fields: list[pa.Field], schema: Struct) -> list[pa.Field]:
    by_id = {str(f.metadata[MAPPING_ID]).encode(): f for f in schema if MAPPING_ID in f.metadata}
    return [_renamed_field(field, by_id.get((field.metadata or {}).get(FIELD_ID, b""))) for field in fields]


def _renamed_field(field: pa.Field, known: Field | None) -> pa.Field:
    if known is None:
        return field.with_name(f"no column of the table: {field.name}")
    return field.with_name(known.physical_name).with_type(_renamed_type(field.type, known.type))


def _renamed_type(stored: pa.DataType, kind: Type) -> pa.DataType:
    match kind:
        case Struct() if pa.types.is_struct(stored):
            return pa.struct(_renamed_fields([stored.field(i) for i in range(stored.num_fields)], kind))
        case Array() if pa.types.is_list(stored):
            element = stored.value_field
            return pa.list_(element.with_type(_renamed_type(element.type, kind.element)))
        case Map() if pa.types.is_map(stored):
            key, value = stored.key_field, stored.item_field
            return pa.map_(
                key.with_type(_renamed_type(key.type, kind.key)),
                value.with_type(_renamed_type(value.type, kind.value)),
            )
        case _:
            return stored  # a type that does not fit is for the one who adapts the rows to tell
