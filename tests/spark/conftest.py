"""One Spark session for all tests of this folder."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import lakebed


def settings() -> dict[str, str]:
    """A small session that listens on loopback only."""
    return {
        "spark.ui.enabled": "false",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
    }


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """A local session with two threads, as users have it: nothing of Lakebed is set in it."""
    from pyspark.sql import SparkSession

    os.environ.setdefault("TZ", "UTC")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master("local[2]").appName("lakebed tests")
    for name, value in settings().items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    yield session
    session.stop()


@pytest.fixture
def spark_lake(spark: Any, tmp_path: Path) -> Iterator[lakebed.Warehouse]:
    """A local warehouse with SQLite that knows the session."""
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
