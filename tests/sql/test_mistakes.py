"""What is wrong with a statement is told with its place, and changes nothing."""

from __future__ import annotations

from typing import Any

import pytest

import lakebed
from lakebed.sql.source import split

CASES = [
    ("SELEC 1", "line 1, column 1: SELEC is no statement"),
    ("SELECT * FROM t WHERE (", "line 1, column 23: unexpected '('"),
    ("SELECT *\n  FROM t\n WHERE n = = 2", "line 3, column 12: unexpected '='"),
    ("SELECT 1; SELECT 2", "line 1, column 11: another statement begins here"),
    ("SELECT * FROM tt", "did you mean 't'?"),
    ("SELECT 'open", "close every quote"),
    ("", "the statement is empty"),
    ("CREATE TABLE x (id BIGNT)", "did you mean BIGINT or INT?"),
    ("CREATE TABLE x (id INT) PARTITIONED BY (days(id))", "column 41: a table is partitioned by columns"),
    ("CREATE TABLE x (id INT) TBLPROPERTIES ('merg' = 1)", "did you mean 'merge'?"),
    ("CREATE TABLE x", "line 1, column 14: the table has no columns"),
    ("CREATE TABLE x (id INT) WHERE", "column 25: unexpected 'WHERE'"),
    ("INSERT INTO t VALUES (1)", "the query has 1 column(s)"),
    ("INSERT INTO t (n, m) VALUES (1, 2)", "column 19: table default.t has no column 'm'"),
    ("INSERT INTO t PARTITION (n = 1) VALUES ('a')", "'n' is no partition column"),
    ("UPDATE t SET nn = 1", "line 1, column 14: table default.t has no column 'nn'"),
    ("UPDATE t SET n = ", "the statement ends here"),
    ("UPDATE k SET id = 5", "part of the primary key"),
    ("DELETE FROM t WHERE", "the statement ends here"),
    ("MERGE INTO t USING k ON t.n = k.id WHEN MATCHED THEN INSERT *", "column 54: unexpected 'INSERT'"),
    ("MERGE INTO t USING k ON t.n = k.id WHEN MATCHED THEN DELETE WHEN MATCHED THEN DELETE",
     "no row reaches this clause"),
    ("MERGE INTO t USING k ON t.n = k.id", "expected WHEN MATCHED"),
    ("MERGE INTO t USING kk ON t.n = kk.id WHEN MATCHED THEN DELETE", "line 1, column 20: there is no table kk"),
    ("DELETE FROM t WHERE n IN (SELECT id FROM kk)", "line 1, column 42: there is no table kk"),
    ("ALTER TABLE t ADD COLUMN m INTT", "column 28: "),
    ("SHOW PARTITIONS t", "has no partitions"),
    ("DESCRIBE tt", "did you mean 't'?"),
    ("SELECT nn FROM t", "line 1, column 8: there is no column nn"),
    ("SELECT x.nn FROM t AS x", "fix: did you mean 'n'?"),
    ("DELETE FROM t WHERE reverse(ss) = 'x'", "line 1, column 29: there is no column ss"),
    ("CALL lakebed.compact(full => true, 't')", "column 36: values by position come before"),
    ("USE shop", "there is no current namespace"),
]  # fmt: skip


@pytest.fixture
def tables(run: Any) -> Any:
    run("CREATE TABLE t (n INT, s STRING)")
    run("CREATE TABLE k (id INT, n INT, PRIMARY KEY (id))")
    return run


def test_the_place_is_shown(tables: Any, local_lake: lakebed.Warehouse) -> None:
    for text, message in CASES:
        with pytest.raises(lakebed.SqlError) as caught:
            tables(text)
        assert message in str(caught.value), text
    assert local_lake.table("t").version == 0
    assert local_lake.tables() == ["default.k", "default.t"]


def test_long_lines_are_cut(tables: Any) -> None:
    columns = ", ".join(f"n AS c{number}" for number in range(500))
    with pytest.raises(lakebed.SqlError) as caught:
        tables(f"SELECT {columns} FROM tt")
    lines = str(caught.value).splitlines()
    assert lines[1].startswith("  …")
    assert lines[1][lines[2].index("^") :] == "tt"


def test_a_script_is_split() -> None:
    text = "SELECT ';' AS a; -- one;\nCALL lakebed.settle('a;b');\n\n;/* ; */ SHOW TABLES"
    assert split(text) == ["SELECT ';' AS a", "-- one;\nCALL lakebed.settle('a;b')", "/* ; */ SHOW TABLES"]


def test_wide_tables(run: Any) -> None:
    names = [f"c{number}" for number in range(3000)]
    run(f"CREATE TABLE w ({', '.join(f'{name} INT' for name in names)})")
    run(f"INSERT INTO w VALUES ({', '.join('1' for _ in names)})")
    run("UPDATE w SET c2999 = c0 + 1 WHERE c1500 = 1")
    assert run("SELECT c2999 FROM w WHERE c7 = 1") == [{"c2999": 2}]
    run(
        "MERGE INTO w USING (SELECT c0 + 5 AS c0 FROM w) s ON w.c0 = s.c0 WHEN NOT MATCHED THEN INSERT (c0)"
        " VALUES (s.c0)"
    )
    assert run("SELECT count(*) AS n FROM w") == [{"n": 2}]
