"""Generated MERGE, UPDATE, DELETE and INSERT statements without Spark give the rows that plain queries give."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
import sqlglot
from sql_statements import SCHEMA, SHAPES, Model, Row, run_statements

import lakebed


class DuckModel(Model):
    """Computes what statements come to by queries on duckdb."""

    def query(self, text: str, rows: Sequence[Row], src: Sequence[Row]) -> list[tuple[Any, ...]]:
        plain = sqlglot.transpile(text.replace("{t}", "t_").replace("{src}", "src"), "spark", "duckdb")[0]
        with duckdb.connect(":memory:") as connection:
            for name, some in (("t_", rows), ("src", src)):
                connection.register(name, _numbered(some))
            return connection.execute(plain).fetchall()


def _numbered(rows: Sequence[Row]) -> pa.Table:
    schema = SCHEMA.append(pa.field("rid", pa.int32()))
    numbered = [(*row, at) for at, row in enumerate(rows)]
    return pa.table([pa.array([row[at] for row in numbered], f.type) for at, f in enumerate(schema)], schema=schema)


def _run(folder: Path, shape: str, seed: int, count: int) -> int:
    with lakebed.connect(folder / "warehouse") as lake:
        return run_statements(lake, lambda keyed: DuckModel(None, keyed), shape, seed, count)


@pytest.mark.parametrize("shape", list(SHAPES))
def test_some_statements(tmp_path: Path, shape: str) -> None:
    assert _run(tmp_path, shape, seed=1, count=10) > 3


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("shape", list(SHAPES))
def test_many_statements(tmp_path: Path, shape: str, seed: int) -> None:
    assert _run(tmp_path, shape, seed, count=50) > 15
