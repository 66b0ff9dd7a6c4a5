"""What a task that is given one sealed order makes of the rows that it gets: a result, or why there is none."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

import pyarrow as pa

from lakebed.core.errors import LakebedError
from lakebed.spark.envelope import Envelope, seal, unseal
from lakebed.spark.job import is_final
from lakebed.spark.writing_job import Task

ROWS = "task INT, attempt INT, result BINARY, error BINARY"
_ARROW = pa.schema([("task", pa.int32()), ("attempt", pa.int32()), ("result", pa.binary()), ("error", pa.binary())])


class Order(Protocol):
    """A work order for a task."""

    def run(self, batches: Iterator[pa.RecordBatch]) -> Any:
        """What the rows of one task become; the result can be pickled."""


@dataclass(frozen=True)
class Outcome:
    """What one task has done."""

    task: int
    attempt: int
    error: LakebedError | None
    paths: tuple[str, ...] = ()
    result: Any = field(default=None, hash=False)


def outcomes(made: Callable[[Any], Iterable[str]]) -> Callable[[pa.Table], list[Outcome]]:
    """Reads what tasks report, by the number of the task; ``made`` tells the files of a result."""

    def one(row: dict[str, Any]) -> Outcome:
        if row["error"] is not None:
            return Outcome(row["task"], row["attempt"], pickle.loads(row["error"]))
        result = pickle.loads(row["result"])
        return Outcome(row["task"], row["attempt"], None, tuple(made(result)), result)

    return lambda table: sorted(map(one, table.to_pylist()), key=lambda done: done.task)


def task_of(order: Order) -> Task:
    """The function for Spark's ``mapInArrow``; only the sealed work order travels with it."""
    envelope = seal(order)

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import os

        from pyspark import TaskContext

        # Tasks share a machine: none takes more processors than Spark gives it. Polars reads this when it is imported.
        context = TaskContext.get()
        os.environ.setdefault("POLARS_MAX_THREADS", str(context.cpus() if context else 1))
        from lakebed.spark.outcome import perform

        return perform(envelope, iter(batches))

    return run


def perform(envelope: Envelope, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """In the task: do the work and yield its outcome. An error that would come again is one too; any other is raised,
    and Spark tries again."""
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None
    pa.set_cpu_count(max(1, context.cpus()))
    result = error = None
    try:
        result = pickle.dumps(unseal(envelope).run(batches), protocol=5)
    except LakebedError as refused:
        if not is_final(refused):
            raise
        error = pickle.dumps(refused)
    values = [[context.partitionId()], [context.attemptNumber()], [result], [error]]
    yield pa.record_batch([pa.array(v, f.type) for v, f in zip(values, _ARROW, strict=True)], schema=_ARROW)
