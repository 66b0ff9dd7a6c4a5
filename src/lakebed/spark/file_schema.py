"""A table's schema as its data files have it, and as Spark may see it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from lakebed.core.schema import Array, Field, Map, Struct, Type
from lakebed.core.schema_spark import to_spark
from lakebed.core.type_groups import FLOATS

if TYPE_CHECKING:
    from pyspark.sql.types import DataType


def physical(schema: Struct) -> Struct:
    """The schema as data files have it; anything may be null, since columns may be missing in some of them.

    >>> from lakebed.core.schema import LONG, MAPPING_NAME
    >>> physical(Struct((Field("id", LONG, False, {MAPPING_NAME: "col-1"}),)))
    Struct(fields=(Field(name='col-1', type=Primitive(name='long'), nullable=True, metadata={}),))
    """
    return Struct(tuple(Field(f.physical_name, loose(f.type, physical=True)) for f in schema))


def loose(kind: Type, *, physical: bool = False) -> Type:
    """The type without anything that is never null, under its names in files or those of today."""
    match kind:
        case Struct():
            fields = ((f.physical_name if physical else f.name, f.type) for f in kind)
            return Struct(tuple(Field(name, loose(inner, physical=physical)) for name, inner in fields))
        case Array():
            return Array(loose(kind.element, physical=physical))
        case Map():
            return Map(loose(kind.key, physical=physical), loose(kind.value, physical=physical))
    return kind


def outwardly(schema: Struct) -> Struct:
    """The schema as frames have it: only of whole columns it is known that they are never null.

    Spark's own conversion to Arrow fails for nulls in a column of structs that have a field which is never null.
    """
    return Struct(tuple(replace(f, type=loose(f.type)) for f in schema))


def spark_type(kind: Type) -> DataType:
    """The type with today's names: Spark casts structs field by field, whatever their names."""
    from pyspark.sql.types import StructType

    return to_spark(Struct((Field("c", loose(kind)),)), StructType)["c"].dataType


def is_renamed(kind: Type) -> bool:
    """Whether a field below has another name in files than it has today."""
    match kind:
        case Struct():
            return any(f.name != f.physical_name or is_renamed(f.type) for f in kind)
        case Array():
            return is_renamed(kind.element)
        case Map():
            return is_renamed(kind.key) or is_renamed(kind.value)
    return False


def has_floats(kind: Type) -> bool:
    """Whether a filter on a member of the struct could be one on a floating-point number."""
    return isinstance(kind, Struct) and any(f.type in FLOATS or has_floats(f.type) for f in kind)
