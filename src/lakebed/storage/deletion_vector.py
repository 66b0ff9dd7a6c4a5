"""Deletion vectors in Delta's format: which rows of a data file are dead.

A vector is a 64-bit Roaring bitmap of row positions. Small ones go into the log as text; the others of a
commit share one file.
"""

from __future__ import annotations

import array
import struct
import uuid
import zlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap, BitMap64

from lakebed.core.errors import CorruptFileError, InputError, UnsupportedFeatureError
from lakebed.core.location import Location
from lakebed.storage import z85
from lakebed.storage.bitmap_bits import from_mask, to_mask
from lakebed.storage.store import Store, open_store

MAGIC = 1681511377
"""The portable format, the only one that is written."""
NATIVE_MAGIC = 1681511376
"""An older format; the protocol's own example of an inline vector has it."""
FILE_VERSION = 1
_LAST_SHORT = 2**32 - 1
INLINE_LIMIT = 128
"""Bytes up to which a vector is stored in the log itself: some dozen positions."""
_UUID_CHARACTERS = 20


@dataclass(frozen=True, slots=True)
class StoredVector:
    """Where one vector is: the fields of Delta's descriptor."""

    storage_type: str
    path_or_inline: str
    offset: int | None
    size_in_bytes: int
    cardinality: int


@dataclass(frozen=True, slots=True)
class WrittenVectors:
    """The vectors in the order in which they were given, and the file of those that are not inline."""

    vectors: tuple[StoredVector, ...]
    path: str | None


def encode(positions: BitMap64) -> bytes:
    """The bytes of a vector, without the frame that a file puts around them.

    >>> sorted(decode(encode(BitMap64([3, 4, 7]))))
    [3, 4, 7]
    """
    compact = positions.copy()
    compact.run_optimize()
    serialized: bytes = compact.serialize()
    return struct.pack("<i", MAGIC) + serialized


def decode(data: bytes, name: str = "deletion vector") -> BitMap64:
    """The positions in the bytes of a vector; ``name`` is for the error.

    Raises ``CorruptFileError`` for what is not a vector.
    """
    try:
        magic = struct.unpack("<i", data[:4])[0]
        if magic == MAGIC:
            return BitMap64.deserialize(bytes(data[4:]))
        for order in "<>":
            if data[:4] == struct.pack(f"{order}i", NATIVE_MAGIC):
                return BitMap64.deserialize(_portable(bytes(data), order))
    except (ValueError, IndexError, struct.error) as cause:
        raise CorruptFileError(f"{name}: the bitmap of the deletion vector cannot be read") from cause
    raise CorruptFileError(f"{name}: not a deletion vector", expected=f"magic {MAGIC}", found=str(magic))


def _portable(data: bytes, order: str) -> bytes:
    """Delta's older format (a bitmap per 2^32 positions, each after its size) in the portable frame."""
    (count,) = struct.unpack_from(f"{order}i", data, 4)
    parts, position = [struct.pack("<Q", count)], 8
    for key in range(count):
        (size,) = struct.unpack_from(f"{order}i", data, position)
        parts += [struct.pack("<I", key), data[position + 4 : position + 4 + size]]
        position += 4 + size
    return b"".join(parts)


def write_vectors(
    store: Store,
    vectors: Sequence[BitMap64],
    prefix: str = "",
    inline_limit: int = INLINE_LIMIT,
    *,
    never_inline: Collection[int] = (),
) -> WrittenVectors:
    """Store vectors: small ones inline, the others together in one new file below ``prefix``.

    ``prefix`` is a directory of the table's root, usually empty; a vector's text carries it. ``never_inline`` has the
    numbers of vectors that need an identity of their own: an inline one is told by its content.
    """
    identity = uuid.uuid4()
    reference = prefix + z85.encode(identity.bytes)
    stored: list[StoredVector] = []
    content = bytearray([FILE_VERSION])
    for number, positions in enumerate(vectors):
        data = encode(positions)
        size, cardinality = len(data), len(positions)
        if size <= inline_limit and number not in never_inline:
            stored.append(StoredVector("i", z85.encode(data), None, size, cardinality))
            continue
        stored.append(StoredVector("u", reference, len(content), size, cardinality))
        content += struct.pack(">i", size) + data + struct.pack(">I", zlib.crc32(data))
    if len(content) == 1:
        return WrittenVectors(tuple(stored), None)
    path = vector_path(reference)
    store.put(path, content)
    return WrittenVectors(tuple(stored), path)


def vector_path(reference: str) -> str:
    """The path, below the table's root, of the file that a ``u`` vector names.

    >>> vector_path("ab^-aqEH.-t@S}K{vb[*k^")
    'ab/deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin'
    """
    prefix, encoded = reference[:-_UUID_CHARACTERS], reference[-_UUID_CHARACTERS:]
    try:
        identity = uuid.UUID(bytes=z85.decode(encoded))
    except ValueError as cause:
        raise CorruptFileError(
            f"deletion vector {reference!r}: no file name in it", expected="20 characters of Z85 at the end"
        ) from cause
    name = f"deletion_vector_{identity}.bin"
    return f"{prefix}/{name}" if prefix else name


def read_vector(
    store: Store,
    storage_type: str,
    path_or_inline: str,
    offset: int | None,
    size_in_bytes: int,
    *,
    allow_absolute: bool = False,
) -> BitMap64:
    """The dead positions that a descriptor names; ``store`` is the table's root.

    Raises ``FileMissingError`` or ``CorruptFileError`` with the file's name. A vector with an absolute
    path lies outside the table and is only read with ``allow_absolute``.
    """
    if storage_type == "i":
        return _read_inline(path_or_inline, size_in_bytes)
    if storage_type == "u":
        return _read_stored(store, vector_path(path_or_inline), offset or 0, size_in_bytes)
    if storage_type != "p":
        raise UnsupportedFeatureError(
            f"{store.location}: unknown storage type of a deletion vector",
            expected="u, i or p",
            found=storage_type,
        )
    place = Location.parse(path_or_inline)
    if not allow_absolute:
        raise InputError(
            f"{store.location}: the deletion vector {place} is outside the table", fix="allow absolute paths"
        )
    outside = open_store(place.parent, store.options)
    return _read_stored(outside, place.name, offset or 0, size_in_bytes)


def _read_inline(text: str, size: int) -> BitMap64:
    name = "inline deletion vector"
    try:
        data = z85.decode(text)
    except ValueError as cause:
        raise CorruptFileError(f"{name}: not Z85 text") from cause
    if not 0 <= len(data) - size < 4:
        raise CorruptFileError(f"{name}: wrong length", expected=f"{size} bytes", found=str(len(data)))
    return decode(data[:size], name)


def _read_stored(store: Store, path: str, offset: int, size: int) -> BitMap64:
    name = store.uri(path)
    with store.open_input(path) as file:
        available = file.size()
        version = file.read_at(1, 0)
        frame = file.read_at(size + 8, offset) if 0 <= offset <= available and size >= 0 else b""
    if version != bytes([FILE_VERSION]):
        raise CorruptFileError(f"{name}: not a file of deletion vectors", expected="version 1", found=repr(version))
    if len(frame) != size + 8 or struct.unpack(">i", frame[:4])[0] != size:
        raise CorruptFileError(f"{name}: no deletion vector of {size} bytes at offset {offset}")
    data = frame[4:-4]
    if struct.unpack(">I", frame[-4:])[0] != zlib.crc32(data):
        raise CorruptFileError(f"{name}: the checksum of the deletion vector at offset {offset} is wrong")
    return decode(data, name)


def keep_mask(positions: BitMap64, start: int, length: int) -> pa.BooleanArray:
    """Which of the ``length`` rows from position ``start`` on are alive.

    >>> keep_mask(BitMap64([1, 5]), start=4, length=3).to_pylist()
    [True, False, True]
    """
    if not length:
        return pa.array([], pa.bool_())
    if not start:
        dead_bits = to_mask(positions, length)
        if dead_bits is not None:
            return pc.invert(dead_bits)
    window = BitMap64()
    window.add_range(start, start + length)
    dead = to_arrow(positions & window)
    if not len(dead):
        return pa.repeat(True, length)
    # Where a dead position was scattered to there is a value; the live rows are the gaps.
    places = pc.subtract(dead, start).cast(pa.int32())
    return pc.inverse_permutation(places, max_index=length - 1, output_type=pa.int32()).is_null()


def to_arrow(positions: BitMap64) -> pa.Int64Array:
    """The positions as an ascending Arrow array.

    >>> to_arrow(BitMap64([7, 3])).to_pylist()
    [3, 7]
    """
    if not positions:
        return pa.array([], pa.int64())
    return pa.Array.from_buffers(pa.int64(), len(positions), [None, pa.py_buffer(positions.to_array())])


def size_in_memory(positions: BitMap64) -> int:
    """No more than this: two bytes a position, or a bit for each place, and something for each container.

    >>> size_in_memory(BitMap64(range(100_000))) < 20_000
    True
    """
    if not positions:
        return 0
    containers = (positions.max() >> 16) - (positions.min() >> 16) + 1
    return int(min(2 * len(positions), 8192 * containers)) + 32 * min(containers, len(positions))


def from_bits(dead: pa.BooleanArray) -> BitMap64:
    """The positions of the dead rows of a file.

    >>> sorted(from_bits(pa.array([True, False, True])))
    [0, 2]
    """
    return from_mask(dead) if len(dead) <= _LAST_SHORT else from_arrow(pc.indices_nonzero(dead))


def from_arrow(positions: pa.Array | pa.ChunkedArray) -> BitMap64:
    """The positions of an Arrow array of integers without nulls, in any order.

    >>> len(from_arrow(pa.array([7, 3, 7])))
    2
    """
    whole = positions.combine_chunks() if isinstance(positions, pa.ChunkedArray) else positions
    if not len(whole):
        return BitMap64()
    if pc.max(whole).as_py() <= _LAST_SHORT:
        # A 32-bit bitmap is made in a third of the time; a 64-bit one is those with a number in front of each.
        short = BitMap(_values(whole.cast(pa.uint32()), "I", 4))
        return BitMap64.deserialize(struct.pack("<QI", 1, 0) + short.serialize())
    return BitMap64(_values(whole.cast(pa.uint64()), "Q", 8))


def _values(column: pa.Array, code: str, width: int) -> array.array[int]:
    values = array.array(code)
    values.frombytes(column.buffers()[1].slice(column.offset * width, len(column) * width))
    return values
