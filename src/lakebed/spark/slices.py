"""What a task of a Python data source is given, and the schema that its batches must have."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from lakebed.spark.envelope import Envelope


class SlicePartition(InputPartition):
    """The work order of one task."""

    def __init__(self, order: Envelope) -> None:
        super().__init__(None)
        self.order = order


def arrow_schema_of(schema: StructType) -> pa.Schema:
    """The columns as Spark takes them from a task."""
    from pyspark.sql.pandas.types import to_arrow_schema

    return to_arrow_schema(schema, timezone="UTC")
