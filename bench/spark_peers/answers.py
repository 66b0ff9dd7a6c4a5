"""What the queries of TPC-H answer, asked of plain Parquet once, before any contender. Runs as a process of its own."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.spark_peers.places import Places
from bench.spark_peers.questions import KEYS, REFRESHED, queries
from bench.spark_peers.session import session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def file(places: Places) -> Path:
    """Where the answers are."""
    return places.root / "tpch-answers.json"


def answer(spark: SparkSession, query: str) -> list[list[str]]:
    """The rows of a query as texts."""
    return [[str(value) for value in row] for row in spark.sql(query).collect()]


def read(places: Places) -> dict[int, Any]:
    """The answers by the number of the query."""
    return {int(number): rows for number, rows in json.loads(file(places).read_text()).items()}


def main(roots: list[str]) -> None:
    """Answer all queries on each of these inputs."""
    spark = session(Path(roots[0]) / "answers", {}, [], cores=2, memory="4g")
    for places in (Places(Path(root)) for root in roots):
        for name in KEYS:
            place = places.expected(name) if name in REFRESHED else places.batch("tpch", 0) / name
            spark.read.parquet(str(place)).createOrReplaceTempView(name)
        file(places).write_text(json.dumps({number: answer(spark, query) for number, query in queries().items()}))
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1:])
