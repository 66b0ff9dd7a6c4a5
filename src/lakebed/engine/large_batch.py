"""A batch that is ordered as a whole but does not fit into memory: its parts wait, sorted by key, in local files."""

from __future__ import annotations

import tempfile
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing

import pyarrow as pa

from lakebed.engine.key_runs import FAN_IN, Run, in_order, merge, narrowed, scratch, spilled
from lakebed.engine.keyed_rows import KeyedPart
from lakebed.engine.row_block import RowBlock
from lakebed.engine.upsert_layout import FoldOrder
from lakebed.engine.upsert_order import UpsertOrder

# The part of the memory limit for rows that are read back and wait to be merged; it is small against a block.
_READING = 8
# Text columns are put together in one piece, and Arrow counts their bytes with 32 bits.
_LARGEST = 1 << 30


class LargeBatch:
    """Takes the rows of a batch block by block, and gives them back by key, those of one key together.

    Nothing is on the disk before the first ``put``. Whoever has put anything must ``remove`` it.
    """

    def __init__(self, order: UpsertOrder) -> None:
        self._order = order
        self._key = [order.metadata.schema[name].physical_name for name in order.key.key]
        self._reading = max(1, min(order.options.writer_memory_limit // _READING, _LARGEST))
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._waiting: list[Iterator[pa.Table]] = []

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def put(self, block: RowBlock) -> None:
        """Let the rows of a block wait; they came later than those of the blocks before. Raises StorageError."""
        if self._folder is None:
            self._folder = scratch()
        rows = block.whole(FoldOrder.of(block, self._order).folded(None)[0])
        self._waiting.append(spilled([rows], self._folder.name, self._reading // FAN_IN))

    def parts(self) -> Generator[list[KeyedPart], None, None]:
        """All rows in the order of their keys: all of a key in one list, those that came first before others.

        Raises StorageError.
        """
        assert self._folder is not None
        share = self._reading // min(len(self._waiting), FAN_IN)
        runs = [Run("part", rows, self._key, share, checked=False) for rows in self._waiting]
        runs = narrowed(runs, self._in_order, self._folder.name, self._key, self._reading // FAN_IN)
        with closing(merge(runs, pa.concat_tables)) as tables:
            for rows in tables:
                yield [KeyedPart.of(batch, len(self._order.metadata.schema)) for batch in rows.to_batches()]

    def remove(self) -> None:
        """Remove what waits on the disk."""
        self._waiting.clear()
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None

    def _in_order(self, tables: Sequence[pa.Table]) -> pa.Table:
        return in_order(tables, self._key)
