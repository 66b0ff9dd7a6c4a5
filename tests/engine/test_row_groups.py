"""Row groups that cannot hold qualifying rows are not read."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pytest

import lakebed
from lakebed.storage.parquet_reader import ParquetFileReader

ROWS = 400


@pytest.fixture
def table(local_lake: lakebed.Warehouse) -> lakebed.Table:
    lake = lakebed.connect(local_lake.location, max_row_group_rows=50)
    made = lake.create_table(
        "t", "id INT, name STRING, day DATE, money DECIMAL(9,2), ratio DOUBLE, hole INT", primary_key=["id"], buckets=1
    )
    made.upsert(
        [
            {
                "id": n,
                "name": f"n{n:04}",
                "day": dt.date(2026, 1, 1) + dt.timedelta(days=n),
                "money": Decimal(n) / 100,
                "ratio": float("nan") if n == 7 else n / 2,
                "hole": None if n < 100 else n,
            }
            for n in range(ROWS)
        ]
    )
    made.delete([{"id": 120}, {"id": 121}])
    return made


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The rows of each batch that was read from a file."""
    seen: list[int] = []
    batches = ParquetFileReader.batches

    def counted(self: ParquetFileReader, *args: object, **named: object) -> object:
        for batch in batches(self, *args, **named):  # type: ignore[arg-type]
            seen.append(batch.num_rows)
            yield batch

    monkeypatch.setattr(ParquetFileReader, "batches", counted)
    return seen


@pytest.mark.parametrize(
    ("where", "wanted", "most"),
    [
        ("id = 119", {119}, 50),
        ("id = 120", set(), 50),
        ("id between 118 and 123", {118, 119, 122, 123}, 50),
        ("name = 'n0201'", {201}, 50),
        ("name > 'n0398'", {399}, 50),
        ("day = date '2026-01-11'", {10}, 50),
        ("money < 0.03", {0, 1, 2}, 50),
        ("ratio < 1", {0, 1}, 50),
        ("hole is null and id > 90", set(range(91, 100)), 50),
        ("id = 3 or id = 390", {3, 390}, 100),
        ("id + 1 = 4", {3}, ROWS),
        ("id < 10 and name = 'n0005'", {5}, 50),
    ],
)
def test_only_groups_that_may_match_are_read(
    table: lakebed.Table, read: list[int], where: str, wanted: set[int], most: int
) -> None:
    assert {row["id"] for row in table.to_arrow(where=where).to_pylist()} == wanted
    assert sum(read) <= most
    read.clear()
    assert {n for batch in table.to_batches(["id"], where) for n in batch["id"].to_pylist()} == wanted
    assert sum(read) <= most


def test_positions_of_dead_rows_are_those_of_the_file(table: lakebed.Table) -> None:
    (file,) = [row for row in table.files().to_pylist() if row["dead_rows"]]
    assert file["dead_rows"] == 2
    assert table.to_arrow(["id"], where="id >= 100 and id < 150")["id"].to_pylist() == [
        n for n in range(100, 150) if n not in (120, 121)
    ]


def test_widened_columns_are_read_as_they_are_now(table: lakebed.Table) -> None:
    table.alter(rename={"hole": "gap"}, widen={"hole": "BIGINT"})
    assert table.to_arrow(["id"], where="gap = 250")["id"].to_pylist() == [250]
