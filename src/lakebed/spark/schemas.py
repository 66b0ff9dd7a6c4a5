"""The schemas of frames."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from lakebed.core.schema_arrow import to_arrow
from lakebed.core.schema_spark import from_spark

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


def arrow_schema(schema: StructType) -> pa.Schema:
    """The columns of a frame; those without a type are null. Raises SchemaError for types that no table has."""
    from pyspark.sql.types import NullType, StructType

    fields = schema.fields
    typed = to_arrow(from_spark(StructType([f for f in fields if not isinstance(f.dataType, NullType)])))
    known = iter(typed)
    return pa.schema([pa.field(f.name, pa.null()) if isinstance(f.dataType, NullType) else next(known) for f in fields])
