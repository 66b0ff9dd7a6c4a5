"""Changes as DataFrames: what tasks find is what this process finds."""

from __future__ import annotations

import pickle
from typing import Any

import pyarrow as pa
import pytest
from spark_reading import EVERY_TYPE, canonical, collected, every_type

import lakebed
from lakebed.core.change_rows import MODES
from lakebed.engine.changes.plan import plan_changes

pytestmark = pytest.mark.spark


def check(changes: lakebed.Changes) -> int:
    expected = changes.to_arrow()
    assert canonical(collected(changes.df(), expected.schema)) == canonical(expected)
    return int(expected.num_rows)


@pytest.mark.parametrize(
    ("merge", "engine"),
    [
        ("on-read", "partial-update"),
        pytest.param("on-write", "deduplicate", marks=pytest.mark.soak),
        pytest.param("on-read", "deduplicate", marks=pytest.mark.soak),
    ],
)
def test_key_tables(spark_lake: lakebed.Warehouse, merge: str, engine: str) -> None:
    table = spark_lake.create_table(
        "t", "id BIGINT, part INT, a INT, b STRING", primary_key=["id"], partition_by=["part"], buckets=2,
        merge=merge, merge_engine=engine,
    )  # fmt: skip
    table.upsert([{"id": id, "part": id % 2, "a": id} for id in range(20)])
    table.upsert([{"id": id, "part": id % 2, "b": "!"} for id in range(5)])
    table.compact(full=True)
    table.alter(rename={"a": "c"})
    table.upsert([{"id": 30, "part": 1, "c": 1}])
    for mode in MODES:
        assert check(table.changes(1, mode=mode)) > 5
        assert check(table.changes("earliest", mode=mode)) >= 21
    assert check(table.changes(2, 4)) == 0


def test_every_type(spark_lake: lakebed.Warehouse) -> None:
    table = spark_lake.create_table("t", EVERY_TYPE)
    table.append([every_type(n) for n in range(4)] + [{"id": 5}])
    table.delete("id = 5")
    assert check(table.changes(0, mode="all")) == 6
    assert check(table.changes(0, columns=["id"], where="_change_type = 'insert'")) == 4


def test_changes_of_a_key_are_in_one_partition_in_order(spark_lake: lakebed.Warehouse) -> None:
    table = spark_lake.create_table("t", "id BIGINT, n INT", primary_key=["id"], buckets=4)
    for n in range(4):
        table.upsert([{"id": id, "n": n} for id in range(8)])
    rows = table.changes(0, mode="all").df().toArrow()
    seen: dict[int, int] = {}
    for id, version in zip(rows["id"].to_pylist(), rows["_commit_version"].to_pylist(), strict=True):
        assert seen.get(id, 0) <= version
        seen[id] = version


def test_work_orders_are_small_and_hold_no_connection(spark_lake: lakebed.Warehouse) -> None:
    table: Any = spark_lake.create_table("t", "id BIGINT", primary_key=["id"], buckets=1)
    table.upsert([{"id": 1}])
    changes = table.changes(0)
    (step,) = plan_changes(changes._handle, changes._span, changes._order)
    again = pickle.loads(pickle.dumps(step))
    assert pa.concat_tables(again.tables()) == changes.to_arrow()
    assert len(pickle.dumps(step)) < 10_000


def test_without_spark(local_lake: lakebed.Warehouse) -> None:
    table = local_lake.create_table("t", "id BIGINT")
    with pytest.raises(lakebed.LakebedError, match="opened without Spark"):
        table.changes(0).df()
