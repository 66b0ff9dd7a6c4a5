"""Work that falls into parts: this process does it with threads, or a cluster with tasks where it is much."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from lakebed.core.actions import Metadata
from lakebed.engine.draft import Draft
from lakebed.engine.progress import shown
from lakebed.storage.store import Store

Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(frozen=True)
class NewFiles:
    """Where the files of one job are, so that those of attempts that do not count can be found."""

    store: Store
    metadata: Metadata = field(hash=False)
    table_name: str
    prefix: str
    """What their names begin with."""


def new_prefix() -> str:
    """A beginning for the names of the files of one job, which no other job has."""
    return f"{uuid.uuid4().hex[:16]}-"


@dataclass(frozen=True)
class Workload(Generic[Item, Result]):
    """The same work for every item. Items, work and results are serialisable."""

    work: Callable[[str], Callable[[Item], Result]] = field(hash=False)
    """Made for a prefix of the names of new files; empty in this process."""
    size: Callable[[Item], int] = field(hash=False)
    """The bytes that an item makes somebody read."""
    made: Callable[[Result], Iterable[str]] = field(hash=False)
    """The paths of the files that were made for a result."""
    threads: int = 4
    measure: str = "files"
    """What an item is, for people."""

    def run(self, draft: Draft, items: Sequence[Item]) -> list[Result]:
        """The result of each item, in their order."""
        cluster = draft.handle.distribution
        sizes = [self.size(item) for item in items]
        if cluster is None or not items or sum(sizes) < draft.handle.options.distribute_from:
            return self._here(draft, items)
        files = NewFiles(draft.handle.store, draft.metadata, draft.handle.name, new_prefix())
        return cluster.each(self.work(files.prefix), items, sizes, self.made, files, self.measure)

    def _here(self, draft: Draft, items: Sequence[Item]) -> list[Result]:
        handle = draft.handle
        with (
            shown(f"table {handle.name}", handle.options, self.measure, len(items)) as show,
            ThreadPoolExecutor(max_workers=self.threads, thread_name_prefix="lakebed-work") as pool,
        ):
            work = self.work("")
            asked = [pool.submit(work, item) for item in items]
            try:
                results: list[Result] = []
                for one in asked:
                    results.append(one.result())
                    show({self.measure: 1})
                return results
            except BaseException:
                self._undo(draft, asked)
                raise

    def _undo(self, draft: Draft, asked: Sequence[Future[Result]]) -> None:
        """Remove the files of what was done before, or beside, an item that failed."""
        wait([one for one in asked if not one.cancel()])
        done = [one.result() for one in asked if not one.cancelled() and one.exception() is None]
        draft.delete_files([path for result in done for path in self.made(result)])
