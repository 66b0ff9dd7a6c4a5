"""Streams with a name: how far they have come is in the metastore."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from spark_streams import Feed, rows

import lakebed

pytestmark = pytest.mark.spark


def test_what_a_stream_has_not_read_is_kept_for_it(spark: Any, spark_lake: lakebed.Warehouse, tmp_path: Path) -> None:
    """Through a vacuum that retains nothing, and a checkpoint that is lost."""
    feed = Feed(spark, tmp_path)
    source = spark_lake.create_table("t", "id BIGINT", properties={"compaction-small-files": 2})
    copy = spark_lake.create_table("copy", "id BIGINT")
    frame = spark.readStream.format("lakebed").options(consumer="report", start="0", mode="all").load("t")
    for run in range(3):
        for id in range(2):
            source.append([{"id": 10 * run + id}])
        source.compact()
        source.vacuum(timedelta(0))
        # Spark tells a source that a batch is done when it plans the next one, or when the query begins again.
        feed.run(frame.where("_change_type = 'insert'").select("id"), "copy", "one" if run < 2 else "two")
        assert rows(copy) == rows(source) or run == 2
    (consumer,) = source.consumers()
    assert consumer.version <= source.version
    assert set(rows(copy)) == set(rows(source))
