"""Statements without Spark: what they do to the warehouse, and what they give back."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import lakebed


@pytest.fixture
def run(local_lake: lakebed.Warehouse) -> Any:
    """Runs a statement and gives its rows back."""

    def run(text: str, **parameters: Any) -> list[dict[str, Any]]:
        rows = local_lake.sql(text, **parameters)
        assert isinstance(rows, pa.Table)
        found: list[dict[str, Any]] = rows.to_pylist()
        return found

    return run


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
