"""A Spark session for one contender: the same memory, cores and settings for all, and the contender's own on top."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PARTITIONS = 4
"""Tasks after a shuffle: two for each core. Spark's 200 are meant for clusters, and would slow everybody down."""


def session(root: Path, own: dict[str, str], jars: Sequence[str], *, cores: int, memory: str) -> SparkSession:
    """Start it; ``root`` is the folder of the contender."""
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    settings = {
        "spark.driver.memory": memory,
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.local.dir": str(root / "local"),
        "spark.log.level": "ERROR",
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.parquet.compression.codec": "zstd",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": str(PARTITIONS),
        "spark.sql.warehouse.dir": str(root / "spark"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        **({"spark.jars": ",".join(jars)} if jars else {}),
        **{name: value.replace("{root}", str(root)) for name, value in own.items()},
    }
    builder = SparkSession.builder.master(f"local[{cores}]").appName("lakebed bench")
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()
