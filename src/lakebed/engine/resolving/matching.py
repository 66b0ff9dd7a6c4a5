"""Where keys are in settled files: live rows, and the tombstones of deleted ones."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import polars as pl
from pyroaring import BitMap64

from lakebed.core.actions import AddFile
from lakebed.core.file_tags import tombstones_of
from lakebed.engine.resolving.bounds import holding_files, holding_groups
from lakebed.engine.resolving.kernel import INDEX, pairs
from lakebed.engine.resolving.key_file import open_keys
from lakebed.engine.resolving.order import KIND, POSITION, ResolveOrder
from lakebed.engine.scan import READ_THREADS, dead_rows, named
from lakebed.engine.vectors import replaced_tombstones
from lakebed.storage.deletion_vector import from_arrow, to_arrow

DELETES = (1, 3)  # -U and -D


@dataclass(frozen=True)
class Found:
    """The rows of one settled file that have one of the keys, each with its ``index``."""

    add: AddFile
    before: BitMap64
    """The positions that were dead already."""
    live: pl.DataFrame
    gone: pl.DataFrame
    """Present tombstones, if the table has sequences: they are dead, but late rows must be newer."""


def match_files(order: ResolveOrder, files: Sequence[AddFile], keys: pl.DataFrame, *, state: bool) -> list[Found]:
    """The rows of ``files`` with one of the sorted keys; ``state`` wants sequence values and tombstones too."""
    by = order.layout.keys
    key = order.layout.stored(sequence=False, kind=False)
    keys = keys.select(*by, INDEX)
    candidates = holding_files(files, keys, key, by)
    if not keys.height or not candidates:
        return []

    def one(add: AddFile) -> Found:
        kinds = state and tombstones_of(add) > 0
        with named(order.scan):
            before = dead_rows(order.store, add.deletion_vector) or BitMap64()
        with open_keys(order, add, sequence=state, kind=kinds) as file:
            groups = holding_groups(file.groups, keys, key, by)
            parts = [pairs(frame, keys, by) for frame in file.frames(groups)]
            rows = pl.concat(parts) if parts else pairs(file.frame([]), keys, by)
        return _split(add, before, rows)

    with ThreadPoolExecutor(min(READ_THREADS, len(candidates)), "lakebed-resolve") as pool:
        return list(pool.map(one, candidates))


def _split(add: AddFile, before: BitMap64, rows: pl.DataFrame) -> Found:
    known = before & from_arrow(rows[POSITION].to_arrow()) if before else before
    if not known:
        return Found(add, before, rows, rows.clear())
    dead = pl.col(POSITION).is_in(pl.Series(to_arrow(known)).implode())
    if KIND not in rows.columns:
        return Found(add, before, rows.filter(~dead), rows.clear())
    gone = rows.filter(dead & pl.col(KIND).is_in(DELETES))
    replaced = replaced_tombstones(add)
    if replaced and gone.height:
        gone = gone.filter(~pl.col(POSITION).is_in(pl.Series(to_arrow(replaced)).implode()))
    return Found(add, before, rows.filter(~dead), gone)
