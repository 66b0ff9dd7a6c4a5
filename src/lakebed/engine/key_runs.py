"""Merging any number of sorted runs of rows into one, in bounded memory."""

from __future__ import annotations

import os
import tempfile
import uuid
from bisect import bisect_left
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import accumulate, chain
from typing import Any

import pyarrow as pa
import pyarrow.types as pat

from lakebed.engine.key_order import sorted_rows
from lakebed.engine.scan import READ_THREADS
from lakebed.storage.failure import translated

FAN_IN = 64
"""Runs that are merged at a time, at most: each holds an open file and the pages that it is reading."""
_FEWEST = 8
# What an open file takes, a page of every column or all that is in it, is in no share: with little memory fewer are
# open at a time.
_PAGE = 1 << 20
_SPILL_ROWS = 8192

Key = tuple[Any, ...]
Combine = Callable[[Sequence[pa.Table]], pa.Table]
"""Makes one sorted table of several that are."""


class UnsortedError(Exception):
    """A run that should be sorted is not; rows that were merged with it may be out of order."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


class Run:
    """Sorted rows that come table by table; about ``share`` bytes of them wait in memory."""

    def __init__(
        self, name: str, tables: Iterator[pa.Table], key: Sequence[str], share: int, *, checked: bool = True
    ) -> None:
        """``checked``: whether to look if the rows are sorted."""
        self.name = name
        self._tables = tables
        self._key = key
        self._share = self._wanted = share
        self._checked = checked
        self._rows: pa.Table | None = None
        self._keys: list[pa.Array] = []
        self.exhausted = False

    def __len__(self) -> int:
        return 0 if self._rows is None else int(self._rows.num_rows)

    @property
    def last(self) -> Key:
        """The key of the last row that waits: all rows that are still to come have at least this key."""
        return self._key_at(len(self) - 1)

    def fill(self) -> None:
        """Take in rows until the share is used. Raises UnsortedError if they are not sorted."""
        waiting = self._waiting
        if self.exhausted or (len(self) and waiting * 2 >= self._wanted):
            return
        taken = [] if self._rows is None else [self._rows]
        rows = len(self)
        while not rows or waiting < self._wanted:
            table = next(self._tables, None)
            if table is None:
                self.exhausted = True
                break
            taken.append(table)
            rows += table.num_rows
            waiting += table.nbytes
        if taken:
            self._hold(pa.concat_tables(taken))
            if self._checked and sorted_rows(self._keys) is not None:
                raise UnsortedError(self.name)

    def grow(self) -> None:
        """Let the next ``fill`` go beyond the share: the rows that wait have one key, and more of it may come."""
        self._wanted = 4 * max(self._waiting, self._share)

    def cut(self, frontier: Key | None) -> pa.Table:
        """Take out the rows with keys below ``frontier``; None for all."""
        assert self._rows is not None
        at = len(self) if frontier is None else bisect_left(range(len(self)), frontier, key=self._key_at)
        head = self._rows.slice(0, at)
        self._rows = self._rows.slice(at)
        self._keys = [key.slice(at) for key in self._keys]
        if at:
            self._wanted = self._share
        return head

    def close(self) -> None:
        """Close the file that the rows come from."""
        close = getattr(self._tables, "close", None)
        if close is not None:
            close()

    @property
    def _waiting(self) -> int:
        return 0 if self._rows is None else int(self._rows.nbytes)

    def _hold(self, rows: pa.Table) -> None:
        self._rows = rows
        self._keys = key_columns(rows, self._key)

    def _key_at(self, row: int) -> Key:
        return tuple(column[row].as_py() for column in self._keys)


def key_columns(rows: pa.Table, names: Sequence[str]) -> list[pa.Array]:
    """Key columns in one piece each, with values that Python orders as Arrow does."""
    return [_whole(rows.column(name)) for name in names]


def _whole(column: pa.ChunkedArray) -> pa.Array:
    chunks = column.chunks
    if not chunks:
        whole = pa.array([], column.type)
    else:
        whole = chunks[0] if len(chunks) == 1 else pa.concat_arrays(chunks)
    # Python has no dates and times beyond the year 9999.
    if pat.is_timestamp(whole.type):
        return whole.view(pa.int64())
    return whole.view(pa.int32()) if pat.is_date32(whole.type) else whole


def merge(runs: Sequence[Run], combine: Combine) -> Generator[pa.Table, None, None]:
    """The rows of all runs in the order of their keys, in tables of about what waits in memory.

    All rows of a key are in one table, however many there are; ``combine`` gets them in the order of the runs.
    Raises UnsortedError as soon as a run turns out not to be sorted.
    """
    try:
        with ThreadPoolExecutor(max_workers=READ_THREADS, thread_name_prefix="lakebed-merge") as pool:
            live = list(runs)
            while live:
                list(pool.map(Run.fill, live))
                live = [run for run in live if len(run)]
                # From the smallest of the last keys on, a row that comes later may belong here.
                frontier = min((run.last for run in live if not run.exhausted), default=None)
                heads = [head for run in live if (head := run.cut(frontier)).num_rows]
                if heads:
                    yield heads[0] if len(heads) == 1 else combine(heads)
                else:
                    for run in live:
                        if run.last == frontier:
                            run.grow()
    finally:
        for run in runs:
            run.close()


def fan_in(sizes: Iterable[int], columns: int, memory: int) -> int:
    """How many files, of about these sizes in memory, are merged at a time if open ones may take so many bytes.

    >>> large, small = [1 << 30] * 100, [1 << 15] * 100
    >>> fan_in(large, 10, 512 << 20), fan_in(small, 10, 64 << 20), fan_in([*small, *large[:3]], 10, 32 << 20)
    (51, 64, 64)
    """
    largest = sorted((min(columns * _PAGE, size) for size in sizes), reverse=True)
    fitting = sum(taken <= memory for taken in accumulate(largest))
    return min(FAN_IN, max(_FEWEST, fitting))


def narrowed(
    runs: Sequence[Run], combine: Combine, folder: str, key: Sequence[str], share: int, most: int | None = None
) -> list[Run]:
    """The same rows in at most ``most`` runs (``FAN_IN`` if None); merged ones wait in files below ``folder``, which is
    a local directory.

    Only neighbours are merged, so that rows of one key stay in the order of their runs.
    """
    found = list(runs)
    most = most or FAN_IN
    while len(found) > most:
        groups = [found[at : at + most] for at in range(0, len(found), most)]
        found = [group[0] if len(group) == 1 else _merged(group, combine, folder, key, share) for group in groups]
    return found


def _merged(group: Sequence[Run], combine: Combine, folder: str, key: Sequence[str], share: int) -> Run:
    return Run("merged", spilled(merge(group, combine), folder, share), key, share, checked=False)


def resorted(tables: Iterable[pa.Table], key: Sequence[str], limit: int, folder: str) -> Iterator[Iterator[pa.Table]]:
    """Sorted runs of rows that are in no order; all but one wait in files below ``folder``."""
    waiting: list[pa.Table] = []
    size = 0
    for table in tables:
        if waiting and size + table.nbytes > limit:
            yield spilled([in_order(waiting, key)], folder, limit // FAN_IN)
            waiting, size = [], 0
        waiting.append(table)
        size += table.nbytes
    if waiting:
        yield iter([in_order(waiting, key)])


def in_order(tables: Sequence[pa.Table], key: Sequence[str]) -> pa.Table:
    """All rows, sorted by key."""
    rows = pa.concat_tables(tables)
    order = sorted_rows(key_columns(rows, key))
    return rows if order is None else rows.take(order)


def scratch() -> tempfile.TemporaryDirectory[str]:
    """A new local directory for what does not fit into memory. Raises StorageError."""
    with translated("write", "the local temporary directory"):
        place = tempfile.gettempdir()
    with translated("write", place):
        return tempfile.TemporaryDirectory(prefix="lakebed-", ignore_cleanup_errors=True)


def spilled(tables: Iterable[pa.Table], folder: str, share: int) -> Iterator[pa.Table]:
    """The same rows, by way of a file: all taken at once, and given back in tables of up to ``share`` bytes."""
    path = os.path.join(folder, f"{uuid.uuid4().hex}.arrow")
    rows = iter(tables)
    first = next(rows, None)
    if first is None:
        return iter(())
    with translated("write", path), pa.OSFile(path, "wb") as sink, pa.ipc.new_stream(sink, first.schema) as writer:
        for table in chain([first], rows):
            fitting = share * table.num_rows // max(1, table.nbytes)
            writer.write_table(table, max_chunksize=min(_SPILL_ROWS, max(1, fitting)))
    return _unspilled(path)


def _unspilled(path: str) -> Iterator[pa.Table]:
    with translated("read", path), pa.OSFile(path, "rb") as source, pa.ipc.open_stream(source) as reader:
        for batch in reader:
            yield pa.Table.from_batches([batch])
    os.unlink(path)
