"""The Spark sessions of the tests: in this process, on a cluster, or through Spark Connect."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_REMOTE = "SPARK_CONNECT_MODE_ENABLED"

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
}
"""A small session that listens on loopback only."""


@contextmanager
def spark_session(master: str) -> Iterator[Any]:
    """A session as users have it: nothing of Lakebed is set in it. One in a process, and no other beside it."""
    from pyspark.sql import SparkSession

    os.environ.setdefault("TZ", "UTC")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if master.startswith("sc://"):
        session = SparkSession.builder.remote(master).getOrCreate()
    else:
        builder = SparkSession.builder.master(master).appName("lakebed tests")
        for name, value in SETTINGS.items():
            builder = builder.config(name, value)
        session = builder.getOrCreate()
    yield session
    session.stop()


@contextmanager
def beside_another(url: str) -> Iterator[Any]:
    """A session of Spark Connect in a process that has a classic one too: functions are for it until the end."""
    from pyspark.sql.connect.session import SparkSession

    session = SparkSession.builder.remote(url).create()
    before = os.environ.get(_REMOTE)
    os.environ[_REMOTE] = "1"
    try:
        yield session
    finally:
        if before is None:
            del os.environ[_REMOTE]
        session.stop()
