"""``spark.read.format("lakebed")``: options, versions, filters, stores that Spark cannot read, and secrets."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
    StringEndsWith,
    StringStartsWith,
)
from spark_reading import EVERY_TYPE, canonical, check, collected, every_type

import lakebed
from lakebed.spark.pushed import taken
from lakebed.spark.read_options import ReadOptions
from lakebed.spark.source import LakebedSource, PushingReader

pytestmark = pytest.mark.spark

PUSHDOWN = "spark.sql.python.filterPushdown.enabled"


@pytest.fixture(params=["true", "false"], ids=["push-down", "no push-down"])
def pushdown(spark: Any, request: pytest.FixtureRequest) -> Iterator[bool]:
    spark.conf.set(PUSHDOWN, request.param)
    yield request.param == "true"
    spark.conf.unset(PUSHDOWN)


def load(spark: Any, path: str, **options: Any) -> Any:
    named = {name.replace("_", "-"): value for name, value in options.items()}
    frame = spark.read.format("lakebed").options(**named).load(path)
    frame.schema  # noqa: B018 - until then Spark Connect does not look at it
    return frame


def check_source(table: Any, frame: Any) -> int:
    expected = table.to_arrow()
    assert canonical(collected(frame, expected.schema)) == canonical(expected)
    return int(expected.num_rows)


def test_every_type(spark: Any, spark_lake: lakebed.Warehouse, pushdown: bool) -> None:
    table = spark_lake.create_table("t", EVERY_TYPE)
    table.append([every_type(n) for n in range(4)] + [{"id": 5}])
    assert check_source(table, load(spark, "t")) == 5
    assert check_source(table, load(spark, "default.t")) == 5
    assert check_source(table, load(spark, table.location)) == 5
    assert load(spark, "t").schema["id"].nullable is False


def test_versions(spark: Any, spark_lake: lakebed.Warehouse) -> None:
    table = spark_lake.create_table("t", "id BIGINT NOT NULL, n BIGINT", primary_key=["id"], merge="on-read")
    table.upsert([{"id": 1, "n": 1}, {"id": 2, "n": 2}])
    table.tag("first")
    table.settle()
    moment = table.history(1)[0].timestamp
    table.upsert([{"id": 2, "n": 20}, {"id": 3, "n": 30}])
    latest = load(spark, "t")
    table.upsert([{"id": 4, "n": 40}])
    rows = {
        name: sorted(map(tuple, frame.collect()))
        for name, frame in {
            "version": load(spark, "t", version=1),
            "tag": load(spark, "t", tag="first"),
            "timestamp": load(spark, "t", timestamp=moment.isoformat()),
            "read-optimized": load(spark, "t", read_optimized="true"),
            "latest": latest,
            "columns": load(spark, "t", columns="n", version=1),
        }.items()
    }
    first = [(1, 1), (2, 2)]
    assert rows["version"] == rows["tag"] == rows["timestamp"] == rows["read-optimized"] == first
    if not type(spark).__module__.startswith("pyspark.sql.connect"):  # where a frame is a query, and not yet planned
        assert rows["latest"] == [(1, 1), (2, 20), (3, 30)], "the version of the moment at which the frame was made"
    assert rows["columns"] == [(1,), (2,)]


@pytest.mark.parametrize(
    ("path", "options", "message"),
    [
        ("t", {"versoin": 1}, "did you mean|use 'version'|unknown option"),
        ("t", {"version": "one"}, "a whole number"),
        ("t", {"version": 1, "tag": "x"}, "one of version, timestamp and tag"),
        ("t", {"version": 99}, "has no version 99"),
        ("t", {"read_optimized": "maybe"}, "true or false"),
        ("t", {"push_filters": "maybe"}, "true or false"),
        ("t", {"columns": "id, nothing"}, "no column 'nothing'"),
        ("t", {"columns": "[1]"}, "option 'columns'"),
        ("tt", {}, "tt"),
        ("t", {"metastore": "sqlite:////tmp/x"}, "without its warehouse"),
    ],
)
def test_wrong_options_are_told(
    spark: Any, spark_lake: lakebed.Warehouse, path: str, options: dict[str, Any], message: str
) -> None:
    spark_lake.create_table("t", "id BIGINT")
    with pytest.raises(Exception, match=message):
        load(spark, path, **options)


def test_a_schema_that_is_given_chooses_columns(spark: Any, spark_lake: lakebed.Warehouse) -> None:
    table = spark_lake.create_table("t", "id BIGINT, x DOUBLE, name STRING")
    table.append([{"id": 1, "x": 1.5, "name": "n"}])
    frame = spark.read.format("lakebed").schema("name STRING, id BIGINT").load("t")
    assert [tuple(row) for row in frame.collect()] == [("n", 1)]
    with pytest.raises(Exception, match="other types"):
        spark.read.format("lakebed").schema("id STRING").load("t").collect()


FILTERS: dict[str, Filter] = {
    "id = 3": EqualTo(("id",), 3),
    "id <=> 3": EqualNullSafe(("id",), 3),
    "id > 3": GreaterThan(("id",), 3),
    "id >= 3": GreaterThanOrEqual(("id",), 3),
    "id < 3": LessThan(("id",), 3),
    "id <= 3": LessThanOrEqual(("id",), 3),
    "id in (1, 3, 99)": In(("id",), (1, 3, 99)),
    "not (id in (1, 3))": Not(In(("id",), (1, 3))),
    "id != 3": Not(EqualTo(("id",), 3)),
    "name = 'ü'": EqualTo(("name",), "ü"),
    "name < 'b'": LessThan(("name",), "b"),
    "startswith(name, 'x_')": StringStartsWith(("name",), "x_"),
    "endswith(name, 'b')": StringEndsWith(("name",), "b"),
    "contains(name, '%')": StringContains(("name",), "%"),
    "not startswith(name, 'a')": Not(StringStartsWith(("name",), "a")),
    "name is null": IsNull(("name",)),
    "name is not null": IsNotNull(("name",)),
    "day = date'2026-01-03'": EqualTo(("day",), dt.date(2026, 1, 3)),
    "at > timestamp'2026-01-03 00:00:00Z'": GreaterThan(("at",), dt.datetime(2026, 1, 3, tzinfo=dt.UTC)),
    "wall <= timestamp_ntz'2026-01-03 00:00:00'": LessThanOrEqual(("wall",), dt.datetime(2026, 1, 3)),
    "price = 1.50": EqualTo(("price",), Decimal("1.500")),
    "flag": EqualTo(("flag",), True),
    "raw = X'03'": EqualTo(("raw",), b"\x03"),
    "s.y = 3": EqualTo(("s", "y"), 3),
    "s.y is null": IsNull(("s", "y")),
    "b = 3": EqualTo(("b",), 3),
    "id = 30000000000": EqualTo(("id",), 30_000_000_000),
}
SPARKS_OWN: list[Filter] = [
    GreaterThan(("x",), 2.0),
    EqualTo(("x",), float("nan")),
    IsNull(("l",)),
    EqualTo(("at",), dt.datetime(2026, 1, 3)),
    EqualTo(("b",), 300),
    In(("id",), (1, None)),
    EqualTo(("id",), 2.5),
    GreaterThan(("s", "x"), 2.0),
    EqualTo(("nothing",), 1),
]


@pytest.fixture
def filtered(spark_lake: lakebed.Warehouse) -> lakebed.Table:
    table = spark_lake.create_table(
        "t",
        "id BIGINT, name STRING, day DATE, at TIMESTAMP, wall TIMESTAMP_NTZ, price DECIMAL(9,3), flag BOOLEAN, "
        "raw BINARY, s STRUCT<x: DOUBLE, y: INT>, x DOUBLE, b TINYINT, l ARRAY<INT>",
    )
    names = ["ab", "a", "ü", None, "x%y", "x_y", "b"]
    rows = [
        {
            "id": n, "name": names[n % 7], "day": dt.date(2026, 1, n), "at": dt.datetime(2026, 1, n, tzinfo=dt.UTC),
            "wall": dt.datetime(2026, 1, n), "price": Decimal(n) / 2, "flag": n % 2 == 0, "raw": bytes([n]),
            "s": {"x": float("nan") if n == 5 else float(n), "y": n} if n != 2 else None,
            "x": float("nan") if n == 4 else float(n), "b": n,
        }
        for n in range(1, 10)
    ]  # fmt: skip
    table.append([*rows, {"id": 99}])
    return table


def test_filters_mean_what_they_mean_to_spark(spark: Any, filtered: lakebed.Table, tmp_path: Path) -> None:
    conditions = [f"coalesce({text}, false)" for text in FILTERS]
    truths = filtered.df().selectExpr("id", *conditions).collect()
    schema = LakebedSource({"path": "t", "warehouse": str(tmp_path / "warehouse")}).schema()
    options = ReadOptions.parse({"path": "t", "warehouse": str(tmp_path / "warehouse")})
    for number, (text, one) in enumerate(FILTERS.items(), 1):
        reader = PushingReader(None, options, schema)
        assert list(reader.pushFilters([one])) == [], text
        found = [n for part in reader.partitions() for batch in reader.read(part) for n in batch["id"].to_pylist()]
        assert sorted(found) == sorted(row.id for row in truths if row[number]), text


def test_filters_that_lakebed_would_compute_otherwise_stay_with_spark(filtered: lakebed.Table) -> None:
    schema = filtered._point().metadata.schema
    assert taken(SPARKS_OWN, schema) == ([], SPARKS_OWN)


def test_filters_reach_the_reader(spark: Any, filtered: lakebed.Table, pushdown: bool) -> None:
    frame = load(spark, "t", push_filters="true").filter("id > 2 and x < 5 and name is not null and s.y in (5, 6, 9)")
    assert [row.id for row in frame.collect()] == []
    frame = load(spark, "t", push_filters="true").filter("id > 2 and x > 5 and name is not null and b in (5, 6, 9)")
    assert sorted(row.id for row in frame.collect()) == [6, 9]


def test_a_frame_can_be_used_again_with_other_filters(
    spark: Any, spark_lake: lakebed.Warehouse, pushdown: bool
) -> None:
    table = spark_lake.create_table("t", "id BIGINT")
    for n in range(4):
        table.append([{"id": n}])
    frame = load(spark, "t")
    assert frame.filter("id = 1").count() == 1
    assert frame.count() == 4
    assert sorted(row.id for row in frame.filter("id = 1").union(frame.filter("id = 2")).collect()) == [1, 2]


def test_where_leaves_files_and_rows_away(spark: Any, spark_lake: lakebed.Warehouse, tmp_path: Path) -> None:
    table = spark_lake.create_table("t", "id BIGINT, x DOUBLE")
    table.append([{"id": 1, "x": 1.0}, {"id": 2, "x": 2.0}])
    kept = set(tmp_path.rglob("*.parquet"))
    table.append([{"id": 3, "x": 3.0}])
    frame = load(spark, "t", where="id < 3 and x * 2 > 3", columns="id")
    for path in set(tmp_path.rglob("*.parquet")) - kept:
        path.unlink()
    assert [row.id for row in frame.collect()] == [2]
    with pytest.raises(Exception, match="nothing"):
        load(spark, "t", where="nothing = 1")


def test_filters_that_are_pushed_open_fewer_files(
    spark: Any, spark_lake: lakebed.Warehouse, pushdown: bool, tmp_path: Path
) -> None:
    table = spark_lake.create_table("t", "id BIGINT")
    table.append([{"id": 1}])
    kept = set(tmp_path.rglob("*.parquet"))
    table.append([{"id": 2}])
    frame = load(spark, "t", push_filters="true").filter("id = 1")
    for path in set(tmp_path.rglob("*.parquet")) - kept:
        path.unlink()
    if pushdown:
        assert [row.id for row in frame.collect()] == [1]
    else:
        with pytest.raises(Exception, match="is missing"):
            frame.collect()


@pytest.mark.parametrize("engine", ["deduplicate", "partial-update"])
def test_unsettled_tables(spark: Any, spark_lake: lakebed.Warehouse, engine: str, pushdown: bool) -> None:
    table = spark_lake.create_table("t", "id BIGINT NOT NULL, n BIGINT, s STRING", primary_key=["id"], buckets=2,
                                    merge="on-read", merge_engine=engine)  # fmt: skip
    table.upsert([{"id": n, "n": n, "s": "old"} for n in range(20)])
    table.upsert([{"id": n, "n": 100 + n, "s": None} for n in range(0, 30, 2)])
    assert check_source(table, load(spark, "t")) == 25
    assert load(spark, "t").filter("n < 50").count() == table.count("n < 50") == 10


def test_tables_of_another_warehouse_and_of_none(spark: Any, spark_lake: lakebed.Warehouse, tmp_path: Path) -> None:
    with lakebed.connect(tmp_path / "other") as other:
        there = other.create_table("there", "id BIGINT NOT NULL", primary_key=["id"], merge="on-read")
        there.upsert([{"id": 1}])
        there.settle()
        there.upsert([{"id": 2}])
    by_name = load(spark, "there", warehouse=str(tmp_path / "other"))
    assert sorted(row.id for row in by_name.collect()) == [1, 2]
    assert [row.id for row in load(spark, there.location).collect()] == [1], "by its log: what every Delta reader sees"
    assert load(spark, there.location, version=0).count() == 0
    with pytest.raises(Exception, match="in no warehouse"):
        load(spark, there.location, tag="x")


@pytest.mark.s3
def test_a_store_that_this_spark_cannot_read(spark: Any, s3: Any, tmp_path: Path, capfd: Any) -> None:
    root = f"s3://{s3.new_bucket()}/warehouse"
    metastore = f"sqlite:///{tmp_path}/m.db"
    with lakebed.connect(root, metastore, spark=spark, **s3.options()) as lake:
        table = lake.create_table("t", "id BIGINT NOT NULL, day STRING", primary_key=["id"], partition_by=["day"],
                                  merge="on-read")  # fmt: skip
        table.upsert([{"id": n, "day": "mon"} for n in range(10)])
        table.upsert([{"id": n, "day": "ü /"} for n in range(5, 15)])
        assert check(table, engines=["auto", "arrow"]) == 15
        assert "arrow scan" in table.explain()
        assert "this Spark cannot read s3://" in table.explain()
        with pytest.raises(lakebed.InputError, match="this Spark cannot read"):
            table.df(engine="native")
        source = load(spark, "t")
        assert check_source(table, source) == 15
        shown = [table.explain(), repr(table.df()), repr(source), repr(lake)]
        source.explain(extended=True)
        table.df().explain(extended=True)
    shown += list(capfd.readouterr())
    for secret in (s3.options()["s3_secret_key"], s3.options()["s3_access_key"]):
        assert not any(secret in text for text in shown)


@pytest.mark.postgres
def test_the_password_of_the_metastore_is_never_shown(spark: Any, postgres: Any, tmp_path: Path, capfd: Any) -> None:
    url = postgres().replace("postgresql://postgres", "postgresql://postgres:hunter2")
    with lakebed.connect(tmp_path / "w", url, spark=spark) as lake:
        lake.create_table("t", "id BIGINT").append([{"id": 1}])
        frame = load(spark, "t")
        assert frame.count() == 1
        frame.explain(extended=True)
        with pytest.raises(Exception, match="nothing") as failed:
            load(spark, "nothing")
        shown = [repr(frame), str(failed.value), repr(lake), *capfd.readouterr()]
    assert not any("hunter2" in text for text in shown)


def test_rows_come_as_the_schema_says(spark: Any, spark_lake: lakebed.Warehouse) -> None:
    schema = pa.schema(
        [
            pa.field("id", pa.int64(), nullable=False),
            pa.field("l", pa.list_(pa.field("item", pa.int32(), nullable=False))),
            pa.field("m", pa.map_(pa.string(), pa.field("value", pa.int64(), nullable=False))),
            pa.field("s", pa.struct([pa.field("x", pa.int32(), nullable=False)])),
        ]
    )
    table = spark_lake.create_table("t", schema)
    table.append([{"id": 1, "l": [1, 2], "m": {"k": 1}, "s": {"x": 1}}, {"id": 2}])
    assert check_source(table, load(spark, "t")) == 2
    assert check(table) == 2
