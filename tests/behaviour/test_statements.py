"""Statements that change rows, files that are loaded, and changes that are read, whoever does it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from spark_reading import canonical, collected
from worlds import SCHEMA, World, rows, shown

import lakebed

KINDS: dict[str, dict[str, Any]] = {
    "rows": {"partition_by": ["part"]},
    "keys": {"primary_key": ["id"], "buckets": 2},
    "keys on read": {"primary_key": ["id"], "buckets": 2, "merge": "on-read"},
}


@pytest.fixture(params=KINDS)
def table(request: pytest.FixtureRequest, world: World) -> lakebed.Table:
    """Ten rows, in two commits."""
    made = world.lake.create_table("t", SCHEMA, **KINDS[request.param])
    made.append(world.given(rows(range(6))))
    made.append(world.given(rows(range(6, 10))))
    return made


def changed(world: World, changes: lakebed.Changes) -> list[tuple[Any, ...]]:
    """Kind and id of every change; every way to read them shows the same."""
    found = changes.to_arrow()
    if world.spark is not None:
        assert canonical(collected(changes.df(), found.schema)) == canonical(found)
    return sorted((row["_change_type"], row["id"]) for row in found.to_pylist())


def test_update(world: World, table: lakebed.Table) -> None:
    done = table.update({"n": "n + 100", "name": "upper(name)"}, where="id >= 4 and id < 8")
    assert (done.operation, done.metrics["numUpdatedRows"]) == ("update", 4)
    new = [
        {**row, "n": row["n"] + 100, "name": row["name"] and row["name"].upper()} for row in shown(rows(range(4, 8)))
    ]
    assert world.seen(table) == sorted([*shown(rows([0, 1, 2, 3, 8, 9])), *new], key=repr)
    with pytest.raises(lakebed.LakebedError, match="fails on a row"):
        table.update({"n": "id * 1000000000"})
    assert table.version == done.version


def test_merge(world: World, table: lakebed.Table) -> None:
    source = rows([3, 4, 5, 20, 21], n=50)
    done = (
        table.merge(world.given(source), on="t.id = s.id")
        .when_matched_delete("s.id = 3")
        .when_matched_update({"n": "t.n + s.n"})
        .when_not_matched_insert()
        .when_not_matched_by_source_update({"name": "'left'"}, "t.id < 2")
        .execute()
    )
    assert [done.metrics[f"num{what}Rows"] for what in ("Updated", "Deleted", "Inserted")] == [4, 1, 2]
    expected = [
        *shown(rows([2, 6, 7, 8, 9]), rows([0, 1], name="left"), rows([20, 21], n=50)),
        *({**row, "n": row["n"] + 50} for row in shown(rows([4, 5]))),
    ]
    assert world.seen(table) == sorted(expected, key=repr)


def test_merge_refuses_several_rows_for_one(world: World, table: lakebed.Table) -> None:
    twice = pa.concat_tables([rows([1], n=5), rows([1], n=6)])
    with pytest.raises(lakebed.DataError, match=r"(?s)several rows of the source match one row.*s\.id = 1"):
        table.merge(world.given(twice), on=["id"]).when_matched_update().execute()
    assert world.seen(table) == shown(rows(range(10)))
    table.merge(world.given(twice), on=["id"]).when_matched_update(condition="s.n = 6").execute()
    assert world.seen(table, where="id = 1") == shown(rows([1], n=6))
    assert table.vacuum("0 days", dry_run=True).files.num_rows == 0


def test_changes(world: World, table: lakebed.Table) -> None:
    began = table.version
    table.delete("id = 2")
    table.update({"n": 99}, where="id = 3")
    table.append(world.given(rows([30])))
    table.compact(full=True)
    # Without a key nothing tells which new row is the old one.
    update = ("update_preimage", "update_postimage") if table.primary_key else ("delete", "insert")
    told = [("delete", 2), ("insert", 30), *((kind, 3) for kind in update)]
    assert changed(world, table.changes(began)) == sorted(told)
    assert changed(world, table.changes(0, began)) == [("insert", i) for i in range(10)]


def test_restore(world: World, table: lakebed.Table) -> None:
    began = table.version
    table.delete("id < 5")
    table.append(world.given(rows([30])))
    table.restore(version=began)
    assert world.seen(table) == shown(rows(range(10)))
    assert world.ids(table.at(version=began + 2)) == [5, 6, 7, 8, 9, 30]


def test_copy_into(world: World, table: lakebed.Table, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    pq.write_table(rows([40, 41]), folder / "a.parquet")
    (folder / "b.csv").write_text("id,part\n42,a\n")
    (folder / "c.json").write_text('{"id": 43, "n": 1}\n')
    done = world.lake.copy_into("t", folder)
    assert (done.rows, len(done.files)) == (4, 3)
    pq.write_table(rows([44]), folder / "d.parquet")
    again = world.lake.copy_into("t", folder)
    assert (again.rows, len(again.skipped)) == (1, 3)
    assert world.ids(table) == [*range(10), 40, 41, 42, 43, 44]


def test_a_transaction_of_statements(world: World, table: lakebed.Table) -> None:
    other = world.lake.create_table("other", SCHEMA)
    before = table.version
    with world.lake.transaction() as tx:
        tx.table("t").update({"n": 7}, where="id = 1")
        tx.table("t").merge(world.given(rows([2, 50], n=8)), on=["id"]).when_matched_update(
            {"n": "s.n"}
        ).when_not_matched_insert().execute()
        tx.table("other").append(world.given(rows([1])))
        assert (table.version, other.version) == (before, 0)
    assert (table.version, world.ids(other)) == (before + 1, [1])
    expected = shown(rows([0, *range(3, 10)]), rows([1], n=7), rows([2, 50], n=8))
    assert world.seen(table) == expected
    with pytest.raises(RuntimeError, match="on purpose"), world.lake.transaction() as tx:
        tx.table("t").append(world.given(rows([77])))
        raise RuntimeError("on purpose")
    assert world.seen(table) == expected
    assert table.vacuum("0 days", dry_run=True).files.num_rows == 0
