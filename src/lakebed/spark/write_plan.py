"""How the rows of a write get to the tasks that write them, by the bucket mode of the table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakebed.core.actions import Metadata
from lakebed.core.keyed import POSTPONE
from lakebed.core.options import Options
from lakebed.core.schema import STRING, Field, Struct
from lakebed.core.schema_ddl import type_ddl
from lakebed.engine.upsert_order import UpsertOrder
from lakebed.spark.job import setting, slots

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_ORDER = "_lakebed_order"
# Up to so many files come of a write whose rows stay in the tasks that they are in.
_FEW_FILES = 16
_MOST_BITS = 8


@dataclass(frozen=True)
class Arranged:
    """The rows as the tasks get them."""

    frame: DataFrame
    whole_buckets: bool
    """Whether all rows of a bucket are in one task."""
    share_bits: int = 0
    """How many top bits of the hash the tasks divide the rows of dynamic buckets by."""


def for_append(frame: DataFrame, metadata: Metadata, options: Options) -> DataFrame:
    """Rows of a table without a key: they stay where they are, or go by partition."""
    if not frame.columns:
        # Batches without a column come to tasks without their number of rows.
        first = next(iter(metadata.schema))
        frame = frame.select(_column(frame, first).alias(first.name))
    if options.shuffle != "always" or not metadata.partition_columns:
        return frame
    return frame.repartition(*_partitions(frame, metadata))


def for_upsert(frame: DataFrame, order: UpsertOrder) -> Arranged:
    """Rows of a table with a key; wherever they go, each task has them in the order of the frame."""
    # Files of several tasks are folded in the order of the frame, which is not what ``sort_by`` asks for.
    mode, shuffle = order.key.buckets, "always" if order.sort_by else order.options.shuffle
    if shuffle == "never" or (mode == POSTPONE and not order.sort_by):
        return Arranged(frame, whole_buckets=False)
    if not isinstance(mode, int):
        bits = _share_bits(frame)
        return Arranged(_in_order(_by_prefix(_numbered(frame), order, bits)), whole_buckets=False, share_bits=bits)
    if shuffle == "auto" and _stays(frame, order, mode):
        return Arranged(frame, whole_buckets=False)
    return Arranged(_in_order(_by_bucket(_numbered(frame), order, mode)), whole_buckets=True)


def _stays(frame: DataFrame, order: UpsertOrder, buckets: int) -> bool:
    """Whether so few files come of it that a shuffle does not pay."""
    if buckets == 1:
        return False
    at_once = slots(frame.sparkSession)
    return at_once is not None and not order.metadata.partition_columns and at_once * buckets <= _FEW_FILES


def _numbered(frame: DataFrame) -> DataFrame:
    """Of several rows with one key the last counts, and a shuffle forgets which that is."""
    from pyspark.sql import functions as F

    return frame.withColumn(_ORDER, F.monotonically_increasing_id())


def _in_order(frame: DataFrame) -> DataFrame:
    return frame.sortWithinPartitions(_ORDER).drop(_ORDER)


def _by_bucket(frame: DataFrame, order: UpsertOrder, buckets: int) -> DataFrame:
    from pyspark.sql import functions as F

    bucket = F.pmod(_hash(frame, order), F.lit(buckets))
    if order.key.spans_partitions or not order.metadata.partition_columns:
        tasks = min(buckets, int(setting(frame.sparkSession, "spark.sql.shuffle.partitions", "200")))
        return frame.repartitionById(tasks, F.pmod(bucket, F.lit(tasks)).cast("int"))
    return frame.repartition(*_partitions(frame, order.metadata), bucket)


def _by_prefix(frame: DataFrame, order: UpsertOrder, bits: int) -> DataFrame:
    from pyspark.sql import functions as F

    prefix = F.shiftrightunsigned(_hash(frame, order), 32 - bits) if bits else F.lit(0)
    places = [] if order.key.spans_partitions else _partitions(frame, order.metadata)
    return frame.repartition(*places, prefix)


def _share_bits(frame: DataFrame) -> int:
    """As many bits as give every task of a shuffle some of the prefixes."""
    tasks = int(setting(frame.sparkSession, "spark.sql.shuffle.partitions", "200"))
    return min(_MOST_BITS, (tasks - 1).bit_length())


def _hash(frame: DataFrame, order: UpsertOrder) -> Column:
    """Spark's hash of the key as the table has it; ours in ``core.murmur3`` is the same."""
    from pyspark.sql import functions as F

    return F.hash(*(_column(frame, order.metadata.schema[name]) for name in order.key.key))


def _partitions(frame: DataFrame, metadata: Metadata) -> list[Column]:
    """The partition of each row; empty text is null, as every reader will see it."""
    from pyspark.sql import functions as F

    schema: Struct = metadata.partition_schema
    columns = [(field, _column(frame, field)) for field in schema]
    return [F.when(column != "", column) if field.type == STRING else column for field, column in columns]


def _column(frame: DataFrame, field: Field) -> Column:
    """The frame's column for a column of the table, in the table's type; null if it has none."""
    from pyspark.sql import functions as F

    names = frame.columns
    found = next((n for n in names if n == field.name), None)
    found = found or next((n for n in names if n.casefold() == field.name.casefold()), None)
    column = F.lit(None) if found is None else F.col(quoted(found))
    return column.cast(type_ddl(field.type))


def quoted(name: str) -> str:
    """A column's name as Spark takes it, dots and all.

    >>> quoted("a.b`c")
    '`a.b``c`'
    """
    return "`" + name.replace("`", "``") + "`"
