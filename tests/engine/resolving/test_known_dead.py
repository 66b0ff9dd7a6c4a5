"""Dead rows of files, kept in the process."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyroaring import BitMap64

import lakebed
from lakebed.engine.resolving import known_dead
from lakebed.engine.resolving.known_dead import DeadRows
from lakebed.storage.deletion_vector import size_in_memory

SOME = BitMap64(range(0, 3000, 3))
SIZE = size_in_memory(SOME) + known_dead._ENTRY_BYTES


def test_what_was_not_used_for_longest_goes_first() -> None:
    cache = DeadRows(limit=2 * SIZE)
    cache.keep("a", SOME)
    cache.keep("b", SOME)
    assert cache.find("a") == SOME
    cache.keep("c", SOME)
    assert [cache.find(name) is not None for name in "abc"] == [True, False, True]
    assert cache.num_bytes == 2 * SIZE


def test_more_than_the_limit_is_not_kept_and_nothing_counts_twice() -> None:
    cache = DeadRows(limit=SIZE)
    cache.keep("a", SOME)
    cache.keep("a", SOME)
    assert cache.num_bytes == SIZE
    cache.keep("b", BitMap64(range(0, 30_000, 3)))
    assert cache.find("b") is None
    assert cache.num_bytes == 0


def upserts(table: lakebed.Table, count: int) -> dict[int, int]:
    """Every third key, then every fifth, …: large enough that vectors are not inline."""
    model = {}
    for number in range(count):
        keys = range(0, 30_000, 1 + 2 * number)
        table.upsert([{"id": key, "n": number} for key in keys])
        model |= dict.fromkeys(keys, number)
    return model


def rows(table: lakebed.Table) -> dict[int, int]:
    return {row["id"]: row["n"] for row in table.to_arrow().to_pylist()}


def test_a_writer_reads_no_vector_that_it_has_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[object] = []
    real = known_dead.dead_rows
    monkeypatch.setattr(known_dead, "dead_rows", lambda store, vector: read.append(vector) or real(store, vector))
    given = {"primary_key": ["id"], "buckets": 2, "properties": {"compact-on-write": 0}}
    table = lakebed.connect(tmp_path).create_table("t", "id BIGINT, n INT", **given)
    model = upserts(table, 4)
    assert rows(table) == model
    assert not read
    monkeypatch.setattr(known_dead, "_shared", DeadRows())  # as in another process
    table.upsert([{"id": key, "n": 9} for key in range(0, 30_000, 7)])
    assert read
    assert rows(table) == model | dict.fromkeys(range(0, 30_000, 7), 9)


def test_tables_and_restored_versions_do_not_take_each_others(tmp_path: Path) -> None:
    lake = lakebed.connect(tmp_path)
    given = {"primary_key": ["id"], "buckets": 1, "properties": {"compact-on-write": 0}}
    one, other = (lake.create_table(name, "id BIGINT, n INT", **given) for name in ("one", "other"))
    model = upserts(one, 3)
    upserts(other, 2)
    before = {version: rows(one.at(version=version)) for version in range(1, one.version + 1)}
    one.restore(version=2)
    one.upsert([{"id": key, "n": 9} for key in range(0, 30_000, 11)])
    assert rows(one) == before[2] | dict.fromkeys(range(0, 30_000, 11), 9)
    assert {version: rows(one.at(version=version)) for version in before} == before
    assert before[one.version - 2] == model
