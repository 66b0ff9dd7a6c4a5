"""Work orders as tasks of one Spark job: each task gets an order as bytes, and gives back what it has made of it."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa

from lakebed.core.errors import AccessError, LakebedError, NoSpaceError, StorageError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Order = TypeVar("Order")
Result = TypeVar("Result")

FORMAT = 1
"""Of packed orders; the driver and its executors must agree on it."""
NUMBER = "number"
ORDER = "work_order"
_RESULT = "result"
_WORTH_ANOTHER_TRY = (StorageError, AccessError, NoSpaceError)


def run(session: SparkSession, task: Callable[[Order], Result], orders: Sequence[Order]) -> list[Result]:
    """What ``task``, a function of a module, makes of each order, in their order; one Spark task for each.

    An error of Lakebed that another try would not cure is raised as it is; any other failure of a task, after Spark's
    own retries, as a LakebedError.
    """
    if not orders:
        return []
    frame = orders_frame(session, orders).mapInArrow(_worker(task), f"{NUMBER} BIGINT, {_RESULT} BINARY")
    done = _collected(frame)
    results: dict[int, Any] = dict(zip(done[NUMBER].to_pylist(), done[_RESULT].to_pylist(), strict=True))
    outcomes = [unpack(results[number]) for number in range(len(orders))]
    for outcome in outcomes:
        if isinstance(outcome, LakebedError):
            raise outcome
    return outcomes


def orders_frame(session: SparkSession, orders: Sequence[object]) -> DataFrame:
    """The packed orders as a frame in which each is a partition of its own."""
    rows = pa.table(
        [pa.array(range(len(orders)), pa.int64()), pa.array([pack(order) for order in orders], pa.binary())],
        names=[NUMBER, ORDER],
    )
    # Round robin from one partition gives every other exactly one row.
    return session.createDataFrame(rows).coalesce(1).repartition(len(orders))


def pack(content: object) -> bytes:
    """The bytes of a work order or of a result."""
    return bytes([FORMAT]) + pickle.dumps(content, protocol=pickle.HIGHEST_PROTOCOL)


def unpack(data: bytes) -> Any:
    """What was packed. Raises LakebedError for the bytes of another Lakebed."""
    if data[0] != FORMAT:
        raise LakebedError(
            "a work order of another version of Lakebed",
            expected=f"format {FORMAT}",
            found=str(data[0]),
            fix="install the same version on the driver and on all executors",
        )
    return pickle.loads(data[1:])


def orders_in(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, Any]]:
    """The numbered orders that a task was given."""
    for batch in batches:
        for number, order in zip(batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True):
            yield number, unpack(order)


def _worker(task: Callable[[Any], Any]) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for number, order in orders_in(batches):
            result = pack(outcome(task, order))
            yield pa.record_batch([pa.array([number], pa.int64()), pa.array([result], pa.binary())], [NUMBER, _RESULT])

    return work


def outcome(task: Callable[[Order], Result], order: Order) -> Result | LakebedError:
    """What the task makes of an order, or why it never will; what may go away raises, so that Spark tries again."""
    try:
        return task(order)
    except LakebedError as error:
        if type(error) in _WORTH_ANOTHER_TRY:
            raise
        return error


def _collected(frame: DataFrame) -> pa.Table:
    from pyspark.errors import PySparkException

    try:
        return frame.toArrow()
    except PySparkException as error:
        raise failed(error) from error


def failed(error: Exception) -> LakebedError:
    """The error of a job that Spark gave up; of a Python traceback the last line says what happened."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    told = next((line for line in reversed(lines) if line.startswith("lakebed.")), lines[0] if lines else "")
    return LakebedError("a Spark job of Lakebed failed", found=told or type(error).__name__)
