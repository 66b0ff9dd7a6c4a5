"""SQL with a Spark session: what goes to Spark, what it gets for our tables, and what is left behind."""

from __future__ import annotations

from typing import Any

import pytest

import lakebed

pytestmark = pytest.mark.spark


@pytest.fixture
def run(spark_lake: lakebed.Warehouse) -> Any:
    """Runs a statement and gives its rows back."""

    def run(text: str, /, **parameters: Any) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in spark_lake.sql(text, **parameters).collect()]

    run("CREATE NAMESPACE shop")
    run("CREATE TABLE shop.orders (id INT, n INT, p STRING) PARTITIONED BY (p)")
    for part in ("x", "y", "z"):
        run("INSERT INTO shop.orders VALUES (:id, 1, :p)", id=ord(part), p=part)
    return run


def test_names_of_both(run: Any, spark: Any, spark_lake: lakebed.Warehouse) -> None:
    spark.range(118, 125).createOrReplaceTempView("numbers")
    spark.sql("CREATE OR REPLACE TEMP VIEW orders AS SELECT 1 AS one")
    assert run("SELECT shop.orders.id FROM numbers JOIN Shop.`orders` USING (id) WHERE p > 'x' ORDER BY 1") == [
        (121,),
        (122,),
    ]
    assert run("SELECT one, '{x} {{' FROM orders") == [(1, "{x} {{")]
    assert run("SELECT one, '{x} {{', :v FROM orders, shop.orders AS o WHERE o.p = :v", v="x") == [(1, "{x} {{", "x")]
    assert run("WITH orders AS (SELECT 7 AS id) SELECT orders.id FROM orders") == [(7,)]
    assert run("SELECT count(*) FROM shop.orders TABLESAMPLE (100 PERCENT)") == [(3,)]
    assert run("SELECT * FROM (SELECT p, n FROM shop.orders) PIVOT (sum(n) FOR p IN ('x', 'y'))") == [(1, 1)]
    spark.sql("DROP VIEW orders")
    before = {table.name for table in spark.catalog.listTables()}
    later = spark_lake.sql("SELECT count(*) FROM shop.orders")
    assert {table.name for table in spark.catalog.listTables()} == before
    run("DELETE FROM shop.orders WHERE p = 'x'")
    assert later.collect() == [(3,)]
    assert run("SELECT count(*) FROM shop.orders") == [(2,)]


def test_files_are_pruned(run: Any, spark_lake: lakebed.Warehouse) -> None:
    whole = spark_lake.sql("SELECT * FROM shop.orders").inputFiles()
    some = spark_lake.sql("SELECT n FROM shop.orders o WHERE o.p = 'y' AND n > 0").inputFiles()
    assert (len(whole), len(some)) == (3, 1)


def test_views_stay_at_their_version(run: Any, spark: Any) -> None:
    run("CREATE OR REPLACE TEMPORARY VIEW seen AS SELECT count(*) AS c FROM shop.orders")
    run("INSERT INTO shop.orders VALUES (1, 1, 'x')")
    assert spark.sql("SELECT c FROM seen").collect() == [(3,)]
    assert run("SELECT c FROM seen") == [(3,)]
    with pytest.raises(lakebed.SqlError, match="already"):
        run("CREATE TEMPORARY VIEW seen AS SELECT * FROM shop.orders")
    spark.catalog.dropTempView("seen")


def test_statements_of_spark(run: Any, spark: Any, tmp_path: Any) -> None:
    assert "Scan parquet" in run("EXPLAIN SELECT * FROM shop.orders")[0][0]
    run(f"CREATE TABLE copied USING parquet LOCATION '{tmp_path}/copied' AS SELECT id, p FROM shop.orders")
    run("INSERT INTO copied SELECT id + 1, p FROM shop.orders WHERE p = 'x'")
    assert run("SELECT count(*) FROM copied") == [(4,)]
    run("DROP TABLE copied")
    run("SET spark.lakebed.test = 5")
    assert spark.conf.get("spark.lakebed.test") == "5"
    spark.conf.unset("spark.lakebed.test")


def test_mistakes(run: Any) -> None:
    cases = {
        "SELECT * FROM shop.ordrs": "line 1, column 15: .*TABLE_OR_VIEW_NOT_FOUND",
        "SELECT idd FROM shop.orders": "line 1, column 8: .*`idd` cannot be resolved",
        "UPDATE shop.orders SET n = upper(nn)": "line 1, column 34: .*`nn` cannot be resolved",
        "UPDATE shop.ordrs SET n = 1": "did you mean 'shop.orders'",
        "SELEC 1": "PARSE_SYNTAX_ERROR",
    }
    for text, message in cases.items():
        with pytest.raises(lakebed.SqlError, match=message):
            run(text)


@pytest.mark.parametrize("key", ["", ", PRIMARY KEY (id)"])
def test_spark_computes_what_lakebed_does_not(run: Any, spark_lake: lakebed.Warehouse, key: str) -> None:
    run(f"CREATE TABLE t (id INT, d DOUBLE, s STRING, a STRUCT<x: INT, y: INT>{key})")
    run("INSERT INTO t SELECT id, id / 0.5, chr(96 + id), named_struct('x', 1, 'y', id) FROM range(1, 6)")
    run("INSERT INTO t VALUES (6, double('NaN'), NULL, NULL)")
    assert run("DELETE FROM t WHERE d > 9")[0][1] == 2
    run("UPDATE t SET s = concat_ws('-', s, sha1('a')), a.y = 7 WHERE s IN (SELECT s FROM t WHERE id = 2)")
    assert run("SELECT id, length(s), a.x, a.y FROM t WHERE a.y = 7") == [(2, 42, 1, 7)]
    done = run(
        "MERGE INTO t USING (SELECT explode(sequence(3, 8)) AS id) s ON t.id = s.id AND pmod(s.id, 2) = 1"
        " WHEN MATCHED THEN UPDATE SET s = format_string('%d!', s.id)"
        " WHEN NOT MATCHED AND s.id > 7 THEN INSERT (id, s) VALUES (s.id, md5('x'))"
        " WHEN NOT MATCHED BY SOURCE AND t.id = 1 THEN DELETE"
    )
    assert done[0][1:] == (1, 1, 1)
    assert run("SELECT id, substring(s, 1, 2) FROM t ORDER BY id") == [(2, "b-"), (3, "3!"), (4, "d"), (8, "9d")]
