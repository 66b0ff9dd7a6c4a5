"""Frames into tables: what Spark's tasks write is what this process would have written."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakebed
from lakebed.spark.job import slots

pytestmark = pytest.mark.spark

SCHEMA = "id BIGINT NOT NULL, dt STRING, n INT, name STRING, at TIMESTAMP, tags ARRAY<STRING>"


def rows(start: int, stop: int, **fixed: Any) -> pa.Table:
    ids = list(range(start, stop))
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "dt": pa.array([fixed.get("dt", f"d{i % 3}") for i in ids]),
            "n": pa.array([fixed.get("n", i % 7) for i in ids], pa.int32()),
            "name": pa.array([None if i % 5 == 0 else f"name {i}" for i in ids]),
            "at": pa.array([i * 1_000_000 for i in ids], pa.timestamp("us", "UTC")),
            "tags": pa.array([[str(i)] for i in ids], pa.list_(pa.string())),
        }
    )


def frame(spark: Any, table: pa.Table, tasks: int = 3) -> Any:
    """The rows in their order, over several tasks."""
    return spark.createDataFrame(table).coalesce(1) if tasks == 1 else _spread(spark, table, tasks)


def _spread(spark: Any, table: pa.Table, tasks: int) -> Any:
    size = -(-table.num_rows // tasks)
    parts = [spark.createDataFrame(table.slice(start, size)).coalesce(1) for start in range(0, table.num_rows, size)]
    whole = parts[0]
    for part in parts[1:]:
        whole = whole.union(part)
    return whole


def live(table: Any, by: str = "id") -> list[dict[str, Any]]:
    return table.to_arrow().sort_by(by).to_pylist()


def files_on_disk(table: Any) -> set[str]:
    root = Path(table.location.removeprefix("file://"))
    return {str(path.relative_to(root)) for path in root.rglob("*.parquet") if "_delta_log" not in path.parts}


@pytest.fixture(params=["auto", "always", "never"])
def shuffled(request: pytest.FixtureRequest, spark: Any, tmp_path: Path) -> Iterator[lakebed.Warehouse]:
    with lakebed.connect(tmp_path / "warehouse", spark=spark, shuffle=request.param) as lake:
        yield lake


def test_append_without_a_key(shuffled: lakebed.Warehouse, spark: Any) -> None:
    table = shuffled.create_table("t", SCHEMA, partition_by=["dt"])
    done = table.append(frame(spark, rows(0, 60)))
    assert done.version == 1
    assert done.metrics["numOutputRows"] == 60
    assert live(table) == rows(0, 60).to_pylist()
    assert set(table.files()["path"].to_pylist()) == files_on_disk(table)


MODES: dict[str, dict[str, Any]] = {
    "fixed": {"buckets": 4},
    "one bucket": {"buckets": 1},
    "dynamic": {"buckets": "dynamic", "properties": {"dynamic-bucket.target-rows": 20}},
    "postpone": {"buckets": "postpone"},
    "fixed, partitions": {"buckets": 2, "partition_by": ["dt"], "primary_key": ["id", "dt"]},
    "dynamic, partitions": {"buckets": "dynamic", "partition_by": ["dt"], "primary_key": ["id", "dt"]},
    "cross-partition": {"buckets": 2, "partition_by": ["dt"]},
    "cross-partition, dynamic": {"buckets": "dynamic", "partition_by": ["dt"]},
}


@pytest.mark.parametrize("mode", MODES)
def test_upserts_in_every_bucket_mode(shuffled: lakebed.Warehouse, spark: Any, mode: str) -> None:
    table = shuffled.create_table("t", SCHEMA, **{"primary_key": ["id"], **MODES[mode]})
    moved = "here" if "cross" in mode else None
    table.upsert(frame(spark, rows(0, 90)))
    done = table.upsert(frame(spark, rows(60, 120, n=100, **({"dt": moved} if moved else {}))))
    assert done.version == 2
    again = rows(60, 120, n=100, **({"dt": moved} if moved else {})).to_pylist()
    assert live(table) == [*rows(0, 60).to_pylist(), *again]
    assert not any(table.files()["unsettled"].to_pylist())


@pytest.mark.parametrize(
    ("shuffle", "buckets", "files"), [("auto", 2, 6), ("never", 2, 6), ("always", 2, 2), ("auto", 64, 64)]
)
def test_a_shuffle_is_made_where_it_pays_or_is_wanted(
    spark: Any, tmp_path: Path, shuffle: str, buckets: int, files: int
) -> None:
    """Without one each of the three tasks writes a file for every bucket. Who knows no number of tasks shuffles."""
    files = buckets if shuffle == "auto" and slots(spark) is None else files
    with lakebed.connect(tmp_path / "warehouse", spark=spark, shuffle=shuffle) as lake:
        table = lake.create_table("t", SCHEMA, primary_key=["id"], buckets=buckets, merge="on-read")
        table.upsert(spark.range(0, 2000, 1, 3))
        assert table.files().num_rows == files


@pytest.mark.parametrize(("shuffle", "straight"), [("auto", False), ("always", True)])
def test_postponed_buckets_are_filled_at_once_if_that_is_wanted(
    spark: Any, tmp_path: Path, shuffle: str, straight: bool
) -> None:
    with lakebed.connect(tmp_path / "warehouse", spark=spark, shuffle=shuffle) as lake:
        table = lake.create_table(
            "t", SCHEMA, primary_key=["id"], buckets="postpone", merge="on-read",
            properties={"dynamic-bucket.target-rows": 20},
        )  # fmt: skip
        table.upsert(frame(spark, rows(0, 90)))
        assert (len(set(table.files()["bucket"].to_pylist())) > 1) == straight
        table.upsert(frame(spark, rows(60, 120)))
        assert live(table) == rows(0, 120).to_pylist()
        table.settle()
        assert live(table) == rows(0, 120).to_pylist()


@pytest.mark.parametrize("merge", ["on-read", "copy-on-write"])
@pytest.mark.parametrize("engine", ["deduplicate", "first-row", "partial-update", "aggregation"])
def test_merge_engines(spark: Any, tmp_path: Path, engine: str, merge: str) -> None:
    with lakebed.connect(tmp_path / "w", spark=spark, shuffle="always") as lake:
        options = {"fields.n.aggregate-function": "sum"} if engine == "aggregation" else {}
        kind = {"primary_key": ["id"], "buckets": 2, "merge": merge, "merge_engine": engine, "properties": options}
        mine, other = lake.create_table("mine", SCHEMA, **kind), lake.create_table("other", SCHEMA, **kind)
        for batch in (rows(0, 30), pa.concat_tables([rows(10, 40, n=1), rows(20, 50, n=2)])):
            mine.upsert(frame(spark, batch))
            other.upsert(batch)
        assert live(mine) == live(other)
        assert live(mine) != rows(0, 50).to_pylist()


@pytest.mark.parametrize("engine", ["partial-update", "aggregation"])
def test_rows_that_several_tasks_combine_are_one_batch(spark: Any, tmp_path: Path, engine: str) -> None:
    """Of a batch, a partial update takes the last value that is not null; two commits would tell another story."""
    with lakebed.connect(tmp_path / "w", spark=spark, shuffle="never") as lake:
        options = {"fields.n.aggregate-function": "sum"} if engine == "aggregation" else {}
        kind = {"primary_key": ["id"], "buckets": 2, "merge_engine": engine, "properties": options}
        mine, other = lake.create_table("mine", SCHEMA, **kind), lake.create_table("other", SCHEMA, **kind)
        batch = pa.concat_tables([rows(0, 30, n=n) for n in range(4)])
        mine.upsert(frame(spark, batch, tasks=4))
        other.upsert(batch)
        assert live(mine) == live(other)


@pytest.mark.parametrize("mode", ["fixed", "dynamic", "postpone", "fixed, partitions", "cross-partition"])
def test_of_rows_with_one_key_the_last_of_the_frame_counts(shuffled: lakebed.Warehouse, spark: Any, mode: str) -> None:
    table = shuffled.create_table("t", SCHEMA, **{"primary_key": ["id"], **MODES[mode]})
    many = pa.concat_tables([rows(0, 30, n=n, dt="d") for n in range(12)])
    table.upsert(frame(spark, many, tasks=4))
    assert live(table) == rows(0, 30, n=11, dt="d").to_pylist()


def test_a_bucket_beyond_the_memory_limit_keeps_the_order(spark: Any, tmp_path: Path) -> None:
    with lakebed.connect(tmp_path / "w", spark=spark, shuffle="always", writer_memory_limit="30kB") as lake:
        table = lake.create_table("t", SCHEMA, primary_key=["id"], buckets=1)
        many = pa.concat_tables([rows(0, 300, n=n, dt="d") for n in range(6)])
        done = table.upsert(frame(spark, many, tasks=6))
        assert done.metrics["numFiles"] > 1
        assert live(table) == rows(0, 300, n=5, dt="d").to_pylist()


@pytest.mark.parametrize("buckets", [2, "postpone"])
def test_sequence_row_kind_and_sort_by(spark: Any, tmp_path: Path, buckets: Any) -> None:
    with lakebed.connect(tmp_path / "w", spark=spark, shuffle="never") as lake:
        kind = {"primary_key": ["id"], "buckets": buckets, "sequence": ["n"]}
        mine, other = lake.create_table("mine", SCHEMA, **kind), lake.create_table("other", SCHEMA, **kind)
        batch = pa.concat_tables([rows(0, 20, n=5), rows(0, 10, n=5, dt="late"), rows(10, 20, n=7)])
        batch = batch.append_column("op", pa.array(["+I"] * 35 + ["-D"] * 5))
        batch = batch.append_column("extra", pa.array(range(40, 0, -1)))
        mine.upsert(frame(spark, batch), row_kind="op", sort_by=["extra"])
        other.upsert(batch, row_kind="op", sort_by=["extra"])
        assert live(mine) == live(other)
        assert mine.count() == 15
        assert "late" not in mine.to_arrow()["dt"].to_pylist()


def test_deletes_by_the_keys_of_a_frame(spark_lake: lakebed.Warehouse, spark: Any) -> None:
    table = spark_lake.create_table("t", SCHEMA, primary_key=["id"], buckets=2)
    table.upsert(rows(0, 20))
    done = table.delete(spark.range(5, 15))
    assert done.metrics["numDeletedKeys"] == 10
    assert [row["id"] for row in live(table)] == [*range(5), *range(15, 20)]


def test_overwrites(spark_lake: lakebed.Warehouse, spark: Any) -> None:
    table = spark_lake.create_table("t", SCHEMA, partition_by=["dt"])
    table.append(rows(0, 30))
    table.overwrite(frame(spark, rows(100, 110, dt="d1")), where="dt = 'd1'")
    assert table.count() == 30
    table.overwrite(frame(spark, rows(200, 203, dt="d2")), where="dynamic")
    assert table.count() == 10 + 10 + 3
    with pytest.raises(lakebed.DataError, match="rows lie outside"):
        table.overwrite(frame(spark, rows(0, 9)), where="dt = 'd1'")
    assert table.count() == 23
    table.overwrite(frame(spark, rows(0, 4)))
    assert live(table) == rows(0, 4).to_pylist()
    assert table.version == 4


def test_a_transaction_over_two_tables(spark_lake: lakebed.Warehouse, spark: Any) -> None:
    keyed = spark_lake.create_table("k", SCHEMA, primary_key=["id"], buckets=2)
    plain = spark_lake.create_table("p", SCHEMA)
    with spark_lake.transaction() as tx:
        tx.table("k").upsert(frame(spark, rows(0, 10)))
        tx.table("k").upsert(frame(spark, rows(5, 15, n=50)))
        tx.table("p").append(frame(spark, rows(0, 3)))
        assert tx.table("k").count() == 15
        assert keyed.count() == plain.count() == 0
    assert live(keyed) == [*rows(0, 5).to_pylist(), *rows(5, 15, n=50).to_pylist()]
    assert tx.versions == {"default.k": 1, "default.p": 1}


def test_columns_are_found_by_name_and_missing_ones_are_null(spark_lake: lakebed.Warehouse, spark: Any) -> None:
    table = spark_lake.create_table("t", SCHEMA, primary_key=["id"], buckets=2)
    table.upsert(spark.sql("SELECT 'x' AS NAME, CAST(7 AS INT) AS id"))
    assert live(table) == [{"id": 7, "dt": None, "n": None, "name": "x", "at": None, "tags": None}]


def test_a_narrower_key_lands_in_the_bucket_of_the_table(spark: Any, tmp_path: Path) -> None:
    """Spark's hash of an INT is another than that of a BIGINT."""
    with lakebed.connect(tmp_path / "w", spark=spark, shuffle="always") as lake:
        table = lake.create_table("t", "id BIGINT, n BIGINT", primary_key=["id"], buckets=4)
        table.upsert(spark.sql("SELECT CAST(id AS INT) AS id, 1L AS n FROM range(50)"))
        table.upsert([{"id": i, "n": 2} for i in range(50)])
        assert live(table) == [{"id": i, "n": 2} for i in range(50)]


def test_all_differences_are_told_before_any_job(spark_lake: lakebed.Warehouse, spark: Any) -> None:
    table = spark_lake.create_table("t", SCHEMA)
    wrong = spark.sql("SELECT raise_error('ran') AS name, 'a' AS id, 1 AS nam")
    with pytest.raises(lakebed.DataError) as caught:
        table.append(wrong)
    assert "column id: expected BIGINT, found string" in str(caught.value)
    assert "column nam: not in the table (did you mean 'name'?)" in str(caught.value)
    assert table.version == 0


def test_case_as_in_the_setting_of_spark(spark_lake: lakebed.Warehouse, spark: Any) -> None:
    table = spark_lake.create_table("t", SCHEMA)
    upper = spark.sql("SELECT 1L AS ID")
    spark.conf.set("spark.sql.caseSensitive", "true")
    try:
        with pytest.raises(lakebed.DataError, match="did you mean 'id'"):
            table.append(upper)
    finally:
        spark.conf.unset("spark.sql.caseSensitive")
    table.append(upper)
    assert table.to_arrow()["id"].to_pylist() == [1]


@pytest.mark.parametrize("key", [(), ("id",)])
def test_rows_that_do_not_fit_leave_nothing(spark_lake: lakebed.Warehouse, spark: Any, key: tuple[str, ...]) -> None:
    table = spark_lake.create_table("t", "id BIGINT NOT NULL, n BIGINT", primary_key=key, properties={})
    table.append([{"id": 1, "n": 1}])
    before = files_on_disk(table)
    with pytest.raises(lakebed.DataError, match="null"):
        table.append(spark.sql("SELECT IF(id = 15, NULL, id) AS id, id AS n FROM range(0, 20, 1, 4)"))
    assert files_on_disk(table) == before
    assert table.version == 1


def test_a_job_that_fails_leaves_nothing(spark_lake: lakebed.Warehouse, spark: Any) -> None:
    table = spark_lake.create_table("t", "id BIGINT, n BIGINT", primary_key=["id"], buckets=2)
    failing = spark.sql("SELECT id, IF(id = 15, raise_error('the eleventh hour'), 1L) AS n FROM range(0, 20, 1, 4)")
    with pytest.raises(lakebed.JobError, match="the eleventh hour"):
        table.upsert(failing)
    assert files_on_disk(table) == set()
    assert table.version == 0


def test_an_empty_frame(spark_lake: lakebed.Warehouse, spark: Any) -> None:
    table = spark_lake.create_table("t", SCHEMA, primary_key=["id"], buckets=2)
    assert table.upsert(frame(spark, rows(0, 2)).where("false")).version == 1
    assert table.count() == 0


def test_rows_without_columns_are_rows_of_nulls(shuffled: lakebed.Warehouse, spark: Any) -> None:
    """As those of Arrow are: their number must not be lost on the way."""
    table = shuffled.create_table("t", "a BIGINT, part STRING", partition_by="part")
    table.append(spark.range(3).select())
    assert table.to_arrow().to_pylist() == [{"a": None, "part": None}] * 3


def test_the_input_is_computed_once(spark: Any, tmp_path: Path) -> None:
    from pyspark.sql import functions as F

    counted = tmp_path / "counted"
    counted.mkdir()

    @F.udf("bigint")
    def mark(i: int) -> int:
        with open(f"{counted}/{i}", "a") as file:
            file.write("x")
        return i

    with lakebed.connect(tmp_path / "w", spark=spark, shuffle="always") as lake:
        table = lake.create_table("t", "id BIGINT", primary_key=["id"], buckets=2)
        table.upsert(spark.range(10).select(mark(F.col("id")).alias("id")))
    assert {path.name: path.read_text() for path in counted.iterdir()} == {str(i): "x" for i in range(10)}


def test_without_a_session_the_way_out_is_told(local_lake: lakebed.Warehouse, spark: Any) -> None:
    table = local_lake.create_table("t", "id BIGINT")
    with pytest.raises(lakebed.LakebedError, match=r"lakebed.connect\(…, spark=spark\)"):
        table.append(spark.range(3))
