"""Tables without a key: what is written is read, whoever writes and reads."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from spark_reading import EVERY_TYPE, every_type
from worlds import SCHEMA, World, rows, shown

import lakebed


@pytest.fixture
def sales(world: World) -> lakebed.Table:
    """Ten rows in two partitions."""
    table = world.lake.create_table("sales", SCHEMA, partition_by=["part"])
    table.append(world.given(rows(range(10))))
    return table


def test_create_append_read(world: World) -> None:
    table = world.lake.create_table("t", SCHEMA, partition_by=["part"])
    assert (table.version, world.seen(table)) == (0, [])
    done = table.append(world.given(rows(range(10))))
    assert (done.version, done.operation, done.metrics["numOutputRows"]) == (1, "append", 10)
    assert world.seen(table) == shown(rows(range(10)))
    assert world.seen(table, ["name", "id"], "n > 3 and part = 'a'") == [
        {"name": row["name"], "id": row["id"]}
        for row in sorted(rows(range(10)).to_pylist(), key=lambda row: repr({"name": row["name"], "id": row["id"]}))
        if row["n"] > 3 and row["part"] == "a"
    ]
    assert world.ids(table, "name is null or id = 1") == [0, 1, 3, 6, 9]


def test_every_type(world: World) -> None:
    table = world.lake.create_table("t", EVERY_TYPE)
    given = [every_type(n) for n in range(3)] + [{"id": 5}]
    flat = pa.Table.from_pylist(
        [{**row, "pairs": list(row["pairs"].items())} if "pairs" in row else row for row in given],
        pa.schema([field.with_nullable(True) for field in table.schema]),
    )
    table.append(world.given(flat))
    assert len(world.seen(table)) == 4
    assert str(sorted(table.to_arrow().to_pylist(), key=lambda row: row["id"])) == str(flat.to_pylist())


def test_columns_are_found_by_name(world: World) -> None:
    table = world.lake.create_table("t", SCHEMA)
    table.append(world.given(pa.table({"NAME": ["x"], "Id": pa.array([7], pa.int32())})))
    assert world.seen(table) == [{"id": 7, "part": None, "n": None, "name": "x"}]


def test_rows_that_do_not_fit_change_nothing(world: World, sales: lakebed.Table) -> None:
    wrong = pa.table({"id": ["a"], "nam": ["x"]})
    with pytest.raises(lakebed.DataError) as caught:
        sales.append(world.given(wrong))
    assert "column id: expected BIGINT" in str(caught.value)
    assert "column nam: not in the table (did you mean 'name'?)" in str(caught.value)
    holed = pa.table({"id": pa.array([11, None], pa.int64())})
    with pytest.raises(lakebed.DataError, match="null"):
        sales.append(world.given(holed))
    assert sales.version == 1
    assert sales.vacuum("0 days", dry_run=True).files.num_rows == 0


def test_overwrite(world: World, sales: lakebed.Table) -> None:
    sales.overwrite(world.given(rows([20, 22], part="a")), where="part = 'a'")
    assert world.ids(sales) == [1, 3, 5, 7, 9, 20, 22]
    sales.overwrite(world.given(rows([30], part="b")), where="dynamic")
    assert world.ids(sales) == [20, 22, 30]
    with pytest.raises(lakebed.DataError, match="rows lie outside"):
        sales.overwrite(world.given(rows([1, 2])), where="part = 'a'")
    sales.overwrite(world.given(rows([22, 5])), where="id = 22 or id = 5")
    assert world.ids(sales) == [5, 20, 22, 30]
    sales.overwrite(world.given(rows([1])))
    assert world.seen(sales) == shown(rows([1]))
    assert [c.operation for c in sales.history(4)] == ["overwrite"] * 4


def test_save_modes(world: World, sales: lakebed.Table) -> None:
    assert sales.write(world.given(rows([99])), "ignore") is None
    with pytest.raises(lakebed.AlreadyExistsError):
        sales.write(world.given(rows([99])), "error")
    sales.write(world.given(rows([10])), "append")
    sales.write(world.given(rows([12])), "dynamic")
    assert world.ids(sales) == [1, 3, 5, 7, 9, 12]
    sales.write(world.given(rows([2])), "overwrite")
    assert world.ids(sales) == [2]
    sales.write(world.given(rows([4])), "overwrite", where="id = 4")
    assert world.ids(sales) == [2, 4]
    new = world.lake.create_table("new", SCHEMA)
    assert new.write(world.given(rows([1])), "error").version == 1
    with pytest.raises(lakebed.InputError, match="save mode"):
        sales.write(world.given(rows([1])), "replace")


def test_delete(world: World, sales: lakebed.Table) -> None:
    assert sales.delete("n > 4 or name is null").metrics["numDeletedRows"] == 5
    assert world.ids(sales) == [1, 2, 4, 7, 8]
    sales.delete("part = 'a'")
    assert world.ids(sales) == [1, 7]
    assert sales.delete("id = 100").metrics.get("numDeletedRows", 0) == 0
    sales.delete("true")
    assert world.seen(sales) == []


def test_compact_and_vacuum(world: World) -> None:
    table = world.lake.create_table("t", SCHEMA)
    for start in range(0, 12, 2):
        table.append(world.given(rows([start, start + 1])))
    table.delete("id in (3, 8)")
    before = sorted(table.to_arrow().to_pylist(), key=repr)
    assert table.compact(full=True).version == table.version
    assert table.files().num_rows == 1
    assert table.files()["dead_rows"].to_pylist() == [0]
    table.expire("0 days")
    assert table.vacuum("0 days").files.num_rows >= 6
    assert world.seen(table) == before
    with pytest.raises(lakebed.NotFoundError, match="expired"):
        table.at(version=6)


def test_compaction_changes_no_row_of_any_version(world: World, sales: lakebed.Table) -> None:
    sales.delete("id in (3, 8)")
    before = world.seen(sales)
    assert sales.compact(full=True).version == 3
    assert world.seen(sales) == world.seen(sales.at(version=2)) == before
    assert world.seen(sales.at(version=1)) == shown(rows(range(10)))


def test_time_travel_and_restore(world: World, sales: lakebed.Table) -> None:
    moment = sales.history(1)[0].timestamp
    sales.tag("ten")
    frame = sales.df() if world.spark is not None else None
    sales.overwrite(world.given(rows([50])))
    for view in (sales.at(version=1), sales.at(timestamp=moment.isoformat()), sales.at(tag="ten")):
        assert world.seen(view) == shown(rows(range(10)))
    assert world.seen(sales.at(version=0)) == []
    assert frame is None or frame.count() == 10
    sales.restore(tag="ten")
    assert world.seen(sales) == shown(rows(range(10)))
    with pytest.raises(lakebed.NotFoundError, match="no version 9"):
        sales.at(version=9)


def test_schema_evolution(world: World) -> None:
    table = world.lake.create_table("t", "id BIGINT NOT NULL, n INT, deep STRUCT<a: INT>")
    first = pa.table({"id": [1], "n": pa.array([1], pa.int32()), "deep": [{"a": 1}]})
    table.append(world.given(first), explicit_cast=True)
    wider: dict[str, Any] = {"id": [2], "n": [2**40], "deep": [{"a": 5, "b": "new"}], "extra": ["x"]}
    with pytest.raises(lakebed.DataError, match="column extra: not in the table"):
        table.append(world.given(pa.table(wider)))
    table.append(world.given(pa.table(wider)), merge_schema=True)
    expected = [
        {"id": 1, "n": 1, "deep": {"a": 1, "b": None}, "extra": None},
        {"id": 2, "n": 2**40, "deep": {"a": 5, "b": "new"}, "extra": "x"},
    ]
    assert world.seen(table) == expected
    table.alter(rename={"n": "number"}, drop=["extra"], add={"day": "DATE"})
    table.append(world.given(pa.table({"id": [3], "number": ["7"]})), explicit_cast=True)
    assert [(row["id"], row["number"], row["day"]) for row in world.seen(table)] == [
        (1, 1, None),
        (2, 2**40, None),
        (3, 7, None),
    ]
    assert world.seen(table.at(version=2)) == expected
    with pytest.raises((lakebed.DataError, lakebed.JobError), match="seven"):
        table.append(world.given(pa.table({"id": [4], "number": ["seven"]})), explicit_cast=True)
    assert table.count() == 3


def test_a_transaction_over_two_tables(world: World, sales: lakebed.Table) -> None:
    other = world.lake.create_table("other", SCHEMA)
    with world.lake.transaction() as tx:
        tx.table("sales").delete("id < 5")
        tx.table("sales").append(world.given(rows([70])))
        tx.table("other").append(world.given(rows([1])))
        assert tx.table("sales").count() == 6
        assert (sales.count(), other.count()) == (10, 0)
    assert world.ids(sales) == [5, 6, 7, 8, 9, 70]
    assert world.ids(other) == [1]


def test_a_repeated_write_counts_once(world: World, sales: lakebed.Table) -> None:
    first = sales.append(world.given(rows([20])), txn=("loader", 1))
    again = sales.append(world.given(rows([20])), txn=("loader", 1))
    assert (first.version, again.version, first.repeated, again.repeated) == (2, 2, False, True)
    assert world.ids(sales) == [*range(10), 20]


def test_what_is_not_there_is_told(world: World, sales: lakebed.Table) -> None:
    with pytest.raises(lakebed.NotFoundError, match=r"default\.sale"):
        world.lake.table("sale")
    with pytest.raises(lakebed.InputError, match="no column 'nam'"):
        world.seen(sales, ["nam"])
    with pytest.raises(lakebed.LakebedError, match="nothing"):
        sales.delete("nothing = 1")
    with pytest.raises(lakebed.AlreadyExistsError):
        world.lake.create_table("sales", SCHEMA)
    with pytest.raises(lakebed.InputError, match="primary key"):
        sales.upsert(world.given(rows([1])))
    assert sales.version == 1
