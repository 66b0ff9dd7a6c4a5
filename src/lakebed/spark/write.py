"""The one write command of Spark: a frame's rows become files in tasks; the caller's draft commits them once."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from lakebed.core.actions import AddFile, Metadata
from lakebed.core.conform import FIX, check_schema
from lakebed.core.errors import DataError
from lakebed.core.keyed import KeySpec
from lakebed.core.schema import Struct
from lakebed.core.schema_arrow import from_arrow
from lakebed.engine.incoming import ArrowRows, Settles
from lakebed.engine.keyed_write import KeyedWriter
from lakebed.engine.merge_source import Staged, StageOrder
from lakebed.engine.settle_order import Settling
from lakebed.engine.settlement import Matched
from lakebed.engine.upsert_order import Upserted, UpsertOrder, one_batch
from lakebed.engine.workforce import NewFiles, new_prefix
from lakebed.engine.write import WriteOrder
from lakebed.spark.abandoned import remove_all
from lakebed.spark.carried import written_here
from lakebed.spark.casts import cast
from lakebed.spark.job import setting
from lakebed.spark.merge_job import stage
from lakebed.spark.message import ROWS, Message, files_in, from_rows
from lakebed.spark.parquet_source import parquet_rows
from lakebed.spark.schemas import arrow_schema
from lakebed.spark.write_plan import for_append, for_upsert, quoted
from lakebed.spark.write_task import UpsertTask, WriteTask, task_of
from lakebed.spark.writing_job import WritingJob, refuse

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# More files than this are not sent to every task; their buckets are settled when it is known which were touched.
_MOST_FILES = 4096


@dataclass(frozen=True)
class SparkRows:
    """The rows of a frame, which tasks write. The frame is computed once."""

    frame: DataFrame

    @property
    def schema(self) -> pa.Schema:
        """The columns of the rows. Raises SchemaError for types that no table has."""
        return arrow_schema(self.frame.schema)

    @property
    def replaces_partitions(self) -> bool:
        """Whether the session says so."""
        mode = setting(self.frame.sparkSession, "spark.sql.sources.partitionOverwriteMode", "static")
        return mode.lower() == "dynamic"

    def cast(self, schema: Struct, names: Collection[str]) -> SparkRows:
        """The rows with some columns in the table's types; the job fails at values that those cannot hold."""
        from pyspark.sql import functions as F

        ansi = setting(self.frame.sparkSession, "spark.sql.ansi.enabled", "true") == "true"
        found = from_arrow(self.schema, void=True)
        columns = []
        for field in found:
            column, known = F.col(quoted(field.name)), schema.find(field.name)
            if field.name in names and known is not None:
                column = cast(column, field.type, known.type, ansi=ansi, place=field.name).alias(field.name)
            columns.append(column)
        return SparkRows(self.frame.select(*columns))

    def read(self) -> pa.Table:
        """All rows, in the driver."""
        return self.frame.toArrow()

    def stage(self, order: StageOrder, metadata: Metadata) -> Staged | None:
        """Tasks put the rows aside, each its own."""
        return stage(self.frame, order, metadata)

    def write(self, order: WriteOrder) -> list[AddFile]:
        """Write the rows into a table without a key."""
        self._check(order.metadata, order.table_name, check_schema(self.schema, order.metadata.schema))
        here = parquet_rows(self.frame, order.options, ordered=False)
        if here is not None:
            return ArrowRows(here).write(order)
        order = replace(order, prefix=new_prefix())
        frame = for_append(self.frame, order.metadata, order.options)
        done = _run(frame, WriteTask(order, write_here=_here(order)))
        return [add for message in done for add in message.files]

    def upsert(self, order: UpsertOrder, settles: Settles) -> Upserted:
        """Write the rows as upsert files. Tasks that have whole buckets settle them."""
        KeyedWriter(order).expect(self.schema)
        self._check(order.metadata, order.table_name, ())
        here = parquet_rows(self.frame, order.options, ordered=True)
        if here is not None:
            return ArrowRows(here).upsert(order, settles)
        arranged = for_upsert(self.frame, order)
        order = replace(order, prefix=new_prefix(), share_bits=arranged.share_bits)
        settling = _sendable(settles(), order.prefix) if arranged.whole_buckets else None
        few = 0 if arranged.whole_buckets or arranged.share_bits else _here(order)
        done = _run(arranged.frame, UpsertTask(order, settling, write_here=few))
        return gathered(done, order.key, whole_buckets=arranged.whole_buckets)

    def _check(self, metadata: Metadata, table_name: str, problems: Sequence[str]) -> None:
        """Raise DataError for problems, and for names that differ in case where the session minds it."""
        found = list(problems)
        if setting(self.frame.sparkSession, "spark.sql.caseSensitive", "false") == "true":
            names = {name.casefold(): name for name in metadata.schema.names}
            found += [
                f"column {name}: not in the table (did you mean {names[name.casefold()]!r}?); the session has "
                "spark.sql.caseSensitive"
                for name in self.frame.columns
                if name not in metadata.schema.names and name.casefold() in names
            ]
        if found:
            raise DataError(f"table {table_name}: the rows do not fit", tuple(found), fix=FIX)


def _run(frame: DataFrame, work: WriteTask | UpsertTask) -> list[Message]:
    """What the tasks have done with their rows, and this process with those that they have sent. If it raises, no
    file remains."""
    order = work.order
    files = NewFiles(order.store, order.metadata, order.table_name, order.prefix)
    done = WritingJob(files, counted=files_in).run(frame, task_of(work), ROWS, from_rows)
    try:
        done = written_here(done, work)
        refuse([message.error for message in done if message.error is not None])
        return done
    except BaseException:
        remove_all(files)
        raise


def _here(order: WriteOrder | UpsertOrder) -> int:
    """How many bytes of rows this process writes itself; none where partitions may make many files of a few rows."""
    return 0 if order.metadata.partition_columns else order.options.write_here


def _sendable(settling: Settling | None, prefix: str) -> Settling | None:
    """What tasks get to settle with; nothing if it is too much to be sent to all of them."""
    if settling is None or len(settling.files) > _MOST_FILES:
        return None
    rewriter = settling.order.rewriter
    order = replace(settling.order, rewriter=replace(rewriter, order=replace(rewriter.order, prefix=prefix)))
    return replace(settling, order=order)


def gathered(done: Sequence[Message], key: KeySpec, *, whole_buckets: bool) -> Upserted:
    """What all tasks together have written, in the order in which it has to be folded."""
    files = [add for message in done for add in message.files]
    return Upserted(
        files=files if whole_buckets else one_batch(files, key),
        rows=sum(message.rows for message in done),
        deletes=sum(message.deletes for message in done),
        splits=list(dict.fromkeys(split for message in done for split in message.splits)),
        partitions=frozenset().union(*(message.partitions for message in done)),
        matched=_whole(done, key),
    )


def _whole(done: Sequence[Message], key: KeySpec) -> list[Matched]:
    """What the tasks have settled, but for units that more than one task has files of."""
    tasks: dict[object, set[int]] = {}
    for message in done:
        for add in message.files:
            tasks.setdefault(key.bucket(add), set()).add(message.task)
    return [
        one for message in done for one in message.matched if all(len(tasks.get(b, ())) <= 1 for b in one.unit.buckets)
    ]
