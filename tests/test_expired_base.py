"""A change takes long, and the version that it is based on expires meanwhile: it lands whole, or not at all."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from conftest import make_place

import lakebed
from lakebed.transaction import TransactionTable

AT_ONCE = timedelta(0)
MERGES = ["on-read", "on-write", "copy-on-write"]


@pytest.fixture(params=["sqlite-local", "postgres-local"])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[lakebed.Warehouse]:
    """A warehouse on each metastore."""
    with make_place(request, request.param, tmp_path).connect() as opened:
        yield opened


def made(lake: lakebed.Warehouse, merge: str | None, **more: Any) -> lakebed.Table:
    """A table with keys 1 to 4; without ``merge`` it has no primary key."""
    key = {"primary_key": ["id"], "merge": merge, "buckets": 2} if merge else {}
    table = lake.create_table("t", "id BIGINT, v BIGINT", **key, **more)
    table.append([{"id": n, "v": 0} for n in range(1, 5)])
    return table


def rows(table: Any) -> dict[int, int]:
    found = table.to_arrow().to_pylist()
    assert len({row["id"] for row in found}) == len(found)
    return {row["id"]: row["v"] for row in found}


def others_go_on(table: lakebed.Table, *, vacuum: bool = False) -> None:
    """What somebody else does meanwhile; nothing of the base is left after it."""
    table.append([{"id": 11, "v": 1}])
    table.delete("id = 3")
    table.settle()
    table.compact(full=True)
    if vacuum:
        table.vacuum(AT_ONCE)
    else:
        table.expire(AT_ONCE)


OTHERS = {1: 0, 2: 0, 4: 0, 11: 1}
NEW = [{"id": 11, "v": 2}, {"id": 12, "v": 2}]


@pytest.mark.parametrize("merge", MERGES)
def test_an_upsert_lands(lake: lakebed.Warehouse, merge: str) -> None:
    table = made(lake, merge)
    with lake.transaction() as tx:
        tx.table("t").upsert([*NEW, {"id": 3, "v": 2}])
        tx.table("t").delete([{"id": 2}])
        others_go_on(table)
    assert rows(table) == {1: 0, 3: 2, 4: 0, 11: 2, 12: 2}
    table.settle()
    assert rows(table) == {1: 0, 3: 2, 4: 0, 11: 2, 12: 2}
    table.vacuum(AT_ONCE)
    assert rows(table) == {1: 0, 3: 2, 4: 0, 11: 2, 12: 2}


def test_an_append_lands(lake: lakebed.Warehouse) -> None:
    table = made(lake, None)
    with lake.transaction() as tx:
        tx.table("t").append([{"id": 12, "v": 2}])
        others_go_on(table)
    assert rows(table) == {**OTHERS, 12: 2}


@pytest.mark.parametrize("merge", MERGES)
def test_rows_are_merged_with_what_the_table_has_become(local_lake: lakebed.Warehouse, merge: str) -> None:
    table = made(local_lake, merge, merge_engine="aggregation", properties={"fields.v.aggregate-function": "sum"})
    with local_lake.transaction() as tx:
        tx.table("t").upsert([{"id": 1, "v": 5}, {"id": 3, "v": 5}, {"id": 11, "v": 5}])
        others_go_on(table)
    assert rows(table) == {1: 5, 2: 0, 3: 5, 4: 0, 11: 6}


LOOKING: dict[str, Callable[[TransactionTable], object]] = {
    "delete": lambda table: table.delete("id = 1"),
    "overwrite": lambda table: table.overwrite(NEW[1:]),
    "overwrite some": lambda table: table.overwrite([{"id": 1, "v": 9}], where="id = 1"),
    "alter": lambda table: table.alter(add={"w": "STRING"}),
    "upsert and delete": lambda table: (table.append(NEW[1:]), table.delete("id = 1")),
}


@pytest.mark.parametrize("merge", [None, *MERGES])
@pytest.mark.parametrize("operation", LOOKING)
def test_what_has_looked_at_rows_lands_on_nothing_unseen(
    local_lake: lakebed.Warehouse, operation: str, merge: str | None
) -> None:
    table = made(local_lake, merge)
    tx = local_lake.transaction()
    LOOKING[operation](tx.table("t"))
    others_go_on(table)
    version = table.version
    told = r"(have expired: nobody can compare them|files .* have been replaced .*); fix: nothing was changed"
    with pytest.raises(lakebed.ConflictError, match=told):
        tx.commit()
    assert (table.version, rows(table)) == (version, OTHERS)


@pytest.mark.parametrize("merge", MERGES)
def test_files_of_the_base_that_are_gone(local_lake: lakebed.Warehouse, merge: str) -> None:
    """Vacuum has taken away what an upsert would be settled with: it is settled with what is there now."""
    table = made(local_lake, merge)
    tx = local_lake.transaction()
    inside = tx.table("t")
    others_go_on(table, vacuum=True)
    with pytest.raises(lakebed.LakebedError, match="no version 1 any more: it has expired"):
        inside.to_arrow()
    inside.upsert(NEW)
    tx.commit()
    assert rows(table) == {**OTHERS, 11: 2, 12: 2}


@pytest.mark.parametrize("merge", MERGES)
def test_own_files_that_vacuum_has_deleted(local_lake: lakebed.Warehouse, merge: str) -> None:
    table = made(local_lake, merge)
    tx = local_lake.transaction()
    tx.table("t").upsert(NEW)
    others_go_on(table, vacuum=True)
    with pytest.raises(lakebed.ConflictError, match="vacuum has deleted file"):
        tx.commit()
    assert rows(table) == OTHERS


@pytest.mark.parametrize("gone", ["expired", "deleted"])
@pytest.mark.parametrize("merge", MERGES)
def test_rows_that_do_not_fit_the_schema_any_more(local_lake: lakebed.Warehouse, merge: str, gone: str) -> None:
    """The change of the schema has expired too, but not what it has made of the table."""
    table = made(local_lake, merge)
    tx = local_lake.transaction()
    inside = tx.table("t")
    own: set[str] = set()

    def write() -> None:
        before = _parquet(table)
        inside.upsert([{"id": 12, "v": None}])
        own.update(_parquet(table) - before)

    if gone == "expired":
        write()
    table.alter(nullable={"v": False})
    others_go_on(table, vacuum=gone == "deleted")
    if gone == "deleted":
        write()
    version = table.version
    with pytest.raises(lakebed.ConflictError, match="it made column 'v' non-null, and a file of mine may hold nulls"):
        tx.commit()
    assert (table.version, rows(table)) == (version, OTHERS)
    assert own
    assert not own & _parquet(table)


def _parquet(table: lakebed.Table) -> set[str]:
    root = Path(table.location.removeprefix("file://"))
    return {str(path.relative_to(root)) for path in root.glob("bucket*/*.parquet")}
