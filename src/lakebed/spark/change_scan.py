"""Changes of a table in Spark: units in slices, each read by the engine in a task."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from lakebed.core.schema_spark import to_spark
from lakebed.core.unsliced import unsliced
from lakebed.engine.changes.step import ChangeOrder, RawStep, Step
from lakebed.spark.file_schema import outwardly
from lakebed.spark.jobs import orders_frame, orders_in

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


@dataclass(frozen=True)
class ChangeSlice:
    """The work order of one task: all steps of some units, those of a unit in the order of their versions."""

    steps: tuple[Step | RawStep, ...]

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The change rows that are wanted."""
        for step in self.steps:
            for rows in step.tables():
                yield from rows.to_batches(step.order.scan.options.batch_size)


def change_slices(order: ChangeOrder, steps: Sequence[Step | RawStep]) -> list[ChangeSlice]:
    """The steps in as many slices as are worth a task each."""
    units: dict[object, list[Step | RawStep]] = {}
    for step in steps:
        units.setdefault(step.unit, []).append(step)
    found: list[list[Step | RawStep]] = []
    room = 0
    for work in units.values():
        size = sum(step.size for step in work)
        if not found or room < size:
            found.append([])
            room = order.scan.options.file_target_size
        found[-1].extend(work)
        room -= size
    return [ChangeSlice(tuple(part)) for part in found]


def change_schema(order: ChangeOrder) -> StructType:
    """The columns of change rows, as Spark sees them."""
    from pyspark.sql.types import StructType

    return to_spark(outwardly(order.columns_out), StructType)


def change_frame(session: SparkSession, order: ChangeOrder, steps: Sequence[Step | RawStep]) -> DataFrame:
    """The change rows, which are found out when the frame is read; now, by this process, if that is little work."""
    work = change_slices(order, steps)
    if not work:
        return session.createDataFrame([], change_schema(order))
    if sum(step.size for step in steps) <= order.scan.options.read_here:
        rows = pa.Table.from_batches([batch for part in work for batch in part.batches()], order.output)
        return session.createDataFrame(unsliced(rows) if rows.num_rows else [], change_schema(order)).coalesce(1)
    return orders_frame(session, work).mapInArrow(_read, change_schema(order))


def _read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for _, order in orders_in(batches):
        yield from order.batches()
