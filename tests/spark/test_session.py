"""A warehouse that was opened with a Spark session, and one that was not."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import lakebed
from lakebed.engine.distribution import is_frame

WITHOUT_SPARK = """
import sys
sys.modules["pyspark"] = None
import lakebed, lakebed.spark
lake = lakebed.connect(sys.argv[1])
table = lake.create_table("t", "id BIGINT")
table.append([{"id": 1}])
assert table.count() == 1 and lake.spark is None
try:
    table.df()
except lakebed.LakebedError as error:
    assert "without Spark" in str(error), error
else:
    raise AssertionError("df() needs Spark")
"""


def test_lakebed_works_where_pyspark_is_not_installed(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", WITHOUT_SPARK, str(tmp_path)], check=True)


def test_importing_lakebed_does_not_import_spark() -> None:
    loaded = "import sys, lakebed, lakebed.spark; raise SystemExit('pyspark' in sys.modules)"
    subprocess.run([sys.executable, "-c", loaded], check=True)


@pytest.mark.parametrize("wrong", ["local[2]", 1, object()])
def test_what_is_no_session_is_refused(tmp_path: Path, wrong: object) -> None:
    with pytest.raises(lakebed.OptionError, match="Spark session"):
        lakebed.connect(tmp_path, spark=wrong)


@pytest.mark.spark
def test_the_warehouse_hands_out_its_session(spark_lake: lakebed.Warehouse, spark: Any) -> None:
    assert spark_lake.spark is spark


@pytest.mark.spark
def test_df_has_the_rows_and_stays_at_its_version(spark_lake: lakebed.Warehouse) -> None:
    table = spark_lake.create_table("t", "id BIGINT NOT NULL, name STRING")
    table.append([{"id": 1, "name": "ann"}, {"id": 2, "name": None}])
    frame = table.df()
    table.append([{"id": 3, "name": "cleo"}])
    assert sorted(map(tuple, frame.collect())) == [(1, "ann"), (2, None)]
    assert table.df().count() == 3
    assert table.at(version=0).df().count() == 0
    assert is_frame(frame)
    assert not is_frame(table.to_polars())
