"""Statements without Spark see NaN as Spark does: equal to itself, and above all other numbers."""

from __future__ import annotations

import math
from typing import Any

import duckdb
import pytest

import lakebed

NAN = math.nan
VALUES = [None, NAN, 0.0, 1.5, -math.inf, math.inf]
PAIRS = [{"id": 10 * i + j, "a": a, "b": b} for i, a in enumerate(VALUES) for j, b in enumerate(VALUES)]
CONDITIONS = [
    *(f"{left} {op} {right}" for op in ("=", "<>", "<", "<=", ">", ">=")
      for left, right in (("a", "b"), ("a", "1.5D"), ("1.5D", "a"), ("a", "double('NaN')"), ("double('NaN')", "a"))),
    *(f"NOT (a {op} b)" for op in ("=", "<>", "<", "<=", ">", ">=", "<=>")),
    "a <=> b", "a <=> double('NaN')", "a IN (1.5D, double('NaN'))", "a NOT IN (1.5D, double('NaN'))",
    "a IN (1.5D, NULL)", "a BETWEEN 0.0D AND double('NaN')", "CASE WHEN a > b THEN a <> 1.5D ELSE b IS NULL END",
]  # fmt: skip


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> lakebed.Warehouse:
    return lakebed.connect(tmp_path_factory.mktemp("nan"), sync=False)


def reference(condition: str) -> set[int]:
    """The ids that the condition holds for, by duckdb, to which NaN is what it is to Spark."""
    spelled = condition.replace("1.5D", "1.5::DOUBLE").replace("0.0D", "0.0::DOUBLE")
    spelled = spelled.replace("double('NaN')", "'NaN'::DOUBLE").replace("<=>", "IS NOT DISTINCT FROM")
    values = ", ".join(f"({row['id']}, {_spelled(row['a'])}, {_spelled(row['b'])})" for row in PAIRS)
    rows = duckdb.sql(f"SELECT id FROM (VALUES {values}) AS t(id, a, b) WHERE {spelled}").fetchall()
    return {id for (id,) in rows}


def _spelled(value: float | None) -> str:
    return "NULL::DOUBLE" if value is None else f"'{value}'::DOUBLE"


@pytest.mark.parametrize("condition", CONDITIONS)
def test_delete(lake: lakebed.Warehouse, condition: str) -> None:
    table: Any = lake.create_table("t", "id BIGINT, a DOUBLE, b DOUBLE")
    table.append(PAIRS)
    lake.sql(f"DELETE FROM t WHERE {condition}")
    left = set(table.to_arrow()["id"].to_pylist())
    lake.drop_table("t", purge=True)
    assert left == {row["id"] for row in PAIRS} - reference(condition)
