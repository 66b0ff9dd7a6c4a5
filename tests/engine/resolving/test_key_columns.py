"""Key columns of whole files, kept in the process."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

import lakebed
from lakebed.engine.resolving import key_columns
from lakebed.engine.resolving.key_columns import KeyCache, WholeKeys

ROWS = WholeKeys(pl.DataFrame({"k0": [1, 2]}), ascending=True)


def test_what_was_not_used_for_longest_goes_first() -> None:
    cache = KeyCache()
    cache.keep({"a": ROWS, "b": ROWS}, 40, limit=100)
    cache.keep({"c": ROWS}, 40, limit=100)
    assert cache.find("a") is ROWS
    cache.keep({"d": ROWS}, 40, limit=100)
    assert [cache.find(name) is ROWS for name in "abcd"] == [True, True, False, True]
    assert cache.num_bytes == 80


def test_more_than_the_limit_is_not_kept() -> None:
    cache = KeyCache()
    cache.keep({"a": ROWS}, 40, limit=100)
    cache.keep({"b": ROWS}, 101, limit=100)
    assert cache.find("a") is ROWS
    assert cache.find("b") is None


def test_a_file_that_was_read_twice_stays_as_long_as_one_of_them() -> None:
    cache = KeyCache()
    cache.keep({"a": ROWS}, 60, limit=100)
    cache.keep({"a": ROWS, "b": ROWS}, 60, limit=100)
    assert cache.find("a") is ROWS
    cache.clear()
    assert cache.find("a") is None
    assert cache.num_bytes == 0


@pytest.fixture
def scans(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many files each scan of key columns has read."""
    found: list[int] = []
    real = key_columns._scan

    def scan(order: object, files: list[object], stored: object) -> object:
        found.append(len(files))
        return real(order, files, stored)  # type: ignore[arg-type]

    monkeypatch.setattr(key_columns, "_scan", scan)
    return found


def test_a_writer_reads_the_keys_of_others_once_and_its_own_never(tmp_path: Path, scans: list[int]) -> None:
    with lakebed.connect(tmp_path) as lake:
        table = lake.create_table("t", "id BIGINT, n INT", primary_key=["id"], buckets=1)
        for number in range(4):
            table.upsert([{"id": key, "n": number} for key in range(number, 100)])
            if not number:
                key_columns._shared.clear()  # as if another process had written it
        assert scans == [1]
        assert table.count() == 100
        assert sorted((row["id"], row["n"]) for row in table.to_arrow().to_pylist()) == [
            (key, min(key, 3)) for key in range(100)
        ]


def test_nothing_is_kept_where_the_option_says_so(tmp_path: Path, scans: list[int]) -> None:
    with lakebed.connect(tmp_path, key_cache_size=0) as lake:
        table = lake.create_table("t", "id BIGINT, n INT", primary_key=["id"], buckets=1)
        for number in range(3):
            table.upsert([{"id": key, "n": number} for key in range(number, 50)])
        assert scans == []
        assert table.count() == 50


def test_a_restored_and_altered_table_finds_its_keys(tmp_path: Path) -> None:
    with lakebed.connect(tmp_path) as lake:
        table = lake.create_table("t", "id BIGINT, n INT", primary_key=["id"], buckets=1)
        table.upsert([{"id": 1, "n": 1}, {"id": 2, "n": 1}])
        table.upsert([{"id": 1, "n": 2}])
        table.restore(version=1)
        table.alter(rename={"id": "key"})
        table.upsert([{"key": 1, "n": 3}, {"key": 3, "n": 3}])
        assert sorted((row["key"], row["n"]) for row in table.to_arrow().to_pylist()) == [(1, 3), (2, 1), (3, 3)]


@pytest.mark.parametrize("name", ["id", "my.key", "list.element"])
def test_keys_are_read_by_their_whole_name(tmp_path: Path, scans: list[int], name: str) -> None:
    """To Arrow a dot may stand between a struct and its member."""
    schema = f"my STRUCT<key: BIGINT>, list ARRAY<BIGINT>, `{name}` BIGINT"
    with lakebed.connect(tmp_path) as lake:
        table = lake.create_table("t", schema, primary_key=[name], buckets=1)
        for number in range(3):
            rows = [{"my": {"key": -key}, "list": [7 * number], name: key} for key in range(number, 30)]
            table.upsert(rows)
            key_columns._shared.clear()
        assert scans
        found = {row[name]: row["list"] for row in table.to_arrow().to_pylist()}
        assert found == {key: [7 * min(key, 2)] for key in range(30)}
