"""Work orders as tasks of one Spark job: each task gets an order as bytes, and gives back what it has made of it."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa

from lakebed.core.errors import LakebedError
from lakebed.spark.envelope import seal, unseal
from lakebed.spark.job import collected, is_final

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Order = TypeVar("Order")
Result = TypeVar("Result")

NUMBER = "number"
ENVELOPE = "envelope"
_RESULT = "result"


def run(session: SparkSession, task: Callable[[Order], Result], orders: Sequence[Order], name: str) -> list[Result]:
    """What ``task``, a function of a module, makes of each order, in their order; one Spark task for each.

    An error of Lakebed that another try would not cure is raised as it is; any other failure of a task, after Spark's
    own retries, as a JobError that has the table's ``name``.
    """
    if not orders:
        return []
    frame = orders_frame(session, orders).mapInArrow(_worker(task), f"{NUMBER} BIGINT, {_RESULT} BINARY")
    done = collected(frame, name)
    results: dict[int, Any] = dict(zip(done[NUMBER].to_pylist(), done[_RESULT].to_pylist(), strict=True))
    outcomes = [pickle.loads(results[number]) for number in range(len(orders))]
    for outcome in outcomes:
        if isinstance(outcome, LakebedError):
            raise outcome
    return outcomes


def orders_frame(session: SparkSession, orders: Sequence[object]) -> DataFrame:
    """The sealed orders as a frame in which each is a partition of its own."""
    rows = pa.table(
        [
            pa.array(range(len(orders)), pa.int64()),
            pa.array([pickle.dumps(seal(order)) for order in orders], pa.binary()),
        ],
        names=[NUMBER, ENVELOPE],
    )
    # Round robin from one partition gives every other exactly one row.
    return session.createDataFrame(rows).coalesce(1).repartition(len(orders))


def orders_in(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, Any]]:
    """The numbered orders that a task was given."""
    for batch in batches:
        for number, envelope in zip(batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True):
            yield number, unseal(pickle.loads(envelope))


def _worker(task: Callable[[Any], Any]) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for number, order in orders_in(batches):
            result = pickle.dumps(_outcome(task, order), protocol=5)
            yield pa.record_batch([pa.array([number], pa.int64()), pa.array([result], pa.binary())], [NUMBER, _RESULT])

    return work


def _outcome(task: Callable[[Order], Result], order: Order) -> Result | LakebedError:
    """What the task makes of an order, or why it never will; what may go away raises, so that Spark tries again."""
    try:
        return task(order)
    except LakebedError as error:
        if not is_final(error):
            raise
        return error
