"""Deletion vectors: Delta's bytes both ways, and masks."""

from __future__ import annotations

import json
import random
import struct
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, QueryBuilder
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap, BitMap64

from lakebed.core.errors import CorruptFileError, FileMissingError, InputError, UnsupportedFeatureError
from lakebed.core.location import Location
from lakebed.storage import z85
from lakebed.storage.deletion_vector import (
    StoredVector,
    decode,
    encode,
    from_arrow,
    keep_mask,
    read_vector,
    to_arrow,
    vector_path,
    write_vectors,
)
from lakebed.storage.store import Store, open_store

POSITIONS = st.sets(st.integers(0, 200) | st.integers(0, 2**40), max_size=60)
# The example of the Delta protocol's text.
PROTOCOL_INLINE = "wi5b=000010000siXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L"
SPARSE = BitMap64(random.Random(1).sample(range(1_000_000), 500))


def read(store: Store, vector: StoredVector, **more: bool) -> BitMap64:
    return read_vector(store, vector.storage_type, vector.path_or_inline, vector.offset, vector.size_in_bytes, **more)


def test_the_protocols_inline_example(local_store: Store) -> None:
    found = read_vector(local_store, "i", PROTOCOL_INLINE, None, 40)
    assert sorted(found) == [3, 4, 7, 11, 18, 29]


def test_the_protocols_path_example() -> None:
    assert vector_path("ab^-aqEH.-t@S}K{vb[*k^") == "ab/deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin"


@given(st.binary(max_size=50))
def test_z85_both_ways(data: bytes) -> None:
    assert z85.decode(z85.encode(data))[: len(data)] == data


@pytest.mark.parametrize("text", ["abcd", 'abcd"', "abcdé", "#####"])
def test_what_is_not_z85(text: str) -> None:
    with pytest.raises(ValueError):
        z85.decode(text)


@given(POSITIONS)
def test_encode_and_decode(positions: set[int]) -> None:
    assert set(decode(encode(BitMap64(positions)))) == positions


@pytest.mark.parametrize("order", "<>")
def test_the_older_format_is_read(order: str) -> None:
    parts = [BitMap([1, 5]).serialize(), BitMap([7]).serialize()]
    framed = b"".join(struct.pack(f"{order}i", len(part)) + part for part in parts)
    assert sorted(decode(struct.pack(f"{order}ii", 1681511376, 2) + framed)) == [1, 5, 2**32 + 7]


@pytest.mark.parametrize("prefix", ["", "ab"])
def test_vectors_share_a_file_and_small_ones_are_inline(store: Store, prefix: str) -> None:
    vectors = [BitMap64([1, 5]), SPARSE, BitMap64(range(10_000)), SPARSE | BitMap64([2**35])]
    written = write_vectors(store, vectors, prefix)
    assert [v.storage_type for v in written.vectors] == ["i", "u", "i", "u"]
    assert [v.cardinality for v in written.vectors] == [len(v) for v in vectors]
    assert [info.path for info in store.list()] == [written.path]
    assert [read(store, v) for v in written.vectors] == vectors


def test_all_inline_writes_no_file(store: Store) -> None:
    assert write_vectors(store, [BitMap64([0])]).path is None
    assert list(store.list()) == []


def test_a_file_of_its_own_when_nothing_may_be_inline(local_store: Store) -> None:
    (vector,) = write_vectors(local_store, [BitMap64([0])], inline_limit=0).vectors
    assert (vector.storage_type, vector.offset) == ("u", 1)
    assert sorted(read(local_store, vector)) == [0]


def test_a_vector_outside_the_table_is_read_only_when_asked(local_store: Store, tmp_path: Path) -> None:
    outside = open_store(Location.parse(tmp_path / "elsewhere"))
    written = write_vectors(outside, [SPARSE])
    (vector,) = written.vectors
    assert written.path is not None
    foreign = StoredVector("p", outside.uri(written.path), vector.offset, vector.size_in_bytes, len(SPARSE))
    with pytest.raises(InputError, match="outside the table"):
        read(local_store, foreign)
    assert read(local_store, foreign, allow_absolute=True) == SPARSE


def damaged(store: Store, path: str, position: int, value: int) -> None:
    data = bytearray(store.read(path))
    data[position] = value
    store.put(path, data)


@pytest.mark.parametrize(
    ("position", "word"), [(0, "version 1"), (1, "no deletion vector"), (30, "checksum"), (-1, "checksum")]
)
def test_damage_is_noticed(local_store: Store, position: int, word: str) -> None:
    written = write_vectors(local_store, [SPARSE])
    assert written.path is not None
    damaged(local_store, written.path, position, 0xEE)
    with pytest.raises(CorruptFileError, match=word) as caught:
        read(local_store, written.vectors[0])
    assert written.path in str(caught.value)


def test_truncated_missing_and_wrong_offsets(local_store: Store) -> None:
    written = write_vectors(local_store, [SPARSE])
    (vector,) = written.vectors
    assert written.path is not None
    for offset, size in (
        (0, 10),
        (10**9, vector.size_in_bytes),
        (-5, 3),
        (1, -1),
        (1, vector.size_in_bytes + 1),
    ):
        with pytest.raises(CorruptFileError):
            read_vector(local_store, "u", vector.path_or_inline, offset, size)
    local_store.put(written.path, local_store.read(written.path)[:100])
    with pytest.raises(CorruptFileError, match="no deletion vector"):
        read(local_store, vector)
    local_store.put(written.path, b"")
    with pytest.raises(CorruptFileError):
        read(local_store, vector)
    local_store.delete(written.path)
    with pytest.raises(FileMissingError, match="deletion_vector_"):
        read(local_store, vector)


def test_bad_descriptors(local_store: Store) -> None:
    with pytest.raises(UnsupportedFeatureError, match="storage type"):
        read_vector(local_store, "x", "", None, 0)
    with pytest.raises(CorruptFileError, match="Z85"):
        read_vector(local_store, "i", "not z85", None, 4)
    with pytest.raises(CorruptFileError, match="length"):
        read_vector(local_store, "i", PROTOCOL_INLINE, None, 50)
    with pytest.raises(CorruptFileError, match="file name"):
        vector_path("short")
    with pytest.raises(InputError):
        read_vector(local_store, "u", "../x" + z85.encode(bytes(16)), 1, 10)


def test_bad_bitmaps() -> None:
    native = struct.pack("<iii", 1681511376, 1, 50)
    for data in (
        native,
        native[:6],
        struct.pack(">ii", 1681511376, -1),
        b"",
        b"abc",
        b"abcdefgh",
        encode(SPARSE)[:50],
        encode(SPARSE)[:4],
    ):
        with pytest.raises(CorruptFileError):
            decode(data)


@given(POSITIONS, st.integers(0, 150), st.integers(0, 100))
def test_the_mask_is_false_exactly_at_dead_rows(positions: set[int], start: int, length: int) -> None:
    mask = keep_mask(BitMap64(positions), start, length)
    assert mask.type == pa.bool_()
    assert mask.to_pylist() == [row not in positions for row in range(start, start + length)]


def test_a_mask_far_beyond_32_bits() -> None:
    far = 2**40
    assert keep_mask(BitMap64([far + 1]), far, 3).to_pylist() == [True, False, True]


@given(st.lists(st.integers(0, 2**40)))
def test_arrow_both_ways(positions: list[int]) -> None:
    assert to_arrow(from_arrow(pa.array(positions, pa.int64()))).to_pylist() == sorted(set(positions))
    chunked = pa.chunked_array([positions, positions[1:]], pa.int64())
    assert from_arrow(chunked) == BitMap64(positions)
    assert from_arrow(
        pa.array(positions, pa.int32() if max(positions, default=0) < 2**31 else pa.int64()).slice(1)
    ) == BitMap64(positions[1:])


@pytest.mark.parametrize("inline_limit", [0, 10_000])
def test_a_foreign_reader_sees_the_same_rows(local_store: Store, inline_limit: int) -> None:
    rows = pa.table({"id": pa.array(range(100_000), pa.int64())})
    (Path(local_store.location.path) / "_delta_log").mkdir(parents=True)
    pq.write_table(rows, f"{local_store.location.path}/a.parquet")
    dead = BitMap64(range(0, 100_000, 3)) if inline_limit == 0 else BitMap64([0, 7, 99_999])
    (vector,) = write_vectors(local_store, [dead], inline_limit=inline_limit).vectors
    _write_log(local_store, vector)
    table = DeltaTable(local_store.location.path)
    found = QueryBuilder().register("t", table).execute("select id from t order by id").read_all()
    assert pa.table(found).column("id").to_pylist() == [n for n in range(100_000) if n not in dead]


def _write_log(store: Store, vector: StoredVector) -> None:
    features = {"readerFeatures": ["deletionVectors"], "writerFeatures": ["deletionVectors"]}
    schema = {"type": "struct", "fields": [{"name": "id", "type": "long", "nullable": True, "metadata": {}}]}
    descriptor = {
        "storageType": vector.storage_type,
        "pathOrInlineDv": vector.path_or_inline,
        "sizeInBytes": vector.size_in_bytes,
        "cardinality": vector.cardinality,
    }
    if vector.offset is not None:
        descriptor["offset"] = vector.offset
    actions = [
        {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, **features}},
        {
            "metaData": {
                "id": "11111111-2222-3333-4444-555555555555",
                "format": {"provider": "parquet", "options": {}},
                "schemaString": json.dumps(schema),
                "partitionColumns": [],
                "configuration": {"delta.enableDeletionVectors": "true"},
            }
        },
        {
            "add": {
                "path": "a.parquet",
                "partitionValues": {},
                "size": store.size("a.parquet"),
                "modificationTime": 0,
                "dataChange": True,
                "stats": json.dumps({"numRecords": 100_000}),
                "deletionVector": descriptor,
            }
        },
    ]
    store.put("_delta_log/00000000000000000000.json", "\n".join(map(json.dumps, actions)).encode())
