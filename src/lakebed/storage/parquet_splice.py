"""One Parquet file of the columns of several that have the same rows: different encoders write one file.

Pages stay as they are, in the order that every writer gives them: row group by row group, column by column. Spark
looks for a row group where its first column is, so that no column may stand apart from the others.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, TypeVar

import pyarrow as pa

from lakebed.storage import thrift
from lakebed.storage.durable import staged_file
from lakebed.storage.thrift import Fields

MAGIC = b"PAR1"
_TAIL = 8
"""The length of the footer, and the magic."""
_AT_ONCE = 1 << 18
"""Bytes that are copied at a time, so that they are still in the processor's cache when they are written."""

# Numbers of fields in parquet.thrift.
_SCHEMA, _GROUPS, _ORDERS = 2, 4, 7
_NAME, _CHILDREN = 4, 5
_CHUNKS, _GROUP_BYTES, _GROUP_ROWS, _GROUP_OFFSET, _GROUP_COMPRESSED = 1, 2, 3, 5, 6
_CHUNK_OFFSET, _CHUNK_META = 2, 3
_OFFSET_INDEX, _COLUMN_INDEX = (4, 5), (6, 7)
_PATH, _UNCOMPRESSED, _COMPRESSED = 3, 6, 7
_DATA_PAGE, _INDEX_PAGE, _DICTIONARY_PAGE = 9, 10, 11
_BLOOM_FILTER = 14
_PAGE_LOCATIONS, _PAGE_OFFSET = 1, 1

Owner = TypeVar("Owner")


def group_rows(target: str | io.BytesIO) -> list[int]:
    """How many rows the row groups of a file have."""
    with _opened(target) as file:
        return [group[_GROUP_ROWS] for group in _footer(file)[_GROUPS].values]


def column_bytes(target: str | io.BytesIO) -> dict[str, tuple[int, int]]:
    """How many bytes the pages of each column at the top level have, uncompressed and as they are stored."""
    with _opened(target) as file:
        groups = _footer(file)[_GROUPS].values
    found: dict[str, tuple[int, int]] = {}
    for meta in (chunk[_CHUNK_META] for group in groups for chunk in group[_CHUNKS].values):
        name = meta[_PATH].values[0].decode()
        raw, stored = found.get(name, (0, 0))
        found[name] = raw + meta[_UNCOMPRESSED], stored + meta[_COMPRESSED]
    return found


def splice(target: str | io.BytesIO, more: Iterable[pa.Buffer], names: Sequence[str]) -> None:
    """Put the columns of ``more``, files with row groups of the same lengths, into the file ``target``.

    ``names`` are those of all columns, in the order that the file gets. Raises ValueError if the files do not have the
    same rows, or together not these columns; and OSError. The file is of no use then.
    """
    with _opened(target) as mine:
        parts = [_Part.read(mine), *(_Part.read(pa.BufferReader(buffer)) for buffer in more)]
        joined = _Joined(parts, names)
        if isinstance(target, str):
            with staged_file(target, sync=False) as whole, open(whole, "wb") as file:
                joined.write(file)
            return
        content = io.BytesIO()
        joined.write(content)
        target.seek(0)
        target.truncate()
        target.write(content.getbuffer())


@contextmanager
def _opened(target: str | io.BytesIO) -> Iterator[IO[bytes]]:
    if isinstance(target, str):
        with open(target, "rb") as file:
            yield file
    else:
        yield target


def _footer(file: IO[bytes]) -> Fields:
    end = file.seek(0, io.SEEK_END)
    file.seek(max(0, end - _TAIL))
    tail = file.read(_TAIL)
    if len(tail) < _TAIL or tail[4:] != MAGIC:
        raise ValueError("not a Parquet file")
    length = struct.unpack("<I", tail[:4])[0]
    file.seek(end - _TAIL - length)
    return thrift.decode(file.read(length))


@dataclass(frozen=True)
class _Part:
    """One of the files: its footer, and the elements of its schema by column."""

    file: IO[bytes]
    footer: Fields
    columns: dict[str, list[Fields]]

    @staticmethod
    def read(file: IO[bytes]) -> _Part:
        footer = _footer(file)
        return _Part(file, footer, _top_level(footer[_SCHEMA].values))

    @property
    def groups(self) -> list[Fields]:
        groups: list[Fields] = self.footer[_GROUPS].values
        return groups


@dataclass(frozen=True)
class _Joined:
    """The file of all columns; its footer is made of the first part's."""

    parts: Sequence[_Part]
    names: Sequence[str]

    def write(self, out: IO[bytes]) -> None:
        if sorted(name for part in self.parts for name in part.columns) != sorted(self.names):
            raise ValueError(f"the columns are {[*map(sorted, (p.columns for p in self.parts))]}, not {self.names}")
        out.write(MAGIC)
        self._join_orders()
        moved: list[tuple[_Part, Fields, int]] = []
        for groups in zip(*(part.groups for part in self.parts), strict=True):
            moved += self._write_group(out, groups)
        for part, chunk, shift in moved:
            _move_index(out, chunk, part.file, _COLUMN_INDEX)
            _move_index(out, chunk, part.file, _OFFSET_INDEX, shift)
        self._join_schemas()
        footer = thrift.encode(self.parts[0].footer)
        out.write(footer + struct.pack("<I", len(footer)) + MAGIC)

    def _join_orders(self) -> None:
        """How values are compared, column by column; where that is not known of all, bounds mean nothing."""
        footer = self.parts[0].footer
        if not all(part.groups and _ORDERS in part.footer for part in self.parts):
            footer.by_id.pop(_ORDERS, None)
            return
        orders = [
            pair
            for part in self.parts
            for pair in zip(part.footer[_ORDERS].values, part.groups[0][_CHUNKS].values, strict=True)
        ]
        footer[_ORDERS].values = [order for order, _ in self._in_order(orders)]

    def _write_group(self, out: IO[bytes], groups: Sequence[Fields]) -> Iterator[tuple[_Part, Fields, int]]:
        """Write a row group's pages, and make it the first part's; its columns, and how far each of them has moved."""
        first = groups[0]
        if len({group[_GROUP_ROWS] for group in groups}) > 1:
            raise ValueError(f"row groups of {[group[_GROUP_ROWS] for group in groups]} rows cannot be one")
        first.by_id[_GROUP_OFFSET] = (thrift.I64, out.tell())
        chunks = self._in_order(
            (part, chunk) for part, group in zip(self.parts, groups, strict=True) for chunk in group[_CHUNKS].values
        )
        for part, chunk in chunks:
            yield part, chunk, _move_pages(out, chunk, part.file)
        first[_CHUNKS].values = [chunk for _, chunk in chunks]
        sizes = [chunk[_CHUNK_META] for _, chunk in chunks]
        first[_GROUP_BYTES] = sum(meta[_UNCOMPRESSED] for meta in sizes)
        first.by_id[_GROUP_COMPRESSED] = (thrift.I64, sum(meta[_COMPRESSED] for meta in sizes))

    def _in_order(self, chunks: Iterable[tuple[Owner, Fields]]) -> list[tuple[Owner, Fields]]:
        """Chunks of all parts, each with something of its own, by the names; those of one column stay as they are."""
        place = {name.encode(): number for number, name in enumerate(self.names)}
        return sorted(chunks, key=lambda one: place[one[1][_CHUNK_META][_PATH].values[0]])

    def _join_schemas(self) -> None:
        footer = self.parts[0].footer
        elements = {name: some for part in self.parts for name, some in part.columns.items()}
        root = footer[_SCHEMA].values[0]
        root[_CHILDREN] = len(self.names)
        footer[_SCHEMA].values = [root, *(one for name in self.names for one in elements[name])]


def _move_pages(out: IO[bytes], chunk: Fields, file: IO[bytes]) -> int:
    """Copy the pages of a column in a row group; how far they have moved."""
    meta = chunk[_CHUNK_META]
    offsets = [field for field in (_DATA_PAGE, _INDEX_PAGE, _DICTIONARY_PAGE) if field in meta]
    if _BLOOM_FILTER in meta:
        raise ValueError("a column with a Bloom filter cannot be moved")
    first = min(meta[field] for field in offsets)
    shift: int = out.tell() - first
    file.seek(first)
    left = meta[_COMPRESSED]
    while left:
        some = file.read(min(left, _AT_ONCE))
        if not some:
            raise ValueError("the pages of a column end early")
        out.write(some)
        left -= len(some)
    for field in offsets:
        meta[field] += shift
    chunk[_CHUNK_OFFSET] = 0  # nobody reads it, and the format wants it so
    return shift


def _move_index(out: IO[bytes], chunk: Fields, file: IO[bytes], at: tuple[int, int], shift: int = 0) -> None:
    """Copy what is known of a column's pages; an offset index says where they are."""
    place, length = at
    if place not in chunk:
        return
    file.seek(chunk[place])
    content = file.read(chunk[length])
    if shift:
        index = thrift.decode(content)
        for page in index[_PAGE_LOCATIONS].values:
            page[_PAGE_OFFSET] += shift
        content = thrift.encode(index)
    chunk[place], chunk[length] = out.tell(), len(content)
    out.write(content)


def _top_level(schema: list[Fields]) -> dict[str, list[Fields]]:
    """The elements of each column at the top level, those of its members included."""
    found: dict[str, list[Fields]] = {}
    at = 1
    while at < len(schema):
        end = _end(schema, at)
        found[schema[at][_NAME].decode()] = schema[at:end]
        at = end
    return found


def _end(schema: list[Fields], at: int) -> int:
    """Where the elements of a column end that begin there."""
    members = schema[at].get(_CHILDREN, 0)
    at += 1
    for _ in range(members):
        at = _end(schema, at)
    return at
