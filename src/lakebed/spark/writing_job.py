"""A job whose tasks write files: unless it succeeds as a whole, none of them remains."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, TypeVar

import pyarrow as pa

from lakebed.core.errors import DataError, LakebedError
from lakebed.engine.workforce import NewFiles
from lakebed.spark.abandoned import remove_all, remove_but
from lakebed.spark.job import collected, setting
from lakebed.spark.reports import TASKS, Counted, followed, reporting

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Task = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]


class Attempted(Protocol):
    """What a task reports."""

    @property
    def attempt(self) -> int:
        """The number of the attempt that succeeded."""

    @property
    def error(self) -> LakebedError | None:
        """Why nobody can do this work; the task has removed its files."""

    @property
    def paths(self) -> Sequence[str]:
        """The files that it made."""


Done = TypeVar("Done", bound=Attempted)


def _nothing(_: pa.RecordBatch) -> dict[str, int]:
    return {}


@dataclass(frozen=True)
class WritingJob:
    """One job and the files that it makes."""

    files: NewFiles
    measure: str = TASKS
    """What its bar counts."""
    total: int | None = None
    counted: Counted = field(default=_nothing, hash=False)
    """What rows that a task yields say of what it has done."""

    def run(self, frame: DataFrame, task: Task, rows: str, parse: Callable[[pa.Table], list[Done]]) -> list[Done]:
        """What the tasks report, of the attempts that count. Raises JobError, or what a task says of its input."""
        name = self.files.table_name
        try:
            with followed(f"table {name}", self.files.store, self.measure, self.total) as reports:
                told = reporting(task, reports, self.counted, takes_rows=self.measure == TASKS)
                done = parse(collected(frame.mapInArrow(told, rows), name))
            refuse([one.error for one in done if one.error is not None])
        except BaseException:
            remove_all(self.files)
            raise
        speculates = setting(frame.sparkSession, "spark.speculation", "false") == "true"
        if speculates or any(one.attempt for one in done):
            remove_but(self.files, {path for one in done for path in one.paths})
        return done


def refuse(errors: Sequence[LakebedError]) -> None:
    """Raise what tasks say of their input, together where it is about rows."""
    if not errors:
        return
    first = errors[0]
    if not isinstance(first, DataError):
        raise first
    problems = [problem for error in errors if isinstance(error, DataError) for problem in error.problems]
    raise DataError(f"{first.title} (each task counts its own rows)", tuple(dict.fromkeys(problems)), fix=first.fix)
