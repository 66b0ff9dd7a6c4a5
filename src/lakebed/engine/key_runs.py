"""Merging any number of sorted runs of rows into one, in bounded memory."""

from __future__ import annotations

import os
import uuid
from bisect import bisect_right
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa
import pyarrow.types as pat

from lakebed.engine.key_order import sorted_rows
from lakebed.engine.scan import READ_THREADS
from lakebed.storage.failure import translated

FAN_IN = 64
"""Runs that are merged at a time: each holds an open file and the pages that it is reading."""
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
        self._share = share
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
        waiting = 0 if self._rows is None else int(self._rows.nbytes)
        if self.exhausted or (len(self) and waiting * 2 >= self._share):
            return
        taken = [] if self._rows is None else [self._rows]
        rows = len(self)
        while not rows or waiting < self._share:
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

    def cut(self, frontier: Key | None) -> pa.Table:
        """Take out the rows with keys up to ``frontier``; None for all."""
        assert self._rows is not None
        at = len(self) if frontier is None else bisect_right(range(len(self)), frontier, key=self._key_at)
        head = self._rows.slice(0, at)
        self._rows = self._rows.slice(at)
        self._keys = [key.slice(at) for key in self._keys]
        return head

    def close(self) -> None:
        """Close the file that the rows come from."""
        close = getattr(self._tables, "close", None)
        if close is not None:
            close()

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

    Raises UnsortedError as soon as a run turns out not to be sorted.
    """
    try:
        with ThreadPoolExecutor(max_workers=READ_THREADS, thread_name_prefix="lakebed-merge") as pool:
            live = list(runs)
            while live:
                list(pool.map(Run.fill, live))
                live = [run for run in live if len(run)]
                # Beyond the smallest of the last keys, a row that comes later may belong in between.
                frontier = min((run.last for run in live if not run.exhausted), default=None)
                heads = [head for run in live if (head := run.cut(frontier)).num_rows]
                if heads:
                    yield heads[0] if len(heads) == 1 else combine(heads)
    finally:
        for run in runs:
            run.close()


def narrowed(runs: Sequence[Run], combine: Combine, folder: str, key: Sequence[str], share: int) -> list[Run]:
    """The same rows in at most ``FAN_IN`` runs; merged ones wait in files below ``folder``, a local directory."""
    found = list(runs)
    while len(found) > FAN_IN:
        merged = merge(found[:FAN_IN], combine)
        found = [*found[FAN_IN:], Run("merged", spilled(merged, folder), key, share, checked=False)]
    return found


def resorted(tables: Iterable[pa.Table], key: Sequence[str], limit: int, folder: str) -> Iterator[Iterator[pa.Table]]:
    """Sorted runs of rows that are in no order; all but one wait in files below ``folder``."""
    waiting: list[pa.Table] = []
    size = 0
    for table in tables:
        if waiting and size + table.nbytes > limit:
            yield spilled([in_order(waiting, key)], folder)
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


def spilled(tables: Iterable[pa.Table], folder: str) -> Iterator[pa.Table]:
    """The same rows, by way of a file: they are all taken at once, and given back little by little."""
    path = os.path.join(folder, f"{uuid.uuid4().hex}.arrow")
    rows = iter(tables)
    first = next(rows, None)
    if first is None:
        return iter(())
    with translated("write", path), pa.OSFile(path, "wb") as sink, pa.ipc.new_stream(sink, first.schema) as writer:
        writer.write_table(first, max_chunksize=_SPILL_ROWS)
        for table in rows:
            writer.write_table(table, max_chunksize=_SPILL_ROWS)
    return _unspilled(path)


def _unspilled(path: str) -> Iterator[pa.Table]:
    with translated("read", path), pa.OSFile(path, "rb") as source, pa.ipc.open_stream(source) as reader:
        for batch in reader:
            yield pa.Table.from_batches([batch])
    os.unlink(path)
