"""A predicate that names keys leads to their buckets, and only to them."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pytest

import lakebed

KEYS: dict[str, list[Any]] = {
    "BIGINT": [0, -1, 7, 2**40],
    "INT": [0, -1, 7, 99],
    "SMALLINT": [0, -1, 7, 99],
    "STRING": ["", "a", "ü", "日本"],
    "DATE": [dt.date(1970, 1, 1), dt.date(2026, 11, 15), dt.date(1900, 1, 1)],
    "TIMESTAMP_NTZ": [dt.datetime(2026, 1, 1, 1, 2, 3, 4), dt.datetime(1969, 1, 1)],
    "DECIMAL(10,2)": [Decimal("0.00"), Decimal("-1.50"), Decimal("12345678.25")],
    "DECIMAL(30,2)": [Decimal("0.00"), Decimal("-1.50"), Decimal("1234567890123456789012345678.25")],
    "BINARY": [b"", b"\x00\xff"],
    "BOOLEAN": [True, False],
}


def text(kind: str, value: Any) -> str:
    if kind == "STRING":
        return f"'{value}'"
    if kind == "BINARY":
        return f"X'{value.hex()}'"
    if kind in ("DATE", "TIMESTAMP_NTZ"):
        return f"{kind} '{value}'"
    return str(value).lower()


@pytest.mark.parametrize("buckets", [16, "dynamic", "postpone"])
@pytest.mark.parametrize("kind", KEYS)
def test_every_key_is_found_by_its_value(local_lake: lakebed.Warehouse, kind: str, buckets: Any) -> None:
    table = local_lake.create_table(
        "t",
        f"id {kind}, k2 INT, v INT",
        primary_key=["id", "k2"],
        buckets=buckets,
        properties={"dynamic-bucket.target-rows": 2},
    )
    rows = [{"id": key, "k2": n, "v": 1} for key in KEYS[kind] for n in range(4)]
    table.upsert(rows[::2])
    table.upsert(rows)
    for row in rows:
        found = table.to_arrow(where=f"id = {text(kind, row['id'])} AND {row['k2']} = k2 AND v > 0")
        assert found.to_pylist() == [row]
    listed = ", ".join(text(kind, key) for key in KEYS[kind])
    assert table.count(f"id IN ({listed}) AND k2 IN (1, 2)") == 2 * len(KEYS[kind])


@pytest.mark.parametrize("merge", ["on-write", "on-read"])
def test_only_files_of_the_bucket_are_planned(local_lake: lakebed.Warehouse, merge: str) -> None:
    table = local_lake.create_table("t", "id BIGINT, v INT", primary_key=["id"], buckets=8, merge=merge)
    table.upsert([{"id": n, "v": 1} for n in range(1000)])
    table.upsert([{"id": n, "v": 2} for n in range(1000)])
    assert table.files().num_rows > 2
    buckets = set(table.files("id = 77")["bucket"].to_pylist())
    assert len(buckets) == 1
    assert table.to_arrow(where="id = 77").to_pylist() == [{"id": 77, "v": 2}]
    few = set(table.files("id IN (1, 2) AND v = 2")["bucket"].to_pylist())
    assert 1 <= len(few) <= 2
    assert set(table.files("id > 5")["bucket"].to_pylist()) == set(range(8))
    assert set(table.files("id = 1 OR v = 2")["bucket"].to_pylist()) == set(range(8))


def test_dynamic_buckets_are_chosen_too(local_lake: lakebed.Warehouse) -> None:
    table = local_lake.create_table("t", "id BIGINT", primary_key=["id"], properties={"dynamic-bucket.target-rows": 50})
    table.upsert([{"id": n} for n in range(1000)])
    assert len(set(table.files()["bucket"].to_pylist())) > 8
    assert table.files("id = 77").num_rows == 1
    assert table.count("id = 77") == 1
    assert table.files("id = NULL").num_rows == table.count("id = NULL") == 0
