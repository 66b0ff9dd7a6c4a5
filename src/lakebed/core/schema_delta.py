"""The Delta mapper: a schema as the JSON of ``metaData.schemaString``, field metadata verbatim.

>>> from lakebed.core.schema import LONG
>>> to_delta(Struct((Field("id", LONG, nullable=False),)))["fields"]
[{'name': 'id', 'type': 'long', 'nullable': False, 'metadata': {}}]
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, TypeAlias

from lakebed.core.errors import CorruptFileError, UnsupportedFeatureError
from lakebed.core.schema import PRIMITIVES, STRING, Array, Decimal, Field, Map, Primitive, Struct, Type
from lakebed.core.schema_path import ELEMENT, KEY, VALUE, Path, format_path

Json: TypeAlias = Any

_DECIMAL = re.compile(r"decimal(?:\(\s*(\d+)\s*,\s*(\d+)\s*\))?")
_SIZED_STRING = re.compile(r"(?:char|varchar)\(\s*\d+\s*\)")


def to_delta(schema: Struct) -> dict[str, Json]:
    """The schema as a JSON object; fields keep their order and their metadata."""
    fields = [
        {"name": f.name, "type": type_to_delta(f.type), "nullable": f.nullable, "metadata": dict(f.metadata)}
        for f in schema
    ]
    return {"type": "struct", "fields": fields}


def to_schema_string(schema: Struct) -> str:
    """The schema as the text of ``metaData.schemaString``.

    >>> from lakebed.core.schema import LONG
    >>> to_schema_string(Struct((Field("ä", LONG),)))
    '{"type":"struct","fields":[{"name":"ä","type":"long","nullable":true,"metadata":{}}]}'
    """
    return json.dumps(to_delta(schema), separators=(",", ":"), ensure_ascii=False)


def type_to_delta(kind: Type) -> Json:
    """One type in the words of the log.

    >>> type_to_delta(Decimal(10, 2))
    'decimal(10,2)'
    """
    if isinstance(kind, Primitive):
        return kind.name
    if isinstance(kind, Decimal):
        return f"decimal({kind.precision},{kind.scale})"
    if isinstance(kind, Array):
        return {
            "type": "array",
            "elementType": type_to_delta(kind.element),
            "containsNull": kind.contains_null,
        }
    if isinstance(kind, Map):
        return {
            "type": "map",
            "keyType": type_to_delta(kind.key),
            "valueType": type_to_delta(kind.value),
            "valueContainsNull": kind.value_contains_null,
        }
    return to_delta(kind)


def from_delta(schema: Mapping[str, Json] | str) -> Struct:
    """The schema that JSON, as text or as an object, describes.

    Raises ``UnsupportedFeatureError`` for a type that Lakebed does not know, and ``CorruptFileError`` for
    what is no schema.

    >>> from_delta('{"type":"struct","fields":[{"name":"id","type":"long","nullable":true}]}').names
    ('id',)
    """
    if isinstance(schema, str):
        try:
            schema = json.loads(schema)
        except ValueError as error:
            raise CorruptFileError(f"the schema in the log is no JSON: {error}") from error
    kind = type_from_delta(schema)
    if not isinstance(kind, Struct):
        raise CorruptFileError("the schema in the log", expected="a struct", found=repr(schema)[:80])
    return kind


def type_from_delta(json_type: Json, path: Path = ()) -> Type:
    """The type that the log's JSON names; ``path`` is where it is, for messages. Raises as ``from_delta``."""
    if isinstance(json_type, str):
        return _named(json_type, path)
    kind = json_type.get("type") if isinstance(json_type, Mapping) else None
    try:
        if kind == "struct":
            return Struct(tuple(_field(f, path) for f in json_type["fields"]))
        if kind == "array":
            element = type_from_delta(json_type["elementType"], (*path, ELEMENT))
            return Array(element, bool(json_type["containsNull"]))
        if kind == "map":
            key = type_from_delta(json_type["keyType"], (*path, KEY))
            value = type_from_delta(json_type["valueType"], (*path, VALUE))
            return Map(key, value, bool(json_type["valueContainsNull"]))
    except (KeyError, TypeError, AttributeError) as error:
        raise CorruptFileError(
            f"{_place(path)}: the {kind} in the log lacks {error}", found=repr(json_type)[:120]
        ) from error
    if isinstance(kind, str):
        raise _unknown(kind, path)
    raise CorruptFileError(f"{_place(path)} has no type that can be read", found=repr(json_type)[:120])


def _field(json_field: Mapping[str, Json], path: Path) -> Field:
    name = json_field["name"]
    metadata = json_field.get("metadata") or {}
    kind = type_from_delta(json_field["type"], (*path, str(name)))
    return Field(str(name), kind, bool(json_field.get("nullable", True)), dict(metadata))


def _named(name: str, path: Path) -> Type:
    primitive = PRIMITIVES.get(name)
    if primitive is not None:
        return primitive
    # Spark once wrote these into logs; every reader treats them as strings.
    if _SIZED_STRING.fullmatch(name):
        return STRING
    decimal = _DECIMAL.fullmatch(name)
    if decimal is None:
        raise _unknown(name, path)
    precision, scale = int(decimal[1] or 10), int(decimal[2] or 0)
    if not 1 <= precision <= 38 or scale > precision:
        raise CorruptFileError(
            f"{_place(path)} has the type {name}", expected="precision 1 to 38, scale 0 to the precision"
        )
    return Decimal(precision, scale)


def _unknown(name: str, path: Path) -> UnsupportedFeatureError:
    if name in ("void", "null"):
        return UnsupportedFeatureError(
            f"{_place(path)} has the type {name}, a column without values",
            fix="drop the column or give it a type with the engine that made it",
        )
    return UnsupportedFeatureError(
        f"{_place(path)} has the type {name!r}, which Lakebed does not know",
        expected=f"one of {', '.join(PRIMITIVES)}, decimal(p,s), array, map, struct",
        fix="read the table with the engine that made it, or drop the column there",
    )


def _place(path: Path) -> str:
    return f"column {format_path(path)}" if path else "the schema"
