"""Frames that are nothing but Parquet files are read by the driver: the same rows in the same order, and only then."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from spark_frames import KINDS, OF_EVERY_KIND

import lakebed
from lakebed.core.options import Options
from lakebed.spark import parquet_source
from lakebed.spark.parquet_source import parquet_rows

pytestmark = pytest.mark.spark
SCHEMA = f"id BIGINT NOT NULL, {KINDS}"


def rows_of(frame: Any, *, ordered: bool = True) -> pa.Table | None:
    found = parquet_rows(frame, Options(), ordered=ordered)
    return None if found is None else found.read_all()


def store(folder: Path, *sizes: int, columns: Callable[[range], dict[str, Any]] | None = None) -> Path:
    """Files with so many rows; their ids go on from file to file."""
    folder.mkdir()
    start = 0
    for number, size in enumerate(sizes):
        ids = range(start, start + size)
        given = {"id": list(ids), "file": [number] * size} if columns is None else columns(ids)
        pq.write_table(pa.table(given), folder / f"{number}.parquet")
        start += size
    return folder


@pytest.fixture
def lakes(spark: Any, tmp_path: Path) -> Iterator[list[lakebed.Warehouse]]:
    """One whose driver reads such files, and one whose tasks do."""
    with (
        lakebed.connect(tmp_path / "here", spark=spark, write_here="16MiB") as here,
        lakebed.connect(tmp_path / "there", spark=spark, write_here=0) as there,
    ):
        yield [here, there]


@pytest.mark.parametrize("seed", range(4))
def test_rows_come_in_the_order_of_the_frame(spark: Any, tmp_path: Path, seed: int) -> None:
    """Spark takes larger files first; what is upserted twice must keep the row that is the last of the frame."""
    draw = random.Random(seed)
    folder = store(tmp_path / "rows", *(draw.randrange(1, 3000) for _ in range(draw.randrange(1, 7))))
    frame = spark.read.parquet(str(folder))
    found = rows_of(frame)
    assert found is not None
    assert found["id"].to_pylist() == [row["id"] for row in frame.select("id").collect()]


def test_a_large_file_that_spark_cuts_stays_in_order(spark: Any, tmp_path: Path) -> None:
    """One file over 4 MiB in several row groups is read by both tasks."""
    folder = tmp_path / "rows"
    folder.mkdir()
    noise = random.Random(1)
    table = pa.table({"id": range(90_000), "noise": [noise.randbytes(100) for _ in range(90_000)]})
    pq.write_table(table, folder / "0.parquet", row_group_size=9_000)
    frame = spark.read.parquet(str(folder))
    assert frame.rdd.getNumPartitions() > 1
    found = rows_of(frame)
    assert found is not None
    assert found["id"].to_pylist() == [row["id"] for row in frame.select("id").collect()]


def test_files_whose_order_cannot_be_told_are_left_to_spark(spark: Any, tmp_path: Path) -> None:
    same = store(tmp_path / "same", 10, columns=lambda ids: {"id": list(ids)})
    (same / "copy.parquet").write_bytes((same / "0.parquet").read_bytes())
    frame = spark.read.parquet(str(same))
    assert rows_of(frame) is None
    assert rows_of(frame, ordered=False) is not None
    spark.conf.set("spark.sql.files.maxPartitionBytes", "1000")
    try:
        other = spark.read.parquet(str(store(tmp_path / "cut", 10, 500)))
        assert rows_of(other) is None
    finally:
        spark.conf.unset("spark.sql.files.maxPartitionBytes")
    assert rows_of(spark.read.parquet(str(tmp_path / "cut"))) is not None


def test_several_large_files_are_left_to_spark(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that Spark cuts into pieces of several sizes, and takes in the order of these."""
    monkeypatch.setattr(parquet_source, "_LARGEST_SPLIT", 20_000)
    frame = spark.read.parquet(str(store(tmp_path / "rows", 10_000, 9_000)))
    assert rows_of(frame) is None


@pytest.mark.parametrize("how", ["folder", "slash", "uri", "relative", "load", "file", "file uri"])
def test_however_the_files_are_named(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    # Relative paths are the JVM's; it was started where the tests were.
    folder = store(tmp_path / "rows ü 100%", 20)
    one = folder / "0.parquet"
    if how == "relative":
        folder = store(Path(f"rows-{os.getpid()}"), 20)
    frames = {
        "folder": lambda: spark.read.parquet(str(folder)),
        "slash": lambda: spark.read.parquet(f"{folder}/"),
        "uri": lambda: spark.read.parquet(f"file://{folder}"),
        "relative": lambda: spark.read.parquet(str(folder)),
        "load": lambda: spark.read.format("parquet").load(str(folder)),
        "file": lambda: spark.read.parquet(str(one)),
        "file uri": lambda: spark.read.parquet(f"file://{one}"),
    }
    try:
        found = rows_of(frames[how]())
        assert found is not None
        assert found["id"].to_pylist() == list(range(20))
    finally:
        if how == "relative":
            for file in folder.iterdir():
                file.unlink()
            folder.rmdir()


def test_names_that_spark_takes_for_something_else(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder whose name is a pattern, and a working directory that is not the JVM's."""
    folder = store(tmp_path / "a[b]{c", 20)
    frame = spark.read.parquet(str(folder).replace("[", "\\[").replace("{", "\\{"))
    assert frame.count() == 20
    assert rows_of(frame) is None
    plain = spark.read.parquet(f"{store(tmp_path / 'plain', 20)}//")
    monkeypatch.chdir(tmp_path)
    assert rows_of(plain) is None


def test_anything_more_than_files_is_computed_by_spark(spark: Any, tmp_path: Path) -> None:
    folder = store(tmp_path / "rows", 30, 20)
    frame = spark.read.parquet(str(folder))
    assert rows_of(frame) is not None
    others = {
        "filter": frame.where("id > 3"),
        "limit": frame.limit(3),
        "columns": frame.select("file", "id"),
        "renamed": frame.withColumnRenamed("id", "file2"),
        "computed": frame.withColumn("id", frame["id"] + 1),
        "sampled": frame.sample(0.5, 1),
        "sorted": frame.orderBy("id"),
        "distinct": frame.distinct(),
        "union": frame.unionAll(frame),
        "twice": spark.read.parquet(str(folder), str(folder)),
        "joined": frame.join(frame, "id", "left_semi"),
        "glob": spark.read.option("pathGlobFilter", "1*").parquet(str(folder)),
        "new": spark.read.option("modifiedAfter", "2999-01-01T00:00:00").schema(frame.schema).parquet(str(folder)),
        "made": spark.range(5),
        "streamed": spark.readStream.schema(frame.schema).parquet(str(folder)),
        "empty": spark.createDataFrame([], frame.schema),
    }
    assert {name: rows_of(other) for name, other in others.items()} == dict.fromkeys(others)


def test_a_cached_frame_is_what_is_cached(spark: Any, tmp_path: Path) -> None:
    frame = spark.read.parquet(str(store(tmp_path / "rows", 30)))
    frame.cache()
    try:
        assert rows_of(frame) is None
        assert rows_of(spark.read.parquet(str(tmp_path / "rows"))) is None  # Spark takes the same cache for it
    finally:
        frame.unpersist(blocking=True)
    assert rows_of(spark.read.parquet(str(tmp_path / "rows"))) is not None


def test_folders_of_partitions_are_left_to_spark(spark: Any, tmp_path: Path) -> None:
    """Their columns are in no file."""
    spark.range(10).selectExpr("id", "id % 2 AS part").write.partitionBy("part").parquet(str(tmp_path / "many"))
    assert rows_of(spark.read.parquet(str(tmp_path / "many"))) is None
    spark.range(10).selectExpr("id", "1 AS part").write.partitionBy("part").parquet(str(tmp_path / "one"))
    assert rows_of(spark.read.parquet(str(tmp_path / "one"))) is None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("spark.sql.parquet.datetimeRebaseModeInRead", "LEGACY"),
        ("spark.sql.parquet.int96RebaseModeInRead", "LEGACY"),
        ("spark.sql.parquet.int96TimestampConversion", "true"),
        ("spark.sql.parquet.binaryAsString", "true"),
        ("spark.sql.files.ignoreCorruptFiles", "true"),
        ("spark.sql.files.ignoreMissingFiles", "true"),
        ("spark.sql.parquet.fieldId.read.enabled", "true"),
    ],
)
def test_settings_by_which_spark_reads_other_rows(spark: Any, tmp_path: Path, name: str, value: str) -> None:
    frame = spark.read.parquet(str(store(tmp_path / "rows", 30)))
    spark.conf.set(name, value)
    try:
        assert rows_of(frame) is None
    finally:
        spark.conf.unset(name)
    assert rows_of(frame) is not None


def int96(folder: Path) -> None:
    times = pa.array([[1, 2]], pa.list_(pa.timestamp("us", "UTC")))
    pq.write_table(pa.table({"at": times}), folder / "0.parquet", use_deprecated_int96_timestamps=True)


def old_calendar(folder: Path) -> None:
    table = pa.table({"day": pa.array([-200_000], pa.date32())})
    pq.write_table(table.replace_schema_metadata({"org.apache.spark.version": "2.4.8"}), folder / "0.parquet")


def unsigned(folder: Path) -> None:
    pq.write_table(pa.table({"n": pa.array([1], pa.uint32())}), folder / "0.parquet")


def fewer_columns(folder: Path) -> None:
    pq.write_table(pa.table({"a": [1] * 900, "b": range(900)}), folder / "0.parquet")
    pq.write_table(pa.table({"a": [1, 2]}), folder / "1.parquet")


def other_types(folder: Path) -> None:
    pq.write_table(pa.table({"a": pa.array(range(900), pa.int64())}), folder / "0.parquet")
    pq.write_table(pa.table({"a": pa.array([2], pa.int32())}), folder / "1.parquet")


def seconds_of_day(folder: Path) -> None:
    pq.write_table(pa.table({"a": pa.array([b"12345678"], pa.binary(8))}), folder / "0.parquet")


@pytest.mark.parametrize("make", [int96, old_calendar, unsigned, fewer_columns, other_types, seconds_of_day])
def test_files_in_which_arrow_may_see_something_else(spark: Any, tmp_path: Path, make: Callable[[Path], None]) -> None:
    make(tmp_path)
    assert rows_of(spark.read.parquet(str(tmp_path)), ordered=False) is None


def test_more_columns_than_were_asked_for(spark: Any, tmp_path: Path) -> None:
    folder = store(tmp_path / "rows", 30)
    found = rows_of(spark.read.schema("file BIGINT").parquet(str(folder)))
    assert found is not None
    assert found.to_pydict() == {"file": [0] * 30}
    assert rows_of(spark.read.schema("id STRING").parquet(str(folder))) is None


def by_spark(spark: Any, rows: Any, folder: Path) -> None:
    """As Spark does by default: times are INT96."""
    rows.coalesce(1).write.parquet(str(folder))


def in_microseconds(spark: Any, rows: Any, folder: Path) -> None:
    spark.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
    try:
        rows.coalesce(1).write.parquet(str(folder))
    finally:
        spark.conf.unset("spark.sql.parquet.outputTimestampType")


def by_arrow(spark: Any, rows: Any, folder: Path) -> None:
    in_microseconds(spark, rows, folder.with_name("first"))
    folder.mkdir()
    pq.write_table(pq.read_table(folder.with_name("first")), folder / "0.parquet")


def with_views(spark: Any, rows: Any, folder: Path) -> None:
    """Texts as Rust's writers note them in a file."""
    in_microseconds(spark, rows, folder.with_name("first"))
    folder.mkdir()
    views = {pa.string(): pa.string_view(), pa.binary(): pa.binary_view()}
    found = pq.read_table(folder.with_name("first"))
    schema = pa.schema([field.with_type(views.get(field.type, field.type)) for field in found.schema])
    pq.write_table(found.cast(schema), folder / "0.parquet")
    assert set(views.values()) <= set(pq.read_schema(folder / "0.parquet").types)


def by_polars(spark: Any, rows: Any, folder: Path) -> None:
    in_microseconds(spark, rows.drop("counts"), folder.with_name("first"))  # it has no maps
    folder.mkdir()
    pl.read_parquet(folder.with_name("first") / "*.parquet").write_parquet(folder / "0.parquet")


@pytest.mark.parametrize("write", [by_spark, in_microseconds, by_arrow, with_views, by_polars])
def test_values_of_every_kind(
    spark: Any, tmp_path: Path, lakes: list[lakebed.Warehouse], write: Callable[[Any, Any, Path], None]
) -> None:
    rows = spark.range(0, 300, 1, 2).selectExpr("id", *OF_EVERY_KIND)
    write(spark, rows, tmp_path / "rows")
    frame = spark.read.parquet(str(tmp_path / "rows"))
    assert rows_of(frame) is not None
    kept = []
    for lake in lakes:
        table = lake.create_table("t", frame.schema, primary_key=["id"], buckets=2)
        table.upsert(frame)
        kept.append(sorted(map(repr, table.to_arrow().to_pylist())))
    assert kept[0] == kept[1]
    assert len(kept[0]) == 300


@pytest.mark.parametrize(
    "given",
    [
        {"primary_key": ["id"], "buckets": 4},
        {"primary_key": ["id"], "merge": "on-read"},
        {"primary_key": ["id"], "buckets": 4, "merge_engine": "first-row"},
        {"primary_key": ["id"], "buckets": 4, "merge_engine": "aggregation",
         "properties": {"fields.file.aggregate-function": "listagg"}},
        {"primary_key": ["id", "part"], "partition_by": ["part"], "buckets": 2},
        {"partition_by": ["part"]},
        {},
    ],
)  # fmt: skip
def test_tables_are_the_same_whoever_reads(
    spark: Any, tmp_path: Path, lakes: list[lakebed.Warehouse], given: dict[str, Any]
) -> None:
    """Every id is in several files: which row is the last decides."""

    def columns(ids: range) -> dict[str, Any]:
        return {"id": [n % 40 for n in ids], "part": [n % 40 % 3 for n in ids], "file": [str(n) for n in ids]}

    frame = spark.read.parquet(str(store(tmp_path / "rows", 500, 90, 200, columns=columns)))
    assert rows_of(frame) is not None
    kept = []
    for lake in lakes:
        table = lake.create_table("t", "id BIGINT, part BIGINT, file STRING", **given)
        for _ in range(2):
            if "primary_key" in given:
                table.upsert(frame)
            else:
                table.append(frame)
        kept.append(sorted(map(repr, table.to_arrow().to_pylist())))
    assert kept[0] == kept[1]


def test_the_driver_reads_and_no_task(spark: Any, tmp_path: Path, lakes: list[lakebed.Warehouse]) -> None:
    """A frame that only the driver can read is read by the driver."""
    frame = spark.read.parquet(str(store(tmp_path / "rows", 500)))
    tracker = spark.sparkContext.statusTracker()
    spark.sparkContext.setJobGroup("upsert", "an upsert")
    jobs = []
    for lake in lakes:
        table = lake.create_table("t", frame.schema, primary_key=["id"], buckets=2)
        before = len(tracker.getJobIdsForGroup("upsert"))
        table.upsert(frame)
        jobs.append(len(tracker.getJobIdsForGroup("upsert")) - before)
    spark.sparkContext.setLocalProperty("spark.jobGroup.id", None)
    assert jobs[0] == 0
    assert jobs[1] > 0


def test_files_of_another_machine_are_left_to_spark() -> None:
    """On Spark Connect the server may be elsewhere, and have another file by the same path."""
    from pyspark.sql.connect.dataframe import DataFrame as Remote

    assert parquet_rows(Remote.__new__(Remote), Options(), ordered=True) is None


def test_bad_rows_and_bad_files_change_nothing(spark: Any, tmp_path: Path, lakes: list[lakebed.Warehouse]) -> None:
    table = lakes[0].create_table("t", "id BIGINT, file BIGINT", primary_key=["id"], buckets=2)
    nulls = store(tmp_path / "nulls", 20, columns=lambda ids: {"id": [None, *ids[1:]], "file": list(ids)})
    with pytest.raises(lakebed.DataError, match="1 row"):
        table.upsert(spark.read.parquet(str(nulls)))
    broken = store(tmp_path / "broken", 5000)
    frame = spark.read.parquet(str(broken))
    whole = (broken / "0.parquet").read_bytes()
    (broken / "0.parquet").write_bytes(whole[:4] + bytes(2000) + whole[2004:])
    with pytest.raises(lakebed.LakebedError, match=r"0\.parquet"):
        table.upsert(frame)
    (broken / "0.parquet").write_bytes(whole[:100])  # no footer: Spark says so
    with pytest.raises(lakebed.LakebedError):
        table.upsert(frame)
    (broken / "0.parquet").unlink()
    with pytest.raises(lakebed.LakebedError):
        table.upsert(frame)
    assert table.version == 0
    assert not list(Path(table.location.removeprefix("file://")).rglob("*.parquet"))
