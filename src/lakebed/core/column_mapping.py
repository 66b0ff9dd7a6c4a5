"""Delta column mapping, mode ``name``: a column has a physical name in the data files that never changes.

>>> from lakebed.core.schema import LONG
>>> schema, last = enable_mapping(Struct((Field("id", LONG),)))
>>> schema["id"].metadata, last
({'delta.columnMapping.id': 1, 'delta.columnMapping.physicalName': 'id'}, 1)
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import replace

from lakebed.core.schema import MAPPING_ID, MAPPING_NAME, Field, Struct, Type, each_field
from lakebed.core.schema_path import members

# Delta refuses these in names unless a column mapping is on, because some Parquet readers trip over them.
_UNSAFE = frozenset(" ,;{}()\n\t=")


def new_physical_name() -> str:
    """A physical name that no column ever had."""
    return f"col-{uuid.uuid4()}"


def enable_mapping(schema: Struct, max_column_id: int = 0) -> tuple[Struct, int]:
    """The schema with a mapping in which every field keeps its name, for tables whose files have those
    names; and the highest id in use."""
    return _assign(schema, max_column_id, lambda field: field.name)


def map_new_fields(
    schema: Struct, max_column_id: int, new_name: Callable[[], str] = new_physical_name
) -> tuple[Struct, int]:
    """The schema with a fresh physical name and id for every field, for columns that no file has yet; and
    the highest id in use.

    >>> from lakebed.core.schema import LONG
    >>> map_new_fields(Struct((Field("id", LONG),)), 7, lambda: "col-x")[0]["id"].physical_name
    'col-x'
    """
    return _assign(schema, max_column_id, lambda field: new_name())


def needs_mapping(schema: Struct) -> bool:
    """Whether a name is one that Delta allows only with a column mapping.

    >>> from lakebed.core.schema import LONG
    >>> needs_mapping(Struct((Field("unit price", LONG),)))
    True
    """
    return any(not _UNSAFE.isdisjoint(field.name) or _below_needs_mapping(field.type) for field in schema.fields)


def highest_id(kind: Type) -> int:
    """The highest id of a column mapping in the type, or 0.

    >>> highest_id(enable_mapping(Struct((Field("s", Struct(())),)), 4)[0])
    5
    """
    return max((max(int(m.metadata.get(MAPPING_ID, 0)), highest_id(m.type)) for m in members(kind)), default=0)


def _below_needs_mapping(kind: Type) -> bool:
    if isinstance(kind, Struct):
        return needs_mapping(kind)
    return any(_below_needs_mapping(member.type) for member in members(kind))


def _assign(schema: Struct, last: int, name_of: Callable[[Field], str]) -> tuple[Struct, int]:
    def assign(field: Field) -> Field:
        nonlocal last
        last += 1
        return replace(field, metadata={**field.metadata, MAPPING_ID: last, MAPPING_NAME: name_of(field)})

    return each_field(schema, assign), last
