"""Spark's ``hash()`` of key columns, bit for bit, without Spark: Murmur3 with its own way with the last bytes.

All is 32-bit arithmetic on whole columns. Columns are taken a piece at a time, so that what lies between two
steps stays in the processor's cache. Nulls are not known to the steps: a null slot is hashed like any other,
and then the hash from before the column is put back.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from lakebed.core.bucketing import check_key_type
from lakebed.core.errors import InputError
from lakebed.core.schema_arrow import type_from_arrow, type_to_arrow

SEED = 42

_U32, _U64 = pa.uint32(), pa.uint64()
_C1, _C2, _C3, _C4, _C5 = (pa.scalar(n, _U32) for n in (0xCC9E2D51, 0x1B873593, 0x85EBCA6B, 0xC2B2AE35, 0xE6546B64))
# Made once: for a few rows, making the scalars would be a good part of the time.
_SMALL = [pa.scalar(n, _U32) for n in range(32)]
_SMALL_64 = [pa.scalar(n, _U64) for n in range(64)]

_PIECE_ROWS = 1 << 16
# From so many pieces on, threads are worth starting.
_PIECES_FOR_THREADS = 8
_THREADS = 2
_PIECE_BYTES = 1 << 22
# Below this many rows that have words left, Python's own integers are quicker than a column of them.
_FEW_ROWS = 12
_MANY_ROUNDS = 64


def spark_hash(columns: Sequence[pa.Array | pa.ChunkedArray]) -> pa.Array:
    """What Spark's ``hash(columns…)`` gives for each row; int32.

    A null leaves the hash as the columns before have made it. Raises InputError without columns, for columns
    of different lengths, for a type that no key can have and for values that no column of a table can hold.

    >>> spark_hash([pa.array([1, None], pa.int64()), pa.array(["a", "b"])]).to_pylist()
    [573093329, 1905031361]
    """
    if not columns or len({len(column) for column in columns}) > 1:
        lengths = ", ".join(str(len(column)) for column in columns)
        raise InputError("rows to hash", expected="one column or more, of one length", found=lengths or "none")
    kinds = [_hashed_type(column.type) for column in columns]

    def piece(at: int) -> pa.Array:
        return _hash_piece(
            [_whole(column.slice(at, _PIECE_ROWS), kind) for column, kind in zip(columns, kinds, strict=True)]
        )

    starts = range(0, len(columns[0]), _PIECE_ROWS)
    if len(starts) < _PIECES_FOR_THREADS:
        pieces = list(map(piece, starts))
    else:
        with ThreadPoolExecutor(_THREADS, "lakebed-hash") as pool:
            pieces = list(pool.map(piece, starts))
    return pa.concat_arrays(pieces) if pieces else pa.array([], pa.int32())


def _hashed_type(kind: pa.DataType) -> pa.DataType:
    """The Arrow type that values of this type are hashed in: that of a table's column, large texts as they are."""
    ours = type_from_arrow(kind)
    if reason := check_key_type(ours):
        raise InputError(f"values of type {kind} cannot be hashed: {reason}")
    return kind if _is_large(kind) else type_to_arrow(ours)


def _is_large(kind: pa.DataType) -> bool:
    return kind in (pa.large_string(), pa.large_binary())


def _whole(column: pa.Array | pa.ChunkedArray, kind: pa.DataType) -> pa.Array:
    if isinstance(column, pa.ChunkedArray):
        column = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    if column.type == kind:
        return column
    try:
        return column.cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise InputError(
            f"values of type {column.type} cannot be hashed", expected=f"values that fit {kind}"
        ) from error


def _hash_piece(columns: list[pa.Array]) -> pa.Array:
    hashes = pa.repeat(pa.scalar(SEED, _U32), len(columns[0]))
    for column in columns:
        hashed = _hash_column(hashes, column)
        hashes = hashed if column.null_count == 0 else pc.if_else(column.is_valid(), hashed, hashes)
    return hashes.view(pa.int32())


def _hash_column(hashes: pa.Array, column: pa.Array) -> pa.Array:
    kind = column.type
    if pat.is_decimal(kind):
        return _hash_long(hashes, _half(column, 0)) if kind.precision <= 18 else _hash_big_integer(hashes, column)
    if not pat.is_primitive(kind):
        return _hash_text(hashes, column)
    if kind.bit_width == 64:
        return _hash_long(hashes, _slots(column, _U64))
    if kind.bit_width < 32:
        column = column.cast(pa.int32())
    return _avalanche(_mix(hashes, _slots(column, _U32)), _SMALL[4])


def _slots(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """The values as ``kind``, whatever lies in null slots included."""
    return pa.Array.from_buffers(kind, len(column), [None, column.buffers()[1]], offset=column.offset)


def _hash_long(hashes: pa.Array, values: pa.Array) -> pa.Array:
    low = values.cast(_U32, safe=False)
    high = pc.shift_right(values, _SMALL_64[32]).cast(_U32, safe=False)
    return _avalanche(_mix(_mix(hashes, low), high), _SMALL[8])


def _mix(hashes: pa.Array, words: pa.Array) -> pa.Array:
    """One round for every row. Bits that cannot meet are added: Arrow adds quicker than it ors."""
    words = pc.multiply(words, _C1)
    words = pc.multiply(pc.add(pc.shift_left(words, _SMALL[15]), pc.shift_right(words, _SMALL[17])), _C2)
    mixed = pc.bit_wise_xor(words, hashes)
    mixed = pc.add(pc.shift_left(mixed, _SMALL[13]), pc.shift_right(mixed, _SMALL[19]))
    return pc.add(pc.multiply(mixed, _SMALL[5]), _C5)


def _avalanche(hashes: pa.Array, lengths: pa.Array | pa.Scalar) -> pa.Array:
    hashes = pc.bit_wise_xor(hashes, lengths)
    hashes = pc.multiply(pc.bit_wise_xor(hashes, pc.shift_right(hashes, _SMALL[16])), _C3)
    hashes = pc.multiply(pc.bit_wise_xor(hashes, pc.shift_right(hashes, _SMALL[13])), _C4)
    return pc.bit_wise_xor(hashes, pc.shift_right(hashes, _SMALL[16]))


def _hash_text(hashes: pa.Array, column: pa.Array) -> pa.Array:
    """Strings and binaries, in parts that are small enough to be copied."""
    kind = pa.int64() if _is_large(column.type) else pa.int32()
    _, offsets, data = column.buffers()
    ends = pa.Array.from_buffers(kind, len(column) + 1, [None, offsets], offset=column.offset)
    first, last = ends[0].as_py(), ends[-1].as_py()
    if last - first > _PIECE_BYTES and len(column) > 1:
        half = len(column) // 2
        return pa.concat_arrays([_hash_text(hashes[:half], column[:half]), _hash_text(hashes[half:], column[half:])])
    ends = pc.subtract(ends, ends[0]).cast(_U32)
    text = pa.Array.from_buffers(pa.uint8(), last - first, [None, data or pa.py_buffer(b"")], offset=first)
    return _hash_spans(hashes, text, ends[:-1], pc.subtract(ends[1:], ends[:-1]))


def _hash_big_integer(hashes: pa.Array, column: pa.Array) -> pa.Array:
    """Decimals too large for a long: the bytes of Java's ``BigInteger.toByteArray``, the fewest, the highest first."""
    low, high = _half(column, 0), _half(column, 8)
    sign = pc.multiply(pc.shift_right(high, _SMALL_64[63]), pa.scalar((1 << 64) - 1, _U64))
    low, high = pc.bit_wise_xor(low, sign), pc.bit_wise_xor(high, sign)
    is_long = pc.greater(high, _SMALL_64[0])
    top = pc.if_else(is_long, high, low)
    lengths = pc.add(pc.multiply(is_long.cast(_U32), _SMALL[8]), _SMALL[1])
    for bits in range(7, 64, 8):
        lengths = pc.add(lengths, pc.greater_equal(top, pa.scalar(1 << bits, _U64)).cast(_U32))
    whole = pc.binary_reverse(_slots(column, pa.binary(16)).cast(pa.binary()))
    text = pa.Array.from_buffers(pa.uint8(), 16 * len(column), [None, whole.buffers()[2]], offset=16 * whole.offset)
    ends = pc.cumulative_sum(pa.repeat(pa.scalar(16, _U32), len(column)))
    return _hash_spans(hashes, text, pc.subtract(ends, lengths), lengths)


def _half(column: pa.Array, at: int) -> pa.Array:
    """Eight bytes of each decimal, from byte ``at`` on."""
    return _slots(pc.binary_slice(_slots(column, pa.binary(16)), at, at + 8), _U64)


def _hash_spans(hashes: pa.Array, text: pa.Array, starts: pa.Array, lengths: pa.Array) -> pa.Array:
    """Of each row, ``lengths`` bytes of the text from ``starts`` on."""
    words, per_shift = _all_words(text)
    at = pc.add(
        pc.multiply(pc.bit_wise_and(starts, _SMALL[3]), pa.scalar(per_shift, _U32)),
        pc.shift_right(starts, _SMALL[2]),
    )
    counts = pc.shift_right(lengths, _SMALL[2])
    extent = pc.min_max(counts).as_py()
    if extent["min"] == extent["max"]:
        hashes = _mix_words(hashes, words, at, counts)
    else:
        order = pc.array_sort_indices(counts, order="descending")
        mixed = _mix_words(hashes.take(order), words, at.take(order), counts.take(order))
        hashes = mixed.take(pc.inverse_permutation(order.cast(pa.int32())))
    tails = words.take(pc.add(at, counts))
    return _avalanche(_mix_tails(hashes, tails, pc.bit_wise_and(lengths, _SMALL[3])), lengths)


def _all_words(text: pa.Array) -> tuple[pa.Array, int]:
    """The words at every byte of the text: those at 0, 4, 8…, then those at 1, 5, 9…, and so on; how many of each.

    There is one more at the end of the text, so that a row always has a word for its last bytes.
    """
    per_shift = len(text) // 4 + 2
    padded = pa.concat_arrays([text, pa.repeat(pa.scalar(0, pa.uint8()), 12)])
    shifted = pa.concat_arrays([padded.slice(shift, 4 * per_shift) for shift in range(4)])
    return pa.Array.from_buffers(_U32, 4 * per_shift, [None, shifted.buffers()[1]]), per_shift


def _mix_words(hashes: pa.Array, words: pa.Array, at: pa.Array, counts: pa.Array) -> pa.Array:
    """Round after round for the rows that have a word left; those with the most words come first."""
    runs = pc.run_end_encode(counts)
    ends, values = runs.run_ends.to_pylist(), runs.values.to_pylist()
    done: list[pa.Array] = []
    for round_ in range(values[0]):
        while values[-1] <= round_:
            values.pop(), ends.pop()
        if ends[-1] < len(hashes):
            done.append(hashes[ends[-1] :])
            hashes, at = hashes[: ends[-1]], at[: ends[-1]]
        if len(hashes) < _FEW_ROWS and values[0] - round_ > _MANY_ROUNDS:
            hashes = _mix_long_texts(hashes, words, at, counts, round_)
            break
        hashes = _mix(hashes, words.take(pc.add(at, pa.scalar(round_, _U32))))
    return pa.concat_arrays([hashes, *reversed(done)])


def _mix_long_texts(hashes: pa.Array, words: pa.Array, at: pa.Array, counts: pa.Array, round_: int) -> pa.Array:
    """The rest of the rounds of few rows that have many."""
    results = []
    for row, so_far in enumerate(hashes.to_pylist()):
        mixed = so_far
        for word in words.slice(at[row].as_py() + round_, counts[row].as_py() - round_).to_pylist():
            k = word * 0xCC9E2D51 & 0xFFFFFFFF
            mixed ^= (k << 15 | k >> 17) * 0x1B873593 & 0xFFFFFFFF
            mixed = (mixed << 13 & 0xFFFFFFFF | mixed >> 19) * 5 + 0xE6546B64 & 0xFFFFFFFF
        results.append(mixed)
    return pa.array(results, _U32)


def _mix_tails(hashes: pa.Array, tails: pa.Array, counts: pa.Array) -> pa.Array:
    """A round for each of the last ``counts`` bytes, which Spark takes one by one and as signed."""
    extent = pc.min_max(counts).as_py()
    signed = tails.view(pa.int32())
    for at in range(extent["max"]):
        top = pc.shift_left(signed, pa.scalar(24 - 8 * at, pa.int32()))
        mixed = _mix(hashes, pc.shift_right(top, pa.scalar(24, pa.int32())).view(_U32))
        if extent["min"] > at:
            hashes = mixed
        else:
            # 1 where the row has no such byte: arithmetic is quicker than a choice.
            none = pc.shift_right(pc.subtract(counts, _SMALL[at + 1]), _SMALL[31])
            hashes = pc.subtract(mixed, pc.multiply(none, pc.subtract(mixed, hashes)))
    return hashes
