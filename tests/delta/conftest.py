"""Fixtures of hand-made Delta tables, and of what another reader sees in them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder
from hand_made import Body, TableBuilder


@pytest.fixture
def table(tmp_path: Path) -> TableBuilder:
    return TableBuilder(tmp_path / "table")


@pytest.fixture
def foreign_rows() -> Any:
    """The rows that deltalake's query engine, which knows vectors, sees."""

    def rows(root: Path | str, order_by: str = "id") -> list[Body]:
        builder = QueryBuilder().register("t", DeltaTable(str(root)))
        found: list[Body] = pa.table(builder.execute(f"select * from t order by {order_by}")).to_pylist()
        return found

    return rows
