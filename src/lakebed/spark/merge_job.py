"""A merge with a large source as Spark jobs: the source is put aside, then both sides are shuffled and merged.

What is shuffled are Arrow batches as bytes: Spark sees no column of them, so that no row is taken apart on the way.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from lakebed.core.actions import Metadata
from lakebed.engine.merge_parts import MergedPart, PartOrder, PartsJob
from lakebed.engine.merge_source import Staged, StageOrder
from lakebed.engine.workforce import NewFiles
from lakebed.spark.jobs import orders_frame, orders_in
from lakebed.spark.outcome import ROWS, outcomes, task_of
from lakebed.spark.writing_job import WritingJob

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_DEALT = "part INT, side INT, number BIGINT, rows BINARY"
_ARROW = pa.schema([("part", pa.int32()), ("side", pa.int32()), ("number", pa.int64()), ("rows", pa.binary())])


def stage(frame: DataFrame, order: StageOrder, metadata: Metadata) -> Staged:
    """Put the rows of a frame aside, which computes it once. Raises DataError, JobError."""
    files = NewFiles(order.store, metadata, order.rules.table_name, order.prefix)
    read = outcomes(lambda part: () if part.path is None else (part.path,))
    done = WritingJob(files).run(frame, task_of(order), ROWS, read)
    return Staged(order, tuple(one.result for one in done))


def merge_parts(spark: SparkSession, job: PartsJob, files: NewFiles) -> list[MergedPart]:
    """What became of each part that has any rows. Raises DataError, JobError."""
    if not job.deals:
        return []
    dealt = orders_frame(spark, job.deals).mapInArrow(_deal, _DEALT)
    frame = dealt.repartitionById(job.dealing.parts, "part").sortWithinPartitions("side", "number")
    read = outcomes(lambda part: [add.file_path for add in part.changed.files])
    bar = WritingJob(files, "parts", job.dealing.parts, lambda told: {"parts": told.num_rows})
    done = bar.run(frame, task_of(_PartTask(job.order)), ROWS, read)
    return [one.result for one in done]


def _deal(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for _, order in orders_in(batches):
        for dealt in order.run():
            values = [[dealt.part], [dealt.side], [dealt.number], [dealt.rows.serialize().to_pybytes()]]
            yield pa.record_batch([pa.array(v, f.type) for v, f in zip(values, _ARROW, strict=True)], schema=_ARROW)


@dataclass(frozen=True)
class _PartTask:
    """The order of a part, for a task that gets its rows as bytes."""

    order: PartOrder

    def run(self, batches: Iterator[pa.RecordBatch]) -> MergedPart:
        """Merge what comes."""
        return self.order.run(self._arriving(batches))

    def _arriving(self, batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[int, pa.RecordBatch]]:
        for batch in batches:
            for side, rows in zip(batch.column("side").to_pylist(), batch.column("rows"), strict=True):
                yield side, pa.ipc.read_record_batch(rows.as_buffer(), self.order.schema(side))
