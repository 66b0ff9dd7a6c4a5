"""Generated MERGE, UPDATE, DELETE and INSERT statements give the rows that plain DataFrames give."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from sql_statements import SHAPES, Model, run_statements

import lakebed

pytestmark = pytest.mark.spark


def _run(spark: Any, folder: Path, shape: str, seed: int, count: int) -> int:
    with lakebed.connect(folder / "warehouse", spark=spark) as lake:
        return run_statements(lake, lambda keyed: Model(spark, keyed), shape, seed, count)


@pytest.mark.parametrize("shape", ["partitions", "key"])
def test_some_statements(spark: Any, tmp_path: Path, shape: str) -> None:
    assert _run(spark, tmp_path, shape, seed=7, count=12) > 4


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("shape", list(SHAPES))
def test_many_statements(spark: Any, tmp_path: Path, shape: str, seed: int) -> None:
    assert _run(spark, tmp_path, shape, seed, count=30) > 10
