"""The keys of files that the process has written itself are known without reading them."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

import lakebed
from lakebed.engine.resolving import key_columns


@pytest.fixture(autouse=True)
def fresh() -> None:
    key_columns._shared.clear()


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The files whose keys were read, call by call."""
    seen: list[list[str]] = []
    real = key_columns._scan

    def scan(order, files, stored):  # type: ignore[no-untyped-def]
        seen.append([add.path for add in files])
        return real(order, files, stored)

    monkeypatch.setattr(key_columns, "_scan", scan)
    return seen


def table(tmp_path: Path, merge: str, schema: str = "id BIGINT, v BIGINT", **how: object) -> lakebed.Table:
    return lakebed.connect(tmp_path).create_table("t", schema, primary_key=["id"], buckets=2, merge=merge, **how)  # type: ignore[arg-type]


def test_what_was_just_written_is_settled_without_reading_it(tmp_path: Path, reads: list[list[str]]) -> None:
    t = table(tmp_path, "on-write")
    t.upsert([{"id": n, "v": 0} for n in range(100)])
    t.upsert([{"id": n, "v": 1} for n in range(50, 150)])
    assert reads == []
    assert t.to_arrow().sort_by("id")["v"].to_pylist() == [0] * 50 + [1] * 100


def test_upserts_that_wait_keep_no_keys(tmp_path: Path) -> None:
    t = table(tmp_path, "on-read")
    t.upsert([{"id": n, "v": 0} for n in range(100)])
    assert key_columns._shared.num_bytes == 0


def test_a_batch_that_is_large_against_the_limit_keeps_no_keys(tmp_path: Path, reads: list[list[str]]) -> None:
    lake = lakebed.connect(tmp_path, writer_memory_limit="8KiB")
    t = lake.create_table("t", "id BIGINT, v BIGINT", primary_key=["id"], buckets=1, merge="on-write")
    t.upsert([{"id": n, "v": 0} for n in range(100)])
    assert len(reads) == 1
    assert t.to_arrow().num_rows == 100


def test_tables_with_a_sequence_keep_no_keys(tmp_path: Path) -> None:
    t = table(tmp_path, "on-write", sequence=["v"])
    t.upsert([{"id": n, "v": 0} for n in range(100)])
    assert key_columns._shared.num_bytes == 0


def test_keys_of_text_are_not_kept(tmp_path: Path, reads: list[list[str]]) -> None:
    t = table(tmp_path, "on-write", "id STRING, v BIGINT")
    t.upsert([{"id": f"a{n}", "v": 0} for n in range(9)])
    assert reads
    t.upsert([{"id": f"a{n}", "v": 1} for n in range(5, 12)])
    assert t.to_arrow().sort_by("id")["v"].to_pylist() == [0, 0, 1, 1, 0, 0, 0, 1, 1, 1, 1, 1]


def test_keys_in_pieces_are_put_together_when_they_are_asked_for() -> None:
    cache = key_columns.KeyCache()
    rows = pl.concat([pl.DataFrame({"k0": [1, 2]}), pl.DataFrame({"k0": [3]})], rechunk=False)
    cache.keep({"file": key_columns.WholeKeys(rows, ascending=True)}, 24, 1000)
    for _ in range(2):
        found = cache.find("file")
        assert found is not None
        assert found.ascending
        assert found.rows.n_chunks() == 1
        assert found.rows["k0"].to_list() == [1, 2, 3]
