"""The key columns of whole files, kept in the process: files never change, and writers ask for them again and again.

Files that are asked for together are read together, in one scan, and are kept and forgotten together. What polars does
not read as Arrow would is not for this module: ``key_file`` reads it.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate, pairwise

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from lakebed.core.actions import AddFile
from lakebed.core.keyed import KeySpec
from lakebed.core.schema import LONG, Field, Struct
from lakebed.core.schema_arrow import to_arrow
from lakebed.delta.foreign import place
from lakebed.engine.resolving.kernel import ascending, plain
from lakebed.engine.resolving.numbers import KeyNumbers
from lakebed.engine.resolving.order import ResolveOrder
from lakebed.engine.scan import ScanOrder

_VALUE_BYTES = 8
_TEXT_BYTES = 48


@dataclass(frozen=True)
class WholeKeys:
    """The plain key columns of all rows of one file, in the order of their positions."""

    rows: pl.DataFrame
    ascending: bool
    """Whether each key is greater than the one before it."""

    @cached_property
    def numbers(self) -> KeyNumbers:
        """The one column of 64-bit numbers."""
        return KeyNumbers(self.rows.to_series(), ascending=self.ascending)


@dataclass(frozen=True)
class _Batch:
    """Files that were read together."""

    files: dict[Hashable, WholeKeys]
    num_bytes: int


class KeyCache:
    """The key columns that were used last, up to a number of bytes. Threads share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._batches: OrderedDict[int, _Batch] = OrderedDict()
        self._where: dict[Hashable, int] = {}
        self._size = 0
        self._count = 0

    @property
    def num_bytes(self) -> int:
        """What the kept columns take."""
        return self._size

    def find(self, name: Hashable, *, whole: bool = True) -> WholeKeys | None:
        """The columns of a file, if they are kept; each in one piece if they are wanted ``whole``."""
        with self._lock:
            number = self._where.get(name)
            if number is None:
                return None
            self._batches.move_to_end(number)
            files = self._batches[number].files
            if whole and files[name].rows.n_chunks() > 1:
                # Who asks again will do so often, and one piece is looked up and searched faster.
                files[name] = replace(files[name], rows=files[name].rows.rechunk())
            return files[name]

    def keep(self, files: dict[Hashable, WholeKeys], num_bytes: int, limit: int) -> None:
        """Keep columns that were read together; what was not used for longest goes."""
        if num_bytes > limit:
            return
        with self._lock:
            self._count += 1
            self._batches[self._count] = _Batch(files, num_bytes)
            self._where |= dict.fromkeys(files, self._count)
            self._size += num_bytes
            while self._size > limit:
                self._forget_oldest()

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            while self._batches:
                self._forget_oldest()

    def _forget_oldest(self) -> None:
        number, oldest = self._batches.popitem(last=False)
        self._size -= oldest.num_bytes
        for name in oldest.files:
            # Two threads may have read the same file; the other one's copy stays.
            if self._where.get(name) == number:
                del self._where[name]


_shared = KeyCache()


def kept_keys(order: ResolveOrder, add: AddFile) -> WholeKeys | None:
    """The key columns of a file, if the process has them."""
    return _shared.find(_name(order, add))


@dataclass(frozen=True)
class KnownKeys:
    """The key column of a table's files as far as the process has it, for readers of all columns."""

    field: Field

    @classmethod
    def of(cls, order: ScanOrder) -> KnownKeys | None:
        """None if the key is not one number of 64 bits that is wanted, and more with it: no other is kept as it is."""
        key = KeySpec.of(order.metadata)
        if key is None or len(key.key) > 1 or len(order.stored) < 2:
            return None
        field = order.stored.find(key.key[0])
        return cls(field) if field is not None and field.type == LONG else None

    def find(self, order: ScanOrder, add: AddFile) -> pl.Series | None:
        """The keys of all rows of a file, in their order."""
        columns = ((self.field.physical_name, str(self.field.type)),)
        kept = _shared.find((order.metadata.id, order.store.location, add.path, columns), whole=False)
        return None if kept is None else kept.rows.to_series().alias(self.field.name)


def num_bytes(order: ResolveOrder, files: Sequence[AddFile]) -> int:
    """About what the key columns of these files take in memory."""
    kinds = to_arrow(order.layout.key).types
    width = sum(_VALUE_BYTES if kind.num_buffers == 2 else _TEXT_BYTES for kind in kinds)
    return width * sum(add.num_records or 0 for add in files)


def read_bytes(order: ResolveOrder, files: Sequence[AddFile]) -> int:
    """About what is read to match the keys of these files: other columns stay where they are."""
    return min(num_bytes(order, files), sum(add.size for add in files))


def whole_keys(order: ResolveOrder, files: Sequence[AddFile]) -> list[WholeKeys] | None:
    """The key columns of these files, from the process's memory or read now; None if polars cannot read them all.

    The caller sees to it that they fit into memory.
    """
    found = {add.path: kept_keys(order, add) for add in files}
    missing = [add for add in files if found[add.path] is None]
    if missing:
        read = _read(order, missing)
        if read is None:
            return None
        found |= read
    return [keys for add in files if (keys := found[add.path]) is not None]


def keep_written(order: ResolveOrder, path: str, rows: pl.DataFrame) -> None:
    """Keep the keys of a file that this process has just written, if they are numbers: they are matched next.

    ``path`` is that of the file's action; ``rows`` has the key columns under their physical names.
    """
    stored, wanted = order.layout.stored(sequence=False, kind=False), rows.schema
    keys = rows.select(plain(pl.col(f.physical_name), wanted[f.physical_name]).alias(f.name) for f in stored)
    if any(kind != pl.Int64 for kind in keys.schema.values()):
        return
    kept = {_named(order, path): WholeKeys(keys, ascending(keys, order.layout.keys))}
    _shared.keep(kept, int(keys.estimated_size()), order.options.key_cache_size)


def _read(order: ResolveOrder, files: Sequence[AddFile]) -> dict[str, WholeKeys] | None:
    stored = order.layout.stored(sequence=False, kind=False)
    rows = _scan(order, files, stored)
    if rows is None:
        return None
    by = order.layout.keys
    starts = accumulate((add.num_records or 0 for add in files), initial=0)
    parts = [rows.slice(start, stop - start) for start, stop in pairwise(starts)]
    read = {add.path: WholeKeys(part, ascending(part, by)) for add, part in zip(files, parts, strict=True)}
    names = {_name(order, add): read[add.path] for add in files}
    _shared.keep(names, int(rows.estimated_size()), order.options.key_cache_size)
    return read


def _scan(order: ResolveOrder, files: Sequence[AddFile], stored: Struct) -> pl.DataFrame | None:
    """The keys of all files, one after the other; None if polars cannot, or would not read what Arrow does."""
    places = [place(order.store, add) for add in files]
    if any(add.num_records is None for add in files) or not all(at.store.location.is_local for at in places):
        return None
    wanted = _types(stored)
    paths = [at.store.path(at.path) for at in places]
    try:
        if [f.type for f in stored] == [LONG]:
            rows = _numbers(paths, stored.fields[0])
        else:
            scan = pl.scan_parquet(paths, glob=False, hive_partitioning=False)
            rows = scan.select(pl.col(f.physical_name).alias(f.name) for f in stored).collect()
    except (pl.exceptions.PolarsError, pa.ArrowException, KeyError, OSError):
        # Columns of an older type, or not there, or a damaged file: Arrow adapts the one, and tells the other.
        return None
    if rows.schema != wanted or rows.height != sum(add.num_records or 0 for add in files):
        return None
    # In the pieces in which they were read: to put them together would take as long as to read them.
    return rows.select(plain(pl.col(name), kind).alias(name) for name, kind in wanted.items())


def _numbers(paths: Sequence[str], column: Field) -> pl.DataFrame:
    """One column of whole numbers: where its differences are stored, Arrow takes a third of polars' time.

    If it is of another type in a file, the frame is so, too. Raises OSError, ArrowException, KeyError.
    """

    def read(path: str) -> pa.ChunkedArray:
        with pq.ParquetFile(path) as file:
            return file.read([column.physical_name], use_threads=False).column(column.physical_name)

    with ThreadPoolExecutor(min(len(paths), os.cpu_count() or 1), "lakebed-keys") as pool:
        parts = list(pool.map(read, paths))
    pieces = [piece for part in parts for piece in part.chunks]
    series = pl.Series(column.name, pa.chunked_array(pieces, parts[0].type))
    return series.to_frame()


def _types(stored: Struct) -> pl.Schema:
    empty = pl.from_arrow(to_arrow(stored).empty_table())
    assert isinstance(empty, pl.DataFrame)
    return empty.schema


def _name(order: ResolveOrder, add: AddFile) -> Hashable:
    """What tells the key columns of a file from any others: a path is never used twice."""
    return _named(order, add.path)


def _named(order: ResolveOrder, path: str) -> Hashable:
    columns = tuple((f.physical_name, str(f.type)) for f in order.layout.key)
    return order.metadata.id, order.store.location, path, columns


def _after_fork() -> None:
    """A lock may have been held by a thread that the child does not have."""
    global _shared  # noqa: PLW0603 - it is the process's own
    _shared = KeyCache()


os.register_at_fork(after_in_child=_after_fork)
