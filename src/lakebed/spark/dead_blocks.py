"""Dead rows as Spark joins them: for each block of rows of a file that has any, a bitmap of 64-bit words.

A block is as long as a container of a Roaring bitmap. Only blocks with dead rows are there, so that a large file with
few of them costs little; and no value is large, however large the file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64

from lakebed.storage.deletion_vector import keep_mask, to_arrow

BLOCK_BITS = 16
BLOCK_KEY_BITS = 24
"""A file has fewer blocks than that power of two."""
BLOCK_ROWS = 1 << BLOCK_BITS
BLOCK_WORDS = BLOCK_ROWS // 64
BLOCK_BYTES = BLOCK_WORDS * 8
_WINDOW = 64 * BLOCK_ROWS

KEY = "block"
WORDS = "words"
SCHEMA = pa.schema([(KEY, pa.int64()), (WORDS, pa.list_(pa.int64()))])


def most_bytes(dead: BitMap64) -> int:
    """No more bytes than this are the words of a bitmap.

    >>> most_bytes(BitMap64([1, 2])), most_bytes(BitMap64([1, 200_000]))
    (8192, 16384)
    """
    if not dead:
        return 0
    span = (dead.max() >> BLOCK_BITS) - (dead.min() >> BLOCK_BITS) + 1
    return int(min(len(dead), span)) * BLOCK_BYTES


def dead_blocks(bitmaps: Iterable[tuple[int, BitMap64]]) -> pa.Table:
    """The blocks of all bitmaps, each of the file with that ordinal.

    >>> blocks = dead_blocks([(1, BitMap64([3, 65_536 + 64]))])
    >>> [key - (1 << BLOCK_KEY_BITS) for key in blocks[KEY].to_pylist()]
    [0, 1]
    >>> [words[:2] for words in blocks[WORDS].to_pylist()]
    [[8, 0], [0, 1]]
    """
    parts = [part for ordinal, dead in bitmaps for part in _blocks(ordinal, dead)]
    return pa.Table.from_batches(parts, SCHEMA)


def _blocks(ordinal: int, dead: BitMap64) -> Iterator[pa.RecordBatch]:
    """Window by window, so that a file's gaps cost nothing."""
    if not dead:
        return
    for start in range(dead.min() // _WINDOW * _WINDOW, dead.max() + 1, _WINDOW):
        window = BitMap64()
        window.add_range(start, start + _WINDOW)
        positions = to_arrow(dead & window)
        if len(positions):
            yield _window(ordinal, start, positions, dead)


def _window(ordinal: int, start: int, positions: pa.Int64Array, dead: BitMap64) -> pa.RecordBatch:
    # The bits of an Arrow array of booleans are the words, on machines that count from the low end.
    mask = pc.invert(keep_mask(dead, start, _WINDOW))
    words = pa.Array.from_buffers(pa.int64(), _WINDOW // 64, [None, mask.buffers()[1]])
    blocks = pa.FixedSizeListArray.from_arrays(words, BLOCK_WORDS)
    touched = pc.unique(pc.shift_right(positions, BLOCK_BITS))
    keys = pc.add(touched, ordinal << BLOCK_KEY_BITS)
    here = blocks.take(pc.subtract(touched, start >> BLOCK_BITS))
    return pa.record_batch([keys, here.cast(pa.list_(pa.int64()))], schema=SCHEMA)
