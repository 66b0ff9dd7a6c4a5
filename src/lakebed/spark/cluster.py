"""A Spark session as the distribution of a warehouse."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, TypeVar

from lakebed.engine.changes.step import ChangeOrder, RawStep, Step
from lakebed.engine.distribution import FrameOrder
from lakebed.engine.incoming import Mergeable
from lakebed.engine.merge_parts import MergedPart, PartsJob
from lakebed.engine.workforce import NewFiles
from lakebed.spark import jobs
from lakebed.spark.change_scan import change_frame
from lakebed.spark.each import run_each
from lakebed.spark.frames import Frames
from lakebed.spark.job import slots
from lakebed.spark.merge_job import merge_parts
from lakebed.spark.write import SparkRows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_AT_ONCE = 8
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
        measure: str,
    ) -> list[Result]:
        """The result of each item, in their order, by one job."""
        return run_each(self._session, work, items, sizes, made, files, measure)

    @property
    def tasks_at_once(self) -> int:
        """As many as the session says; some, if it does not."""
        return slots(self._session) or _AT_ONCE

    def merge(self, job: PartsJob, files: NewFiles) -> list[MergedPart]:
        """Deal the rows of both sides to the parts, and merge each, in one job."""
        return merge_parts(self._session, job, files)

    def rows(self, frame: DataFrame) -> Mergeable:
        """The rows of a frame, which tasks write."""
        return SparkRows(frame)

    def frame(self, order: FrameOrder) -> DataFrame:
        """The rows of one state of a table."""
        return self._frames.rows(order)

    def changes(self, order: ChangeOrder, steps: Sequence[Step | RawStep]) -> DataFrame:
        """The change rows, which tasks find out when the frame is read."""
        return change_frame(self._session, order, steps)

    def explain(self, order: FrameOrder) -> str:
        """How those rows are read, and why."""
        return self._frames.frame(order)[1].text

    def run(self, task: Callable[[Order], Result], orders: Sequence[Order], name: str) -> list[Result]:
        """Run the task on each order, as one Spark job."""
        return jobs.run(self._session, task, orders, name)
