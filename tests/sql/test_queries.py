"""Queries without Spark: which tables they read, at which version, and how much of them."""

from __future__ import annotations

from typing import Any

import pytest

import lakebed
from lakebed.sql import hints, rows


@pytest.fixture
def orders(run: Any, local_lake: lakebed.Warehouse) -> Any:
    run("CREATE NAMESPACE shop")
    run("CREATE TABLE shop.orders (id INT, amount INT, dt DATE, r DOUBLE) PARTITIONED BY (dt)")
    run("INSERT INTO shop.orders VALUES (1, 10, '2026-01-01', 0.5), (2, 20, '2026-01-02', 1.5), (3, 30, NULL, NULL)")
    return local_lake.table("shop.orders")


@pytest.fixture
def wanted(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What each place of a query asked of its table."""
    seen: list[Any] = []
    read = rows.TableRows.arrow

    def spy(self: Any, columns: Any, where: Any) -> Any:
        from lakebed.core.predicate import render

        seen.append((columns, None if where is None else render(where)))
        return read(self, columns, where)

    monkeypatch.setattr(rows.TableRows, "arrow", spy)
    return seen


def test_names_in_queries(run: Any, orders: Any) -> None:
    assert run("SELECT shop.orders.id FROM shop.orders WHERE SHOP.Orders.AMOUNT > 25") == [{"id": 3}]
    assert run("WITH orders AS (SELECT 9 AS id) SELECT id FROM orders") == [{"id": 9}]
    assert run("WITH o AS (SELECT id FROM shop.orders), p AS (SELECT max(id) AS m FROM o) SELECT m FROM p") == [
        {"m": 3}
    ]
    assert run("SELECT (SELECT count(*) FROM lakebed.shop.orders) AS n") == [{"n": 3}]
    assert run("SELECT o.id FROM shop.orders o WHERE EXISTS (SELECT 1 FROM shop.orders WHERE id = o.id + 2)") == [
        {"id": 1}
    ]
    assert len(run("TABLE shop.orders")) == 3
    both = "SELECT id FROM shop.orders UNION ALL SELECT id FROM shop.orders VERSION AS OF 0 ORDER BY id LIMIT 1"
    assert run(both) == [{"id": 1}]
    with pytest.raises(lakebed.SqlError, match=r"no table orders\n.*\n.*\nfix: did you mean 'shop.orders'"):
        run("SELECT * FROM (WITH orders AS (SELECT 1) SELECT * FROM orders) AS x, orders")


def test_one_version_per_statement(run: Any, orders: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A commit between the two reads of one statement is seen by neither."""
    read = rows.TableRows.arrow

    def late(self: Any, columns: Any, where: Any) -> Any:
        found = read(self, columns, where)
        orders.append([{"id": 100}])
        return found

    monkeypatch.setattr(rows.TableRows, "arrow", late)
    text = "SELECT (SELECT count(*) FROM shop.orders) AS a, (SELECT count(*) FROM shop.orders) AS b"
    assert run(text) == [{"a": 3, "b": 3}]
    monkeypatch.undo()
    assert run(text) == [{"a": 5, "b": 5}]


def test_hints(run: Any, orders: Any, wanted: list[Any]) -> None:
    cases = {
        "SELECT id FROM shop.orders WHERE amount > 15": (("id", "amount"), "amount > 15"),
        "SELECT count(*) FROM shop.orders": (("id",), None),
        "SELECT * FROM shop.orders WHERE id IN (1, 2) AND r > 0": (None, "id IN (1, 2)"),
        "SELECT id FROM shop.orders WHERE dt = '2026-01-01'": (("id", "dt"), "dt = DATE '2026-01-01'"),
        "SELECT id FROM shop.orders WHERE dt = '2026-1-1'": (("id", "dt"), None),
        "SELECT id FROM shop.orders WHERE id = '1'": (("id",), None),
        "SELECT id FROM shop.orders o WHERE o.id BETWEEN :a AND 3": (("id",), "id >= 1 AND id <= 3"),
        "SELECT id FROM shop.orders WHERE id = 1 OR r = 1": (("id", "r"), None),
        "SELECT id FROM shop.orders WHERE dt IS NULL": (("id", "dt"), "dt IS NULL"),
        "SELECT id FROM shop.orders WHERE NOT id = 1": (("id",), None),
    }
    for text, expected in cases.items():
        wanted.clear()
        run(text, a=1)
        assert wanted == [expected], text


def test_hints_of_joins(run: Any, orders: Any, wanted: list[Any]) -> None:
    run("CREATE TABLE names (id INT, name STRING)")
    run("INSERT INTO names VALUES (1, 'a')")
    text = (
        "SELECT o.id, n.name FROM shop.orders o LEFT JOIN names n ON o.id = n.id WHERE o.amount = 10 AND n.id IS NULL"
    )
    assert run(text) == []
    assert wanted == [(("id", "amount"), "amount = 10"), (("id", "name"), None)]


def test_parameters(run: Any, orders: Any) -> None:
    bad = "x' OR '1' = '1"
    assert run("SELECT :text AS t, :n + 1 AS n, :nothing IS NULL AS z", text=bad, n=2, nothing=None) == [
        {"t": bad, "n": 3, "z": True}
    ]
    run("CREATE TABLE t (s STRING, n INT)")
    run("INSERT INTO t VALUES (:s, :n), (:s, -1)", s=bad, n=5)
    run("UPDATE t SET s = concat(s, :more) WHERE n = :n", more="';--", n=5)
    run("DELETE FROM t WHERE s = :s", s=bad)
    assert run("SELECT * FROM t") == [{"s": bad + "';--", "n": 5}]
    with pytest.raises(lakebed.SqlError, match=r"no value is given for the parameter :m"):
        run("SELECT :m", n=1)


def test_nothing_outside_is_read(run: Any, tmp_path: Any) -> None:
    (tmp_path / "secret.csv").write_text("a\n1\n")
    outside = {"here": 1}
    for text in (
        f"SELECT * FROM '{tmp_path}/secret.csv'",
        f"SELECT * FROM read_csv('{tmp_path}/secret.csv')",
        "SELECT * FROM outside",
    ):
        with pytest.raises(lakebed.SqlError):
            run(text)
    assert outside


def test_polars_where_there_is_no_duckdb(run: Any, orders: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from lakebed.sql import embedded

    find = embedded.importlib.util.find_spec
    monkeypatch.setattr(embedded.importlib.util, "find_spec", lambda name: None if name == "duckdb" else find(name))
    text = "SELECT dt, sum(amount) AS n FROM shop.orders WHERE id > :least GROUP BY dt ORDER BY n"
    assert [row["n"] for row in run(text, least=1)] == [20, 30]
    monkeypatch.setattr(embedded.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(lakebed.SqlError, match=r"lakebed\[sql\]"):
        run("SELECT 1")
    run("INSERT INTO shop.orders VALUES (4, 5, NULL, NULL)")
    run("UPDATE shop.orders SET amount = amount + 1 WHERE id = 4")
    assert run("DELETE FROM shop.orders WHERE amount = 6")[0]["deleted"] == 1


def test_hints_module_knows_no_unsafe_type() -> None:
    from lakebed.core.schema import DOUBLE, FLOAT, TIMESTAMP

    assert not {DOUBLE, FLOAT, TIMESTAMP} & set(hints._ALIKE)
