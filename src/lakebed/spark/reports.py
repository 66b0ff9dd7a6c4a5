"""How far the tasks of a job have come, told while they run.

Neither a Spark session nor a client of Spark Connect hears of a task before its job is done. What both sides reach are
the table's files: a task leaves small empty files below the table whose names are what it has done so far, and the
driver lists them. Nothing of this happens unless somebody looks at a bar.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

import pyarrow as pa

from lakebed.core.errors import StorageError
from lakebed.engine.progress import Counts, Show, is_shown, shown
from lakebed.engine.scan_lists import BESIDE
from lakebed.storage.store import Store

TASKS, FILES, ROWS = "tasks", "files", "rows"
_EVERY = 1.0
"""Seconds between two reports of a task, and between two looks of the driver."""

Task = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]
Counted = Callable[[pa.RecordBatch], Counts]
"""What rows that a task yields say of what it has done."""


@dataclass(frozen=True)
class Reports:
    """Where the tasks of one job report; small and serialisable."""

    store: Store
    folder: str
    labels: tuple[str, ...]
    """What is counted."""

    def put(self, task: str, number: int, counts: Counts) -> None:
        """Leave a report. What cannot be told is of no importance for the work."""
        numbers = "-".join(str(counts.get(label, 0)) for label in self.labels)
        with suppress(StorageError):
            self.store.put(f"{self.folder}/{task}.{number}.{numbers}", b"", sync=False)

    def read(self) -> dict[str, int]:
        """What all tasks have done so far; of several attempts of a task the one that has come furthest counts."""
        newest: dict[str, tuple[int, ...]] = {}
        for file in self.store.list(self.folder):
            task, _, rest = file.path.rpartition("/")[2].partition(".")
            numbers = tuple(int(text) for text in rest.partition(".")[2].split("-"))
            newest[task] = max(newest.get(task, ()), numbers)
        return {label: sum(one[at] for one in newest.values()) for at, label in enumerate(self.labels)}

    def remove(self) -> None:
        """Delete all reports; what a task leaves later goes with vacuum."""
        with suppress(StorageError):
            paths = [file.path for file in self.store.list(self.folder)]
            self.store.delete_many(paths)
            for path in paths[:1]:
                self.store.remove_empty_parents(path)


@contextmanager
def followed(title: str, store: Store, measure: str, total: int | None) -> Iterator[Reports | None]:
    """A bar over the tasks of a job while the block runs it; None if nobody looks, so that tasks need not report."""
    if not is_shown(store.options):
        yield None
        return
    labels = tuple(dict.fromkeys((measure, FILES, ROWS)))
    reports = Reports(store, f"{BESIDE}/progress/{uuid.uuid4().hex}", labels)
    over = threading.Event()
    with shown(title, store.options, measure, total) as show:
        watcher = threading.Thread(target=_watch, args=(reports, show, over), name="lakebed-progress", daemon=True)
        watcher.start()
        try:
            yield reports
        finally:
            over.set()
            watcher.join()
            reports.remove()


def _watch(reports: Reports, show: Show, over: threading.Event) -> None:
    known = dict.fromkeys(reports.labels, 0)
    ended = False
    while not ended:
        ended = over.wait(_EVERY)
        with suppress(StorageError):
            found = reports.read()
            show({label: found[label] - known[label] for label in known})
            known = found


def reporting(task: Task, reports: Reports | None, counted: Counted, *, takes_rows: bool) -> Task:
    """The task, which also reports; ``takes_rows``: the rows that it is given are rows of a table."""
    if reports is None:
        return task

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from lakebed.spark.reports import Teller

        teller = Teller(reports)
        for told in task(teller.passing(batches) if takes_rows else batches):
            yield told
            teller.add(counted(told))
        teller.close()

    return run


class Teller:
    """In a task: adds up what it has done, and reports it now and then."""

    def __init__(self, reports: Reports) -> None:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        self._task = str(context.partitionId())
        self._reports = reports
        self._counts = dict.fromkeys(reports.labels, 0)
        self._number = 0
        self._last = time.monotonic()

    def passing(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The batches, counted on their way."""
        for batch in batches:
            yield batch
            self.add({ROWS: batch.num_rows})

    def add(self, counts: Counts) -> None:
        """Something more is done."""
        for label, count in counts.items():
            self._counts[label] = self._counts.get(label, 0) + count
        if time.monotonic() - self._last >= _EVERY:
            self._tell()

    def close(self) -> None:
        """The task is done."""
        if TASKS in self._counts:
            self._counts[TASKS] += 1
        self._tell()

    def _tell(self) -> None:
        self._reports.put(self._task, self._number, self._counts)
        self._number += 1
        self._last = time.monotonic()
