"""SQL gives the same without Spark, with Spark, and through Spark Connect."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from worlds import World

import lakebed


def rows(world: World, text: str, **parameters: Any) -> list[tuple[Any, ...]]:
    found = world.lake.sql(text, **parameters)
    table = found if isinstance(found, pa.Table) else found.toArrow()
    return [tuple(row.values()) for row in table.to_pylist()]


SELECTS = [
    "SELECT id, amount, name FROM shop.orders ORDER BY id",
    "SELECT count(*), count(name), sum(id), min(amount), max(dt), avg(id) FROM shop.orders",
    "SELECT dt, count(*) AS n FROM shop.orders GROUP BY dt HAVING count(*) > 1 ORDER BY dt NULLS FIRST",
    "SELECT o.id, p.name FROM shop.orders o LEFT JOIN shop.orders p ON o.id = p.id + 1 ORDER BY o.id",
    "WITH big AS (SELECT * FROM shop.orders WHERE id > :n), orders AS (SELECT id FROM big) SELECT sum(id) FROM orders",
    "SELECT upper(name), id / 2, id % 2, concat(name, '{x}'), coalesce(name, 'it''s') FROM shop.orders ORDER BY id",
    "SELECT CASE WHEN id < 3 THEN 'low' ELSE name END AS c FROM shop.orders ORDER BY id",
    "SELECT id, row_number() OVER (PARTITION BY dt ORDER BY id DESC) AS r FROM shop.orders ORDER BY id",
    "SELECT shop.orders.id FROM shop.orders WHERE shop.orders.dt = '2026-01-01' AND id IN (1, 2, 3) ORDER BY 1",
    "SELECT DISTINCT dt FROM shop.orders WHERE dt IS NOT NULL ORDER BY dt DESC",
    "SELECT id FROM shop.orders UNION SELECT id + 100 FROM shop.orders ORDER BY 1 LIMIT 3",
    "SELECT id FROM shop.orders WHERE EXISTS (SELECT 1 FROM shop.orders q WHERE q.id = orders.id + 1) ORDER BY id",
    "SELECT id FROM shop.orders WHERE id > (SELECT avg(id) FROM shop.orders) ORDER BY id",
    "SELECT count(*) FROM shop.orders VERSION AS OF 1",
    "SELECT a.id FROM shop.orders VERSION AS OF 'first' a JOIN shop.orders b ON a.id = b.id ORDER BY 1",
    "SELECT operation FROM shop.orders$history ORDER BY version",
    "SELECT id, _change_type FROM table_changes('shop.orders', 2, 2) ORDER BY id",
    "SELECT name FROM shop.orders WHERE name LIKE 'b%' OR name IS NULL ORDER BY name NULLS LAST",
    "SELECT month(dt), date_add(dt, 1) FROM shop.orders WHERE dt >= DATE '2026-01-02' ORDER BY id",
    "VALUES (1, 'a'), (2, 'b')",
]


def made(world: World) -> None:
    rows(world, "CREATE NAMESPACE shop")
    rows(world, "CREATE TABLE shop.orders (id INT, amount DECIMAL(10,2), name STRING, dt DATE, PRIMARY KEY (id))")
    values = (
        "(1, 1.50, 'ann', '2026-01-01'), (2, 20, 'bob', '2026-01-01'), (3, 3, NULL, '2026-01-02'), (4, 4, 'bert', NULL)"
    )
    rows(world, f"INSERT INTO shop.orders VALUES {values}")
    rows(world, "CREATE TAG first ON shop.orders")
    rows(world, "INSERT INTO shop.orders (id, name) VALUES (5, :name)", name="eve")


def test_select(world: World) -> None:
    made(world)
    with lakebed.connect(world.lake.location) as plain:
        for text in SELECTS:
            assert rows(world, text, n=2) == rows(World(plain), text, n=2), text


def test_change(world: World) -> None:
    made(world)
    orders = "SELECT id, amount, name FROM shop.orders ORDER BY id"
    rows(world, "UPDATE shop.orders SET name = upper(name), amount = amount * 2 WHERE dt = '2026-01-01'")
    rows(world, "DELETE FROM shop.orders WHERE id IN (SELECT id + 1 FROM shop.orders WHERE id > 2)")
    assert [(row[0], str(row[1]), row[2]) for row in rows(world, orders)] == [
        (1, "3.00", "ANN"), (2, "40.00", "BOB"), (3, "3.00", None)
    ]  # fmt: skip
    rows(world, "CREATE TABLE shop.plain AS SELECT id, name, id > 1 AS flag FROM shop.orders")
    merge = """MERGE INTO shop.plain AS t
        USING (SELECT id + 1 AS id, 'new' AS name FROM shop.orders) AS s ON t.id = s.id
        WHEN MATCHED AND length(s.name) = 3 AND s.id = 2 THEN UPDATE SET name = reverse(s.name), flag = NULL
        WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT (id, name) VALUES (s.id, upper(s.name))"""
    assert rows(world, merge) == [(2, 1, 1, 1)]
    assert rows(world, "SELECT id, name, flag FROM shop.plain ORDER BY id") == [
        (1, "ANN", False), (2, "wen", None), (4, "NEW", None)
    ]  # fmt: skip
    with pytest.raises(lakebed.DataError, match="several rows of the source"):
        rows(world, "MERGE INTO shop.plain t USING shop.orders s ON reverse(s.name) IS NULL OR true "
             "WHEN MATCHED THEN UPDATE SET name = 'x'")  # fmt: skip
