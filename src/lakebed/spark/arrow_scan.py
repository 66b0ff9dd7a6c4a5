"""The Arrow scan: slices of a table's files, each read by the engine in a task of Spark."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from lakebed.core.unsliced import unsliced
from lakebed.engine.described_scan import described, described_schema
from lakebed.engine.distribution import FrameOrder
from lakebed.engine.scan import ScanOrder
from lakebed.engine.source import MergedRows, Source, Sources
from lakebed.spark.jobs import orders_frame, orders_in

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


@dataclass(frozen=True)
class Slice:
    """The work order of one task: some of a table's sources."""

    scan: ScanOrder
    metadata_columns: tuple[str, ...]
    sources: tuple[Source | MergedRows, ...]

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The live rows, as they are wanted."""
        schema = described_schema(self.scan, self.metadata_columns)
        for batch in described(self.scan, self.sources, self.metadata_columns):
            yield pa.RecordBatch.from_arrays(batch.columns, schema=schema)


def slices(scan: ScanOrder, metadata_columns: tuple[str, ...], sources: Sources) -> list[Slice]:
    """The sources in as many slices as are worth a task each; files of one bucket stay together if they are small."""
    ordered = sorted(sources, key=_bucket_first)
    found: list[list[Source | MergedRows]] = []
    room = 0
    for source in ordered:
        size = scan.options.file_target_size if isinstance(source, MergedRows) else source.add.size
        if not found or room < size:
            found.append([])
            room = scan.options.file_target_size
        found[-1].append(source)
        room -= size
    return [Slice(scan, metadata_columns, tuple(part)) for part in found]


def _bucket_first(source: Source | MergedRows) -> str:
    return "" if isinstance(source, MergedRows) else source.add.path.rpartition("/")[0]


def arrow_frame(session: SparkSession, order: FrameOrder, sources: Sources, schema: StructType) -> DataFrame:
    """The live rows of the sources, which are read when the frame is."""
    work = slices(order.scan, order.metadata_columns, sources)
    return orders_frame(session, work).mapInArrow(_read, schema)


def local_frame(session: SparkSession, work: Slice, schema: StructType) -> DataFrame:
    """The rows of a slice, which this process reads now."""
    rows = pa.Table.from_batches(work.batches(), described_schema(work.scan, work.metadata_columns))
    return session.createDataFrame(unsliced(rows) if rows.num_rows else [], schema)


def _read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for _, order in orders_in(batches):
        yield from order.batches()
