"""Rows by their positions: all of those, and no other, however they lie."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest
from pyroaring import BitMap64

import lakebed
from lakebed.core.file_tags import ROW_ID_COLUMN
from lakebed.engine.combining import chosen_rows as module
from lakebed.engine.combining.chosen_rows import chosen_rows
from lakebed.engine.scan import ScanOrder

ROWS = 50_000
GROUP = 12_000


@pytest.fixture
def table(local_lake: lakebed.Warehouse) -> lakebed.Table:
    table = lakebed.connect(local_lake.location, max_row_group_rows=GROUP).create_table(
        "t", "id BIGINT, name STRING, at TIMESTAMP, price DECIMAL(12,3), tags ARRAY<STRING>"
    )
    ids = list(range(ROWS))
    table.append(
        pa.table(
            {
                "id": ids,
                "name": [None if id % 7 == 0 else f"näme {id}" for id in ids],
                "at": pa.array(ids, pa.timestamp("us", "UTC")),
                "price": pa.array(ids, pa.int32()).cast(pa.decimal128(13, 3)).cast(pa.decimal128(12, 3)),
                "tags": [[f"{id}", None] if id % 3 else [] for id in ids],
            }
        )
    )
    return table


def read(table: lakebed.Table, positions: BitMap64) -> pa.Table:
    (add,) = table._handle.metastore.files(table._handle.table_id, table.version).adds()
    metadata = table._state().metadata
    order = ScanOrder(table._store, table.name, metadata, table._options, metadata.schema.names)
    return pa.concat_tables(chosen_rows(order, add, positions, 16 * 2**20))


@pytest.mark.parametrize(
    "chosen",
    [
        [0],
        [ROWS - 1],
        [GROUP - 1, GROUP],
        range(GROUP + 5, GROUP + 900, 7),
        range(0, ROWS, 997),
        [3, GROUP + 4, *range(3 * GROUP, 3 * GROUP + 100)],
        range(ROWS),
    ],
)
def test_positions(table: lakebed.Table, chosen: Any) -> None:
    found = read(table, BitMap64(chosen))
    whole = table.to_arrow()
    expected = whole.take(list(chosen))
    assert found.select(whole.schema.names).to_pylist() == expected.to_pylist()
    assert found[ROW_ID_COLUMN].to_pylist() == list(chosen)


def test_rows_near_each_other_come_without_their_row_group(
    table: lakebed.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the positions, both ways to read give the same."""
    chance = random.Random(3)
    asked = []
    near = module._near
    monkeypatch.setattr(module, "_near", lambda *given: asked.append(given[-1]) or near(*given))
    for _ in range(10):
        first = chance.randrange(ROWS - 2000)
        positions = BitMap64(chance.sample(range(first, first + 2000), 50))
        fast = read(table, positions)
        assert asked
        with monkeypatch.context() as patch:
            patch.setattr(module, "_LARGE_GROUP", ROWS)
            slow = read(table, positions)
        assert fast.equals(slow)
        asked.clear()
