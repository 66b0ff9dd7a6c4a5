"""A warehouse without Spark, and its statements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import lakebed

Rows = list[dict[str, Any]]


@pytest.fixture
def run(local_lake: lakebed.Warehouse) -> Callable[..., Rows]:
    """Runs a statement and gives its rows back."""

    def run(text: str, /, **parameters: Any) -> Rows:
        rows = local_lake.sql(text, **parameters)
        assert isinstance(rows, pa.Table)
        found: Rows = rows.to_pylist()
        return found

    return run
