"""What a warehouse does with a cluster: the calls that table objects make, whatever the cluster is.

The engine knows only this protocol; ``lakebed.spark`` fills it in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from lakebed.core.errors import LakebedError

if TYPE_CHECKING:
    from lakebed.engine.changes.step import ChangeOrder, RawStep, Step
    from lakebed.engine.incoming import Mergeable
    from lakebed.engine.merge_parts import MergedPart, PartsJob
    from lakebed.engine.point import ReadPoint
    from lakebed.engine.scan import ScanOrder
    from lakebed.engine.workforce import NewFiles

Item = TypeVar("Item")
Result = TypeVar("Result")

Order = TypeVar("Order")

AUTO, NATIVE, ARROW = ENGINES = ("auto", "native", "arrow")
"""Who reads a frame: the cluster's own reader of Parquet files, or this engine in its tasks."""
METADATA_COLUMNS = ("_file", "_row_index", "_commit_version", "_bucket", "_partition")
"""What a frame can tell of each row besides its columns, on request."""


@dataclass(frozen=True)
class FrameOrder:
    """A frame that is asked for: the rows of one state of a table, and what to tell of them."""

    point: ReadPoint
    scan: ScanOrder
    """Columns and predicate; every row that comes out satisfies the predicate."""
    metadata_columns: tuple[str, ...] = ()
    """Some of METADATA_COLUMNS, which come after the columns."""
    engine: str = AUTO


class Distribution(Protocol):
    """A cluster that a warehouse was connected with."""

    @property
    def session(self) -> Any:
        """The session that the caller passed."""

    def frame(self, order: FrameOrder) -> Any:
        """The rows as a lazy frame of the cluster, fixed to the state of the order."""

    def each(
        self,
        work: Callable[[Item], Result],
        items: Sequence[Item],
        sizes: Sequence[int],
        made: Callable[[Result], Iterable[str]],
        files: NewFiles,
        measure: str,
    ) -> list[Result]:
        """The result of each item, in their order; ``measure`` is what they are called.

        Unless all succeed, no file that was made for one remains.
        """

    @property
    def tasks_at_once(self) -> int:
        """How many tasks run at once, about."""

    def merge(self, job: PartsJob, files: NewFiles) -> list[MergedPart]:
        """What became of each part of a merge. Unless all succeed, no file that was made for one remains."""

    def explain(self, order: FrameOrder) -> str:
        """How that frame is read, and why."""

    def changes(self, order: ChangeOrder, steps: Sequence[Step | RawStep]) -> Any:
        """The change rows as a lazy frame; those of one unit are in one partition, in the order of the steps."""

    def run(self, task: Callable[[Order], Result], orders: Sequence[Order], name: str) -> list[Result]:
        """What ``task``, a function of a module, makes of each order, in their order: one task of the cluster each.

        ``name`` is the table's. The task makes no file. Raises what it raises, or JobError.
        """

    def rows(self, frame: Any) -> Mergeable:
        """The rows of a frame, which the cluster writes."""


def is_frame(data: object) -> bool:
    """Whether the value is a Spark DataFrame, classic or of Spark Connect, told without importing Spark."""
    return any(
        kind.__name__ == "DataFrame" and kind.__module__ == "pyspark.sql.dataframe" for kind in type(data).__mro__
    )


def not_distributed(name: str) -> LakebedError:
    """Raised where a table needs a Spark session and has none."""
    return LakebedError(
        f"table {name}: the warehouse was opened without Spark", fix="lakebed.connect(…, spark=spark), then ask again"
    )
