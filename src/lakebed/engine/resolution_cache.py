"""Resolutions that this process has made: the keys of a version are matched once, however many readers ask."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar, cast

from lakebed.core.options import MIB
from lakebed.core.predicate import render
from lakebed.engine.combining.places import Places
from lakebed.engine.distribution import Distribution
from lakebed.engine.resolve import BucketFiles, Resolution, ResolveOrder
from lakebed.engine.resolving.key_columns import read_bytes
from lakebed.storage.deletion_vector import size_in_memory

DEFAULT_BYTES = 256 * MIB

Made = TypeVar("Made", bound=Resolution | Places)


class ResolutionCache:
    """The resolutions that were used last, up to ``limit`` bytes. Threads share it.

    Two threads that ask for the same one at once get one computation; if it fails both see why, and nothing is kept.
    """

    def __init__(self, limit: int = DEFAULT_BYTES) -> None:
        self._limit = limit
        self._lock = threading.Lock()
        self._size = 0
        self._made: OrderedDict[Hashable, Resolution | Places] = OrderedDict()
        self._coming: dict[Hashable, Future[Resolution | Places]] = {}

    @property
    def num_bytes(self) -> int:
        """About what the kept resolutions take."""
        return self._size

    def get(self, key: Hashable, make: Callable[[], Made]) -> Made:
        """The resolution of that key: the one kept, or the one that ``make`` gives."""
        with self._lock:
            if key in self._made:
                self._made.move_to_end(key)
                return cast(Made, self._made[key])
            coming = self._coming.get(key)
            if coming is None:
                mine = self._coming[key] = Future()
        if coming is not None:
            return cast(Made, coming.result())
        try:
            made = make()
        except BaseException as error:
            with self._lock:
                del self._coming[key]
            mine.set_exception(error)
            raise
        self._keep(key, made)
        mine.set_result(made)
        return made

    def has(self, key: Hashable) -> bool:
        """Whether the resolution of that key is kept."""
        with self._lock:
            return key in self._made

    def clear(self) -> None:
        """Forget everything that is kept."""
        with self._lock:
            self._made.clear()
            self._size = 0

    def _keep(self, key: Hashable, made: Resolution | Places) -> None:
        with self._lock:
            del self._coming[key]
            self._made[key] = made
            self._size += size_of(made)
            while self._size > self._limit:
                _, oldest = self._made.popitem(last=False)
                self._size -= size_of(oldest)


def size_of(made: Resolution | Places) -> int:
    """About the bytes of a resolution in memory.

    >>> from pyroaring import BitMap64
    >>> size_of(Resolution({"a.parquet": BitMap64(range(100_000))})) < 20_000
    True
    """
    found = [made.dead, made.replaced_tombstones]
    if isinstance(made, Places):
        found += [made.states, made.changes]
    bitmaps = [item for positions in found for item in positions.items()]
    return 256 + sum(256 + len(path) + size_in_memory(positions) for path, positions in bitmaps)


def cache_key(order: ResolveOrder, files: BucketFiles) -> Hashable:
    """What tells a resolution from any other: the table, the files with their vectors, and what was asked."""
    columns = tuple(f.physical_name for f in (*order.layout.key, *order.layout.sequence))
    return (
        order.metadata.id,
        columns,
        order.key.key,  # ``where`` calls columns by their present names
        order.key.engine,
        frozenset(add.key for add in files.settled),
        tuple(add.path for add in files.unsettled),
        None if order.where is None else render(order.where),
    )


_shared = ResolutionCache()


RESOLVE_THREADS = 4


@dataclass(frozen=True)
class _Work:
    """One bucket's share of a job."""

    make: Callable[[ResolveOrder, BucketFiles], Resolution | Places]
    order: ResolveOrder
    files: BucketFiles


def _do(work: _Work) -> Resolution | Places:
    return work.make(work.order, work.files)


def make_once(
    make: Callable[[ResolveOrder, BucketFiles], Made],
    order: ResolveOrder,
    buckets: Sequence[BucketFiles],
    distribution: Distribution | None,
) -> list[Made]:
    """What ``make``, which is ``resolve`` or ``find_places``, gives for each bucket. Nobody may change it.

    What was asked before comes from the process's cache. The rest is one job of the distribution if that is large,
    and is made by threads of this process otherwise.
    """
    keys = [cache_key(order, files) for files in buckets]
    missing = {key: files for key, files in zip(keys, buckets, strict=True) if not _shared.has(key)}
    done: dict[Hashable, Made] = {}
    if missing and distribution is not None and _bytes(order, missing.values()) >= order.options.distribute_from:
        made = distribution.run(_do, [_Work(make, order, files) for files in missing.values()], order.table_name)
        done = dict(zip(missing, cast(list[Made], made), strict=True))

    def one(key: Hashable, files: BucketFiles) -> Made:
        return _shared.get(key, lambda: done[key] if key in done else make(order, files))

    with ThreadPoolExecutor(max_workers=RESOLVE_THREADS, thread_name_prefix="lakebed-resolve") as pool:
        return list(pool.map(one, keys, buckets))


def _bytes(order: ResolveOrder, buckets: Iterable[BucketFiles]) -> int:
    return sum(read_bytes(order, (*files.settled, *files.unsettled)) for files in buckets)


def _after_fork() -> None:
    """A lock may have been held, and a computation under way, by a thread that the child does not have."""
    global _shared  # noqa: PLW0603 - it is the process's own
    _shared = ResolutionCache()


os.register_at_fork(after_in_child=_after_fork)
