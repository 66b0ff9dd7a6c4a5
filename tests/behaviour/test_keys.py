"""Tables with a primary key: upserts, merge engines, bucket modes and what is settled, whoever writes and reads."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from worlds import SCHEMA, World, rows, shown

import lakebed

MODES: dict[str, dict[str, Any]] = {
    "fixed": {"buckets": 3},
    "dynamic": {"buckets": "dynamic", "properties": {"dynamic-bucket.target-rows": 10}},
    "postpone": {"buckets": "postpone"},
    "fixed, partitions": {"buckets": 2, "partition_by": ["part"], "primary_key": ["part", "id"]},
    "cross-partition": {"buckets": 2, "partition_by": ["part"]},
}


def users(world: World, **kind: Any) -> lakebed.Table:
    return world.lake.create_table("users", SCHEMA, **{"primary_key": ["id"], "buckets": 2, **kind})


@pytest.mark.parametrize("merge", ["on-write", "on-read", "copy-on-write"])
def test_upsert_settle_and_what_others_see(world: World, merge: str) -> None:
    table = users(world, merge=merge)
    table.upsert(world.given(rows(range(10))))
    table.settle()
    began = table.version
    twice = pa.concat_tables([rows([4, 5, 10], n=1), rows([5, 10], n=2)])
    table.upsert(world.given(twice))
    expected = shown(rows([0, 1, 2, 3, 6, 7, 8, 9]), rows([4], n=1), rows([5, 10], n=2))
    assert world.seen(table) == expected
    settled = expected if merge != "on-read" else shown(rows(range(10)))
    assert world.seen(table.read_optimised()) == settled
    assert world.seen(table, where="n = 5") == [row for row in expected if row["n"] == 5]
    assert (table.settle().version is None) == (merge != "on-read")
    assert world.seen(table.read_optimised()) == world.seen(table) == expected
    assert world.seen(lakebed.read_delta(table.location, spark=world.spark)) == expected
    assert world.seen(table.at(version=began)) == shown(rows(range(10)))


@pytest.mark.parametrize("mode", MODES)
def test_bucket_modes(world: World, mode: str) -> None:
    table = users(world, **MODES[mode])
    table.upsert(world.given(rows(range(30))))
    again = rows(range(20, 40), n=100, **({"part": "c"} if "cross" in mode else {}))
    table.upsert(world.given(again))
    assert world.seen(table) == shown(rows(range(20)), again)
    table.compact(full=True)
    assert world.seen(table) == shown(rows(range(20)), again)


@pytest.mark.parametrize("engine", ["first-row", "partial-update", "aggregation"])
@pytest.mark.parametrize("merge", ["on-write", "on-read"])
def test_merge_engines(world: World, engine: str, merge: str) -> None:
    properties = {"fields.n.aggregate-function": "sum"} if engine == "aggregation" else {}
    table = users(world, merge=merge, merge_engine=engine, properties=properties)
    table.upsert(world.given(rows([1, 2], n=10, name="old")))
    table.upsert(world.given(pa.concat_tables([rows([2, 3], n=5, name=None), rows([3], n=7, name="new")])))
    after = {
        "first-row": {2: (10, "old"), 3: (5, None)},
        "partial-update": {2: (5, "old"), 3: (7, "new")},
        "aggregation": {2: (15, "old"), 3: (12, "new")},
    }[engine]
    expected = {1: (10, "old"), **after}
    assert {row["id"]: (row["n"], row["name"]) for row in world.seen(table)} == expected
    table.settle()
    assert {row["id"]: (row["n"], row["name"]) for row in world.seen(table)} == expected


@pytest.mark.parametrize("merge", ["on-write", "on-read"])
def test_deletes(world: World, merge: str) -> None:
    table = users(world, merge=merge)
    table.append(world.given(rows(range(10))))
    assert table.delete(world.given(pa.table({"id": [1, 2, 99]}))).metrics["numDeletedKeys"] == 3
    kinds = rows([3, 4, 20]).append_column("op", pa.array(["-D", "+U", "+I"]))
    table.upsert(world.given(kinds), row_kind="op")
    assert table.delete("id > 7 and id < 20").metrics["numDeletedRows"] == 2
    assert world.seen(table) == shown(rows([0, 4, 5, 6, 7, 20]))
    table.upsert(world.given(rows([1])))
    assert world.ids(table) == [0, 1, 4, 5, 6, 7, 20]


def test_a_late_row_loses_by_its_sequence(world: World) -> None:
    table = users(world, sequence=["n"])
    table.upsert(world.given(rows([1, 2], n=5)))
    table.delete(world.given(pa.table({"id": [2], "n": pa.array([9], pa.int32())})))
    table.upsert(world.given(pa.concat_tables([rows([1, 2], n=4, name="late"), rows([3], n=1)])))
    assert world.seen(table) == shown(rows([1], n=5), rows([3], n=1))


def test_overwrite(world: World) -> None:
    table = users(world, partition_by=["part"], primary_key=["part", "id"])
    table.upsert(world.given(rows(range(10))))
    table.overwrite(world.given(rows([50], part="a")), where="part = 'a'")
    assert world.ids(table) == [1, 3, 5, 7, 9, 50]
    table.overwrite(world.given(rows([51])), where="dynamic")
    assert world.ids(table) == [50, 51]
    table.write(world.given(rows([51, 53], n=3)), "upsert")
    assert world.seen(table) == shown(rows([50], part="a"), rows([51, 53], n=3))
    table.overwrite(world.given(rows([1])))
    assert world.seen(table) == shown(rows([1]))


def test_maintenance(world: World) -> None:
    table = users(world, merge="on-read")
    for number in range(5):
        table.upsert(world.given(rows(range(number, number + 20), n=number)))
    expected = shown(*(rows([i], n=min(i, 4)) for i in range(24)))
    assert world.seen(table) == expected
    done = table.compact(full=True)
    assert (done.buckets, table.files().num_rows) == (2, 2)
    assert world.seen(table) == world.seen(table.read_optimised()) == expected


def test_vacuum(world: World) -> None:
    """Frames keep the versions that they read; of a table that was only written, the old files go."""
    table = users(world)
    for number in range(3):
        table.upsert(world.given(rows(range(number, number + 20), n=number)))
    table.compact(full=True)
    table.expire("0 days")
    assert table.vacuum("0 days").files.num_rows > 0
    assert world.seen(table) == shown(*(rows([i], n=min(i, 2)) for i in range(22)))


def test_schema_evolution_between_upserts(world: World) -> None:
    table = users(world, merge="on-read")
    table.upsert(world.given(rows(range(4))))
    table.alter(rename={"name": "label"}, widen={"n": "BIGINT"}, add={"day": "DATE"})
    table.upsert(world.given(pa.table({"id": [3, 4], "n": [2**40, 1], "label": ["x", "y"]})))
    seen = {row["id"]: (row["n"], row["label"], row["day"]) for row in world.seen(table)}
    assert seen == {0: (0, None, None), 1: (1, "name 1", None), 2: (2, "name 2", None), 3: (2**40, "x", None),
                    4: (1, "y", None)}  # fmt: skip
    table.upsert(world.given(pa.table({"id": [9], "more": [[1, 2]]})), merge_schema=True)
    assert world.seen(table, ["more"], "id = 9") == [{"more": [1, 2]}]


def test_rows_without_a_key_change_nothing(world: World) -> None:
    table = users(world)
    table.upsert(world.given(rows([1])))
    with pytest.raises(lakebed.DataError, match="null"):
        table.upsert(world.given(pa.table({"id": pa.array([5, None], pa.int64())})))
    with pytest.raises(lakebed.DataError, match="id"):
        table.upsert(world.given(pa.table({"name": ["x"]})))
    with pytest.raises(lakebed.DataError, match="op"):
        table.upsert(world.given(rows([1]).append_column("op", pa.array(["?"]))), row_kind="op")
    assert table.version == 1
    assert table.vacuum("0 days", dry_run=True).files.num_rows == 0
    assert world.seen(table) == shown(rows([1]))
