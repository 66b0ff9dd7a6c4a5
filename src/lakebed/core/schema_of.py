"""One door for every kind of schema that a user may have at hand."""

from __future__ import annotations

import pyarrow as pa

from lakebed.core.errors import SchemaError
from lakebed.core.schema import Array, Decimal, Map, Primitive, Struct, Type
from lakebed.core.schema_arrow import from_arrow, type_from_arrow
from lakebed.core.schema_ddl import from_ddl, type_from_ddl
from lakebed.core.schema_spark import from_spark, is_spark_schema

ACCEPTED = (
    "a pyarrow.Schema, a Lakebed Struct, a Spark StructType, a SQL column list ('id BIGINT NOT NULL, name "
    "STRING'), an object with __arrow_c_schema__ (a polars Schema), or a table or DataFrame that has such "
    "a .schema"
)


def schema_of(anything: object) -> Struct:
    """The schema that the object is or has. Raises ``SchemaError``, which lists what is accepted.

    >>> schema_of("id BIGINT NOT NULL").names
    ('id',)
    >>> schema_of(pa.table({"a": [1]})).names
    ('a',)
    """
    found = _schema(anything)
    if found is None:
        # Of tables and DataFrames the schema is enough; a stream must not be consumed for it.
        found = _schema(getattr(anything, "schema", None))
    if found is None:
        kind = type(anything)
        raise SchemaError("this is no schema", expected=ACCEPTED, found=f"{kind.__module__}.{kind.__qualname__}")
    return found


def type_of(anything: object) -> Type:
    """The type that the object is: one of ours, an Arrow type or SQL text. Raises ``SchemaError``.

    >>> type_of("DECIMAL(12, 2)") == type_of(pa.decimal128(12, 2))
    True
    """
    if isinstance(anything, str):
        return type_from_ddl(anything)
    if isinstance(anything, pa.DataType):
        return type_from_arrow(anything)
    if isinstance(anything, Primitive | Decimal | Array | Map | Struct):
        return anything
    raise SchemaError(
        "this is no type", expected="a pyarrow type, or SQL text like 'DECIMAL(12,2)'", found=repr(anything)
    )


def _schema(value: object) -> Struct | None:
    if isinstance(value, Struct):
        return value
    if isinstance(value, str):
        return from_ddl(value)
    if is_spark_schema(value):
        return from_spark(value)
    if isinstance(value, pa.Schema):
        return from_arrow(value)
    if hasattr(value, "__arrow_c_schema__"):
        try:
            return from_arrow(pa.schema(value))
        except (pa.ArrowInvalid, pa.ArrowTypeError, TypeError) as error:
            raise SchemaError(
                f"{type(value).__qualname__} is an Arrow type but no schema: {error}", expected=ACCEPTED
            ) from error
    return None
