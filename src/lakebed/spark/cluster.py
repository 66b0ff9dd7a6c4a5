"""A Spark session as the distribution of a warehouse."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, TypeVar

from lakebed.engine.changes.step import ChangeOrder, RawStep, Step
from lakebed.engine.distribution import FrameOrder
from lakebed.engine.incoming import Incoming
from lakebed.engine.workforce import NewFiles
from lakebed.spark import jobs
from lakebed.spark.change_scan import change_frame
from lakebed.spark.each import run_each
from lakebed.spark.frames import Frames
from lakebed.spark.write import SparkRows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Order = TypeVar("Order")


Item = TypeVar("Item")
Result = TypeVar("Result")


class SparkDistribution:
    """What tables ask of Spark."""

    def __init__(self, session: SparkSession) -> None:
        self._session = session
        self._frames = Frames(session)

    @property
    def session(self) -> SparkSession:
        """The session that the caller passed."""
        return self._session

    def each(
        self,
        work: Callable[[Item], Result],
        items: Sequence[Item],
        sizes: Sequence[int],
        made: Callable[[Result], Iterable[str]],
        files: NewFiles,
    ) -> list[Result]:
        """The result of each item, in their order, by one job."""
        return run_each(self._session, work, items, sizes, made, files)

    def rows(self, frame: DataFrame) -> Incoming:
        """The rows of a frame, which tasks write."""
        return SparkRows(frame)

    def frame(self, order: FrameOrder) -> DataFrame:
        """The rows of one state of a table."""
        return self._frames.frame(order)[0]

    def changes(self, order: ChangeOrder, steps: Sequence[Step | RawStep]) -> DataFrame:
        """The change rows, which tasks find out when the frame is read."""
        return change_frame(self._session, order, steps)

    def explain(self, order: FrameOrder) -> str:
        """How those rows are read, and why."""
        return self._frames.frame(order)[1].text

    def run(self, task: Callable[[Order], Result], orders: Sequence[Order], name: str) -> list[Result]:
        """Run the task on each order, as one Spark job."""
        return jobs.run(self._session, task, orders, name)
