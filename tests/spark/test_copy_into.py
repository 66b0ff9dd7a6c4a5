"""copy_into as a Spark job: tasks read the files, and write the table's."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lakebed

pytestmark = pytest.mark.spark


@pytest.fixture
def spark_lake(spark: Any, tmp_path: Path) -> Iterator[lakebed.Warehouse]:
    """Every work is large here, and every file a task of its own."""
    with lakebed.connect(tmp_path / "warehouse", spark=spark, distribute_from=0, file_target_size=1) as opened:
        yield opened


def put(path: Path, *rows: tuple[int, str]) -> None:
    path.parent.mkdir(exist_ok=True)
    pq.write_table(pa.table({"id": [i for i, _ in rows], "name": [name for _, name in rows]}), path)


@pytest.mark.parametrize("key", [{}, {"primary_key": ["id"], "buckets": 2}, {"primary_key": ["id"]}])
def test_tasks_load_files(spark_lake: lakebed.Warehouse, tmp_path: Path, key: Any) -> None:
    table = spark_lake.create_table("t", "id BIGINT, name STRING", **key)
    for n in range(4):
        put(tmp_path / f"in/{n}.parquet", (n, "old"), (9, f"from {n}"))
    (tmp_path / "in/5.csv").write_text("id,name\n5,csv\n")
    done = spark_lake.copy_into("t", tmp_path / "in")
    assert (done.version, done.rows, len(done.files)) == (1, 9, 5)
    assert spark_lake.copy_into("t", tmp_path / "in/**").skipped == done.files
    found = table.to_arrow().sort_by("id").to_pylist()
    assert [row["id"] for row in found] == ([0, 1, 2, 3, 5, 9] if key else [0, 1, 2, 3, 5, 9, 9, 9, 9])
    if key:
        assert found[-1]["name"] == "from 3"  # of the last file


def test_a_file_that_cannot_be_loaded(spark_lake: lakebed.Warehouse, tmp_path: Path) -> None:
    table = spark_lake.create_table("t", "id BIGINT, name STRING")
    put(tmp_path / "in/a.parquet", (1, "a"))
    (tmp_path / "in/b.parquet").write_bytes(b"no parquet at all")
    with pytest.raises(lakebed.CorruptFileError, match=r"b\.parquet"):
        spark_lake.copy_into("t", tmp_path / "in")
    assert table.version == 0
    assert not list(Path(table.location.removeprefix("file://")).glob("*.parquet"))
    assert spark_lake.copy_into("t", tmp_path / "in/a.*").rows == 1
