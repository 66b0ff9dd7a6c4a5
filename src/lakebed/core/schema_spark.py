"""The Spark mapper. Spark's types and the log share one JSON form, so no Spark is imported here.

Of Spark's field metadata only the comment is taken over, either way: a column mapping or a default that
another table left in a DataFrame's schema says nothing true about this one.
"""

from __future__ import annotations

from typing import Any, Protocol, TypeVar

from lakebed.core.errors import CorruptFileError, SchemaError, UnsupportedFeatureError
from lakebed.core.schema import COMMENT, Field, Struct, each_field
from lakebed.core.schema_delta import from_delta, to_delta

_Built_co = TypeVar("_Built_co", covariant=True)


class StructTypeClass(Protocol[_Built_co]):
    """What is needed of ``pyspark.sql.types.StructType``, the class."""

    def fromJson(self, json: dict[str, Any]) -> _Built_co: ...


def to_spark(schema: Struct, struct_type: StructTypeClass[_Built_co]) -> _Built_co:
    """The schema as a Spark ``StructType``, which the caller passes as a class: ``core`` has no Spark.

    >>> from lakebed.core.schema import LONG
    >>> class Echo:
    ...     fromJson = staticmethod(lambda json: json["fields"][0]["type"])
    >>> to_spark(Struct((Field("id", LONG),)), Echo)
    'long'
    """
    return struct_type.fromJson(to_delta(comments_only(schema)))


def from_spark(schema: Any) -> Struct:
    """The schema of a Spark ``StructType``; CHAR and VARCHAR become STRING.

    Raises ``SchemaError`` for types that Lakebed does not know (intervals, variants, user-defined types).

    >>> from types import SimpleNamespace
    >>> json = {"type": "struct", "fields": [{"name": "code", "type": "char(3)", "nullable": True}]}
    >>> from_spark(SimpleNamespace(jsonValue=lambda: json))["code"].type
    Primitive(name='string')
    """
    try:
        return comments_only(from_delta(schema.jsonValue()))
    except (UnsupportedFeatureError, CorruptFileError) as error:
        raise SchemaError(
            f"Spark schema: {error.what}",
            expected=error.expected,
            found=error.found,
            fix="cast or drop the column before the write",
        ) from error


def is_spark_schema(value: object) -> bool:
    """Whether the value is a Spark ``StructType``, told without importing Spark."""
    return any(c.__name__ == "StructType" and c.__module__.startswith("pyspark.") for c in type(value).__mro__)


def comments_only(schema: Struct) -> Struct:
    """The schema without any field metadata but comments, at every level.

    >>> from lakebed.core.schema import LONG
    >>> comments_only(Struct((Field("id", LONG, metadata={"comment": "c", "delta.x": 1}),)))["id"].metadata
    {'comment': 'c'}
    """
    return each_field(schema, _comment_only)


def _comment_only(field: Field) -> Field:
    metadata = {} if field.comment is None else {COMMENT: field.comment}
    return Field(field.name, field.type, field.nullable, metadata)
