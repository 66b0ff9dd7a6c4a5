"""What a task does with its rows: files through the engine's writers, and a message for the driver."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from lakebed.core.errors import FileMissingError, LakebedError
from lakebed.spark.carried import few, share
from lakebed.spark.envelope import Envelope, seal, unseal
from lakebed.spark.job import is_final
from lakebed.spark.message import Message, to_rows

if TYPE_CHECKING:
    from lakebed.core.actions import AddFile
    from lakebed.core.keyed import KeySpec
    from lakebed.engine.settle_order import Settling
    from lakebed.engine.settlement import Matched
    from lakebed.engine.upsert_order import UpsertOrder
    from lakebed.engine.write import WriteOrder

Batches = Iterator[pa.RecordBatch]


@dataclass(frozen=True)
class WriteTask:
    """Rows of a table without a key."""

    order: WriteOrder
    write_here: int = 0
    """Up to so many bytes of rows, of all tasks together, go to the driver."""

    def run(self, batches: Batches, message: dict[str, object]) -> None:
        """Write the rows; the message tells the files."""
        from lakebed.engine.write import write_rows

        first = next(batches, None)
        if first is None:
            return
        reader = pa.RecordBatchReader.from_batches(first.schema, _chain(first, batches))
        files, message["rows"] = write_rows(reader, self.order)
        message["files"] = tuple(files)


@dataclass(frozen=True)
class UpsertTask:
    """Rows of a table with a key."""

    order: UpsertOrder
    settling: Settling | None = None
    """Given where no other task has rows of this one's buckets."""
    write_here: int = 0
    """Up to so many bytes of rows, of all tasks together, go to the driver."""

    def run(self, batches: Batches, message: dict[str, object]) -> None:
        """Write upsert files, and settle them; the message tells the files and the dead rows."""
        from lakebed.engine.keyed_write import KeyedWriter

        with KeyedWriter(self.order) as writer:
            for batch in batches:
                if batch.num_rows:
                    writer.write(batch)
            done = writer.close()
            matched = [] if self.settling is None else _settle(self.settling, self.order.key, done.files)
        message.update(
            rows=done.rows,
            deletes=done.deletes,
            splits=tuple(done.splits),
            partitions=done.partitions,
            files=tuple(done.files),
            matched=tuple(matched),
        )


def task_of(work: WriteTask | UpsertTask) -> Callable[[Iterable[pa.RecordBatch]], Batches]:
    """The function for Spark's ``mapInArrow``; only the sealed work order travels with it."""
    envelope = seal(work)

    def run(batches: Iterable[pa.RecordBatch]) -> Batches:
        import os

        from pyspark import TaskContext

        # Tasks share a machine: none takes more processors than Spark gives it. Polars reads this when it is imported.
        context = TaskContext.get()
        os.environ.setdefault("POLARS_MAX_THREADS", str(context.cpus() if context else 1))
        from lakebed.spark.write_task import perform

        return perform(envelope, iter(batches))

    return run


def perform(envelope: Envelope, batches: Batches) -> Batches:
    """In the task: do the work and yield its message. An error that would come again, like that of rows which do not
    fit, is a message too; any other is raised, and Spark tries again."""
    yield to_rows(run_task(unseal(envelope), batches))


def run_task(work: WriteTask | UpsertTask, batches: Batches) -> Message:
    """Do the work; what would fail again is told by the message."""
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None
    pa.set_cpu_count(max(1, context.cpus()))
    task = context.partitionId()
    message: dict[str, object] = {"task": task, "attempt": context.attemptNumber()}
    if work.write_here:
        carried, batches = few(batches, share(work.write_here, task))
        if carried is not None:
            return Message(**message, carried=carried)  # type: ignore[arg-type]
    try:
        work.run(batches, message)
    except LakebedError as error:
        if not is_final(error):
            raise
        message["error"] = error
    return Message(**message)  # type: ignore[arg-type]


def _settle(settling: Settling, key: KeySpec, files: Sequence[AddFile]) -> list[Matched]:
    """Match the new files with those that the table has in their buckets; what fails is left to the driver."""
    from lakebed.engine.unit import units_of

    touched = {key.bucket(add) for add in files}
    older = [add for add in settling.files if key.bucket(add) in touched]
    matched: list[Matched] = []
    try:
        for unit, members in units_of([*older, *files], key).items():
            matched.append(settling.order.match(unit, members))
    except FileMissingError:
        # Others have replaced it meanwhile; the driver finds out by what, and settles with that.
        _remove(settling, matched)
        return []
    except BaseException:
        _remove(settling, matched)
        raise
    return matched


def _remove(settling: Settling, matched: Sequence[Matched]) -> None:
    made = [add.file_path for one in matched for add, _ in one.fresh]
    settling.order.order.store.delete_many(made)


def _chain(first: pa.RecordBatch, rest: Batches) -> Batches:
    yield first
    yield from rest
