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
    frame = spark.readStream.format("lakebed").options(consumer="report", mode="all").load("t")
    inserted = frame.where("_change_type = 'insert'").select("id")
    source.append([{"id": -1}])
    feed.run(inserted, "copy")
    assert rows(copy) == [(-1,)]
    for run in range(2):
        for id in range(3):
            source.append([{"id": 10 * run + id}])
            source.compact()
            source.vacuum(timedelta(0))
        feed.run(inserted, "copy")
        assert rows(copy) == rows(source)
    (consumer,) = source.consumers()
    assert (consumer.name, consumer.whole) == ("report", False)
    source.append([{"id": 99}])
    # A new checkpoint goes on where the consumer is, which is what Spark has told to be done with.
    feed.run(inserted, "copy", "new")
    assert set(rows(copy)) == set(rows(source))
