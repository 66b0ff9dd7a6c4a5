"""The same work for many items, as one job: items go to tasks, results come back."""

from __future__ import annotations

import heapq
import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa

from lakebed.core.errors import LakebedError
from lakebed.engine.workforce import NewFiles
from lakebed.spark.envelope import Envelope, seal, unseal
from lakebed.spark.job import is_final, slots
from lakebed.spark.writing_job import Task, WritingJob

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Item = TypeVar("Item")
Result = TypeVar("Result")

_ITEMS = pa.schema([("task", pa.int32()), ("number", pa.int32()), ("item", pa.binary())])
_ROWS = "number INT, attempt INT, result BINARY, error BINARY"
_ARROW = pa.schema([("number", pa.int32()), ("attempt", pa.int32()), ("result", pa.binary()), ("error", pa.binary())])
_TASKS_PER_SLOT = 4
_TASKS = 200
"""Where nobody says how many run at once."""


@dataclass(frozen=True)
class _Done:
    number: int
    attempt: int
    error: LakebedError | None
    paths: tuple[str, ...] = ()
    result: Any = field(default=None, hash=False)


def run_each(
    spark: SparkSession,
    work: Callable[[Item], Result],
    items: Sequence[Item],
    sizes: Sequence[int],
    made: Callable[[Result], Iterable[str]],
    files: NewFiles,
    measure: str,
) -> list[Result]:
    """The result of each item, in their order. Raises JobError, or what the work raised."""

    def parse(table: pa.Table) -> list[_Done]:
        return [_done(row, made) for row in table.to_pylist()]

    job = WritingJob(files, measure, len(items), lambda told: {measure: told.num_rows})
    done = job.run(_frame(spark, items, sizes), _task_of(work), _ROWS, parse)
    results = {one.number: one.result for one in done}
    return [results[number] for number in range(len(items))]


def _done(row: dict[str, Any], made: Callable[[Any], Iterable[str]]) -> _Done:
    if row["error"] is not None:
        return _Done(row["number"], row["attempt"], pickle.loads(row["error"]))
    result = pickle.loads(row["result"])
    return _Done(row["number"], row["attempt"], None, tuple(made(result)), result)


def _frame(spark: SparkSession, items: Sequence[Any], sizes: Sequence[int]) -> DataFrame:
    """A row for each item, which names the task that it goes to."""
    at_once = slots(spark)
    count = min(len(items), _TASKS if at_once is None else at_once * _TASKS_PER_SLOT)
    numbers = range(len(items))
    columns = [_balanced(sizes, count), list(numbers), [pickle.dumps(item, protocol=5) for item in items]]
    table = pa.table([pa.array(c, f.type) for c, f in zip(columns, _ITEMS, strict=True)], schema=_ITEMS)
    return spark.createDataFrame(table).repartitionById(count, "task")


def _balanced(sizes: Sequence[int], count: int) -> list[int]:
    """The task of each item: the largest go first, each to the task that has least to do.

    >>> _balanced([1, 9, 5, 4], 2)
    [0, 0, 1, 1]
    """
    load = [(0, task) for task in range(count)]
    tasks = [0] * len(sizes)
    for number in sorted(range(len(sizes)), key=lambda n: -sizes[n]):
        busy, task = heapq.heappop(load)
        tasks[number] = task
        heapq.heappush(load, (busy + sizes[number], task))
    return tasks


def _task_of(work: Callable[[Any], Any]) -> Task:
    envelope = seal(work)

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import os

        from pyspark import TaskContext

        # Tasks share a machine: none takes more processors than Spark gives it. Polars reads this when it is imported.
        context = TaskContext.get()
        os.environ.setdefault("POLARS_MAX_THREADS", str(context.cpus() if context else 1))
        from lakebed.spark.each import perform

        return perform(envelope, batches)

    return run


def perform(envelope: Envelope, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """In the task: do the work for each item and yield its result. An error that would come again is a result too;
    any other is raised, and Spark tries again."""
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None
    pa.set_cpu_count(max(1, context.cpus()))
    work = unseal(envelope)
    for batch in batches:
        for row in batch.to_pylist():
            result = error = None
            try:
                result = pickle.dumps(work(pickle.loads(row["item"])), protocol=5)
            except LakebedError as refused:
                if not is_final(refused):
                    raise
                error = pickle.dumps(refused)
            values = [[row["number"]], [context.attemptNumber()], [result], [error]]
            arrays = [pa.array(v, f.type) for v, f in zip(values, _ARROW, strict=True)]
            yield pa.record_batch(arrays, schema=_ARROW)
