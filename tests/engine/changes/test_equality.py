"""Rows that mean the same are no change, however they are stored."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

import lakebed
from lakebed.engine.changes.equality import differ

WORDS = pa.map_(pa.string(), pa.float64())
INNER = pa.struct([("m", WORDS), ("^i.*$", pa.int64()), ("*", pa.int64())])
POINT = pa.struct([("x", pa.int64()), ("y", pa.string())])
AB, BA = [("a", 1.0), ("b", math.nan)], [("b", math.nan), ("a", 1.0)]
IN_AB, IN_BA = ({"m": entries, "^i.*$": 1, "*": None} for entries in (AB, BA))
ONE, TWO = {"x": 1, "y": "x"}, {"x": 1, "y": "y"}


@pytest.mark.parametrize(
    ("kind", "old", "new", "differs"),
    [
        (pa.int64(), [1, None, None, 1], [1, None, 1, 2], [False, False, True, True]),
        (pa.float64(), [math.nan, math.nan], [math.nan, 0.0], [False, True]),
        (pa.list_(pa.int64()), [[1, 2], [1, 2], []], [[1, 2], [2, 1], None], [False, True, True]),
        (
            WORDS,
            [AB, None, [], AB, AB],
            [BA, [], [], AB[:1], [("a", 1.0), ("b", 2.0)]],
            [False, True, False, True, True],
        ),
        (WORDS, [[("a", None)], [("a", None)]], [[("a", None)], []], [False, True]),
        (
            pa.map_(pa.decimal128(9, 2), pa.int8()),
            [[(Decimal(1), 1), (Decimal(2), 2)]],
            [[(Decimal(2), 2), (Decimal(1), 1)]],
            [False],
        ),
        (pa.map_(pa.binary(), WORDS), [[(b"x", AB), (b"", None)]], [[(b"", None), (b"x", BA)]], [False]),
        (pa.map_(POINT, pa.int64()), [[(ONE, 1), (TWO, 2)]], [[(TWO, 2), (ONE, 1)]], [False]),
        (INNER, [IN_AB, None, {"m": None, "^i.*$": None, "*": None}], [IN_BA, IN_BA, None], [False, True, True]),
        (pa.list_(INNER), [[IN_AB, None], [IN_AB]], [[IN_BA, None], [None]], [False, True]),
        (pa.list_(WORDS), [[AB, BA], [AB]], [[BA, AB], [AB, AB]], [False, True]),
        (WORDS, [], [], []),
    ],
)
def test_values_are_compared_by_what_they_mean(
    kind: pa.DataType, old: list[Any], new: list[Any], differs: list[bool]
) -> None:
    before, after = (pa.table({"v": pa.chunked_array([pa.array(values, kind)])}) for values in (old, new))
    assert differ(before, after, ["v"]).to_pylist() == differs


def test_a_map_in_another_order_is_no_change(local_lake: lakebed.Warehouse) -> None:
    """Found by a random history: `merge_map` had put the same entries in another order."""
    schema = pa.schema([("id", pa.int64()), ("m", pa.map_(pa.string(), pa.int64())), ("n", pa.int64())])

    def rows(*of: tuple[int, list[tuple[str, int]], int]) -> pa.Table:
        return pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in of], schema)

    table = local_lake.create_table("t", schema, primary_key=["id"])
    table.upsert(rows((1, [("a", 1), ("b", 2)], 0), (2, [("a", 1)], 0), (3, [("a", 1), ("b", 2)], 0)))
    first = table.version
    table.upsert(rows((1, [("b", 2), ("a", 1)], 0), (2, [("a", 2)], 0), (3, [("b", 2), ("a", 1)], 1)))
    for mode in ("combine", "all"):
        told = table.changes(first, mode=mode).to_arrow()
        assert set(zip(told["id"].to_pylist(), told["_change_type"].to_pylist(), strict=True)) == {
            (2, "update_preimage"),
            (2, "update_postimage"),
            (3, "update_preimage"),
            (3, "update_postimage"),
        }
