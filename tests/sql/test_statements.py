"""Statements without Spark: what they do to the warehouse, and what they give back."""

from __future__ import annotations

from typing import Any

import pytest

import lakebed


def test_namespaces(run: Any, local_lake: lakebed.Warehouse) -> None:
    run("CREATE NAMESPACE shop COMMENT 'the shop' WITH PROPERTIES ('owner' = 'ann', team.size = 5)")
    run("CREATE SCHEMA IF NOT EXISTS shop")
    assert local_lake.namespace_properties("shop") == {"comment": "the shop", "owner": "ann", "team.size": "5"}
    run("ALTER DATABASE SHOP SET DBPROPERTIES ('owner' = 'bob')")
    run("ALTER NAMESPACE shop UNSET PROPERTIES (team.size)")
    assert local_lake.namespace_properties("shop") == {"comment": "the shop", "owner": "bob"}
    assert run("SHOW NAMESPACES LIKE 'sh*'") == [{"namespace": "shop"}]
    with pytest.raises(lakebed.SqlError, match="did you mean 'shop'"):
        run("DROP NAMESPACE shap")
    run("CREATE TABLE shop.t (n INT)")
    run("DROP NAMESPACE shop CASCADE")
    run("DROP NAMESPACE IF EXISTS shop")
    assert run("SHOW NAMESPACES") == [{"namespace": "default"}]


def test_create_and_select(run: Any, local_lake: lakebed.Warehouse) -> None:
    run(
        "CREATE TABLE orders (id BIGINT NOT NULL, tags MAP<STRING, ARRAY<INT>>, dt DATE COMMENT 'day',"
        " PRIMARY KEY (id) NOT ENFORCED) USING lakebed PARTITIONED BY (dt) COMMENT 'all orders'"
        " TBLPROPERTIES ('buckets' = 2, 'merge' = 'on-read', team.owner = 'shop')"
    )
    table = local_lake.table("orders")
    assert (table.primary_key, table.partition_by, table.comment) == (("id",), ("dt",), "all orders")
    assert table.key is not None
    assert (table.key.buckets, table.key.merge.value, table.properties["team.owner"]) == (2, "on-read", "shop")
    table.upsert([{"id": 1}, {"id": 2}, {"id": 3}])
    assert run("SELECT max(id) AS n FROM Orders o WHERE o.id < :limit", limit=3) == [{"n": 2}]
    run("CREATE TABLE copy AS SELECT id * 2 AS twice FROM orders")
    assert sorted(r["twice"] for r in run("SELECT * FROM copy")) == [2, 4, 6]
    run("DROP TABLE copy")
    with pytest.raises(lakebed.SqlError, match="there is no table copy"):
        run("SELECT * FROM copy")


def test_names_of_all_kinds(run: Any, local_lake: lakebed.Warehouse) -> None:
    run("CREATE TABLE `odd-näme` (`a b` INT, `c``d` STRING, `select` INT)")
    run("INSERT INTO `odd-näme` (`select`, `a b`, `c``d`) VALUES (1, 2, 'ü;--')")
    assert run("SELECT `a b` + 1 AS x, `c``d`, `odd-näme`.`select` FROM `ODD-näme` /* why; not */ -- so") == [
        {"x": 3, "c`d": "ü;--", "select": 1}
    ]
    assert run("SHOW TABLES") == [{"namespace": "default", "tableName": "odd-näme", "isTemporary": False}]
    text = run("SHOW CREATE TABLE `odd-näme`")[0]["createtab_stmt"]
    run("DROP TABLE `odd-näme` PURGE")
    run(text)
    assert local_lake.table("odd-näme").schema.names == ["a b", "c`d", "select"]
    run("UPDATE `odd-näme` SET `a b` = 1")


def test_create_table_comes_back(run: Any, local_lake: lakebed.Warehouse) -> None:
    run(
        "CREATE TABLE a (id BIGINT COMMENT 'it''s', s STRUCT<x: INT NOT NULL COMMENT 'x', y: ARRAY<STRING>>,"
        " dt DATE NOT NULL, seq INT) PARTITIONED BY (dt) COMMENT 'back\\\\slash \\'quote\\''"
        " TBLPROPERTIES ('primary-key' = 'id,dt', 'sequence' = 'seq', 'buckets' = 3, 'merge' = 'on-read',"
        " 'merge-engine' = 'deduplicate', 'checkpoint-interval' = 7, 'team.x' = 'ü')"
    )
    before = local_lake.table("a")
    text = run("SHOW CREATE TABLE a")[0]["createtab_stmt"]
    run(text.replace("default.a", "b"))
    after = local_lake.table("b")
    assert (before.key, before.properties, before.comment) == (after.key, after.properties, after.comment)
    assert before._point().metadata.schema == after._point().metadata.schema
    assert before.comment == "back\\slash 'quote'"
    run("CREATE TABLE c LIKE a")
    assert (local_lake.table("c").key, local_lake.table("c").properties) == (before.key, before.properties)


def test_alter(run: Any, local_lake: lakebed.Warehouse) -> None:
    run("CREATE TABLE t (id INT, a STRUCT<x: INT, y: STRING>, n DOUBLE)")
    run("INSERT INTO t SELECT 1, named_struct('x', 1, 'y', 'b'), 2.5")
    run("ALTER TABLE t ADD COLUMNS (z BIGINT COMMENT 'zz' FIRST, a.w MAP<STRING, INT> AFTER x)")
    run("ALTER TABLE t RENAME COLUMN a.y TO why")
    run("ALTER TABLE t ALTER COLUMN id TYPE BIGINT COMMENT 'the id' AFTER n")
    run("ALTER TABLE t ALTER COLUMN id SET NOT NULL")
    run("ALTER TABLE t DROP COLUMN IF EXISTS nothing")
    schema = local_lake.table("t")._point().metadata.schema
    assert schema.names == ("z", "a", "n", "id")
    assert (schema["id"].nullable, schema["id"].comment, schema["z"].comment) == (False, "the id", "zz")
    assert run("SELECT id, a.why AS w FROM t") == [{"id": 1, "w": "b"}]
    with pytest.raises(lakebed.SqlError, match="did you mean 'why'"):
        run("ALTER TABLE t DROP COLUMN a.whi")
    run("ALTER TABLE t ALTER COLUMN id DROP NOT NULL")
    run("ALTER TABLE t SET TBLPROPERTIES ('team.x' = 'y', checkpoint-interval = 7)")
    assert run("SHOW TBLPROPERTIES t ('team.x')") == [{"key": "team.x", "value": "y"}]
    run("ALTER TABLE t UNSET TBLPROPERTIES ('team.x')")
    run("COMMENT ON TABLE t IS 'words'")
    run("CREATE NAMESPACE other")
    run("ALTER TABLE t RENAME TO other.u")
    assert (local_lake.table("other.u").comment, local_lake.table("other.u").properties) == (
        "words",
        {"checkpoint-interval": "7"},
    )


def test_replace_keeps_history(run: Any, local_lake: lakebed.Warehouse) -> None:
    run("CREATE OR REPLACE TABLE t (id INT)")
    run("INSERT INTO t VALUES (1)")
    run("CREATE OR REPLACE TABLE t (id STRING, n INT, PRIMARY KEY (id)) TBLPROPERTIES ('buckets' = 2)")
    run("INSERT INTO t VALUES ('a', 1), ('a', 2)")
    run("CREATE OR REPLACE TABLE t PARTITIONED BY (n) AS SELECT n, id || '!' AS id FROM t")
    assert run("SELECT * FROM t") == [{"n": 2, "id": "a!"}]
    assert run("SELECT * FROM t VERSION AS OF 3") == [{"id": "a", "n": 2}]
    assert run("SELECT * FROM t VERSION AS OF 1") == [{"id": 1}]
    assert lakebed.read_delta(local_lake.table("t").location).to_arrow().to_pylist() == [{"n": 2, "id": "a!"}]
    before = local_lake.table("t").version
    with pytest.raises(lakebed.SqlError):
        run("CREATE OR REPLACE TABLE t PARTITIONED BY (m) AS SELECT 1 AS n")
    assert local_lake.table("t").version == before


def test_a_failed_create_as_leaves_nothing(run: Any) -> None:
    for text in (
        "PARTITIONED BY (b) AS SELECT 1 AS a",
        "(x INT) AS SELECT 1 AS x",
        "AS SELECT 1 AS a, CAST('x' AS INT) AS b",
    ):
        with pytest.raises(lakebed.SqlError):
            run(f"CREATE TABLE t {text}")
    assert run("SHOW TABLES") == []


def test_tags_and_time_travel(run: Any, local_lake: lakebed.Warehouse) -> None:
    run("CREATE TABLE t (n INT)")
    for n in range(3):
        run("INSERT INTO t VALUES (:n)", n=n)
    run("CREATE TAG two ON t AS OF VERSION 2 RETAIN 7 DAYS")
    run("ALTER TABLE t CREATE TAG IF NOT EXISTS two")
    assert [row["name"] for row in run("SHOW TAGS t")] == ["two"]
    moment = local_lake.table("t").history()[1].timestamp
    for text in (
        "VERSION AS OF 2",
        "VERSION AS OF '2'",
        "FOR SYSTEM_VERSION AS OF 2",
        "VERSION AS OF 'two'",
        "TIMESTAMP AS OF :m",
    ):
        assert run(f"SELECT count(*) AS c FROM t {text} AS x WHERE x.n >= 0", m=moment) == [{"c": 2}], text
    assert run("SELECT a.n FROM t VERSION AS OF 1 AS a JOIN t AS b ON a.n = b.n") == [{"n": 0}]
    assert run("SELECT count(*) AS c FROM t TIMESTAMP AS OF current_timestamp() + INTERVAL 1 DAY") == [{"c": 3}]
    assert [r["_commit_version"] for r in run("SELECT * FROM table_changes('t', 2, 3)")] == [2, 3]
    assert len(run("SELECT * FROM table_changes('default.t', 0)")) == 3
    run("CREATE OR REPLACE TAG two ON t")
    run("DROP TAG two ON t")
    run("DROP TAG IF EXISTS two ON t")
    with pytest.raises(lakebed.SqlError, match=r"column 17: table default\.t has no version 9"):
        run("SELECT * FROM t VERSION AS OF 9")


def test_system_tables(run: Any) -> None:
    run("CREATE TABLE t (id INT, p STRING, PRIMARY KEY (id)) PARTITIONED BY (p) TBLPROPERTIES ('merge' = 'on-read')")
    run("INSERT INTO t VALUES (1, 'x'), (2, 'y')")
    run("INSERT INTO t VALUES (1, 'x')")
    counts = {
        "history": 3, "snapshots": 3, "files": 3, "partitions": 2, "tags": 0, "schemas": 1, "transactions": 0,
        "consumers": 0, "changes": 2, "ro": 0,
    }  # fmt: skip
    for name, count in counts.items():
        assert run(f"SELECT count(*) AS n FROM t${name}") == [{"n": count}], name
    assert run("SELECT sum(unsettled_files) AS n FROM default.t$buckets") == [{"n": 3}]
    assert run("SELECT value FROM `t$options` WHERE key = 'merge'") == [{"value": "on-read"}]
    assert run("SELECT rows FROM t$files VERSION AS OF 1 f ORDER BY 1") == [{"rows": 1}, {"rows": 1}]


def test_calls(run: Any, local_lake: lakebed.Warehouse, tmp_path: Any) -> None:
    run("CREATE TABLE t (id INT, PRIMARY KEY (id)) TBLPROPERTIES ('merge' = 'on-read', 'buckets' = 1)")
    run("INSERT INTO t VALUES (1)")
    assert run("CALL lakebed.settle('t')")[0]["buckets"] == 1
    assert run("CALL lakebed.compact(full => true, table => 'default.t')")[0]["operation"] == "compact"
    assert run("CALL lakebed.tag('t', 'now', retain => '7 days')") == [
        {"table": "default.t", "tag": "now", "version": 2}
    ]
    assert run("CALL lakebed.delete_tag('t', :tag)", tag="now")[0]["tag"] == "now"
    assert run("CALL lakebed.restore('t', version => 0)") == [{"table": "default.t", "version": 3}]
    assert run("CALL lakebed.publish('t')") == [{"table": "default.t", "version": 3}]
    assert run("CALL lakebed.vacuum('t', retain => '0 days', dry_run => true)")[0]["dry_run"] is True
    assert run("CALL lakebed.expire('t', '0 days')")[0]["earliest"] == 3
    (tmp_path / "in.csv").write_text("id\n7\n8\n")
    assert run("CALL lakebed.copy_into('t', :path)", path=str(tmp_path / "*.csv"))[0]["rows"] == 2
    assert run("CALL lakebed.maintain(retain => '1 day')")[0]["table"] == "default.t"
    place = local_lake.table("t").location
    run("DROP TABLE t")
    assert run("CALL lakebed.recover(:path)", path=place)[0]["table"] == "default.t"
    run("DROP TABLE t")
    assert run("CALL lakebed.register('u', :path)", path=place)[0]["table"] == "default.u"
    with pytest.raises(lakebed.SqlError, match="did you mean 'settle'"):
        run("CALL lakebed.setle('u')")
    with pytest.raises(lakebed.SqlError, match="retain is missing"):
        run("CALL lakebed.expire('u')")
