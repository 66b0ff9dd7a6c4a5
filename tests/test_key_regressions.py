"""Defects of key tables that were found once, and must not come back."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lakebed

ROWS = 2_000


@pytest.mark.parametrize("merge", ["on-read", "on-write"])
def test_a_batch_is_merged_as_a_whole_whatever_the_memory_limit(tmp_path: Path, merge: str) -> None:
    """Beyond the limit a batch becomes several files; the sequence orders the rows of a key across all of them."""
    numbers = [(n * 7919) % ROWS for n in range(ROWS)]
    batch = pa.table(
        {
            "id": pa.array([0 if n % 400 == 0 else n for n in range(ROWS)], pa.int32()),
            "s": pa.array(numbers, pa.int32()),
            "v": [str(n) for n in numbers],
            "pad": ["x" * 1000] * ROWS,
        }
    )
    found = set()
    for limit in ("1MiB", "1GiB"):
        with lakebed.connect(tmp_path / limit, writer_memory_limit=limit) as lake:
            table = lake.create_table(
                "t",
                "id INT, s INT, v STRING, pad STRING",
                primary_key=["id"],
                buckets=1,
                sequence=["s"],
                merge=merge,
                merge_engine="aggregation",
                properties={"fields.v.aggregate-function": "listagg"},
            )
            table.upsert(batch)
            assert merge == "on-write" or (table.files().num_rows > 1) == (limit == "1MiB")
            for _ in range(2):
                found.add(table.to_arrow(["v"], where="id = 0")["v"][0].as_py())
                table.settle()
    in_order = sorted(number for n, number in enumerate(numbers) if n % 400 == 0)
    assert found == {",".join(map(str, in_order))}


ENGINES: dict[str, dict[str, object]] = {
    "deduplicate": {},
    "first-row": {},
    "partial-update": {"remove-record-on-delete": True},
    "aggregation": {"fields.v.aggregate-function": "listagg", "remove-record-on-delete": True},
}


QUICK = [("deduplicate", "whole"), ("deduplicate", "sequence"), ("first-row", "moving"), ("aggregation", "partitioned")]
SHAPES = [
    (engine, shape)
    for engine in ENGINES
    for shape in ("whole", "sequence", "moving", "partitioned")
    if (engine, shape) != ("first-row", "sequence")
]


@pytest.mark.parametrize(
    ("engine", "shape"),
    [
        pytest.param(engine, shape, marks=[] if (engine, shape) in QUICK else pytest.mark.soak)
        for engine, shape in SHAPES
    ],
)
def test_sort_by_orders_a_batch_as_a_whole_whatever_the_memory_limit(tmp_path: Path, engine: str, shape: str) -> None:
    """Beyond the limit parts of the batch were ordered each for itself, and a later part counted as later."""
    found = []
    for limit in ("256KiB", "1GiB"):
        with lakebed.connect(tmp_path / limit, writer_memory_limit=limit, sync=False) as lake:
            table = lake.create_table(
                "t",
                "id INT, part STRING, s INT, v STRING, pad STRING",
                primary_key=["id", "part"] if shape == "partitioned" else ["id"],
                partition_by=["part"] if shape in ("moving", "partitioned") else [],
                buckets=2,
                sequence=["s"] if shape == "sequence" else [],
                merge="on-read",
                merge_engine=engine,
                properties=ENGINES[engine],
            )
            for seed in (7919, 104729):
                table.upsert(_out_of_order(seed, deletes=engine != "first-row"), row_kind="op", sort_by=["lsn"])
            rows = [table.to_arrow(["id", "part", "s", "v"]).sort_by([("id", "ascending"), ("part", "ascending")])]
            table.settle()
            rows.append(table.to_arrow(["id", "part", "s", "v"]).sort_by([("id", "ascending"), ("part", "ascending")]))
            assert rows[0].num_rows > 40
            assert rows[0].equals(rows[1])
            found.append(rows[0].to_pylist())
            stored = lakebed.read_delta(table.location).schema.names
            assert stored == ["id", "part", "s", "v", "pad"]
    assert found[0] == found[1]


def _out_of_order(seed: int, *, deletes: bool) -> pa.Table:
    """Many rows for each key, whose ``lsn`` tells another order than that of their arrival."""
    numbers = [n * seed % ROWS for n in range(ROWS)]
    return pa.table(
        {
            "id": pa.array([n * 31 % 97 for n in range(ROWS)], pa.int32()),
            "part": ["abc"[n // 700] for n in numbers],
            "s": pa.array([n % 2 for n in range(ROWS)], pa.int32()),
            "v": [f"{seed}:{n}" for n in range(ROWS)],
            "pad": ["x" * 100] * ROWS,
            "lsn": numbers,
            "op": ["-D" if deletes and n % 5 == 0 else "+U" for n in range(ROWS)],
        }
    )


@pytest.mark.parametrize("kind", ["INT", "STRING"])
def test_tombstones_of_a_predicate_delete_stand_where_their_keys_belong(
    local_lake: lakebed.Warehouse, kind: str
) -> None:
    """Engines that combine rows wrote them before all other rows, so that the file was not sorted by its key."""
    key: Callable[[int], Any] = (lambda n: f"k{n:02}") if kind == "STRING" else (lambda n: n)
    table = local_lake.create_table(
        "t", f"id {kind}, v INT, s INT", primary_key=["id"], buckets=1, merge="on-read", sequence=["s"],
        merge_engine="partial-update", properties={"compact-on-write": 0, "remove-record-on-delete": True},
    )  # fmt: skip
    table.upsert([{"id": key(n), "v": 0, "s": 10} for n in range(40)])
    table.settle()
    gone = range(1, 40, 3)
    kinds = [{"id": key(n), "v": 1, "s": 20, "op": "-D" if n in gone else "+U"} for n in range(40)]
    table.upsert(kinds, row_kind="op")
    where = "id >= 'k20' AND id < 'k30'" if kind == "STRING" else "id >= 20 AND id < 30"
    table.delete(where)
    for add in table._point().files(None):
        keys = pq.read_table(table._store.path(add.path), columns=["id"])["id"].to_pylist()
        assert keys == sorted(keys)
    table.upsert([{"id": key(n), "v": 9, "s": 15} for n in gone])
    live = {key(n): 1 for n in range(40) if n not in gone and not 20 <= n < 30}
    for maintain in (table.settle, table.compact, lambda: None):
        assert {row["id"]: row["v"] for row in table.to_arrow().to_pylist()} == live
        maintain()
