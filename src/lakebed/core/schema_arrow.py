"""The Arrow mapper: each of Lakebed's types has one Arrow type; many Arrow types are read.

>>> to_arrow(Struct((Field("id", LONG, nullable=False),)))
id: int64 not null
>>> from_arrow(pa.schema([("name", pa.large_string())]))["name"].type
Primitive(name='string')
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.types as pat

from lakebed.core.errors import SchemaError
from lakebed.core.schema import (
    BINARY,
    BOOLEAN,
    BYTE,
    COMMENT,
    DATE,
    DOUBLE,
    FLOAT,
    INTEGER,
    LONG,
    MAPPING_ID,
    SHORT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    VOID,
    Array,
    Decimal,
    Field,
    Map,
    Primitive,
    Struct,
    Type,
)
from lakebed.core.schema_path import ELEMENT, KEY, VALUE, Path, format_path

FIELD_ID = "PARQUET:field_id"

_TO_ARROW: dict[Primitive, pa.DataType] = {
    BYTE: pa.int8(), SHORT: pa.int16(), INTEGER: pa.int32(), LONG: pa.int64(), FLOAT: pa.float32(),
    DOUBLE: pa.float64(), BOOLEAN: pa.bool_(), STRING: pa.string(), BINARY: pa.binary(), DATE: pa.date32(),
    TIMESTAMP: pa.timestamp("us", "UTC"), TIMESTAMP_NTZ: pa.timestamp("us"), VOID: pa.null(),
}  # fmt: skip

_FROM_ARROW: dict[pa.DataType, Type] = {
    **{arrow: ours for ours, arrow in _TO_ARROW.items() if ours is not VOID},
    pa.uint8(): SHORT, pa.uint16(): INTEGER, pa.uint32(): LONG, pa.uint64(): Decimal(20, 0),
    pa.float16(): FLOAT, pa.date64(): DATE, pa.large_string(): STRING, pa.string_view(): STRING,
    pa.large_binary(): BINARY, pa.binary_view(): BINARY,
}  # fmt: skip

_LIST_KINDS: tuple[Callable[[pa.DataType], bool], ...] = (
    pat.is_list,
    pat.is_large_list,
    pat.is_fixed_size_list,
    pat.is_list_view,
    pat.is_large_list_view,
)

_WAY_OUT = {
    "time": "cast it to a string, or to a timestamp with a date",
    "duration": "cast it to int64, and put the unit into the name or the comment",
    "interval": "split it into integer columns",
    "union": "use a struct with one nullable field per kind",
    "null": "give the column a type, for example pa.array(values, pa.string())",
}


def to_arrow(schema: Struct, physical: bool = False) -> pa.Schema:
    """The schema in Arrow; comments are field metadata.

    ``physical`` gives the schema of data files instead: physical names at every level, and the column
    mapping's ids as Parquet field ids.
    """
    return pa.schema([field_to_arrow(f, physical) for f in schema])


def field_to_arrow(field: Field, physical: bool = False) -> pa.Field:
    """One field in Arrow, as ``to_arrow`` has it."""
    metadata: dict[str, str] = {}
    if field.comment is not None:
        metadata[COMMENT] = field.comment
    if physical and MAPPING_ID in field.metadata:
        metadata[FIELD_ID] = str(field.metadata[MAPPING_ID])
    name = field.physical_name if physical else field.name
    return pa.field(name, type_to_arrow(field.type, physical), field.nullable, metadata or None)


def type_to_arrow(kind: Type, physical: bool = False) -> pa.DataType:
    """One type in Arrow.

    >>> type_to_arrow(Array(Decimal(10, 2), contains_null=False))
    ListType(list<element: decimal128(10, 2) not null>)
    """
    if isinstance(kind, Primitive):
        return _TO_ARROW[kind]
    if isinstance(kind, Decimal):
        return pa.decimal128(kind.precision, kind.scale)
    if isinstance(kind, Array):
        return pa.list_(pa.field(ELEMENT, type_to_arrow(kind.element, physical), kind.contains_null))
    if isinstance(kind, Map):
        return pa.map_(
            pa.field(KEY, type_to_arrow(kind.key, physical), nullable=False),
            pa.field(VALUE, type_to_arrow(kind.value, physical), kind.value_contains_null),
        )
    return pa.struct([field_to_arrow(f, physical) for f in kind])


def from_arrow(schema: pa.Schema, *, void: bool = False) -> Struct:
    """The schema that an Arrow schema stands for.

    Dictionaries, run-end encodings and extension types count as the type of their values. Unsigned
    integers become the next wider type. Raises one ``SchemaError`` that names every column whose type a
    table cannot have. The type ``null`` is among those, unless ``void`` asks for it as ``VOID``.
    """
    problems: list[str] = []
    fields = tuple(_field(f, (f.name,), void, problems) for f in schema)
    if problems:
        raise SchemaError("Arrow schema: " + "; ".join(problems))
    return Struct(fields)


def type_from_arrow(kind: pa.DataType, *, void: bool = False) -> Type:
    """The type that an Arrow type stands for; raises as ``from_arrow``.

    >>> type_from_arrow(pa.dictionary(pa.int8(), pa.large_string()))
    Primitive(name='string')
    """
    problems: list[str] = []
    found = _type(kind, (), void, problems)
    if problems:
        raise SchemaError("Arrow type: " + "; ".join(problems))
    return found


def is_list_like(kind: pa.DataType) -> bool:
    """Whether the Arrow type is a list of any layout (a map is not).

    >>> is_list_like(pa.large_list(pa.int8())), is_list_like(pa.map_(pa.string(), pa.int8()))
    (True, False)
    """
    return any(test(kind) for test in _LIST_KINDS)


def decoded_type(kind: pa.DataType) -> pa.DataType:
    """The type of the values of a dictionary, a run-end encoding or an extension type; else the type.

    >>> decoded_type(pa.dictionary(pa.int8(), pa.string()))
    DataType(string)
    """
    while True:
        if pat.is_dictionary(kind) or pat.is_run_end_encoded(kind):
            kind = kind.value_type
        elif isinstance(kind, pa.BaseExtensionType):
            kind = kind.storage_type
        else:
            return kind


def _field(field: pa.Field, path: Path, void: bool, problems: list[str]) -> Field:
    comment = (field.metadata or {}).get(COMMENT.encode())
    metadata = {} if comment is None else {COMMENT: comment.decode("utf-8", "replace")}
    return Field(field.name, _type(field.type, path, void, problems), field.nullable, metadata)


def _type(kind: pa.DataType, path: Path, void: bool, problems: list[str]) -> Type:
    kind = decoded_type(kind)
    known = _FROM_ARROW.get(kind)
    if known is not None:
        return known
    if pat.is_timestamp(kind):
        return TIMESTAMP_NTZ if kind.tz is None else TIMESTAMP
    if pat.is_fixed_size_binary(kind):
        return BINARY
    if pat.is_struct(kind):
        return Struct(tuple(_field(f, (*path, f.name), void, problems) for f in kind))
    if pat.is_map(kind):
        return Map(
            _type(kind.key_type, (*path, KEY), void, problems),
            _type(kind.item_type, (*path, VALUE), void, problems),
            kind.item_field.nullable,
        )
    if is_list_like(kind):
        element = _type(kind.value_type, (*path, ELEMENT), void, problems)
        return Array(element, kind.value_field.nullable)
    if pat.is_decimal(kind):
        # A negative scale is a number with that many zeros at its end.
        precision, scale = kind.precision - min(kind.scale, 0), max(kind.scale, 0)
        if max(precision, scale) <= 38:
            return Decimal(max(precision, scale), scale)
    if pat.is_null(kind) and void:
        return VOID
    problems.append(_problem(kind, path))
    return VOID


def _problem(kind: pa.DataType, path: Path) -> str:
    place = f"column {format_path(path)}" if path else "it"
    name = str(kind)
    if pat.is_decimal(kind):
        return f"{place} is {name}, and a table has at most 38 digits (fix: cast it to decimal128(38, s))"
    head = name.partition("<")[0]
    way_out = next((text for word, text in _WAY_OUT.items() if word in head), "cast or drop it")
    return f"{place} is {name}, which a table cannot have (fix: {way_out})"
