"""docs/explanation/format.md is enough to read a table: a reader that was written from it agrees with Lakebed."""

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyroaring import BitMap64
from spec_reader import State, positions, read, spark_hash

import lakebed
from lakebed.core.murmur3 import spark_hash as our_hash
from lakebed.storage.deletion_vector import encode

KEY = {"primary_key": ["id"]}
COMMON = "id BIGINT, name STRING, ts INT, dt STRING, amount DOUBLE, n SMALLINT"
SHAPES: dict[str, dict[str, Any]] = {
    "no key": {"partition_by": ["dt"]},
    "on-write": {**KEY, "buckets": 2},
    "on-read": {**KEY, "buckets": 3, "merge": "on-read"},
    "copy-on-write": {**KEY, "buckets": 2, "merge": "copy-on-write"},
    "sequence": {**KEY, "buckets": 2, "merge": "on-read", "sequence": ["ts", "amount"]},
    "sequence, on-write": {**KEY, "buckets": 2, "sequence": ["ts"]},
    "dynamic": {**KEY, "merge": "on-read", "properties": {"dynamic-bucket.target-rows": 30}},
    "postpone": {**KEY, "buckets": "postpone", "merge": "on-read", "properties": {"dynamic-bucket.target-rows": 30}},
    "rows move": {**KEY, "buckets": 2, "merge": "on-read", "partition_by": ["dt"]},
    "partitions in the key": {"primary_key": ["dt", "name"], "partition_by": ["dt"], "merge": "on-read", "buckets": 4},
    "first-row": {**KEY, "buckets": 2, "merge": "on-read", "merge_engine": "first-row"},
}


def rows_of(chance: random.Random, count: int) -> list[dict[str, Any]]:
    return [
        {
            "id": chance.randrange(-60, 200),
            "name": "ä" * chance.randrange(4) + str(chance.randrange(80)),
            "ts": chance.choice([None, *range(6)]),
            "dt": chance.choice(["mon", "tue", "a b/ü"]),
            "amount": chance.choice([None, chance.uniform(0, 9)]),
            "n": chance.randrange(9),
        }
        for _ in range(count)
    ]


def history(lake: lakebed.Warehouse, shape: str, chance: random.Random) -> lakebed.Table:
    """A table with everything that its shape can have in it."""
    given = SHAPES[shape]
    table = lake.create_table("t", COMMON, **given)
    for step in range(10):
        rows = rows_of(chance, 150 if step == 0 else chance.choice([3, 15, 40]))
        if "primary_key" in given:
            kinds = ["+I"] if shape == "first-row" else ["+I", "+U", "-D"]
            table.upsert([row | {"op": chance.choice(kinds)} for row in rows], row_kind="op", merge_schema=True)
        else:
            table.append(rows, merge_schema=True)
        if step == 2:
            table.settle()
        if step == 3:
            table.compact(full=True)
        if step == 4:
            table.delete("amount > 8")
        if step == 5:
            table.alter(rename={"dt": "day"}, add={"note": "STRING"}, widen={"n": "BIGINT"})
            table.alter(rename={"day": "dt"}, drop=["note"])
            table.alter(add={"note": "STRING"})
            table.checkpoint()
        if step == 7 and "primary_key" in given and shape != "first-row":
            names = [*given["primary_key"], *given.get("sequence", ())]
            keys = [{"id": n, "name": str(n), "ts": 4, "dt": "mon", "amount": 1.0} for n in range(20)]
            table.delete([{name: key[name] for name in names} for key in keys])
    return table


SOAK = {"copy-on-write", "sequence, on-write", "postpone", "on-write", "rows move"}
"""Nothing of their own can break the reader; they show that it is so."""


@pytest.mark.parametrize("shape", [pytest.param(s, marks=[pytest.mark.soak] if s in SOAK else []) for s in SHAPES])
def test_the_reader_of_the_specification_agrees(shape: str, tmp_path: Path) -> None:
    with lakebed.connect(tmp_path) as lake:
        table = history(lake, shape, random.Random(shape))
        for version in {*range(1, table.version, 4), *range(table.version - 3, table.version + 1)}:
            expected = table.at(version=version).to_arrow().to_pylist()
            assert _sorted(read(tmp_path / "default/t", version)) == _sorted(expected), f"version {version}"
        state = State(tmp_path / "default/t")
        if SHAPES[shape].get("merge") == "on-read":
            assert state.unsettled, "the newest version is one that has to be matched"
        if "primary_key" in SHAPES[shape]:
            check_buckets(state, SHAPES[shape].get("buckets", "dynamic"))
        table.settle()
        assert _sorted(read(tmp_path / "default/t")) == _sorted(table.to_arrow().to_pylist())
        assert not State(tmp_path / "default/t").unsettled


def _sorted(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return sorted((tuple(row.items()) for row in rows), key=repr)


def check_buckets(state: State, buckets: int | str) -> None:
    """Every row is in the bucket that the hash of its key leads to."""
    key = state.setting("primary-key")
    kinds = [next(f["type"] for f in state.fields if f["name"] == name) for name in key]
    seen = set()
    for add in [*state.files.values(), *state.unsettled]:
        number = int(add["tags"]["lakebed.bucket"])
        seen.add(number)
        for row in state.rows(add):
            hashed = spark_hash([row[name] for name in key], kinds)
            if isinstance(buckets, int):
                assert (hashed - (1 << 32 if hashed >> 31 else 0)) % buckets == number
            else:
                depth = (-number).bit_length() - 1
                assert (1 << 32 | hashed) >> 32 - depth == -number
    assert len(seen) > 1
    assert any(name.startswith("lakebed.split.") for name in state.domains) == (buckets == "dynamic")


def test_vectors_in_files_are_read(tmp_path: Path) -> None:
    with lakebed.connect(tmp_path) as lake:
        table = lake.create_table("t", "id BIGINT", primary_key=["id"], buckets=2)
        table.upsert([{"id": n} for n in range(2000)])
        table.delete([{"id": n} for n in range(0, 2000, 3)])
    vectors = [add["deletionVector"]["storageType"] for add in State(tmp_path / "default/t").files.values()]
    assert vectors == ["u", "u"]
    assert sorted(row["id"] for row in read(tmp_path / "default/t")) == [n for n in range(2000) if n % 3]


def test_its_hash_is_the_one_of_the_code() -> None:
    values = ["", "a", "abc", "abcd", "äöü€x", "q" * 37]
    numbers = [0, -1, 2**40, -(2**63), 5, None]
    ours = our_hash([pa.array(values), pa.array(numbers, pa.int64())]).view(pa.uint32()).to_pylist()
    assert [spark_hash([v, n], ["string", "long"]) for v, n in zip(values, numbers, strict=True)] == ours


@pytest.mark.parametrize(
    "dead",
    [set(), {0}, set(range(9000)), {5, 70_000, 2**33}, set(range(0, 20_000, 2)), {n * 65536 for n in range(6)}],
    ids=["none", "one", "run", "far", "bits", "many containers"],
)
def test_its_bitmaps_are_those_of_the_code(dead: set[int]) -> None:
    assert positions(encode(BitMap64(dead))) == dead
