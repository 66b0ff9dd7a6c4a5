"""Columns in the table's types, where the caller asks for a cast that may fail."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakebed.core.lossless import conversion
from lakebed.core.schema import Array, Map, Struct, Type
from lakebed.core.schema_arrow import type_to_arrow
from lakebed.core.schema_ddl import type_ddl

if TYPE_CHECKING:
    from pyspark.sql import Column


def cast(column: Column, found: Type, wanted: Type, *, ansi: bool, place: str) -> Column:
    """The column in another type; members of structs are found by name.

    A value that the type cannot hold fails the query, in a session with ``ansi`` and without.
    """
    from pyspark.sql import functions as F

    if isinstance(found, Struct) and isinstance(wanted, Struct):
        members = [_member(column, found, wanted, index, ansi, place) for index in range(len(found))]
        return F.when(column.isNotNull(), F.struct(*members))
    if isinstance(found, Array) and isinstance(wanted, Array):
        inner, element = found.element, wanted.element
        return F.transform(column, lambda item: cast(item, inner, element, ansi=ansi, place=f"{place}.element"))
    if isinstance(found, Map) and isinstance(wanted, Map):
        old, new = found, wanted
        keyed = F.transform_keys(column, lambda k, v: cast(k, old.key, new.key, ansi=ansi, place=f"{place}.key"))
        return F.transform_values(keyed, lambda k, v: cast(v, old.value, new.value, ansi=ansi, place=f"{place}.value"))
    if conversion(type_to_arrow(found), wanted) is not None:
        return column
    return column.cast(type_ddl(wanted)) if ansi else _checked(column, type_ddl(wanted), place)


def _member(column: Column, found: Struct, wanted: Struct, index: int, ansi: bool, place: str) -> Column:
    field = found.fields[index]
    known = wanted.find(field.name)
    value = column.getField(field.name)
    if known is None:
        return value.alias(field.name)
    return cast(value, field.type, known.type, ansi=ansi, place=f"{place}.{field.name}").alias(field.name)


def _checked(column: Column, ddl: str, place: str) -> Column:
    """Without ANSI rules a cast gives null, or other bits; here it fails all the same."""
    from pyspark.sql import functions as F

    value = column.try_cast(ddl)
    message = F.format_string(f"column {place}: the value '%s' cannot be cast to {ddl}", column.cast("string"))
    return F.when(column.isNotNull() & value.isNull(), F.raise_error(message).cast(ddl)).otherwise(value)
