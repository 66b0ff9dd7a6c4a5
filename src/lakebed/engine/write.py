"""Writing rows as data files: conform, split by partition, bound the memory, close or abort."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from lakebed.core.actions import AddFile, Metadata
from lakebed.core.conform import FIX, check_schema, conform
from lakebed.core.errors import DataError
from lakebed.core.options import Options
from lakebed.core.partition import encode_value
from lakebed.core.predicate import Node, evaluate, render
from lakebed.core.properties import value_of
from lakebed.core.schema import STRING
from lakebed.core.steps import Step, reach
from lakebed.delta.paths import encode
from lakebed.engine.bucket_paths import new_path
from lakebed.engine.partitioning import PartitionRow, split
from lakebed.storage.parquet_writer import ParquetFileWriter, WrittenFile
from lakebed.storage.store import Store


@dataclass(frozen=True)
class WriteOrder:
    """All that one writer needs to know; small and serialisable."""

    store: Store
    table_name: str
    metadata: Metadata
    options: Options
    within: Node | None = None
    """Every row must satisfy it."""
    prefix: str = ""
    """What the names of new files begin with, so that those of one write can be told from others."""


@dataclass
class _OpenFile:
    writer: ParquetFileWriter
    values: PartitionRow


class TableWriter:
    """Writes conformed rows as files of one table; memory stays below ``writer_memory_limit``.

    Use it as a context manager: leaving it by an exception removes every file it has written.
    """

    def __init__(self, order: WriteOrder) -> None:
        self._order = order
        self._partition = order.metadata.partition_schema
        self._indexed = int(value_of("statistics-columns", order.metadata.configuration))
        self._open: dict[PartitionRow, _OpenFile] = {}
        self._done: list[AddFile] = []
        self._paths: list[str] = []
        self.rows = 0

    def __enter__(self) -> TableWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if kind is not None:
            self.abort()

    def write(self, batch: pa.RecordBatch) -> None:
        """Take in rows that already have the table's schema."""
        self.rows += batch.num_rows
        for values, part in split(batch, self._partition.names):
            file = self._open.get(values)
            if file is None:
                file = self._open[values] = self._new_file(values)
            file.writer.write(part)
            if file.writer.full:
                self._close(values)
        while self._buffered() > self._order.options.writer_memory_limit:
            self._close(max(self._open, key=lambda values: self._open[values].writer.buffered_bytes))

    def close(self) -> list[AddFile]:
        """Finish all files and return them, in the order in which they were closed."""
        for values in list(self._open):
            self._close(values)
        return self._done

    def abort(self) -> None:
        """Remove everything that was written; the table's directory is as it was."""
        for file in self._open.values():
            file.writer.abort()
        self._open.clear()
        self._order.store.delete_many(self._paths)
        for path in self._paths:
            self._order.store.remove_empty_parents(path)
        self._done.clear()

    def _buffered(self) -> int:
        return sum(file.writer.buffered_bytes for file in self._open.values())

    def _new_file(self, values: PartitionRow) -> _OpenFile:
        writer = ParquetFileWriter(
            self._order.store,
            new_path(self._encoded(values), None, self._order.prefix),
            self._order.metadata.schema,
            self._order.options,
            indexed_columns=self._indexed,
        )
        reach(Step.WRITE_OPENED)
        return _OpenFile(writer, values)

    def _encoded(self, values: PartitionRow) -> dict[str, str | None]:
        return {f.physical_name: encode_value(v, f.type) for v, f in zip(values, self._partition, strict=True)}

    def _close(self, values: PartitionRow) -> None:
        file = self._open.pop(values)
        self._paths.append(file.writer.path)
        written = file.writer.close()
        reach(Step.WRITE_CLOSED)
        self._done.append(self._action(written, values))

    def _action(self, written: WrittenFile, values: PartitionRow) -> AddFile:
        return AddFile(
            path=encode(written.path),
            partition_values=self._encoded(values),
            size=written.size,
            modification_time=written.mtime_ms,
            data_change=True,
            stats=written.stats_json,
        )


def conformed(reader: pa.RecordBatchReader, order: WriteOrder) -> Iterator[pa.RecordBatch]:
    """The rows of ``reader`` with exactly the table's schema. Raises DataError that lists every problem.

    What the types alone tell is checked before the first row is taken.
    """
    schema = order.metadata.schema
    problems = check_schema(reader.schema, schema)
    if problems:
        raise DataError(f"table {order.table_name}: the rows do not fit", problems, fix=FIX)
    for batch in reader:
        if batch.num_rows:
            fitting = conform(batch, schema, table_name=order.table_name)
            spelled = without_empty_partitions(fitting, order.metadata)
            rows = fitting if spelled is fitting else conform(spelled, schema, table_name=order.table_name)
            refuse_outside(rows, order.within, order.table_name)
            yield rows


def without_empty_partitions(batch: pa.RecordBatch, metadata: Metadata) -> pa.RecordBatch:
    """The batch with null for empty text in partition columns, which is how every reader will see it."""
    for field in metadata.partition_schema:
        column = batch.column(field.name)
        if field.type == STRING and pc.any(empty := pc.equal(column, "")).as_py():
            at = batch.schema.get_field_index(field.name)
            nulled = pc.if_else(empty, pa.scalar(None, column.type), column)
            batch = batch.set_column(at, batch.schema.field(at), nulled)
    return batch


def refuse_outside(rows: pa.RecordBatch, within: Node | None, table_name: str) -> None:
    """Raise DataError for rows that do not satisfy ``within``."""
    if within is None:
        return
    outside = pc.invert(evaluate(within, rows).fill_null(False))
    if pc.any(outside).as_py():
        example = rows.filter(outside).slice(0, 1).to_pylist()[0]
        raise DataError(
            f"table {table_name}: rows lie outside of the part that is overwritten",
            (f"{pc.sum(outside).as_py()} row(s) do not satisfy {render(within)}, for example {example}",),
            fix="nothing was written; change the rows or the predicate",
        )


def write_rows(reader: pa.RecordBatchReader, order: WriteOrder) -> tuple[list[AddFile], int]:
    """Write all rows as new files; on any error nothing remains. Returns the files and the row count."""
    with TableWriter(order) as writer:
        for batch in conformed(reader, order):
            writer.write(batch)
        return writer.close(), writer.rows
