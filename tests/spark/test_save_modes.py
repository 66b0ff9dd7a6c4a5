"""Save modes, and schemas that grow or rows that are cast."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pyarrow as pa
import pytest

import lakebed

pytestmark = pytest.mark.spark


def numbers(table: Any) -> list[int]:
    return sorted(table.to_arrow()["n"].to_pylist())


def test_modes(spark_lake: lakebed.Warehouse, spark: Any) -> None:
    table = spark_lake.create_table("t", "n BIGINT")
    one, two = spark.sql("SELECT 1L AS n"), spark.sql("SELECT 2L AS n")
    assert table.write(one, "error").version == 1
    with pytest.raises(lakebed.AlreadyExistsError, match=r"default.t has rows already; fix: choose another mode"):
        table.write(two, "errorIfExists")
    assert table.write(two, "ignore") is None
    assert numbers(table) == [1]
    table.write(two)
    table.write(two, "append")
    assert numbers(table) == [1, 2, 2]
    table.write(spark.sql("SELECT 5L AS n"), "overwrite", where="n >= 2")
    assert numbers(table) == [1, 5]
    table.write(two, "Overwrite")
    assert numbers(table) == [2]
    with pytest.raises(lakebed.InputError, match="one of append, upsert, overwrite, dynamic, ignore, error"):
        table.write(one, "replace")
    with pytest.raises(lakebed.InputError, match="where= says what an overwrite replaces"):
        table.write(one, "append", where="n = 1")


def test_of_two_that_want_to_be_first_one_gets_a_conflict(local_lake: lakebed.Warehouse) -> None:
    table = local_lake.create_table("t", "n BIGINT")
    with pytest.raises(lakebed.ConflictError), local_lake.transaction() as tx:
        tx.table("t").write([{"n": 1}], "error")
        table.append([{"n": 2}])
    assert numbers(table) == [2]


def test_upsert_as_a_mode(spark_lake: lakebed.Warehouse, spark: Any) -> None:
    table = spark_lake.create_table("t", "n BIGINT, s STRING", primary_key=["n"], buckets=2)
    table.write(spark.sql("SELECT id AS n, 'a' AS s FROM range(3)"), "upsert")
    table.write(spark.sql("SELECT 1L AS n, 'b' AS s"), "upsert")
    assert table.to_arrow().sort_by("n")["s"].to_pylist() == ["a", "b", "a"]


@pytest.mark.parametrize("way", ["mode", "setting"])
def test_partitions_are_overwritten_dynamically(
    spark_lake: lakebed.Warehouse, spark: Any, setting: Any, way: str
) -> None:
    table = spark_lake.create_table("t", "n BIGINT, p STRING", partition_by=["p"])
    table.append([{"n": 1, "p": "a"}, {"n": 2, "p": "b"}])
    if way == "setting":
        setting("spark.sql.sources.partitionOverwriteMode", "dynamic")
    table.write(spark.sql("SELECT 3L AS n, 'b' AS p"), "overwrite" if way == "setting" else "dynamic")
    assert numbers(table) == [1, 3]
    table.overwrite(spark.sql("SELECT 4L AS n, 'b' AS p"))
    assert numbers(table) == [4]


def test_schemas_grow(spark_lake: lakebed.Warehouse, spark: Any) -> None:
    table = spark_lake.create_table("t", "id BIGINT NOT NULL, n INT, inner STRUCT<a: INT>", primary_key=["id"])
    table.upsert([{"id": 1, "n": 1, "inner": {"a": 1}}])
    wider = spark.sql(
        "SELECT 2L AS id, 5000000000L AS n, named_struct('a', 7000000000L, 'b', 'new') AS inner, DATE'2026-11-16' AS d"
    )
    with pytest.raises(lakebed.DataError) as caught:
        table.upsert(wider)
    for name in ("column n:", "column inner.a:", "column inner.b:", "column d:"):
        assert name in str(caught.value)
    done = table.upsert(wider, merge_schema=True)
    assert (done.version, done.operation) == (2, "upsert")
    assert table.to_arrow().sort_by("id").to_pylist() == [
        {"id": 1, "n": 1, "inner": {"a": 1, "b": None}, "d": None},
        {"id": 2, "n": 5_000_000_000, "inner": {"a": 7_000_000_000, "b": "new"}, "d": dt.date(2026, 11, 16)},
    ]


def test_helper_columns_do_not_become_the_table_s(spark_lake: lakebed.Warehouse, spark: Any) -> None:
    table = spark_lake.create_table("t", "id BIGINT", primary_key=["id"])
    table.upsert(
        spark.sql("SELECT 1L AS id, '+I' AS op, 3 AS o, 'x' AS s"), row_kind="op", sort_by="o", merge_schema=True
    )
    assert table.schema.names == ["id", "s"]


@pytest.mark.parametrize("ansi", ["true", "false"])
def test_values_are_cast_or_refused(spark_lake: lakebed.Warehouse, spark: Any, setting: Any, ansi: str) -> None:
    setting("spark.sql.ansi.enabled", ansi)
    table = spark_lake.create_table("t", "id INT, d DATE, s STRUCT<a: SMALLINT>, l ARRAY<INT>")
    rows = "SELECT {id} AS id, '2026-11-16' AS d, named_struct('a', 7L) AS s, array(1L, 2L) AS l"
    with pytest.raises(lakebed.DataError, match="column d: expected DATE"):
        table.append(spark.sql(rows.format(id="5L")))
    table.append(spark.sql(rows.format(id="5L")), explicit_cast=True)
    assert table.to_arrow().to_pylist() == [{"id": 5, "d": dt.date(2026, 11, 16), "s": {"a": 7}, "l": [1, 2]}]
    overflow = "CAST_OVERFLOW" if ansi == "true" else "column id: the value '3000000000' cannot be cast to INT"
    with pytest.raises(lakebed.JobError, match=overflow):
        table.append(spark.sql(rows.format(id="3000000000L")), explicit_cast=True)
    assert table.count() == 1


def test_keys_are_cast_where_they_cannot_be_widened(spark_lake: lakebed.Warehouse, spark: Any) -> None:
    table = spark_lake.create_table("t", "id INT, n INT", primary_key=["id"], buckets=2)
    table.upsert([{"id": i, "n": 0} for i in range(8)])
    table.upsert(spark.sql("SELECT id, 5000000000L AS n FROM range(4, 12)"), merge_schema=True, explicit_cast=True)
    assert table.schema.types == [pa.int32(), pa.int64()]
    assert table.to_arrow().sort_by("id")["id"].to_pylist() == list(range(12))


def test_the_same_without_spark(local_lake: lakebed.Warehouse) -> None:
    table = local_lake.create_table("t", "id INT, d DATE")
    table.append(pa.table({"id": ["5"], "d": ["2026-11-16"]}), explicit_cast=True)
    table.append([{"id": 6, "s": "new"}], merge_schema=True)
    assert table.to_arrow().sort_by("id").to_pylist() == [
        {"id": 5, "d": dt.date(2026, 11, 16), "s": None},
        {"id": 6, "d": None, "s": "new"},
    ]
    with pytest.raises(lakebed.DataError, match=r"column id: .*3000000000"):
        table.append(pa.table({"id": [3_000_000_000]}), explicit_cast=True)
    assert table.version == 2
