"""A merged value that its column cannot hold: what is said, what still works, and the ways out."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import lakebed
from lakebed.engine.maintain import UnsettledWarning

LARGEST = 2**31 - 1
MESSAGE = (
    r"table default.t: the sum of column 'n' does not fit into INT:\s+- for the key \{'id': 2\}\s+"
    r"fix: widen the column to BIGINT, or delete the row by its key"
)


def sums(lake: lakebed.Warehouse, merge: str = "on-read", **more: Any) -> lakebed.Table:
    """A table with sums, in which everything is settled."""
    properties = {"fields.n.aggregate-function": "sum", **more.pop("properties", {})}
    table = lake.create_table(
        "t", "id BIGINT, seq INT, n INT, note STRING", primary_key=["id"], buckets=1, merge=merge,
        merge_engine="aggregation", properties=properties, **more,
    )  # fmt: skip
    table.upsert([{"id": 1, "n": 1, "note": "a"}, {"id": 2, "n": LARGEST, "note": "b"}])
    table.settle()
    return table


def too_much(table: lakebed.Table) -> None:
    table.upsert([{"id": key, "seq": 1, "n": 5, "note": "c"} for key in (1, 2, 3)])


def rows(table: lakebed.Table, where: str | None = None) -> dict[int, int]:
    return {row["id"]: row["n"] for row in table.to_arrow(where=where).to_pylist()}


def test_what_does_not_need_the_value_still_works(local_lake: lakebed.Warehouse) -> None:
    table = sums(local_lake)
    too_much(table)
    for failing in (table.to_arrow, table.settle, table.compact, lambda: table.delete("note = 'c'")):
        with pytest.raises(lakebed.DataError, match=MESSAGE):
            failing()
    assert table.version == 3
    assert table.count() == 3
    assert table.to_arrow(["id", "note"]).num_rows == 3
    assert rows(table, "id <> 2") == {1: 6, 3: 5}
    assert table.read_optimised().count() == 2
    assert rows(table.at(version=2)) == {1: 1, 2: LARGEST}
    table.upsert([{"id": 4, "n": 1}])
    assert rows(table, "id = 4") == {4: 1}


WAYS_OUT: dict[str, tuple[Callable[[lakebed.Table], object], dict[int, int]]] = {
    "widen": (lambda table: table.alter(widen={"n": "BIGINT"}), {1: 6, 2: LARGEST + 5, 3: 5}),
    "widen to a decimal": (lambda table: table.alter(widen={"n": "DECIMAL(12,1)"}), {1: 6, 2: LARGEST + 5, 3: 5}),
    "delete": (lambda table: table.delete("id = 2"), {1: 6, 3: 5}),
    "delete more": (lambda table: table.delete("id in (2, 3, 7)"), {1: 6}),
    "delete all": (lambda table: table.delete("true"), {}),
    "overwrite": (lambda table: table.overwrite([{"id": 2, "n": 8}], where="id = 2"), {1: 6, 2: 8, 3: 5}),
    "overwrite all": (lambda table: table.overwrite([{"id": 2, "n": 8}]), {2: 8}),
    "restore": (lambda table: table.restore(2), {1: 1, 2: LARGEST}),
}


@pytest.mark.parametrize("way", WAYS_OUT)
def test_ways_out(local_lake: lakebed.Warehouse, way: str) -> None:
    table = sums(local_lake)
    too_much(table)
    act, expected = WAYS_OUT[way]
    act(table)
    assert rows(table) == expected
    table.settle()
    assert rows(table) == expected
    assert rows(table.read_optimised()) == expected
    table.upsert([{"id": 1, "n": 1}])
    assert rows(table, "id = 1") == {1: expected.get(1, 0) + 1}


def test_rows_that_were_deleted_without_being_merged_are_counted(local_lake: lakebed.Warehouse) -> None:
    table = sums(local_lake)
    table.upsert([{"id": 9, "n": 1}])
    table.settle()
    too_much(table)
    assert table.delete("id >= 2").metrics["numDeletedRows"] == 3
    assert rows(table) == {1: 6}


def test_a_key_that_was_deleted_before_stays_known(local_lake: lakebed.Warehouse) -> None:
    """Deleting rows by predicate says nothing of keys that have none; late rows still lose against their deletes."""
    table = sums(local_lake, sequence=["seq"], properties={"remove-record-on-delete": True})
    table.upsert([{"id": 3, "seq": 9, "n": 1}, {"id": 4, "seq": 9, "n": 1}])
    table.delete([{"id": 3, "seq": 9}])
    too_much(table)
    table.delete("id >= 2")
    late = [{"id": 3, "seq": 8, "n": 1}, {"id": 4, "seq": 8, "n": 1}]
    table.upsert(late)
    assert rows(table) == {1: 6, 4: 1}
    table.settle()
    table.upsert(late)
    assert rows(table) == {1: 6, 4: 2}


@pytest.mark.parametrize("merge", ["on-write", "copy-on-write"])
def test_a_table_that_settles_at_once_refuses_the_rows(local_lake: lakebed.Warehouse, merge: str) -> None:
    table = sums(local_lake, merge)
    before = _files(table)
    with pytest.raises(lakebed.DataError, match=MESSAGE):
        too_much(table)
    assert (table.version, rows(table)) == (1, {1: 1, 2: LARGEST})
    assert _files(table) == before


def _files(table: lakebed.Table) -> list[str]:
    root = Path(table.location.removeprefix("file://"))
    return sorted(str(path) for path in root.glob("bucket*/*"))


def test_another_mode_does_not_hide_it(local_lake: lakebed.Warehouse) -> None:
    table = sums(local_lake)
    too_much(table)
    with pytest.warns(UnsettledWarning, match="does not fit into INT"):
        table.alter(properties={"merge": "on-write"})
    with pytest.raises(lakebed.DataError, match=MESSAGE):
        table.upsert([{"id": 1, "n": 1}])
    table.delete("id = 2")
    table.upsert([{"id": 1, "n": 1}])
    assert rows(table) == {1: 7, 3: 5}


def test_decimals(local_lake: lakebed.Warehouse) -> None:
    table = local_lake.create_table(
        "d", "a STRING, b INT, n DECIMAL(38,2)", primary_key=["a", "b"], merge="on-read", merge_engine="aggregation",
        properties={"fields.n.aggregate-function": "sum"},
    )  # fmt: skip
    for _ in range(2):
        table.upsert([{"a": "x", "b": 1, "n": Decimal(9) * 10**35}, {"a": "y", "b": 1, "n": Decimal(1)}])
    with pytest.raises(
        lakebed.DataError, match=r"DECIMAL\(38,2\):\s.*\{'a': 'x', 'b': 1\}\s+fix: delete the row by its"
    ):
        table.to_arrow()
    table.delete("a = 'x'")
    assert table.to_arrow()["n"].to_pylist() == [Decimal(2)]


@pytest.mark.parametrize("way", ["nullable", "delete"])
def test_a_row_without_a_value_that_must_be_there(local_lake: lakebed.Warehouse, way: str) -> None:
    """A row may be taken back from a key that has none; then a column that cannot be null has nothing."""
    table = local_lake.create_table(
        "t", "id BIGINT, n INT NOT NULL", primary_key=["id"], merge="on-read", merge_engine="aggregation",
        properties={"fields.n.aggregate-function": "product"},
    )  # fmt: skip
    table.upsert([{"id": 1, "n": 2}])
    table.upsert([{"id": 2, "n": 2, "op": "-D"}], row_kind="op")
    with pytest.raises(lakebed.DataError, match=r"1 rows without column 'n', which is never null[\s\S]*'id': 2"):
        table.to_arrow()
    if way == "delete":
        table.delete("id = 2")
    else:
        table.alter(nullable={"n": True})
    table.settle()
    assert rows(table) == ({1: 2} if way == "delete" else {1: 2, 2: None})
