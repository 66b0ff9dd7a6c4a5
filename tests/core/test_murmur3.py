"""The hash is Spark's: by vectors that a real Spark gave (tests/vectors), and by a slow reference that they prove."""

import json
import random
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal, localcontext
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakebed.core import murmur3
from lakebed.core.bucketing import fixed
from lakebed.core.errors import InputError
from lakebed.core.murmur3 import spark_hash

VECTORS = json.loads((Path(__file__).parent.parent / "vectors" / "murmur3.json").read_text())
CASES = VECTORS["cases"]
NAMES = ["+".join(case["types"]) for case in CASES]
EPOCH = datetime(1970, 1, 1)

ARROW = {
    "tinyint": pa.int8(), "smallint": pa.int16(), "int": pa.int32(), "bigint": pa.int64(), "boolean": pa.bool_(),
    "date": pa.date32(), "timestamp": pa.timestamp("us", "UTC"), "timestamp_ntz": pa.timestamp("us"),
    "string": pa.string(), "binary": pa.binary(),
}  # fmt: skip


def arrow_type(kind: str) -> pa.DataType:
    if kind.startswith("decimal"):
        precision, scale = kind[len("decimal(") : -1].split(",")
        return pa.decimal128(int(precision), int(scale))
    return ARROW[kind]


def column(kind: str, carriers: list[Any]) -> pa.Array:
    if kind == "binary":
        carriers = [None if text is None else bytes.fromhex(text) for text in carriers]
    elif kind.startswith("decimal"):
        carriers = [None if text is None else Decimal(text) for text in carriers]
    elif kind == "date":
        return pa.array(carriers, pa.int32()).view(pa.date32())
    elif kind.startswith("timestamp"):
        return pa.array(carriers, pa.int64()).view(arrow_type(kind))
    return pa.array(carriers, arrow_type(kind))


def columns(case: dict[str, Any]) -> list[pa.Array]:
    return [column(kind, [row[at] for row in case["rows"]]) for at, kind in enumerate(case["types"])]


# --- the reference: Spark's Murmur3_x86_32 and HashExpression, value by value


def mix(h: int, k: int) -> int:
    k = k * 0xCC9E2D51 % 2**32
    h ^= (k << 15 | k >> 17) * 0x1B873593 % 2**32
    return ((h << 13 | h >> 19) * 5 + 0xE6546B64) % 2**32


def finish(h: int, length: int) -> int:
    h ^= length
    h = (h ^ h >> 16) * 0x85EBCA6B % 2**32
    h = (h ^ h >> 13) * 0xC2B2AE35 % 2**32
    return h ^ h >> 16


def reference_bytes(h: int, data: bytes) -> int:
    aligned = len(data) // 4 * 4
    for at in range(0, aligned, 4):
        h = mix(h, int.from_bytes(data[at : at + 4], "little"))
    for byte in data[aligned:]:
        h = mix(h, (byte - 256 if byte > 127 else byte) % 2**32)
    return finish(h, len(data))


def reference_value(h: int, value: Any, kind: pa.DataType) -> int:
    if value is None:
        return h
    if isinstance(value, str):
        return reference_bytes(h, value.encode())
    if isinstance(value, bytes):
        return reference_bytes(h, value)
    if isinstance(value, Decimal):
        with localcontext(prec=60):
            unscaled = int(value.scaleb(kind.scale))
        if kind.precision > 18:
            length = (unscaled if unscaled >= 0 else ~unscaled).bit_length() // 8 + 1
            return reference_bytes(h, unscaled.to_bytes(length, "big", signed=True))
        value = unscaled
    elif kind.bit_width < 64:
        return finish(mix(h, value % 2**32), 4)
    return finish(mix(mix(h, value % 2**32), value % 2**64 >> 32), 8)


def plain(array: pa.Array) -> list[Any]:
    """Values as the reference takes them: numbers of days and microseconds for dates and timestamps."""
    if pa.types.is_date(array.type):
        return array.view(pa.int32()).to_pylist()
    if pa.types.is_timestamp(array.type):
        return array.view(pa.int64()).to_pylist()
    return array.to_pylist()


def reference(arrays: list[pa.Array]) -> list[int]:
    results = []
    for row in zip(*(plain(array) for array in arrays), strict=True):
        h = 42
        for value, array in zip(row, arrays, strict=True):
            h = reference_value(h, value, array.type)
        results.append(h - 2**32 if h >= 2**31 else h)
    return results


# --- vectors


@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_hash_is_what_spark_gave(case: dict[str, Any]) -> None:
    assert spark_hash(columns(case)).to_pylist() == case["hashes"]


@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_bucket_is_what_spark_gave(case: dict[str, Any]) -> None:
    hashes = spark_hash(columns(case))
    assert {n: fixed(hashes, int(n)).to_pylist() for n in case["buckets"]} == case["buckets"]


@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_the_reference_is_what_spark_gave(case: dict[str, Any]) -> None:
    assert reference(columns(case)) == case["hashes"]


def test_vectors_have_every_key_type_and_all_short_lengths() -> None:
    kinds = {kind for case in CASES for kind in case["types"]}
    assert set(ARROW) <= kinds
    assert {"decimal(18,0)", "decimal(19,0)", "decimal(38,0)"} <= kinds
    assert max(len(case["types"]) for case in CASES) == 8
    singles = {case["types"][0]: case["rows"] for case in CASES if len(case["types"]) == 1}
    assert set(range(18)) <= {len(text) // 2 for (text,) in singles["binary"] if text is not None}
    assert set(range(18)) <= {len(text.encode()) for (text,) in singles["string"] if text is not None}


# --- anything else, by the reference

VALUES = {
    pa.int8(): st.integers(-(2**7), 2**7 - 1),
    pa.int16(): st.integers(-(2**15), 2**15 - 1),
    pa.int32(): st.integers(-(2**31), 2**31 - 1),
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.bool_(): st.booleans(),
    pa.string(): st.text(max_size=40),
    pa.binary(): st.binary(max_size=40),
    pa.date32(): st.dates(),
    pa.timestamp("us"): st.datetimes(),
    pa.timestamp("us", "UTC"): st.datetimes(timezones=st.just(UTC)),
    pa.decimal128(12, 3): st.decimals(min_value=-999999999, max_value=999999999, places=3),
    pa.decimal128(18, 0): st.integers(-(10**18) + 1, 10**18 - 1).map(Decimal),
    pa.decimal128(19, 0): st.integers(-(10**19) + 1, 10**19 - 1).map(Decimal),
    pa.decimal128(38, 0): st.integers(-(10**38) + 1, 10**38 - 1).map(Decimal),
}
TYPES = st.sampled_from(list(VALUES))


@st.composite
def key_columns(draw: st.DrawFn) -> list[pa.Array]:
    kinds = draw(st.lists(TYPES, min_size=1, max_size=8))
    rows = draw(st.integers(0, 12))
    return [pa.array(draw(st.lists(st.none() | VALUES[kind], min_size=rows, max_size=rows)), kind) for kind in kinds]


@given(key_columns())
def test_any_columns(arrays: list[pa.Array]) -> None:
    assert spark_hash(arrays).to_pylist() == reference(arrays)


@given(key_columns(), st.integers(0, 6), st.integers(0, 6))
def test_slices_and_chunks_hash_as_their_rows(arrays: list[pa.Array], first: int, cut: int) -> None:
    expected = reference(arrays)[first:]
    assert spark_hash([array[first:] for array in arrays]).to_pylist() == expected
    chunked = [pa.chunked_array([array[:cut], array[cut:]], array.type)[first:] for array in arrays]
    assert spark_hash(chunked).to_pylist() == expected


@settings(max_examples=30)
@given(st.lists(st.integers(0, 90), max_size=60), st.randoms(use_true_random=False))
def test_pieces_of_any_size_give_the_same(lengths: list[int], some: random.Random) -> None:
    arrays = [
        pa.array([some.randbytes(n) for n in lengths], pa.binary()),
        pa.array([some.getrandbits(63) for _ in lengths], pa.int64()),
        pa.array([some.choice([None, "x" * n]) for n in lengths], pa.string()),
    ]
    expected = reference(arrays)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(murmur3, "_PIECE_ROWS", 7)
        patch.setattr(murmur3, "_PIECE_BYTES", 50)
        patch.setattr(murmur3, "_MANY_ROUNDS", 3)
        assert spark_hash(arrays).to_pylist() == expected


def test_many_rows_of_every_length_and_some_very_long_ones() -> None:
    some = random.Random(1)
    values = [some.randbytes(some.choice([0, 1, 2, 3, 4, 7, 36, some.randint(0, 300)])) for _ in range(3000)]
    values[17], values[2900], values[5] = some.randbytes(50_001), some.randbytes(70_003), b""
    arrays = [pa.array(values, pa.binary()), pa.array(values, pa.large_binary())]
    assert spark_hash(arrays[:1]).to_pylist() == reference(arrays[:1])
    assert spark_hash(arrays).to_pylist() == reference(arrays)


@pytest.mark.parametrize(
    "other",
    [pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())],
    ids=str,
)
def test_every_layout_of_a_string_hashes_alike(other: pa.DataType) -> None:
    text = pa.array(["", "a", None, "größer", "x" * 50])
    assert spark_hash([text.cast(other)]).equals(spark_hash([text]))


def test_other_units_and_widths_hash_as_the_column_they_become() -> None:
    moments = pa.array([datetime(1969, 12, 31, 23, 59, 59), None, EPOCH + timedelta(days=20000)], pa.timestamp("us"))
    for unit in ("s", "ms", "ns"):
        assert spark_hash([moments.cast(pa.timestamp(unit))]).equals(spark_hash([moments]))
    days = pa.array([date(1960, 2, 29), None], pa.date32())
    assert spark_hash([days.cast(pa.date64())]).equals(spark_hash([days]))
    numbers = pa.array([0, 255, None], pa.int16())
    assert spark_hash([numbers.cast(pa.uint8())]).equals(spark_hash([numbers]))


def test_no_rows() -> None:
    assert spark_hash([pa.array([], pa.string()), pa.chunked_array([], pa.int64())]).equals(pa.array([], pa.int32()))


@pytest.mark.parametrize("kind", [pa.float32(), pa.float64(), pa.list_(pa.int64()), pa.struct([("a", pa.int8())])])
def test_types_without_a_key_are_refused(kind: pa.DataType) -> None:
    with pytest.raises(InputError, match="is no key"):
        spark_hash([pa.array([], kind)])


def test_columns_must_be_of_one_length() -> None:
    with pytest.raises(InputError, match="of one length; found 1, 2"):
        spark_hash([pa.array([1]), pa.array([1, 2])])
    with pytest.raises(InputError, match="found none"):
        spark_hash([])


def test_a_moment_that_no_table_can_hold_is_refused() -> None:
    with pytest.raises(InputError, match=r"expected values that fit timestamp\[us\]"):
        spark_hash([pa.array([1], pa.timestamp("ns"))])
