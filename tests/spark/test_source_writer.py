"""Spark's own ways to write: ``df.write.format("lakebed")``, ``writeTo`` and SQL."""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import StructType

import lakebed
from lakebed.config import load
from lakebed.spark.message import Message
from lakebed.spark.source_writer import LakebedWriter, Sent
from lakebed.spark.write_options import WriteOptions

pytestmark = pytest.mark.spark


@pytest.fixture
def catalogued(spark: Any) -> Iterator[Any]:
    """Makes tables of Spark's catalog, and drops them again."""
    names: list[str] = []

    def make(statement: str, name: str) -> None:
        spark.sql(f"DROP TABLE IF EXISTS {name}")
        names.append(name)
        spark.sql(statement)

    yield make
    for name in names:
        spark.sql(f"DROP TABLE IF EXISTS {name}")


def live(table: Any) -> list[dict[str, Any]]:
    return table.to_arrow().sort_by("id").to_pylist()


def wait_until(condition: Callable[[], bool]) -> None:
    """A task that was killed may be writing still when the job has failed already; then vacuum finds its files."""
    until = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < until


def files_on_disk(table: Any) -> set[str]:
    root = Path(table.location.removeprefix("file://"))
    return {str(path.relative_to(root)) for path in root.rglob("*.parquet") if "_delta_log" not in path.parts}


def test_append_and_overwrite(spark_lake: lakebed.Warehouse, spark: Any) -> None:
    table = spark_lake.create_table("t", "id BIGINT, name STRING")
    some = spark.sql("SELECT id, CONCAT('n', id) AS name FROM range(0, 6, 1, 3)")
    some.write.format("lakebed").mode("append").save("t")
    some.select("NAME", "id").write.format("lakebed").mode("append").option("path", table.location).save()
    assert [row["id"] for row in live(table)] == [i // 2 for i in range(12)]
    spark.sql("SELECT 9L AS id").write.format("lakebed").mode("overwrite").save("default.t")
    assert live(table) == [{"id": 9, "name": None}]
    assert [(c.version, c.operation) for c in table.history()][:3] == [(3, "overwrite"), (2, "append"), (1, "append")]


def test_upserts_keep_the_order_of_the_frame(spark_lake: lakebed.Warehouse, spark: Any) -> None:
    table = spark_lake.create_table("t", "id BIGINT, n BIGINT", primary_key=["id"], buckets=2)
    rows = spark.sql("SELECT id % 5 AS id, id AS n FROM range(0, 20, 1, 4)")
    rows.write.format("lakebed").mode("append").save("t")
    assert live(table) == [{"id": i, "n": 15 + i} for i in range(5)]
    assert not any(table.files()["unsettled"].to_pylist())
    kinds = spark.sql("SELECT 1L AS id, 0L AS n, '-D' AS op UNION ALL SELECT 2L, 99L, '+U'")
    kinds.write.format("lakebed").mode("append").option("row-kind", "op").save("t")
    assert [row["n"] for row in live(table)] == [15, 99, 18, 19]


def test_overwrites_of_parts(spark_lake: lakebed.Warehouse, spark: Any) -> None:
    table = spark_lake.create_table("t", "id BIGINT, p STRING", partition_by=["p"])
    table.append([{"id": 1, "p": "a"}, {"id": 2, "p": "b"}])
    writer = spark.sql("SELECT 3L AS id, 'b' AS p").write.format("lakebed").mode("overwrite")
    writer.option("partitionOverwriteMode", "dynamic").save("t")
    assert live(table) == [{"id": 1, "p": "a"}, {"id": 3, "p": "b"}]
    four = spark.sql("SELECT 4L AS id, 'a' AS p").write.format("lakebed").mode("overwrite")
    four.option("replaceWhere", "p = 'a'").save("t")
    assert live(table) == [{"id": 3, "p": "b"}, {"id": 4, "p": "a"}]


def test_the_session_says_that_partitions_are_replaced(spark_lake: lakebed.Warehouse, spark: Any, setting: Any) -> None:
    setting("spark.sql.sources.partitionOverwriteMode", "dynamic")
    table = spark_lake.create_table("t", "id BIGINT, p STRING", partition_by=["p"])
    table.append([{"id": 1, "p": "a"}, {"id": 2, "p": "b"}])
    some = spark.sql("SELECT 3L AS id, 'b' AS p")
    some.write.format("lakebed").mode("overwrite").save("t")
    assert live(table) == [{"id": 1, "p": "a"}, {"id": 3, "p": "b"}]
    some.where("id > 3").write.format("lakebed").mode("overwrite").save("t")  # no rows, no partitions
    assert table.count() == 2
    some.write.format("lakebed").mode("overwrite").option("partitionOverwriteMode", "static").save("t")
    assert live(table) == [{"id": 3, "p": "b"}]
    plain = spark_lake.create_table("plain", "id BIGINT")
    for n in (1, 2):
        spark.range(n).write.format("lakebed").mode("overwrite").save("plain")
    assert plain.count() == 2


def test_sql_over_a_table_of_the_catalog(spark_lake: lakebed.Warehouse, spark: Any, catalogued: Any) -> None:
    table = spark_lake.create_table("t", "id BIGINT, name STRING", primary_key=["id"], buckets=2)
    catalogued("CREATE TABLE lakebed_t USING lakebed OPTIONS (path 'default.t')", "lakebed_t")
    spark.sql("INSERT INTO lakebed_t WITH (path = 'default.t') VALUES (1, 'a'), (2, 'b')")
    spark.sql("INSERT INTO lakebed_t WITH (path = 'default.t') (name, id) VALUES ('c', 2)")
    assert [tuple(row) for row in spark.sql("SELECT * FROM lakebed_t ORDER BY id").collect()] == [(1, "a"), (2, "c")]
    spark.sql("SELECT 3L AS id, 'd' AS name").writeTo("lakebed_t").option("path", "default.t").append()
    assert [row["id"] for row in live(table)] == [1, 2, 3]
    spark.sql("INSERT OVERWRITE lakebed_t WITH (path = 'default.t') SELECT 7L, 'z'")
    assert live(table) == [{"id": 7, "name": "z"}]


def test_no_table_is_guessed(spark_lake: lakebed.Warehouse, spark: Any, catalogued: Any) -> None:
    """Spark does not tell a writer which table of its catalog it writes to, and rows come from anywhere."""
    table = spark_lake.create_table("t", "id BIGINT")
    catalogued("CREATE TABLE lakebed_other (id BIGINT) USING lakebed", "lakebed_other")
    catalogued("CREATE TABLE lakebed_t USING lakebed OPTIONS (path 'default.t')", "lakebed_t")
    for number, write in enumerate(
        (
            lambda: spark.sql("INSERT INTO lakebed_t VALUES (1)"),
            lambda: spark.range(1).writeTo("lakebed_t").append(),
            lambda: spark.sql("INSERT INTO lakebed_other SELECT * FROM lakebed_t"),
            lambda: spark.table("lakebed_t").write.format("lakebed").mode("overwrite").save(),
        )
    ):
        with pytest.raises(Exception, match=r"was not told which table to write.*write\(df, mode=…\)") as caught:
            write()
        assert number > 0 or "INSERT INTO t WITH (path = 'default.t')" in str(caught.value)
    assert table.version == 0


def test_a_table_that_is_made_by_its_first_write(spark_lake: lakebed.Warehouse, spark: Any, catalogued: Any) -> None:
    rows = spark.sql("SELECT 1L AS id, 'mon' AS dt")
    writer = rows.write.format("lakebed").mode("append").option("primary-key", "id, dt").option("partition-by", "dt")
    writer.option("buckets", "2").save("made")
    table = spark_lake.table("made")
    assert table.primary_key == ("id", "dt")
    assert live(table) == [{"id": 1, "dt": "mon"}]
    catalogued("CREATE TABLE lakebed_new (id BIGINT, n INT) USING lakebed", "lakebed_new")
    spark.sql("INSERT INTO lakebed_new WITH (path = 'fresh', 'primary-key' = 'id') VALUES (1, 1), (1, 2)")
    assert live(spark_lake.table("fresh")) == [{"id": 1, "n": 2}]
    assert spark.sql("SELECT n FROM lakebed_new WITH (path = 'fresh')").collect()[0].n == 2


def test_a_schema_that_grows(spark_lake: lakebed.Warehouse, spark: Any) -> None:
    table = spark_lake.create_table("t", "id INT")
    wider = spark.sql("SELECT 5000000000L AS id, 'x' AS name")
    with pytest.raises(Exception, match="column name: not in the table"):
        wider.write.format("lakebed").mode("append").save("t")
    wider.write.format("lakebed").mode("append").option("mergeSchema", "true").save("t")
    assert live(table) == [{"id": 5_000_000_000, "name": "x"}]


def test_a_transaction_is_written_once(spark_lake: lakebed.Warehouse, spark: Any) -> None:
    table = spark_lake.create_table("t", "id BIGINT")
    for _ in range(2):
        writer = spark.range(3).write.format("lakebed").mode("append")
        writer.option("txnAppId", "loader").option("txnVersion", "7").save("t")
    assert table.count() == 3
    assert files_on_disk(table) == set(table.files()["path"].to_pylist())


@pytest.mark.parametrize("mode", ["ignore", "error"])
def test_modes_that_spark_refuses(spark_lake: lakebed.Warehouse, spark: Any, mode: str) -> None:
    """Not ours to change; docs say that ``table.write`` has them."""
    spark_lake.create_table("t", "id BIGINT")
    with pytest.raises(Exception, match="UNSUPPORTED_DATA_SOURCE_SAVE_MODE"):
        spark.range(1).write.format("lakebed").mode(mode).save("t")
    assert spark_lake.table("t").write(spark.range(1), mode).version == 1


def test_rows_that_do_not_fit_and_jobs_that_fail_leave_nothing(spark_lake: lakebed.Warehouse, spark: Any) -> None:
    table = spark_lake.create_table("t", "id BIGINT NOT NULL, n BIGINT", primary_key=["id"], buckets=2)
    nulls = spark.sql("SELECT IF(id = 7, NULL, id) AS id, id AS n FROM range(0, 8, 1, 4)")
    with pytest.raises(Exception, match="null in the primary key"):
        nulls.write.format("lakebed").mode("append").save("t")
    failing = spark.sql("SELECT id, IF(id = 7, raise_error('late'), 1L) AS n FROM range(0, 8, 1, 4)")
    with pytest.raises(Exception, match="late"):
        failing.write.format("lakebed").mode("append").save("t")
    assert table.version == 0
    wait_until(lambda: table.vacuum(timedelta(0)) and not files_on_disk(table))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mergeSchema": "maybe"}, "option 'merge-schema' has a wrong value"),
        ({"txnAppId": "a"}, "a transaction is an application"),
        ({"mergeschemas": "true"}, "unknown option 'mergeschemas'"),
        ({"replaceWhere": "id = 1"}, "'replace-where' says what an overwrite replaces"),
        ({"rowKind": "op"}, "has no primary key, which row-kind needs"),
    ],
)
def test_wrong_options(spark_lake: lakebed.Warehouse, spark: Any, options: dict[str, str], message: str) -> None:
    spark_lake.create_table("t", "id BIGINT")
    with pytest.raises(Exception, match=message):
        spark.range(1).write.format("lakebed").mode("append").options(**options).save("t")


def written(path: Path, rows: int = 1) -> tuple[LakebedWriter, list[Any]]:
    """A writer whose tasks are done, in this process."""
    config = load(str(path / "w"), f"sqlite:///{path}/hidden-metastore.db", {})
    writer = LakebedWriter(config, WriteOptions.parse({"path": "t"}), StructType().add("id", "long"), overwrite=False)
    message: dict[str, Any] = {"task": 0, "attempt": 0}
    writer._work.run(iter([pa.record_batch({"id": range(rows)})]), message)
    return writer, [Sent(Message(**message), dynamic=False)]


@pytest.fixture
def hidden(tmp_path: Path) -> Iterator[Any]:
    with lakebed.connect(tmp_path / "w", f"sqlite:///{tmp_path}/hidden-metastore.db") as lake:
        yield lake.create_table("t", "id BIGINT")


def test_tasks_do_not_learn_how_the_metastore_is_reached(tmp_path: Path, hidden: Any) -> None:
    writer, messages = written(tmp_path)
    for_tasks, for_commit = pickle.dumps(writer), pickle.dumps(writer)
    assert b"hidden-metastore" not in for_tasks
    assert b"hidden-metastore" in for_commit
    pickle.loads(for_commit).commit(messages)
    assert hidden.count() == 1


def test_an_abort_after_a_commit_that_has_landed_deletes_nothing(tmp_path: Path, hidden: Any) -> None:
    """Spark aborts too when it does not hear of the commit's success."""
    writer, messages = written(tmp_path)
    writer.commit(messages)
    writer.abort(messages)
    assert hidden.to_arrow()["id"].to_pylist() == [0]
    other, more = written(tmp_path)
    other.abort(more)
    assert files_on_disk(hidden) == set(hidden.files()["path"].to_pylist())


def test_a_table_that_was_made_anew_meanwhile(tmp_path: Path) -> None:
    with lakebed.connect(tmp_path / "w", f"sqlite:///{tmp_path}/hidden-metastore.db") as lake:
        lake.create_table("t", "id BIGINT")
        writer, messages = written(tmp_path)
        lake.drop_table("t")
        lake.create_table("t", "id BIGINT", location=str(tmp_path / "w/other"))
        with pytest.raises(lakebed.NotFoundError, match="was dropped and made anew meanwhile"):
            writer.commit(messages)
        assert lake.table("t").version == 0
