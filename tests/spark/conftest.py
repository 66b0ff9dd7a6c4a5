"""A warehouse with the Spark session of the tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import lakebed


@pytest.fixture
def spark_lake(spark: Any, tmp_path: Path) -> Iterator[lakebed.Warehouse]:
    """A warehouse in local files that knows the session."""
    with lakebed.connect(tmp_path / "warehouse", spark=spark) as opened:
        yield opened


@pytest.fixture
def setting(spark: Any) -> Iterator[Any]:
    """Sets a setting of the session for one test."""
    changed: list[str] = []

    def change(name: str, value: str) -> None:
        changed.append(name)
        spark.conf.set(name, value)

    yield change
    for name in changed:
        spark.conf.unset(name)
