"""Buckets are the same on both sides: Spark's ``hash()`` and ours agree on random keys of every type."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lakebed.core.bucketing import fixed
from lakebed.core.murmur3 import spark_hash

pytestmark = pytest.mark.spark

BUCKETS = (1, 7, 8, 1000)
PIECE = 100_000
_ALPHABET = [*map(chr, range(0x20, 0x7F)), *"äöüßé日本語😀\x00\x7f\u0301\U0010ffff"]
Made = Callable[[np.random.Generator, int], pa.Array]


def whole(kind: pa.DataType) -> Made:
    """Numbers of every magnitude: uniform ones would nearly all be large."""

    def make(random: np.random.Generator, count: int) -> pa.Array:
        bits = kind.bit_width
        values = random.integers(-(2 ** (bits - 1)), 2 ** (bits - 1), count, dtype=f"int{bits}")
        return pa.array(values >> random.integers(0, bits, count).astype(values.dtype)).view(kind)

    return make


def texts(random: np.random.Generator, count: int) -> pa.Array:
    pool = "".join(random.choice(_ALPHABET, 4096))
    return pa.array([pool[at : at + length] for at, length in _spans(random, count, 4096)], pa.string())


def binaries(random: np.random.Generator, count: int) -> pa.Array:
    pool = random.bytes(1 << 16)
    return pa.array([pool[at : at + length] for at, length in _spans(random, count, 1 << 16)], pa.binary())


def _spans(random: np.random.Generator, count: int, size: int) -> list[tuple[int, int]]:
    lengths = random.geometric(0.06, count) - 1
    return list(zip(random.integers(0, size, count).tolist(), lengths.tolist(), strict=True))


def decimals(precision: int, scale: int) -> Made:
    """Of every number of digits, as 128 bits each."""

    def make(random: np.random.Generator, count: int) -> pa.Array:
        digits = random.integers(0, precision + 1, count).tolist()
        large = [int.from_bytes(random.bytes(16), "little") for _ in range(count)]
        negative = random.integers(0, 2, count).tolist()
        values = [(-1) ** sign * (n % 10**d) for n, d, sign in zip(large, digits, negative, strict=True)]
        content = b"".join(value.to_bytes(16, "little", signed=True) for value in values)
        return pa.Array.from_buffers(pa.decimal128(precision, scale), count, [None, pa.py_buffer(content)])

    return make


def booleans(random: np.random.Generator, count: int) -> pa.Array:
    return pa.array(random.integers(0, 2, count).astype(bool))


TYPES: dict[str, Made] = {
    "tinyint": whole(pa.int8()),
    "smallint": whole(pa.int16()),
    "int": whole(pa.int32()),
    "bigint": whole(pa.int64()),
    "date": whole(pa.date32()),
    "timestamp": whole(pa.timestamp("us", "UTC")),
    "timestamp_ntz": whole(pa.timestamp("us")),
    "boolean": booleans,
    "string": texts,
    "binary": binaries,
    "decimal(7,2)": decimals(7, 2),
    "decimal(18,0)": decimals(18, 0),
    "decimal(19,4)": decimals(19, 4),
    "decimal(38,10)": decimals(38, 10),
}


def keys(seed: int, count: int) -> pa.Table:
    """A column of each type; every tenth value is null."""
    random = np.random.default_rng(seed)
    columns = {}
    for number, make in enumerate(TYPES.values()):
        column = make(random, count)
        assert len(column) == count
        columns[f"c{number}"] = pa.compute.if_else(pa.array(random.random(count) < 0.1), None, column)
    return pa.table(columns)


def compare(spark: Any, seed: int, count: int) -> None:
    rows = keys(seed, count)
    names = rows.column_names
    asked = [[name] for name in names] + [names, [names[3], names[8]], names[::-3]]
    hashes = [f"hash({', '.join(columns)})" for columns in asked]
    buckets = [f"pmod(hash({names[number % len(names)]}), {n})" for number, n in enumerate(BUCKETS)]
    # One partition: the rows stay in their order.
    found = spark.createDataFrame(rows).coalesce(1).selectExpr(*hashes, *buckets).toArrow()
    for columns, theirs in zip(asked, found.columns, strict=False):
        ours = spark_hash([rows[name] for name in columns])
        assert theirs.combine_chunks().equals(ours), columns
    for number, n in enumerate(BUCKETS):
        ours = fixed(spark_hash([rows[names[number % len(names)]]]), n)
        assert found.column(len(asked) + number).combine_chunks().equals(ours)


def test_hashes_agree(spark: Any) -> None:
    compare(spark, seed=4, count=20_000)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(10))
def test_a_million_hashes_of_each_type_agree(spark: Any, seed: int) -> None:
    compare(spark, seed, PIECE)
