"""The native scan: Spark's Parquet reader gives what the engine gives, for every kind of file and schema."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import functions
from spark_reading import EVERY_TYPE, check, collected, every_type, physical_plan

import lakebed
from lakebed.spark import dead_words, native_scan
from lakebed.storage import parquet_encoder

pytestmark = pytest.mark.spark


def test_every_type(spark_lake: lakebed.Warehouse) -> None:
    table = spark_lake.create_table("t", EVERY_TYPE)
    table.append([every_type(n) for n in range(4)] + [{"id": 5}])
    assert check(table) == 5
    assert check(table, columns=["inner", "id"], where="id > 1") == 3


def test_partition_columns_of_every_type_come_from_the_log(spark_lake: lakebed.Warehouse) -> None:
    values = {
        "b": [1, None], "i": [-(2**31), 7], "f": [0.1, float("inf")], "d": [1e300, None], "t": [True, False],
        "text": ["a/b=c %41 'ü\"\\", None], "day": [dt.date(1582, 10, 10), None],
        "at": [dt.datetime(2026, 1, 1, 1, 2, 3, 456789, dt.UTC), None],
        "wall": [dt.datetime(1969, 12, 31, 23, 59, 59, 999999), None], "small": [Decimal("-1.50"), None],
    }  # fmt: skip
    kinds = "b TINYINT, i INT, f FLOAT, d DOUBLE, t BOOLEAN, text STRING, day DATE, at TIMESTAMP, wall TIMESTAMP_NTZ"
    schema = f"id BIGINT, {kinds}, small DECIMAL(9,2)"
    table = spark_lake.create_table("t", schema, partition_by=list(values))
    table.append([{"id": 1} | {k: v[0] for k, v in values.items()}, {"id": 2} | {k: v[1] for k, v in values.items()}])
    assert check(table) == 2
    assert check(table, columns=["text", "at"]) == 2, "no column of the files themselves"
    assert check(table, where="text is null") == 1


def test_a_filter_on_a_partition_column_leaves_files_away(spark_lake: lakebed.Warehouse, tmp_path: Path) -> None:
    table = spark_lake.create_table("t", "day STRING, n BIGINT", partition_by=["day"])
    table.append([{"day": f"2026-01-{d:02}", "n": d} for d in range(1, 6)])
    frame = table.df()
    for path in tmp_path.rglob("*.parquet"):
        if "2026-01-03" not in str(path):
            path.unlink()
    assert [tuple(row) for row in frame.filter("day = '2026-01-03'").collect()] == [("2026-01-03", 3)]


@pytest.fixture(
    params=[(dead_words.FEW_BYTES, dead_words.MOST_BYTES), (0, dead_words.MOST_BYTES), (0, 0)],
    ids=["constant", "looked up", "joined"],
)
def dead_rows_by(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """All ways in which Spark finds dead rows."""
    few, most = request.param
    monkeypatch.setattr(native_scan, "FEW_BYTES", few)
    monkeypatch.setattr(native_scan, "MOST_BYTES", most)
    return int(most)


@pytest.mark.usefixtures("dead_rows_by")
def test_dead_rows_are_not_read(spark_lake: lakebed.Warehouse) -> None:
    table = spark_lake.create_table("t", "id BIGINT, x DOUBLE", properties={})
    rows = pa.table({"id": pa.array(range(200_000)), "x": pa.array([n / 2 for n in range(200_000)])})
    table.append(rows)
    table.append(rows.slice(0, 10))
    table.delete("id % 7 = 3 AND id > 100 OR id IN (65535, 65536, 131071, 199999)")
    assert "1 of them with dead rows" in table.explain()
    expected = table.to_arrow()
    assert collected(table.df(), expected.schema).sort_by("id").equals(expected.sort_by("id"))
    assert table.df().agg({"id": "sum"}).collect()[0][0] == sum(expected["id"].to_pylist())
    assert table.df(where="id < 20").count() == table.count("id < 20")


def test_files_with_and_without_dead_rows(spark_lake: lakebed.Warehouse, dead_rows_by: int) -> None:
    """Two scans only if dead rows must be joined. Which files have dead rows changes from delete to delete."""
    table = spark_lake.create_table("t", "id BIGINT, day STRING", partition_by=["day"])
    for number in range(5):
        ids = pa.array(range(number * 1000, number * 1000 + 500 + number))
        table.append(pa.table({"id": ids, "day": pa.array([f"d{number}"] * len(ids))}))
    facts = ["_file", "_row_index", "_commit_version", "_partition"]
    for where in ("id % 1000 < 3 AND day = 'd3'", "day = 'd1' AND id % 2 = 0", "id = 4503", "day = 'd0'", "id % 5 = 0"):
        table.delete(where)
        expected = table.to_arrow()
        frame = table.df()
        assert collected(frame, expected.schema).sort_by("id").equals(expected.sort_by("id"))
        assert ("Union" in physical_plan(frame)) == (not dead_rows_by and 0 < holed(table) < len(table.files()))
        places = [tuple(row) for row in table.df(["id"], metadata_columns=facts).collect()]
        here = table.df(["id"], metadata_columns=facts, engine="arrow").collect()
        assert sorted(places) == sorted(map(tuple, here))


def test_no_join_is_done_twice_because_some_files_have_dead_rows(spark_lake: lakebed.Warehouse, spark: Any) -> None:
    """Spark moves semi and anti joins below a union, where it does them for each side of it."""
    table = spark_lake.create_table("t", "id BIGINT")
    table.append(pa.table({"id": pa.array(range(1000))}))
    table.append(pa.table({"id": pa.array(range(1000, 2000))}))
    table.delete("id % 2 = 0 AND id < 1000")
    assert 0 < holed(table) < len(table.files())
    for how, rows in (("left_semi", 100), ("left_anti", 1400)):
        other = spark.range(200).repartition(3)
        joined = table.df().join(other.hint("merge"), "id", how)
        assert joined.count() == rows
        assert physical_plan(joined).count("SortMergeJoin") == 1


def holed(table: lakebed.Table) -> int:
    """How many files have dead rows."""
    return sum(dead > 0 for dead in table.files()["dead_rows"].to_pylist())


def test_dead_rows_are_joined_only_if_they_are_many(spark_lake: lakebed.Warehouse, dead_rows_by: int) -> None:
    table = spark_lake.create_table("t", "id BIGINT")
    table.append(pa.table({"id": pa.array(range(1000))}))
    table.delete("id % 2 = 0")
    assert ("Join" in physical_plan(table.df())) == (dead_rows_by == 0)


@pytest.mark.usefixtures("dead_rows_by")
def test_dead_rows_of_files_of_any_length(spark: Any, tmp_path: Path) -> None:
    with lakebed.connect(tmp_path / "warehouse", spark=spark, max_row_group_rows=100) as lake:
        table = lake.create_table("t", "id BIGINT, day STRING", partition_by=["day"])
        sizes = (1, 63, 64, 65, 128, 1000)
        for number, size in enumerate(sizes):
            first = 10_000 * number
            ids = pa.array(range(first, first + size))
            table.append(pa.table({"id": ids, "day": pa.array([f"d{number}"] * size)}))
        table.delete("id % 10000 > 0 AND (id % 3 = 0 OR id % 10000 IN (62, 63, 64, 127, 999))")
        assert check(table) == table.count()
        assert check(table, where="id > 50700 and id < 50750") == table.count("id > 50700 and id < 50750") > 0
        assert check(table, where="day = 'd4'") == table.count("day = 'd4'") > 0
        places = table.df(metadata_columns=["_file", "_row_index"]).select("_file", "_row_index").collect()
        assert len(set(places)) == table.count()
        assert table.df().count() == table.count()


def test_files_that_do_not_tell_their_number_of_rows(spark: Any, tmp_path: Path) -> None:
    """Its dead rows can only be joined."""
    with lakebed.connect(tmp_path / "warehouse", spark=spark) as lake:
        table = lake.create_table("t", "id BIGINT")
        table.append([{"id": n} for n in range(200)])
        table.delete("id % 5 = 0")
        commits = list(tmp_path.rglob("_delta_log/*.json"))
        assert len(commits) == 3
        for commit in commits:
            commit.write_text(re.sub(r'"stats":"(?:[^"\\]|\\.)*",?', "", commit.read_text()))
    bare = lakebed.read_delta(table.location, spark=spark)
    assert "Join" in physical_plan(bare.df())
    assert bare.df().count() == 160


def test_dead_rows_beyond_the_broadcast_limit_are_left_out_by_the_engine(
    spark: Any, spark_lake: lakebed.Warehouse, tmp_path: Path
) -> None:
    table = spark_lake.create_table("t", "id BIGINT")
    for first in (0, 100):
        table.append([{"id": first + n} for n in range(100)])
    table.delete("id % 3 = 0")
    table.append([{"id": 1000}])
    with lakebed.connect(tmp_path / "warehouse", spark=spark, broadcast_limit=8192) as lake:
        small = lake.table("t")
        assert "native scan of 2 file(s), 1 of them" in small.explain()
        assert "arrow scan of 1 file(s)" in small.explain()
        assert check(small) == small.count()


def test_metadata_columns(spark_lake: lakebed.Warehouse) -> None:
    table = spark_lake.create_table("t", "id BIGINT NOT NULL, day STRING", primary_key=["id", "day"],
                                    partition_by=["day"], buckets=2)  # fmt: skip
    table.upsert([{"id": n, "day": "mon"} for n in range(6)])
    table.upsert([{"id": 3, "day": "tue"}])
    table.compact(full=True)
    names = ["_file", "_row_index", "_commit_version", "_bucket", "_partition"]
    native, arrow = (
        {tuple(row) for row in table.df(metadata_columns=names, engine=engine).collect()}
        for engine in ("native", "arrow")
    )
    assert native == arrow
    assert {(row[0], row[4]) for row in native} == {*((n, 1) for n in range(6)), (3, 2)}
    by_file = {(f["path"], f["bucket"], f["partition"]) for f in table.files().to_pylist()}
    assert {(row[2], row[5], row[6]) for row in native} == by_file
    one = table.df(columns=["id"], where="id = 3", metadata_columns=["_row_index"])
    assert one.columns == ["id", "_row_index"]
    assert one.count() == 2


def test_metadata_columns_are_checked(spark_lake: lakebed.Warehouse) -> None:
    table = spark_lake.create_table("t", "id BIGINT")
    with pytest.raises(lakebed.InputError, match="names each once"):
        table.df(metadata_columns=["_bucket", "_bucket"])
    with pytest.raises(lakebed.InputError, match="some of _file"):
        table.df(metadata_columns=["file"])
    with pytest.raises(lakebed.InputError, match="one of auto, native, arrow"):
        table.df(engine="fast")


def test_tables_of_other_writers(spark: Any, tmp_path: Path) -> None:
    rows = pa.table({"id": [1, 2, 3], "_file": ["a", "b", "c"], "day": ["x y", "x y", "ü"]})
    deltalake.write_deltalake(tmp_path / "t", rows, partition_by=["day"])
    table = lakebed.read_delta(tmp_path / "t", spark=spark)
    assert check(table) == 3
    assert check(table, where="day = 'ü'") == 1
    with pytest.raises(lakebed.InputError, match="of its own"):
        table.df(metadata_columns=["_file"])


def test_evolved_schemas(spark_lake: lakebed.Warehouse) -> None:
    table = spark_lake.create_table("t", "id INT NOT NULL, a STRUCT<x: INT, y: STRING>, l ARRAY<STRUCT<p: INT>>, "
                                    "f FLOAT, m MAP<STRING, STRUCT<v: INT>>, gone STRING")  # fmt: skip
    row = {"id": 1, "a": {"x": 1, "y": "y"}, "l": [{"p": 1}], "f": 1.5, "m": {"k": {"v": 1}}, "gone": "g"}
    table.append([row, {**row, "id": 2, "a": None, "l": None, "m": None}])
    table.alter(
        add={"a.z": "BIGINT", "new": "STRING", "l.element.q": "DATE", "s": "STRUCT<only: INT>"},
        widen={"id": "BIGINT", "a.x": "BIGINT", "f": "DOUBLE", "l.element.p": "BIGINT"},
        drop=["gone"],
        rename={"a.y": "why", "f": "double f", "m": "m.dotted"},
    )
    assert check(table) == 2
    new = {"id": 2**40, "a": {"x": 2**40, "why": "w", "z": 1}, "new": "n", "s": {"only": 1}, "double f": 1e300}
    table.append([new, {**new, "a": {"x": None}, "s": {"only": None}}])
    table.alter(rename={"a": "b"}, move={"new": "first"})
    assert check(table) == 4
    assert check(table, columns=["b"], where="b.why = 'w' or b.x = 1") == 2
    assert check(table, columns=["m.dotted", "double f"], where="`double f` > 1.0") == 4
    assert check(table.at(version=1)) == 2


@pytest.mark.parametrize(
    ("narrow", "value", "wide"),
    [
        ("TINYINT", 7, "SMALLINT"), ("TINYINT", 7, "INT"), ("SMALLINT", -7, "BIGINT"), ("INT", 7, "BIGINT"),
        ("INT", 7, "DOUBLE"), ("FLOAT", 0.1, "DOUBLE"), ("DATE", dt.date(1500, 1, 1), "TIMESTAMP_NTZ"),
        ("DECIMAL(5,2)", Decimal("1.25"), "DECIMAL(10,4)"), ("DECIMAL(10,2)", Decimal("1.25"), "DECIMAL(38,10)"),
        ("INT", 7, "DECIMAL(12,2)"), ("BIGINT", 7, "DECIMAL(22,2)"), ("TINYINT", 7, "DECIMAL(10,0)"),
    ],
)  # fmt: skip
def test_widened_columns(spark_lake: lakebed.Warehouse, narrow: str, value: Any, wide: str) -> None:
    table = spark_lake.create_table("t", f"v {narrow}, s STRUCT<v: {narrow}>, a ARRAY<{narrow}>")
    table.append([{"v": value, "s": {"v": value}, "a": [value, None]}, {"v": None}])
    table.alter(widen={"v": wide, "s.v": wide, "a.element": wide})
    assert check(table) == 2


@pytest.mark.parametrize("folder", ["with space", "ü日本", "per%20cent%", "a+b&c=d", "[x]{y}*", "quote'\"", "#hash;,"])
def test_any_path(spark: Any, tmp_path: Path, folder: str) -> None:
    with lakebed.connect(tmp_path / folder / "warehouse", spark=spark) as lake:
        table = lake.create_table("t", "id BIGINT, day STRING", partition_by=["day"])
        table.append([{"id": n, "day": day} for n, day in enumerate(["a b", "ü", "x=1/2", "%41", "*", None])])
        table.delete("id = 3")
        assert check(table) == 5


def test_awkward_column_names(spark_lake: lakebed.Warehouse) -> None:
    names = ["_metadata", "a.b", "back`tick", "ü x", "__lakebed_row", "key", "words"]
    table = spark_lake.create_table("t", pa.schema([(name, pa.int64()) for name in names]))
    table.append([dict.fromkeys(names, 1), dict.fromkeys(names, 2)])
    table.delete("`_metadata` = 2")
    assert check(table) == 1
    assert table.df(metadata_columns=["_row_index"]).collect()[0]["_row_index"] == 0


def test_spark_filters_find_nan(spark_lake: lakebed.Warehouse) -> None:
    table = spark_lake.create_table("t", "id BIGINT, x DOUBLE, f FLOAT, s STRUCT<x: DOUBLE, y: INT>")
    nan = float("nan")
    table.append([{"id": n, "x": nan, "f": nan, "s": {"x": nan, "y": n}} for n in range(3)] + [{"id": 9, "x": 1.0}])
    for condition in ("x > 100", "x = double('NaN')", "f > 100", "s.x > 100"):
        assert table.df().filter(condition).count() == 3, condition


def test_an_empty_table_and_an_empty_result(spark_lake: lakebed.Warehouse) -> None:
    table = spark_lake.create_table("t", "id BIGINT NOT NULL, day STRING", partition_by=["day"])
    assert check(table) == 0
    table.append([{"id": 1, "day": "mon"}])
    assert check(table, where="id > 5") == 0
    assert table.df(where="day = 'tue'").collect() == []
    assert "no file is read" in table.explain(where="day = 'tue'")


def test_a_missing_file_is_an_error_even_if_the_session_ignores_it(
    spark: Any, spark_lake: lakebed.Warehouse, tmp_path: Path
) -> None:
    table = spark_lake.create_table("t", "id BIGINT")
    table.append([{"id": 1}])
    table.append([{"id": 2}])
    next(tmp_path.rglob("*.parquet")).unlink()
    spark.conf.set("spark.sql.files.ignoreMissingFiles", "true")
    try:
        with pytest.raises(Exception, match=r"FileNotFound|does not exist|FILE_NOT_EXIST"):
            table.df().collect()
    finally:
        spark.conf.unset("spark.sql.files.ignoreMissingFiles")


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("BIGINT", lambda n: n * 3 - 1000),
        ("INT", lambda n: n * 3 - 1000),
        ("DATE", lambda n: dt.date(1900, 1, 1) + dt.timedelta(days=n)),
        ("TIMESTAMP", lambda n: dt.datetime(1899, 1, 1, tzinfo=dt.UTC) + dt.timedelta(hours=n * 5)),
    ],
    ids=lambda one: one if isinstance(one, str) else "",
)
def test_keys_that_are_stored_as_differences(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, value: Callable[[int], Any]
) -> None:
    """Files of two encoders, cut into several splits: no row is lost, and conditions leave out the right pages."""
    monkeypatch.setattr(parquet_encoder, "SPLICED_ROWS", 1)
    lake = lakebed.connect(tmp_path / "warehouse", spark=spark, max_row_group_rows=700, read_here=0)
    table = lake.create_table("t", f"k {kind} NOT NULL, v STRING, n INT", primary_key=["k"], buckets=1)
    rows = [{"k": value(n), "v": f"v{n}", "n": -n} for n in range(5000)]
    table.upsert(pa.Table.from_pylist(rows, table.schema))
    path = tmp_path / "warehouse/default/t" / table.files()["path"][0].as_py()
    footer = pq.read_metadata(path)
    assert footer.num_row_groups == 8
    assert "DELTA_BINARY_PACKED" in footer.row_group(7).column(0).encodings
    spark.conf.set("spark.sql.files.maxPartitionBytes", 10_000)
    try:
        frame = table.df()
        parts = frame.select(functions.spark_partition_id().alias("part")).distinct().count()
        assert parts > 3, "the file is cut"
        assert sorted((row.n, row.v) for row in frame.collect()) == sorted((r["n"], r["v"]) for r in rows)
        for number in (0, 699, 700, 4999):
            found = frame.where(frame.k == value(number)).collect()
            assert [(row.v, row.n) for row in found] == [(f"v{number}", -number)]
        assert frame.where((frame.k >= value(1200)) & (frame.k < value(3300))).count() == 2100
    finally:
        spark.conf.unset("spark.sql.files.maxPartitionBytes")
