"""Bitmaps of row positions as columns of bits, and back, without a list of the positions in between.

A dense container of a Roaring bitmap has the very bits that Arrow has of a boolean column; it is copied as it is. The
format is Roaring's portable one: https://github.com/RoaringBitmap/RoaringFormatSpec.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64

ROWS = 1 << 16
"""Positions of one container."""
_BYTES = ROWS // 8
_MOST_LISTED = 4096
"""A container with more positions has their bits, one with less a list of them."""
_COOKIE = 12346
_COOKIE_WITH_RUNS = 12347
_OFFSETS_FROM = 4
"""With runs, the offsets of the containers are only there from this number of them on."""


def from_mask(mask: pa.BooleanArray) -> BitMap64:
    """The positions at which the mask is true; it has no nulls and no more than 2^32 rows.

    >>> sorted(from_mask(pa.array([False, True, True])))
    [1, 2]
    """
    if mask.offset % 8:
        mask = pc.invert(pc.invert(mask))  # in a place of its own
    found = [
        (start // ROWS, some.true_count, some)
        for start in range(0, len(mask), ROWS)
        if (some := mask.slice(start, ROWS)).true_count
    ]
    contents = [_bits(some) if count > _MOST_LISTED else _listed(some) for _, count, some in found]
    head = [struct.pack("<QIII", 1, 0, _COOKIE, len(found))]
    head += [struct.pack("<HH", key, count - 1) for key, count, _ in found]
    at = 8 + 8 * len(found)
    for content in contents:
        head.append(struct.pack("<I", at))
        at += len(content)
    return BitMap64.deserialize(b"".join([*head, *contents])) if found else BitMap64()


def to_mask(positions: BitMap64, length: int) -> pa.BooleanArray | None:
    """A mask of so many rows that is true at the positions; None if some of them are beyond what it can tell.

    >>> to_mask(BitMap64([1, 2]), 4).to_pylist()
    [False, True, True, False]
    """
    bits = bytearray(-(-length // ROWS) * _BYTES)
    if positions:
        data = positions.serialize()
        groups, high = struct.unpack_from("<QI", data)
        if groups != 1 or high:
            return None
        for key, content in _containers(memoryview(data)[12:]):
            if key * ROWS < length:
                bits[key * _BYTES : (key + 1) * _BYTES] = content
    return pa.Array.from_buffers(pa.bool_(), length, [None, pa.py_buffer(bits)])


def _bits(some: pa.BooleanArray) -> bytes:
    """The bits of up to ``ROWS`` rows, and none after them."""
    start = some.offset // 8
    content = bytearray(memoryview(some.buffers()[1])[start : start + -(-len(some) // 8)])
    if len(some) % 8:
        content[-1] &= (1 << len(some) % 8) - 1
    return bytes(content.ljust(_BYTES, b"\0"))


def _listed(some: pa.BooleanArray) -> bytes:
    short = pc.indices_nonzero(some).cast(pa.uint16())
    return memoryview(short.buffers()[1])[: 2 * len(short)].tobytes()


def _containers(data: memoryview) -> Iterator[tuple[int, bytes | memoryview]]:
    """The bits of each container of a 32-bit bitmap, with its number."""
    (cookie,) = struct.unpack_from("<I", data)
    if cookie & 0xFFFF == _COOKIE_WITH_RUNS:
        count, at = (cookie >> 16) + 1, 4
        runs = int.from_bytes(data[at : at + -(-count // 8)], "little")
        at += -(-count // 8)
    else:
        (count,), at, runs = struct.unpack_from("<I", data, 4), 8, 0
    heads = struct.unpack_from(f"<{2 * count}H", data, at)
    at += 4 * count
    if not runs or count >= _OFFSETS_FROM:
        at += 4 * count
    for number, (key, last) in enumerate(zip(heads[::2], heads[1::2], strict=True)):
        if runs >> number & 1:
            (many,) = struct.unpack_from("<H", data, at)
            size = 2 + 4 * many
            yield key, _of_runs(struct.unpack_from(f"<{2 * many}H", data, at + 2))
        elif last >= _MOST_LISTED:
            size = _BYTES
            yield key, data[at : at + size]
        else:
            size = 2 * (last + 1)
            yield key, _of_list(data[at : at + size])
        at += size


def _of_list(values: memoryview) -> memoryview:
    """The bits of a container that lists its positions."""
    listed = pa.Array.from_buffers(pa.uint16(), len(values) // 2, [None, pa.py_buffer(values)])
    # Where a position was scattered to there is a value.
    places = pc.inverse_permutation(listed.cast(pa.int32()), max_index=ROWS - 1, output_type=pa.int32())
    return memoryview(places.is_valid().buffers()[1])[:_BYTES]


def _of_runs(runs: tuple[int, ...]) -> bytes:
    """The bits of a container that has the first of each run of positions, and how many follow it."""
    bits = bytearray(_BYTES)
    for first, more in zip(runs[::2], runs[1::2], strict=True):
        begin, end = first, first + more + 1
        if begin // 8 == (end - 1) // 8:
            bits[begin // 8] |= ((1 << end - begin) - 1) << begin % 8
            continue
        if begin % 8:
            bits[begin // 8] |= 0xFF << begin % 8 & 0xFF
        if end % 8:
            bits[end // 8] |= (1 << end % 8) - 1
        whole = -(-begin // 8), end // 8
        bits[whole[0] : whole[1]] = b"\xff" * (whole[1] - whole[0])
    return bytes(bits)
