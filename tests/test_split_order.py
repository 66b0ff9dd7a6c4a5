"""Buckets that split in a batch, or in a transaction: what comes later still wins. And tables without buckets."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakebed

SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.int64())])


def batches(*parts: dict[int, int | None]) -> pa.RecordBatchReader:
    def rows() -> Iterator[pa.RecordBatch]:
        for part in parts:
            yield pa.record_batch([list(part), list(part.values())], schema=SCHEMA)

    return pa.RecordBatchReader.from_batches(SCHEMA, rows())


def make(root: Path, merge: str, target: int, **given: Any) -> tuple[lakebed.Warehouse, lakebed.Table]:
    lake = lakebed.connect(root, writer_memory_limit="64KiB")
    properties = {"dynamic-bucket.target-rows": target, **given.pop("properties", {})}
    settings = {"primary_key": ["id"], "buckets": "dynamic", "merge": merge, "properties": properties, **given}
    return lake, lake.create_table("t", "id BIGINT, v BIGINT", **settings)


def rows(table: Any) -> dict[int, int]:
    return {row["id"]: row["v"] for row in table.to_arrow().to_pylist()}


def check(table: lakebed.Table, expected: dict[int, int]) -> None:
    """Now, and settled for good."""
    assert rows(table) == expected
    table.settle()
    assert rows(table) == expected
    table.compact(full=True)
    assert rows(table) == expected


MERGES = pytest.mark.parametrize("merge", ["on-read", "on-write", "copy-on-write"])


@MERGES
def test_the_last_row_of_a_batch_wins_after_splits(tmp_path: Path, merge: str) -> None:
    """The bucket has split by the time the second row of a key comes, so that its file is of a child."""
    _, table = make(tmp_path, merge, 500)
    old, many, new = dict.fromkeys(range(200), 1), dict.fromkeys(range(1000, 9000), 2), dict.fromkeys(range(200), 3)
    table.upsert(batches(old, many, new))
    numbers = {file["path"].split("bucket")[1].split("/")[0] for file in table.files().to_pylist()}
    assert len(numbers) > 2, "no bucket has split"
    check(table, many | new)


@MERGES
def test_the_last_upsert_of_a_transaction_wins_after_splits(tmp_path: Path, merge: str) -> None:
    lake, table = make(tmp_path, merge, 4)
    with lake.transaction() as tx:
        mine = tx.table("t")
        mine.upsert([{"id": i, "v": 1} for i in range(3)])
        mine.upsert([{"id": i, "v": 2} for i in range(40)])
        mine.upsert([{"id": i, "v": 3} for i in range(0, 40, 7)])
        expected = {i: 2 if i % 7 else 3 for i in range(40)}
        assert rows(mine) == expected
    check(table, expected)


@MERGES
def test_a_deleted_key_that_comes_again_is_there_after_splits(tmp_path: Path, merge: str) -> None:
    lake, table = make(tmp_path, merge, 4)
    with lake.transaction() as tx:
        mine = tx.table("t")
        mine.upsert([{"id": i, "v": 1} for i in range(3)])
        mine.delete([{"id": i} for i in range(3)])
        mine.upsert([{"id": i, "v": 2} for i in range(40)])
        assert rows(mine) == dict.fromkeys(range(40), 2)
    check(table, dict.fromkeys(range(40), 2))


@pytest.mark.parametrize(
    ("merge", "function"),
    [
        ("on-read", "last_value"),
        ("on-write", "first_value"),
        ("copy-on-write", "last_value"),
        *(
            pytest.param(*pair, marks=pytest.mark.soak)
            for pair in (("on-read", "first_value"), ("on-write", "last_value"), ("copy-on-write", "first_value"))
        ),
    ],
)
def test_merged_values_are_folded_in_the_order_of_the_batch(tmp_path: Path, merge: str, function: str) -> None:
    given = {"merge_engine": "aggregation", "properties": {"fields.v.aggregate-function": function}}
    _, table = make(tmp_path, merge, 500, **given)
    old, many, new = dict.fromkeys(range(200), 1), dict.fromkeys(range(1000, 9000), 2), dict.fromkeys(range(200), 3)
    table.upsert(batches(old, many, new))
    check(table, many | (new if function == "last_value" else old))


@MERGES
def test_little_memory_and_every_change(tmp_path: Path, merge: str) -> None:
    """Merged rows come part by part, of which some are empty; all changes of them can be read."""
    lake = lakebed.connect(tmp_path, writer_memory_limit=600)
    ddl = "id BIGINT NOT NULL, k INT NOT NULL, a STRING, n INT, x FLOAT"
    given = {"primary_key": ["id", "k"], "buckets": 1, "merge": merge, "merge_engine": "partial-update"}
    table = lake.create_table("t", ddl, **given)
    nothing = {"a": None, "n": None, "x": None}
    table.upsert([{"id": 0, "k": 0, **nothing}, {"id": 1, "k": 0, **nothing}])
    table.upsert([{"id": 0, "k": 0, **nothing}])
    table.upsert([{"id": 1, "k": 0, **nothing, "a": "ä"}])
    found = table.changes(0, mode="all").to_arrow()
    told = sorted(zip(found["_commit_version"].to_pylist(), found["_change_type"].to_pylist(), strict=True))
    assert told == [(1, "insert"), (1, "insert"), (3, "update_postimage"), (3, "update_preimage")]


def test_unaware_a_table_without_key_has_no_buckets(tmp_path: Path) -> None:
    with lakebed.connect(tmp_path) as lake:
        table = lake.create_table("t", "id BIGINT, v BIGINT", buckets="unaware")
        for _ in range(2):
            table.append([{"id": 1, "v": 1}, {"id": 1, "v": 2}])
        assert table.count() == 4
        assert not any("bucket" in path for path in table.files()["path"].to_pylist())
        with pytest.raises(lakebed.LakebedError, match="unaware"):
            lake.create_table("u", "id BIGINT", primary_key=["id"], buckets="unaware")
