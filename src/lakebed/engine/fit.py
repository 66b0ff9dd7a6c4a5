"""Rows that do not fit a table yet: the table's schema grows, or the rows are cast, where the caller asks for it."""

from __future__ import annotations

from collections.abc import Collection

import pyarrow as pa

from lakebed.core.actions import Metadata
from lakebed.core.errors import SchemaError
from lakebed.core.keyed import KeySpec
from lakebed.core.schema import Struct
from lakebed.core.schema_diff import merge_schemas
from lakebed.engine.alter import alter_schema
from lakebed.engine.draft import Draft
from lakebed.engine.incoming import Incoming


def fitted(
    draft: Draft, rows: Incoming, *, merge_schema: bool, explicit_cast: bool, beside: Collection[str] = ()
) -> Incoming:
    """The rows, after the draft's table has taken on their columns, or they its types.

    With ``merge_schema`` columns that the table lacks are added, nested ones too, and types are widened. With
    ``explicit_cast`` values become what the table has, even where that can fail. Columns that are named in
    ``beside`` are not stored. Raises SchemaError that lists what cannot be brought together.
    """
    if not merge_schema and not explicit_cast:
        return rows
    apart = {name.casefold() for name in beside}
    stored = [f for f in rows.schema if f.name.casefold() not in apart or draft.metadata.schema.find(f.name)]
    table = draft.metadata.schema
    fixed = {*draft.metadata.partition_columns, *_key_columns(draft.metadata)}
    clashing = (
        [f.name for f in stored if not _merges(table, f, widen=merge_schema and f.name not in fixed)]
        if explicit_cast
        else []
    )
    if merge_schema:
        kept = pa.schema([f for f in stored if f.name not in clashing])
        changes = merge_schemas(table, kept)
        if changes:
            alter_schema(draft, changes)
    return rows.cast(draft.metadata.schema, clashing) if clashing else rows


def _key_columns(metadata: Metadata) -> tuple[str, ...]:
    """Columns whose type decides where a row belongs."""
    key = KeySpec.of(metadata)
    return () if key is None else (*key.key, *key.sequence)


def _merges(table: Struct, field: pa.Field, *, widen: bool) -> bool:
    """Whether rows of the column fit the table as it is, or may become."""
    try:
        merge_schemas(table, pa.schema([field]), widen)
    except SchemaError:
        return False
    return True
