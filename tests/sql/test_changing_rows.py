"""INSERT, UPDATE, DELETE and MERGE without Spark, case by case; test_generated has many more."""

from __future__ import annotations

from typing import Any

import pytest

import lakebed

KEY = {"plain": "", "key": ", PRIMARY KEY (id)"}


@pytest.fixture(params=list(KEY))
def shop(request: pytest.FixtureRequest, run: Any) -> Any:
    run(
        f"CREATE TABLE t (id INT, s STRING, n INT, dt DATE, a STRUCT<x: INT, y: STRING>{KEY[request.param]})"
        " PARTITIONED BY (dt)"
    )
    run(
        "INSERT INTO t VALUES (1, 'a', 1, '2026-01-01', NULL), (2, 'b', 2, '2026-01-02', NULL),"
        " (3, NULL, 3, NULL, NULL)"
    )
    return run


def found(run: Any, columns: str = "id, s, n") -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in run(f"SELECT {columns} FROM t ORDER BY id, s")]


def test_insert(shop: Any) -> None:
    assert shop("INSERT INTO t (n, id) VALUES (7, 4)") == [{"version": 2, "inserted": 1}]
    shop("INSERT INTO t BY NAME SELECT 'z' AS s, 5 AS id")
    shop("INSERT INTO TABLE t PARTITION (dt = '2026-05-05') SELECT 6, 'p', 7, NULL")
    shop("INSERT INTO t PARTITION (dt) (SELECT 7, upper('q'), 8, NULL, DATE '2026-05-06')")
    assert found(shop, "id, s, n, dt IS NULL")[3:] == [
        (4, None, 7, True), (5, "z", None, True), (6, "p", 7, False), (7, "Q", 8, False)
    ]  # fmt: skip
    shop("INSERT OVERWRITE t PARTITION (dt = '2026-05-05') VALUES (60, 'pp', 7, NULL)")
    shop("INSERT INTO t REPLACE WHERE id = 60 VALUES (60, 'new', 0, NULL, NULL)")
    assert found(shop)[-2:] == [(7, "Q", 8), (60, "new", 0)]
    shop("INSERT OVERWRITE TABLE t SELECT * FROM t WHERE id < 3")
    assert len(found(shop)) == 2
    shop("TRUNCATE TABLE t PARTITION (dt = '2026-01-01')")
    assert found(shop) == [(2, "b", 2)]
    shop("TRUNCATE TABLE t")
    assert found(shop) == []


def test_update_and_delete(shop: Any) -> None:
    assert shop("UPDATE t SET n = n + 1, s = coalesce(s, 'none') WHERE id > 1")[0]["updated"] == 2
    assert found(shop) == [(1, "a", 1), (2, "b", 3), (3, "none", 4)]
    assert (
        shop("UPDATE t x SET s = x.s || (SELECT max(s) FROM t), a.x = 5 WHERE x.id IN (SELECT id + 1 FROM t)")[0][
            "updated"
        ]
        == 2
    )
    assert found(shop, "id, s, a.x") == [(1, "a", None), (2, "bnone", 5), (3, "nonenone", 5)]
    assert (
        shop("DELETE FROM t o WHERE EXISTS (SELECT 1 FROM t p WHERE p.id = o.id + 1) AND o.id > 1")[0]["deleted"] == 1
    )
    assert shop("UPDATE t SET s = 'x' WHERE reverse(s) = 'nothing'")[0]["updated"] == 0
    assert [row[0] for row in found(shop)] == [1, 3]


def test_merge(shop: Any) -> None:
    text = """MERGE INTO t USING (VALUES (1, 'A'), (2, 'B'), (9, 'I')) AS s(id, s) ON t.id = s.id
      WHEN MATCHED AND s.id = 2 THEN DELETE
      WHEN MATCHED THEN UPDATE SET s = concat(t.s, s.s), n = NULL
      WHEN NOT MATCHED BY TARGET AND s.id > 5 THEN INSERT (id, s) VALUES (s.id, s.s)
      WHEN NOT MATCHED BY SOURCE THEN UPDATE SET n = -t.n"""
    assert shop(text) == [{"version": 2, "updated": 2, "deleted": 1, "inserted": 1}]
    assert found(shop) == [(1, "aA", None), (3, None, -3), (9, "I", None)]
    text = """MERGE INTO t USING (SELECT id + 1 AS id, 'm' AS s FROM t) AS q ON t.id = q.id AND reverse(q.s) = 'm'
      WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"""
    assert shop(text)[0] == {"version": 3, "updated": 0, "deleted": 0, "inserted": 3}
    assert [row[:2] for row in found(shop)] == [(1, "aA"), (2, "m"), (3, None), (4, "m"), (9, "I"), (10, "m")]


def test_several_rows_for_one(shop: Any, local_lake: lakebed.Warehouse) -> None:
    twice = "(SELECT 1 AS id, 'x' AS s UNION ALL SELECT 1, 'y')"
    for on in ("t.id = s.id", "t.id = s.id AND reverse(s.s) <> ''"):
        with pytest.raises(lakebed.DataError, match=r"(?s)several rows of the source.*'id': 1"):
            shop(f"MERGE INTO t USING {twice} s ON {on} WHEN MATCHED THEN UPDATE SET s = reverse(s.s)")
        assert local_lake.table("t").version == 1
    assert (
        shop(f"MERGE INTO t USING {twice} s ON reverse(s.s) > '' AND t.id = s.id WHEN MATCHED THEN DELETE")[0][
            "deleted"
        ]
        == 1
    )


def test_merge_by_key_is_an_upsert(run: Any, local_lake: lakebed.Warehouse) -> None:
    run("CREATE TABLE t (id INT, s STRING, PRIMARY KEY (id))")
    run("INSERT INTO t VALUES (1, 'a'), (2, 'b')")
    run("CREATE TABLE src (S STRING, id BIGINT, extra INT)")
    run("INSERT INTO src VALUES ('B', 2, 0), ('C', 3, 0)")
    run("MERGE INTO t USING src ON src.id = t.id WHEN NOT MATCHED THEN INSERT * WHEN MATCHED THEN UPDATE SET *")
    assert found(run, "id, s") == [(1, "a"), (2, "B"), (3, "C")]
    assert local_lake.table("t").history()[0].operation == "upsert"
    run("INSERT INTO src VALUES ('D', 3, 0)")
    with pytest.raises(lakebed.DataError, match="several rows of the source"):
        run("MERGE INTO t USING src ON src.id = t.id WHEN NOT MATCHED THEN INSERT * WHEN MATCHED THEN UPDATE SET *")


def test_a_lost_race_is_told(run: Any, local_lake: lakebed.Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is computed from a version is not written over a newer one."""
    from lakebed.sql import applying

    run("CREATE TABLE t (n INT)")
    run("INSERT INTO t VALUES (1)")
    replace = applying.replace_rows

    def late(*arguments: Any) -> None:
        local_lake.table("t").append([{"n": 5}])
        replace(*arguments)

    monkeypatch.setattr(applying, "replace_rows", late)
    with pytest.raises(lakebed.ConflictError):
        run("UPDATE t SET n = (SELECT sum(n) FROM t)")
    monkeypatch.undo()
    assert sorted(row["n"] for row in run("SELECT n FROM t")) == [1, 5]
