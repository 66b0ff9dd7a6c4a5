"""Compaction keeps every row, its id and its version; and knows when there is nothing to do."""

from __future__ import annotations

import datetime as dt
import decimal
import json
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from data_files import Lake, committed, metadata
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap64

from lakebed.core.actions import AddFile, Metadata
from lakebed.core.errors import InputError, StorageError
from lakebed.core.file_tags import KIND_COLUMN, ROW_ID_COLUMN, ROW_VERSION_COLUMN, bucket_of, file_tags, tombstones_of
from lakebed.core.location import Location
from lakebed.core.options import Options
from lakebed.core.schema import INTEGER, LONG, MAPPING_NAME, STRING, Field, Struct
from lakebed.core.schema_arrow import to_arrow
from lakebed.core.steps import Step, observe
from lakebed.engine import key_runs
from lakebed.engine.compact import choose, rewrite
from lakebed.engine.source import Source
from lakebed.engine.write import WriteOrder
from lakebed.storage.parquet_reader import read_table
from lakebed.storage.parquet_writer import ParquetFileWriter
from lakebed.storage.store import Store, open_store

TRACKED = [ROW_ID_COLUMN, ROW_VERSION_COLUMN]
KEYED = metadata("id BIGINT NOT NULL, n BIGINT", key=["id"])
LATE = metadata("id BIGINT NOT NULL, n BIGINT, must STRING NOT NULL", key=["id"], sequence=["n"])
PLAIN = metadata("id BIGINT, n BIGINT")


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path)


def rows_of(*ids: int, n: int = 0) -> list[dict[str, Any]]:
    return [{"id": i, "n": n} for i in ids]


def as_set(rows: Sequence[dict[str, Any]]) -> set[str]:
    found = {repr(sorted(row.items())) for row in rows}
    assert len(found) == len(rows)
    return found


def physical(lake: Lake, source: Source) -> pa.Table:
    return pq.read_table(lake.root / source.add.file_path, partitioning=None)


# What is rewritten


def test_rows_keep_their_ids_and_versions(lake: Lake) -> None:
    a = lake.add(KEYED, rows_of(1, 3, 5), base=0, version=1, bucket=2, dead=[1])
    b = lake.add(KEYED, rows_of(2, 3, 4), base=3, version=4, bucket=2)
    before = lake.tracked(KEYED, [a, b])
    after = committed(rewrite(lake.order(KEYED), [a, b]), lake)
    (only,) = after
    assert [row["id"] for row in lake.tracked(KEYED, after)] == [1, 2, 3, 4, 5]
    assert as_set(lake.tracked(KEYED, after)) == as_set(before)
    assert only.add.tags == file_tags(2)
    assert only.add.file_path.startswith("bucket-00002/")
    stats = json.loads(only.add.stats or "")
    assert (stats["numRecords"], stats["minValues"], stats["maxValues"]) == (5, {"id": 1, "n": 0}, {"id": 5, "n": 0})
    assert stats["nullCount"] == {"id": 0, "n": 0}


def test_twice_rewritten(lake: Lake) -> None:
    sources = [lake.add(KEYED, rows_of(i), base=i, version=i, bucket=0) for i in range(4)]
    before = lake.tracked(KEYED, sources)
    once = committed(rewrite(lake.order(KEYED), sources), lake)
    twice = committed(rewrite(lake.order(KEYED), once), lake, base=5_000_000)
    assert lake.tracked(KEYED, twice) == before


def test_a_table_without_key_keeps_the_order_of_its_files(lake: Lake) -> None:
    a = lake.add(PLAIN, rows_of(5, 1), base=0, version=1)
    b = lake.add(PLAIN, rows_of(3, 2), base=2, version=2, dead=[0])
    (made,) = committed(rewrite(lake.order(PLAIN), [a, b]), lake)
    assert [row["id"] for row in lake.tracked(PLAIN, [made])] == [5, 1, 2]
    assert made.add.tags is None
    assert "/" not in made.add.path


@pytest.mark.parametrize("dead", [[], [0, 1, 2]])
def test_nothing_alive(lake: Lake, dead: list[int]) -> None:
    source = lake.add(KEYED, rows_of(*range(len(dead))), bucket=0, dead=dead)
    before = lake.files()
    assert rewrite(lake.order(KEYED), [source]) == []
    assert rewrite(lake.order(KEYED), []) == []
    assert lake.files() == before


def test_rows_of_a_file_that_is_not_committed_get_the_ids_of_their_new_file(lake: Lake) -> None:
    a = lake.add(KEYED, rows_of(2), base=7, version=3, bucket=0)
    b = lake.add(KEYED, rows_of(1), base=None, version=None, bucket=0)
    after = committed(rewrite(lake.order(KEYED), [a, b]), lake, base=50, version=9)
    found = [(row["id"], row[ROW_ID_COLUMN], row[ROW_VERSION_COLUMN]) for row in lake.tracked(KEYED, after)]
    assert found == [(1, 50, 9), (2, 7, 3)]


def test_a_table_without_row_tracking_gets_no_hidden_columns(lake: Lake) -> None:
    foreign = replace(PLAIN, configuration={})
    source = lake.add(foreign, rows_of(1, 2), base=None, version=None, dead=[0])
    (made,) = committed(rewrite(lake.order(foreign), [source]), lake)
    assert physical(lake, made).to_pylist() == rows_of(2)


@pytest.mark.parametrize("limit", [1, 3000, 1 << 27])
def test_columns_that_were_added_widened_and_renamed_since(lake: Lake, limit: int) -> None:
    old = metadata(Struct((Field("id", INTEGER, False, {MAPPING_NAME: "c-1"}),)), key=["id"])
    fields = (Field("extra", STRING), Field("number", LONG, False, {MAPPING_NAME: "c-1"}))
    of = metadata(Struct(fields), key=["number"], **{"delta.columnMapping.mode": "name"})
    a = lake.add(old, [{"id": 1}, {"id": 3}], base=0, bucket=0)
    b = lake.add(of, [{"number": 2, "extra": "x"}], base=2, bucket=0)
    (made,) = committed(rewrite(lake.order(of, writer_memory_limit=limit), [a, b]), lake)
    found = [(row["number"], row["extra"], row[ROW_ID_COLUMN]) for row in lake.tracked(of, [made])]
    assert found == [(1, None, 0), (2, "x", 2), (3, None, 1)]
    stored = physical(lake, made)
    assert stored.schema.names == ["extra", "c-1", *TRACKED]
    assert stored.schema.field("c-1").type == pa.int64()
    assert not stored.schema.field("c-1").nullable


@pytest.mark.parametrize("limit", [1, 1 << 27])
def test_nested_columns_and_maps(lake: Lake, limit: int) -> None:
    of = metadata(
        "id BIGINT NOT NULL, m MAP<STRING, BIGINT>, l ARRAY<STRING>, s STRUCT<a: BIGINT, b: MAP<STRING, STRING>>",
        key=["id"],
    )
    row = {"m": [("k", 1)], "l": ["x", None], "s": {"a": 1, "b": [("k", "v")]}}
    a = lake.add(of, [{"id": i, **row} for i in (1, 4)], base=0, bucket=0)
    b = lake.add(of, [{"id": 2, "m": None, "l": None, "s": None}, {"id": 3, **row}], base=2, bucket=0, dead=[1])
    before = lake.tracked(of, [a, b])
    (made,) = committed(rewrite(lake.order(of, writer_memory_limit=limit), [a, b]), lake)
    assert as_set(lake.tracked(of, [made])) == as_set(before)
    assert json.loads(made.add.stats or "")["nullCount"]["l"] == 1


@pytest.mark.parametrize("limit", [1, 1 << 27])
def test_statistics_are_those_of_the_rows(lake: Lake, limit: int) -> None:
    of = metadata("id BIGINT NOT NULL, d DOUBLE, x DOUBLE, s STRING", key=["id"])
    rows = [{"id": i, "d": float(i), "x": float("nan") if i == 1 else 1.0, "s": None} for i in range(3)]
    (made,) = rewrite(lake.order(of, writer_memory_limit=limit), [lake.add(of, rows, bucket=0)])
    stats = json.loads(made.add.stats or "")
    assert stats["minValues"] == {"id": 0, "d": 0.0}
    assert stats["nullCount"] == {"id": 0, "d": 0, "x": 0, "s": 3}
    assert stats["tightBounds"] is True


@pytest.mark.parametrize("columns", ["-1", "1", "32"])
def test_hidden_columns_have_no_statistics(lake: Lake, columns: str) -> None:
    of = replace(LATE, configuration={**LATE.configuration, "delta.dataSkippingNumIndexedCols": columns})
    rows = [{"id": 1, "n": 1, "must": None, KIND_COLUMN: 3}, {"id": 2, "n": 1, "must": "x", KIND_COLUMN: None}]
    (made,) = rewrite(lake.order(of), [lake.add(of, rows, bucket=0, hidden=[KIND_COLUMN], dead=[0])])
    assert set(json.loads(made.add.stats or "")["nullCount"]) <= {"id", "n", "must"}


# Partitions and buckets


def test_each_partition_is_rewritten_for_itself(lake: Lake) -> None:
    of = metadata("id BIGINT NOT NULL, dt DATE, n BIGINT", key=["id"], partitions=["dt"])
    days: list[str | None] = ["2026-11-16", None, "2026-11-16"]
    sources = [lake.add(of, [{"id": i}], base=i, bucket=1, values={"dt": day}) for i, day in enumerate(days)]
    before = lake.tracked(of, sources)
    made = committed(rewrite(lake.order(of), sources), lake)
    assert as_set(lake.tracked(of, made)) == as_set(before)
    found = [(source.add.partition_values, source.add.file_path.rsplit("/", 1)[0]) for source in made]
    assert found == [
        ({"dt": "2026-11-16"}, "dt=2026-11-16/bucket-00001"),
        ({"dt": None}, "dt=__HIVE_DEFAULT_PARTITION__/bucket-00001"),
    ]


@pytest.mark.parametrize("limit", [1, 1 << 27])
def test_rows_move_to_other_buckets(lake: Lake, limit: int) -> None:
    of = metadata("id BIGINT NOT NULL, n BIGINT", key=["id"], **{"lakebed.buckets": "dynamic"})
    sources = [
        lake.add(of, rows_of(*range(0, 20, 2)), base=0, bucket=-1),
        lake.add(of, rows_of(*range(1, 20, 2)), base=10, bucket=-3),
    ]

    def halves(rows: pa.Table) -> pa.ChunkedArray:
        return pc.if_else(pc.less(rows.column("id"), 7), -2, -7)

    made = committed(rewrite(lake.order(of, writer_memory_limit=limit), sources, bucket_of=halves), lake)
    found = {bucket_of(source.add): [row["id"] for row in lake.tracked(of, [source])] for source in made}
    assert found == {-2: list(range(7)), -7: list(range(7, 20))}
    assert {source.add.file_path.split("/")[0] for source in made} == {"bucket-d1-0", "bucket-d2-11"}
    assert as_set(lake.tracked(of, made)) == as_set(lake.tracked(of, sources))


def test_files_of_several_buckets_need_to_know_where_rows_go(lake: Lake) -> None:
    sources = [lake.add(KEYED, rows_of(i), bucket=i) for i in (0, 1)]
    before = lake.files()
    with pytest.raises(InputError, match="several buckets"):
        rewrite(lake.order(KEYED), sources)
    assert lake.files() == before


# Tombstones


def stone(key: int, n: int | None) -> dict[str, Any]:
    return {"id": key, "n": n, "must": None, KIND_COLUMN: 3}


def put(key: int, n: int | None) -> dict[str, Any]:
    return {"id": key, "n": n, "must": "x", KIND_COLUMN: None}


@pytest.mark.parametrize("limit", [1, 1 << 27])
def test_tombstones_are_kept_and_dead(lake: Lake, limit: int) -> None:
    a = lake.add(LATE, [put(1, 1), stone(2, 7), put(3, 1)], base=0, bucket=0, hidden=[KIND_COLUMN], dead=[1, 2])
    b = lake.add(LATE, [put(0, 1), put(4, 1)], base=3, bucket=0)
    made = rewrite(lake.order(LATE, writer_memory_limit=limit), [a, b])
    assert [sorted(one.dead) for one in made] == [[2]]
    after = committed(made, lake)
    assert [row["id"] for row in lake.tracked(LATE, after)] == [0, 1, 4]
    kinds = [(row["id"], row["n"], row[KIND_COLUMN]) for row in lake.tracked(LATE, after, tombstones=True)]
    assert kinds == [(0, 1, 0), (1, 1, 0), (2, 7, 3), (4, 1, 0)]
    assert tombstones_of(after[0].add) == 1
    assert json.loads(after[0].add.stats or "")["tightBounds"] is False
    schema = physical(lake, after[0]).schema
    assert (schema.field("id").nullable, schema.field("must").nullable) == (False, True)


def test_tombstones_of_a_table_without_sequence_are_dropped(lake: Lake) -> None:
    rows = [{"id": 1, "n": 1, KIND_COLUMN: None}, {"id": 2, "n": None, KIND_COLUMN: 3}]
    source = lake.add(KEYED, rows, bucket=0, hidden=[KIND_COLUMN], dead=[1])
    (made,) = rewrite(lake.order(KEYED), [source])
    assert (made.add.num_records, made.add.tags, len(made.dead)) == (1, file_tags(0), 0)


def test_tombstones_that_a_later_row_has_replaced_are_dropped(lake: Lake) -> None:
    a = lake.add(LATE, [stone(1, 5), stone(2, 5), stone(3, None)], bucket=0, hidden=[KIND_COLUMN], dead=[0, 1, 2])
    b = lake.add(LATE, [put(1, 5), stone(2, 7), stone(3, 1)], base=3, bucket=0, hidden=[KIND_COLUMN], dead=[1, 2])
    (made,) = committed(rewrite(lake.order(LATE), [a, b]), lake)
    found = lake.tracked(LATE, [made], tombstones=True)
    assert [(row["id"], row["n"], row[KIND_COLUMN]) for row in found] == [(1, 5, 0), (2, 7, 3), (3, 1, 3)]


def test_a_replaced_tombstone_is_found_although_its_key_was_cut_in_two(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beyond so many files, merged rows wait in a local file, which is read in parts that end anywhere."""
    monkeypatch.setattr(key_runs, "FAN_IN", 3)
    monkeypatch.setattr(key_runs, "_SPILL_ROWS", 1)
    stones = lake.add(LATE, [stone(i, 5) for i in range(9)], bucket=0, hidden=[KIND_COLUMN], dead=range(9))
    puts = [lake.add(LATE, [put(i, 6), put(i + 3, 6)], base=20 * i, bucket=0) for i in range(1, 4)]
    (made,) = committed(rewrite(lake.order(LATE, writer_memory_limit=1), [stones, *puts]), lake)
    found = lake.tracked(LATE, [made], tombstones=True)
    assert [(row["id"], row[KIND_COLUMN]) for row in found] == [(i, 0 if 1 <= i <= 6 else 3) for i in range(9)]


def test_only_tombstones(lake: Lake) -> None:
    source = lake.add(LATE, [stone(1, 5), put(2, 1)], bucket=0, hidden=[KIND_COLUMN], dead=[0, 1])
    (made,) = rewrite(lake.order(LATE), [source])
    assert (made.add.num_records, sorted(made.dead)) == (1, [0])
    assert choose(committed([made], lake), LATE, Options(), full=True) == []


# Memory, order and sizes


@pytest.mark.parametrize("limit", [1, 2000, 20_000, 1 << 27])
@pytest.mark.parametrize("target", [2000, 6000, 1 << 27])
def test_any_memory_limit_and_target_size(lake: Lake, limit: int, target: int) -> None:
    sources = [lake.add(KEYED, rows_of(*range(i, 600, 3)), base=1000 * i, version=i, bucket=0) for i in range(3)]
    before = lake.tracked(KEYED, sources)
    order = lake.order(KEYED, writer_memory_limit=limit, file_target_size=target, batch_size=64)
    made = committed(rewrite(order, sources), lake)
    after = lake.tracked(KEYED, made)
    assert as_set(after) == as_set(before)
    assert [row["id"] for row in after] == list(range(600))
    assert all(source.add.size >= target for source in made[:-1])
    assert choose(made, KEYED, order.options, full=True) == []


def test_memory_stays_bounded(lake: Lake) -> None:
    """DuckLake #687, #853: compaction takes memory by the size of the table. Here by the writer's limit."""
    many = [{"id": i, "n": i * 7919 % 100_003} for i in range(60_000)]
    small = lake.options.updated({"max_row_group_rows": 5000})
    sources = [Lake(lake.root, small).add(KEYED, many[i::4], base=i * 20_000, bucket=0) for i in range(4)]
    order = lake.order(KEYED, writer_memory_limit="256KiB", max_row_group_rows=5000)
    before = pa.total_allocated_bytes()
    peaks: list[int] = []
    seen: list[Step] = []
    stop = observe(seen.append)

    def all_in_zero(rows: pa.Table) -> pa.Array:
        peaks.append(pa.total_allocated_bytes() - before)
        return pa.repeat(0, rows.num_rows)

    try:
        made = committed(rewrite(order, sources, bucket_of=all_in_zero), lake)
    finally:
        stop()
    assert pq.ParquetFile(lake.root / made[0].add.file_path).num_row_groups > 4
    # All rows take 1.9 MB in memory, with row ids and versions; pages of open files come on top of the limit.
    assert len(peaks) > 10
    assert max(peaks) < 1_400_000
    assert seen == [Step.COMPACT_WRITTEN]
    assert [row["id"] for row in lake.tracked(KEYED, made)] == list(range(60_000))


@pytest.mark.parametrize("limit", [1, 5000, 1 << 27])
def test_files_that_are_not_sorted_become_so(lake: Lake, limit: int) -> None:
    a = lake.add(KEYED, rows_of(*(i * 37 % 300 for i in range(300))), base=0, bucket=0)
    b = lake.add(KEYED, rows_of(*range(300, 600)), base=300, bucket=0)
    before = lake.tracked(KEYED, [a, b])
    files = lake.files()
    made = committed(rewrite(lake.order(KEYED, writer_memory_limit=limit, batch_size=16), [a, b]), lake)
    assert [row["id"] for row in lake.tracked(KEYED, made)] == list(range(600))
    assert as_set(lake.tracked(KEYED, made)) == as_set(before)
    assert len(lake.files()) == len(files) + len(made)


@pytest.mark.parametrize("limit", [1, 1 << 27])
def test_more_files_than_are_merged_at_a_time(lake: Lake, limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_runs, "FAN_IN", 3)
    sources = [lake.add(KEYED, rows_of(*range(i, 40, 10)), base=i * 4, bucket=0) for i in range(10)]
    made = committed(rewrite(lake.order(KEYED, writer_memory_limit=limit), sources), lake)
    assert [row["id"] for row in lake.tracked(KEYED, made)] == list(range(40))
    assert as_set(lake.tracked(KEYED, made)) == as_set(lake.tracked(KEYED, sources))


KEYS: dict[str, Callable[[int], Any]] = {
    "STRING": lambda i: ["", "a", "ä", "z", "\U0001f600", "\uffee"][i],
    "BINARY": lambda i: bytes([i * 50]),
    "DECIMAL(10,2)": lambda i: decimal.Decimal(i - 3) / 4,
    "DATE": lambda i: dt.date(1969, 12, 29) + dt.timedelta(i),
    "TIMESTAMP": lambda i: dt.datetime(1969, 12, 31, 23, 59, 57, tzinfo=dt.UTC) + dt.timedelta(seconds=i),
    "TINYINT": lambda i: i - 3,
}


@pytest.mark.parametrize("limit", [1, 1 << 27])
@pytest.mark.parametrize("kind", KEYS)
def test_keys_of_every_type(lake: Lake, kind: str, limit: int) -> None:
    of = metadata(f"a {kind} NOT NULL, b BOOLEAN NOT NULL", key=["a", "b"])
    rows = pa.Table.from_pylist([{"a": KEYS[kind](i), "b": bool(j)} for i in range(6) for j in (0, 1)])
    rows = rows.sort_by([("a", "ascending"), ("b", "ascending")]).to_pylist()
    sources = [lake.add(of, rows[i::3], base=i * 4, bucket=0) for i in range(3)]
    order = lake.order(of, writer_memory_limit=limit, batch_size=1)
    made = committed(rewrite(order, sources), lake)
    assert [{"a": row["a"], "b": row["b"]} for row in lake.tracked(of, made)] == rows


# Failure


@pytest.mark.parametrize("limit", [1, 1 << 27])
@pytest.mark.parametrize("target", [1, 1 << 27])
def test_an_aborted_rewrite_leaves_no_file(lake: Lake, limit: int, target: int) -> None:
    days = ["1", "2"]
    of = metadata("id BIGINT NOT NULL, dt BIGINT", key=["id"], partitions=["dt"])
    sources = [lake.add(of, rows_of(*range(500)), bucket=0, values={"dt": day}) for day in days]
    before = lake.files()
    seen = 0

    def fail(step: Step) -> None:
        nonlocal seen
        seen += 1
        if seen == 2:
            raise StorageError("no more")

    stop = observe(fail)
    try:
        with pytest.raises(StorageError, match="no more"):
            rewrite(lake.order(of, writer_memory_limit=limit, file_target_size=target), sources)
    finally:
        stop()
    assert seen == 2
    assert lake.files() == before


@pytest.mark.parametrize("limit", [1, 1 << 27])
def test_a_source_that_breaks_in_the_middle(lake: Lake, limit: int) -> None:
    sources = [lake.add(KEYED, rows_of(*range(500)), bucket=0), lake.add(KEYED, rows_of(*range(500, 900)), bucket=0)]
    before = [name for name in lake.files() if name != sources[1].add.path]
    (lake.root / sources[1].add.path).unlink()
    with pytest.raises(StorageError, match="missing"):
        rewrite(lake.order(KEYED, writer_memory_limit=limit), sources)
    assert lake.files() == before


def test_files_of_another_writer_that_do_not_count_their_rows(lake: Lake) -> None:
    source = lake.add(PLAIN, rows_of(*range(1000)), dead=[7])
    silent = Source(replace(source.add, stats=None))
    assert choose([silent], PLAIN, Options(), full=False) == [[silent]]
    (made,) = committed(rewrite(lake.order(PLAIN), [silent]), lake)
    assert made.add.num_records == 999
    assert pq.ParquetFile(lake.root / made.add.path).num_row_groups == 1


@pytest.mark.s3
@pytest.mark.parametrize("limit", [1, 1 << 27])
def test_on_an_object_store(s3: Any, limit: int) -> None:
    options = Options.parse(s3.options())
    store = open_store(Location.parse(f"s3://{s3.new_bucket()}/t"), options)
    rows = pa.table({"id": range(2000), "n": range(2000)}, schema=to_arrow(KEYED.schema))
    sources = []
    for half in (0, 1):
        writer = ParquetFileWriter(store, f"{half}.parquet", KEYED.schema, options)
        writer.write(rows.filter(pc.equal(pc.bit_wise_and(rows.column("id"), 1), half)))
        made = writer.close()
        sources.append(Source(AddFile(made.path, {}, made.size, 0, True, made.stats_json, file_tags(0), None, half, 1)))
    order = WriteOrder(store, "t", KEYED, options.updated({"writer_memory_limit": limit}))
    (one,) = rewrite(order, sources)
    assert file_column(store, one.add.file_path) == list(range(2000))
    before = sorted(info.path for info in store.list())

    def fail(rows: pa.Table) -> pa.Array:
        if rows.column("id")[-1].as_py() == 1999:
            raise StorageError("no more")
        return pa.repeat(0, rows.num_rows)

    with pytest.raises(StorageError, match="no more"):
        rewrite(order, sources, bucket_of=fail)
    assert sorted(info.path for info in store.list()) == before


def file_column(store: Store, path: str) -> list[int]:
    found: list[int] = read_table(store, path, ["id"]).column("id").to_pylist()
    return found


# What is chosen


def sized(lake: Lake, of: Metadata, size: int, *, rows: int = 10, dead: int = 0, **changes: Any) -> Source:
    add = lake.add(of, [], bucket=0).add
    return Source(replace(add, size=size, stats=json.dumps({"numRecords": rows}), **changes), BitMap64(range(dead)))


@pytest.fixture
def file(lake: Lake) -> Callable[..., Source]:
    return lambda size, of=KEYED, **facts: sized(lake, of, size, **facts)


TARGET = Options(file_target_size=100)


def test_few_small_files_stay(file: Callable[..., Source]) -> None:
    files = [file(10) for _ in range(4)] + [file(60)]
    assert choose(files, KEYED, TARGET, full=False) == []


def test_many_small_files_are_packed(file: Callable[..., Source]) -> None:
    large = [file(60), file(1000)]
    small = [file(10) for _ in range(5)]
    assert choose([*large, *small], KEYED, TARGET, full=False) == [small]


def test_files_with_many_dead_rows(file: Callable[..., Source]) -> None:
    wasteful, frugal = file(1000, dead=2), file(1000, dead=1)
    assert choose([wasteful, frugal], KEYED, TARGET, full=False) == [[wasteful]]
    assert choose([wasteful, frugal], KEYED, TARGET, full=True) == [[wasteful, frugal]]


def test_a_rewrite_that_would_make_one_small_file_too_many_takes_them_all(file: Callable[..., Source]) -> None:
    files = [file(10) for _ in range(4)] + [file(1000, dead=5)]
    assert choose(files, KEYED, TARGET, full=False) == [files]


def test_full_packs_two_small_files_but_not_one(file: Callable[..., Source]) -> None:
    large, small = file(60), [file(10), file(20)]
    assert choose([large, *small], KEYED, TARGET, full=True) == [small]
    assert choose([large, small[0]], KEYED, TARGET, full=True) == []


def test_thresholds_are_properties(file: Callable[..., Source]) -> None:
    eager = replace(
        KEYED,
        configuration={
            **KEYED.configuration,
            "lakebed.compaction-small-files": "1",
            "lakebed.compaction-dead-ratio": "0.1",
        },
    )
    assert choose([file(1000, dead=1)], eager, TARGET, full=False) != []
    assert choose([file(1)], eager, TARGET, full=False) == []
    assert choose([file(1), file(1)], eager, TARGET, full=False) != []


def test_tombstones_that_stay_are_no_waste(file: Callable[..., Source]) -> None:
    full_of_them = {"dead": 10, "tags": file_tags(0, tombstones=10)}
    assert choose([file(1000, **full_of_them)], LATE, TARGET, full=True) == []
    assert choose([file(1000, **full_of_them)], KEYED, TARGET, full=True) != []


def test_partitions_of_a_bucket_are_chosen_apart(file: Callable[..., Source]) -> None:
    files = [file(10, partition_values={"dt": str(i % 2)}) for i in range(4)]
    assert choose(files, KEYED, TARGET, full=True) == [files[::2], files[1::2]]


def test_unsettled_files_are_passed_over(file: Callable[..., Source]) -> None:
    files = [file(10, tags=file_tags(0, unsettled=True)) for _ in range(9)]
    assert choose(files, KEYED, TARGET, full=True) == []


# All together


@st.composite
def histories(draw: st.DrawFn) -> dict[str, Any]:
    """Files of one bucket, as a history of upserts and deletes leaves them, and the limits of a rewrite."""
    key = st.integers(0, 30)
    files = draw(st.lists(st.dictionaries(key, st.booleans(), max_size=12), max_size=6))
    return {
        "files": files,
        "late": draw(st.booleans()),
        "limit": draw(st.sampled_from([1, 500, 5000, 1 << 27])),
        "target": draw(st.sampled_from([1, 3000, 1 << 27])),
        "full": draw(st.booleans()),
        "threshold": draw(st.sampled_from(["1", "2", "5"])),
        "sorted": draw(st.booleans()),
        "shuffle": draw(st.randoms(use_true_random=False)),
    }


@given(histories())
def test_any_history(made: dict[str, Any]) -> None:
    of = LATE if made["late"] else metadata("id BIGINT NOT NULL, n BIGINT, must STRING NOT NULL", key=["id"])
    of = replace(of, configuration={**of.configuration, "lakebed.compaction-small-files": made["threshold"]})
    with tempfile.TemporaryDirectory() as folder:
        lake = Lake(Path(folder))
        sources = _settled(lake, of, made)
        order = lake.order(of, writer_memory_limit=made["limit"], file_target_size=made["target"], batch_size=4)
        before, stones = lake.tracked(of, sources), _stones(lake, of, sources)
        for _ in range(2):
            groups = choose(sources, of, order.options, full=made["full"])
            for number, group in enumerate(groups):
                new = committed(rewrite(order, group), lake, base=10_000 * (number + 1))
                for source in new:
                    ids = [row["id"] for row in lake.tracked(of, [source])]
                    assert ids == sorted(set(ids))
                sources = [source for source in sources if source not in group] + new
            assert as_set(lake.tracked(of, sources)) == as_set(before)
            if made["late"]:
                assert _stones(lake, of, sources) == stones
        assert choose(sources, of, order.options, full=made["full"]) == []


def _settled(lake: Lake, of: Metadata, made: dict[str, Any]) -> list[Source]:
    """Each file's keys are dead in the files before it."""
    files: list[dict[int, bool]] = made["files"]
    sources = []
    for version, file in enumerate(files):
        later = {key for after in files[version + 1 :] for key in after}
        keys = sorted(file)
        if not made["sorted"]:
            made["shuffle"].shuffle(keys)
        rows = [put(key, version) if file[key] else stone(key, version) for key in keys]
        dead = [at for at, key in enumerate(keys) if key in later or not file[key]]
        sources.append(
            lake.add(of, rows, base=version * 100, version=version, bucket=0, hidden=[KIND_COLUMN], dead=dead)
        )
    return sources


def _stones(lake: Lake, of: Metadata, sources: Sequence[Source]) -> dict[int, int]:
    """The latest sequence of each key that is deleted."""
    rows = lake.tracked(of, sources, tombstones=True)
    live = {row["id"] for row in rows if row[KIND_COLUMN] == 0}
    stones: dict[int, int] = {}
    for row in rows:
        if row[KIND_COLUMN] == 3 and row["id"] not in live:
            stones[row["id"]] = max(row["n"], stones.get(row["id"], -1))
    return stones
