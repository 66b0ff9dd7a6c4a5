"""Data files of which nobody can read some parts any more: who does not need these parts does not notice."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow.parquet as pq

import lakebed

_FRAME = b"\x28\xb5\x2f\xfd"
"""What the compressed content of a page, and nothing else, begins with."""


@dataclass(frozen=True)
class Part:
    """A column of a row group of a data file."""

    version: int
    """The version that the file came with."""
    group: int
    column: str
    low: Any
    high: Any
    """The first and the last key of the row group."""


def ruin(table: lakebed.Table, chosen: Callable[[Part], bool], *, key: str = "id") -> int:
    """Overwrite the chosen parts of the table's files; how many they are."""

    def everything(content: bytearray, start: int, stop: int) -> None:
        content[start:stop] = b"\xff" * (stop - start)

    return _ruin(table, chosen, key, everything)


def ruin_pages(table: lakebed.Table, chosen: Callable[[Part], bool], *, keep: int, key: str = "id") -> int:
    """Make all pages of the chosen parts unreadable but one, counted from 0 or from the end; how many pages they are.

    Their headers stay, so that who wants the one page finds it.
    """
    ruined = 0

    def others(content: bytearray, start: int, stop: int) -> None:
        nonlocal ruined
        pages = []
        while (start := content.find(_FRAME, start, stop)) >= 0:
            pages.append(start)
            start += len(_FRAME)
        del pages[keep]
        for page in pages:
            content[page : page + len(_FRAME)] = b"\xff" * len(_FRAME)
        ruined += len(pages)

    _ruin(table, chosen, key, others)
    return ruined


def _ruin(
    table: lakebed.Table, chosen: Callable[[Part], bool], key: str, change: Callable[[bytearray, int, int], None]
) -> int:
    store, count = table._store, 0
    for add in table._point().files(None):
        content = bytearray(store.read(add.file_path))
        metadata = pq.read_metadata(io.BytesIO(content))
        for number in range(metadata.num_row_groups):
            group = metadata.row_group(number)
            columns = [group.column(at) for at in range(group.num_columns)]
            keys = next(column.statistics for column in columns if column.path_in_schema == key)
            for column in columns:
                version = add.default_row_commit_version
                assert version is not None
                if chosen(Part(version, number, column.path_in_schema, keys.min, keys.max)):
                    start = column.dictionary_page_offset or column.data_page_offset
                    change(content, start, start + column.total_compressed_size)
                    count += 1
        store.put(add.file_path, bytes(content))
    return count
