"""Progress of long work: a bar on a terminal, nothing elsewhere."""

from __future__ import annotations

import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from lakebed.core.options import Options

if TYPE_CHECKING:
    from rich.progress import Progress

DELAY = 0.5
"""Work that is done after so many seconds shows nothing."""

Counts = Mapping[str, int]
"""What has been done, by what is counted: {"buckets": 1, "files": 3}."""
Show = Callable[[Counts], None]


def is_shown(options: Options) -> bool:
    """Whether anybody looks: errors go to a terminal, and the option ``progress`` is not off."""
    return options.progress and sys.stderr.isatty()


@contextmanager
def shown(title: str, options: Options, measure: str, total: int | None = None) -> Iterator[Show]:
    """While the block runs, a bar; the block tells what it has newly done, from any thread.

    ``measure`` is the count that the bar is about, up to ``total`` if that is known.

    >>> with shown("table shop.orders", Options(), "buckets", 2) as show:
    ...     show({"buckets": 1, "files": 3})
    """
    if not is_shown(options):
        yield _silent
        return
    bar = _Bar(title, measure, total)
    try:
        yield bar.show
    finally:
        bar.close()


class _Bar:
    def __init__(self, title: str, measure: str, total: int | None) -> None:
        self._title = title
        self._measure = measure
        self._total = total
        self._began = time.monotonic()
        self._done: Counter[str] = Counter({measure: 0})
        self._lock = threading.Lock()
        self._progress: Progress | None = None

    def show(self, newly: Counts) -> None:
        with self._lock:
            self._done.update(newly)
            if self._progress is None:
                if time.monotonic() - self._began < DELAY:
                    return
                self._progress = _started()
                self._progress.add_task(self._title, total=self._total, counts="")
            task = self._progress.task_ids[0]
            self._progress.update(task, completed=self._done[self._measure], counts=self._text)

    @property
    def _text(self) -> str:
        counts = [f"{count:,} {what}" for what, count in self._done.items() if what != self._measure and count]
        of = "" if self._total is None else f"/{self._total:,}"
        return ", ".join([f"{self._done[self._measure]:,}{of} {self._measure}", *counts])

    def close(self) -> None:
        with self._lock:
            if self._progress is not None:
                self._progress.stop()


def _started() -> Progress:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[counts]}"), TimeElapsedColumn())
    progress = Progress(*columns, console=Console(file=sys.stderr, force_terminal=True), transient=True)
    progress.start()
    return progress


def _silent(_: Counts) -> None:
    """Nobody looks."""
