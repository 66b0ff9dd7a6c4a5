"""What a table with a primary key does: one suite over both metastores, local files and S3."""

from __future__ import annotations

import datetime as dt
import itertools
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from conftest import make_place

import lakebed
from lakebed import ConflictError
from lakebed.core.file_tags import ROW_ID_COLUMN, ROW_VERSION_COLUMN
from lakebed.engine.tracked_scan import read_tracked

MERGES = ("on-write", "on-read", "copy-on-write")
BUCKETS = (1, 3, "dynamic", "postpone")
ENGINES = ("deduplicate", "first-row", "partial-update", "aggregation")
Reading = lakebed.Table | lakebed.TableView


def rows(table: Any, where: object = None) -> list[dict[str, Any]]:
    return sorted(table.to_arrow(where=where).to_pylist(), key=str)


def values(table: Any, where: object = None) -> dict[Any, Any]:
    """The rows of a table of ``id`` and ``v``; a key that is there twice is an error."""
    found = table.to_arrow(["id", "v"], where).to_pylist()
    assert len({row["id"] for row in found}) == len(found), found
    return {row["id"]: row["v"] for row in found}


def put(table: Any, **more: Any) -> Callable[..., Any]:
    return lambda given: table.upsert([{"id": key, "v": v} for key, v in given.items()], **more)


def always(table: lakebed.Table, check: Callable[[], None]) -> None:
    """Whatever is settled or compacted, the rows are the same."""
    check()
    table.settle()
    check()
    table.compact(full=True)
    check()
    assert table.read_optimised().count() == table.count()


PAIRS = [*(("sqlite-local", merge) for merge in MERGES), ("postgres-s3", "on-read")]
"""Each metastore and each storage, and on the quickest every merge."""
FOR_LONG = [("postgres-local", "on-read"), ("sqlite-s3", "on-write")]


@pytest.fixture(
    params=[
        *(pytest.param(pair, id="-".join(pair)) for pair in PAIRS),
        *(pytest.param(pair, id="-".join(pair), marks=pytest.mark.soak) for pair in FOR_LONG),
    ]
)
def users_lake(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[lakebed.Warehouse, str]]:
    kind, merge = request.param
    with make_place(request, kind, tmp_path).connect() as opened:
        yield opened, merge


@pytest.fixture
def users(users_lake: tuple[lakebed.Warehouse, str]) -> lakebed.Table:
    """Four keys, of which one was updated and one deleted; with ``on-read`` nothing of it is settled."""
    lake, merge = users_lake
    table = lake.create_table("users", "id BIGINT, v STRING", primary_key=["id"], buckets=2, merge=merge)
    put(table)({1: "a", 2: "b", 3: "c", 4: "d"})
    put(table)({2: "B"})
    table.delete([{"id": 3}])
    return table


def is_unsettled(table: lakebed.Table) -> bool:
    return any(table.files()["unsettled"].to_pylist())


# Writing


def test_upsert_update_delete(users: lakebed.Table) -> None:
    always(users, lambda: _equal(values(users), {1: "a", 2: "B", 4: "d"}))
    put(users)({3: "again", 4: "D"})
    always(users, lambda: _equal(values(users), {1: "a", 2: "B", 3: "again", 4: "D"}))


def _equal(found: object, expected: object) -> None:
    assert found == expected


def test_only_on_read_leaves_work_for_later(users: lakebed.Table) -> None:
    assert is_unsettled(users) == (users.key.merge == "on-read")  # type: ignore[union-attr]
    settled = {} if is_unsettled(users) else {1: "a", 2: "B", 4: "d"}
    assert values(users.read_optimised()) == settled
    users.settle()
    assert not is_unsettled(users)
    assert users.settle().version is None


def test_every_way_to_read(users: lakebed.Table) -> None:
    expected = {1: "a", 2: "B", 4: "d"}
    assert users.count() == 3
    assert users.count("v = 'b'") == 0
    assert sum(batch.num_rows for batch in users.to_batches()) == 3
    assert sorted(users.to_polars(["id"])["id"].to_list()) == [1, 2, 4]
    assert sorted(users.to_pandas(["v"])["v"]) == ["B", "a", "d"]
    assert users.to_arrow(["v"], "id = 2").to_pylist() == [{"v": "B"}]
    assert users.to_arrow(["id"], "v = 'B'").to_pylist() == [{"id": 2}]
    assert users.files().num_rows >= 1
    assert set(users.files()["bucket"].to_pylist()) <= {0, 1}
    assert users.primary_key == ("id",)
    assert values(users.at(version=3)) == expected


def test_time_travel_to_every_version(users: lakebed.Table) -> None:
    users.settle()
    users.compact(full=True)
    put(users)({9: "z"})
    expected = [{}, {1: "a", 2: "b", 3: "c", 4: "d"}, {1: "a", 2: "B", 3: "c", 4: "d"}, {1: "a", 2: "B", 4: "d"}]
    for version in range(users.version + 1):
        wanted = expected[min(version, 3)] if version < users.version else {**expected[3], 9: "z"}
        assert values(users.at(version=version)) == wanted
    users.tag("before", version=2)
    assert values(users.at(tag="before")) == expected[2]


def test_restore_of_what_was_not_settled_then(users: lakebed.Table) -> None:
    users.settle()
    users.compact(full=True)
    users.delete("true")
    assert values(users) == {}
    users.restore(2)
    assert values(users) == {1: "a", 2: "B", 3: "c", 4: "d"}
    put(users)({2: "new"})
    always(users, lambda: _equal(values(users), {1: "a", 2: "new", 3: "c", 4: "d"}))


def test_append_is_an_upsert(users: lakebed.Table) -> None:
    users.append([{"id": 1, "v": "A"}, {"id": 7, "v": "g"}])
    assert values(users) == {1: "A", 2: "B", 4: "d", 7: "g"}


def test_predicate_delete_and_overwrite(users: lakebed.Table) -> None:
    users.delete("v = 'B' or id = 99")
    assert values(users) == {1: "a", 4: "d"}
    users.delete("v = 'b'")
    users.overwrite([{"id": 4, "v": "x"}, {"id": 5, "v": "x"}, {"id": 5, "v": "y"}], where="id >= 4")
    assert values(users) == {1: "a", 4: "x", 5: "y"}
    users.overwrite([{"id": 2, "v": "only"}])
    always(users, lambda: _equal(values(users), {2: "only"}))
    users.overwrite([])
    assert values(users) == {}


def test_transaction_reads_its_own_upserts(users_lake: tuple[lakebed.Warehouse, str], users: lakebed.Table) -> None:
    lake, _ = users_lake
    other = lake.create_table("other", "id BIGINT, v STRING", primary_key=["id"], merge="on-read")
    with lake.transaction() as tx:
        mine, theirs = tx.table("users"), tx.table("other")
        put(mine)({1: "b", 5: "e"})
        assert values(mine) == {1: "b", 2: "B", 4: "d", 5: "e"}
        put(mine)({1: "c"})
        mine.delete([{"id": 2}])
        assert values(mine) == {1: "c", 4: "d", 5: "e"}
        assert values(mine, "v = 'b'") == {}
        assert mine.count() == 3
        mine.delete("v = 'd'")
        put(mine)({2: "back"})
        theirs.upsert(mine.to_arrow())
        theirs.delete([{"id": 5}])
        mine.alter(add={"w": "INT"})
        mine.upsert([{"id": 6, "v": "f", "w": 1}])
        assert values(users) == {1: "a", 2: "B", 4: "d"}
    assert users.version == 4
    always(users, lambda: _equal(values(users), {1: "c", 2: "back", 5: "e", 6: "f"}))
    always(other, lambda: _equal(values(other), {1: "c", 2: "back"}))


def test_a_transaction_that_is_left_changes_nothing(
    users_lake: tuple[lakebed.Warehouse, str], users: lakebed.Table
) -> None:
    lake, _ = users_lake
    before = {f.path for f in users._store.list()}
    with pytest.raises(ZeroDivisionError), lake.transaction() as tx:
        put(tx.table("users"))({1: "never"})
        tx.table("users").delete("id = 2")
        _ = 1 / 0
    assert {f.path for f in users._store.list()} == before
    assert values(users) == {1: "a", 2: "B", 4: "d"}


def test_a_replayed_batch_counts_once(local_lake: lakebed.Warehouse) -> None:
    for merge in MERGES:
        sums = {"fields.v.aggregate-function": "sum"}
        table = local_lake.create_table(
            f"sums-{merge}", "id INT, v INT", primary_key=["id"], merge=merge, merge_engine="aggregation",
            properties=sums,
        )  # fmt: skip
        repeated = [put(table, txn=("query", batch))({1: 1}).repeated for batch in (0, 1, 1, 0, 2, 2)]
        assert repeated == [False, False, True, True, False, True]
        table.delete([{"id": 1, "v": 1}], txn=("query", 3))
        assert table.delete([{"id": 1, "v": 1}], txn=("query", 3)).repeated
        assert values(table) == {1: 2}


def test_empty_upserts_and_rows_of_nulls(local_lake: lakebed.Warehouse) -> None:
    for merge in MERGES:
        table = local_lake.create_table(f"e-{merge}", "id INT, v INT", primary_key=["id"], merge=merge)
        table.upsert([])
        table.upsert(table.schema.empty_table())
        table.delete([])
        table.delete([{"id": 5}])
        assert (table.version, table.count()) == (4, 0)
        table.upsert([{"id": 1}])
        always(table, lambda table=table: _equal(rows(table), [{"id": 1, "v": None}]))
        table.delete([{"id": 1}])
        always(table, lambda table=table: _equal(rows(table), []))
        assert table.files().num_rows == 0


# Buckets, kinds of merging, keys


@pytest.mark.parametrize(
    ("merge", "buckets", "engine"),
    [
        *((merge, buckets, "deduplicate") for merge, buckets in itertools.product(MERGES, BUCKETS)),
        *((m, b, e) for e in ENGINES[1:] for m, b in (("on-read", "dynamic"), ("on-write", 3))),
        ("copy-on-write", "postpone", "aggregation"),
    ],
)
def test_every_bucket_mode_merge_and_engine(
    local_lake: lakebed.Warehouse, merge: str, buckets: Any, engine: str
) -> None:
    table = local_lake.create_table(
        "t", "id INT, v INT", primary_key=["id"], merge=merge, buckets=buckets, merge_engine=engine,
        properties={"dynamic-bucket.target-rows": 8},
    )  # fmt: skip
    put(table)(dict.fromkeys(range(20), 0))
    put(table)(dict.fromkeys(range(0, 20, 3), 1))
    table.upsert([{"id": 0, "v": 2}, {"id": 0, "v": 3}, {"id": 30, "v": None}])
    expected = {n: int(n % 3 == 0) for n in range(20)} | {0: 3, 30: None}
    if engine == "first-row":
        expected = dict.fromkeys(range(20), 0) | {30: None}
    always(table, lambda: _equal(values(table), expected))
    assert set(_buckets_of(table)) <= (set(range(buckets)) if isinstance(buckets, int) else set(range(-64, 0)))
    if buckets in ("dynamic", "postpone"):
        assert len(set(_buckets_of(table))) > 1


def _buckets_of(table: lakebed.Table) -> list[int]:
    found: list[int] = table.files()["bucket"].to_pylist()
    return found


KEYS: dict[str, list[Any]] = {
    "TINYINT": [-128, 0, 127],
    "SMALLINT": [-32768, 0, 32767],
    "INT": [-(2**31), 0, 2**31 - 1],
    "BIGINT": [-(2**63), 0, 2**63 - 1],
    "STRING": ["", "a", "ü", "日本", "\U0001f422", "a\x00b", "A" * 300, " ", "%2F/=", "\uffff", "é", "e\u0301"],
    "BINARY": [b"", b"\x00", b"\x00\x00", b"\xff", b"a" * 300],
    "DECIMAL(9,2)": [Decimal("-1.50"), Decimal("0.00"), Decimal("9999999.99")],
    "DECIMAL(18,0)": [Decimal(10**18 - 1), Decimal(0), Decimal(-(10**18) + 1)],
    "DECIMAL(38,10)": [Decimal("-1234567890123456789012345678.0123456789"), Decimal("0E-10"), Decimal("1E-10")],
    "DATE": [dt.date(1, 1, 1), dt.date(1969, 12, 31), dt.date(9999, 12, 31)],
    "TIMESTAMP": [dt.datetime(1, 1, 1, tzinfo=dt.UTC), dt.datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=dt.UTC)],
    "TIMESTAMP_NTZ": [dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31, 23, 59, 59, 999999), dt.datetime(1970, 1, 1)],
    "BOOLEAN": [True, False],
}


SHAPES = [("on-read", 2, "none"), ("on-write", "dynamic", "in the key"), ("on-read", "postpone", "not in the key")]


@pytest.mark.parametrize(
    ("kind", "shape"),
    [
        *((kind, SHAPES[at % 3]) for at, kind in enumerate(KEYS)),
        *(("STRING", s) for s in SHAPES),
        ("BINARY", SHAPES[0]),
    ],
)
def test_keys_of_every_type(local_lake: lakebed.Warehouse, kind: str, shape: tuple[str, Any, str]) -> None:
    merge, buckets, partition = shape
    key = ["k", "p"] if partition == "in the key" else ["k"]
    table = local_lake.create_table(
        "t", f"k {kind}, p INT, v STRING", primary_key=key, partition_by=[] if partition == "none" else ["p"],
        merge=merge, buckets=buckets,
    )  # fmt: skip
    expected = [{"k": k, "p": at % 2, "v": "old"} for at, k in enumerate(KEYS[kind])]
    table.upsert(expected)
    table.upsert([{**row, "v": "new"} for row in expected[::2]])
    expected = [{**row, "v": row["v"] if at % 2 else "new"} for at, row in enumerate(expected)]
    table.delete([{name: expected[-1][name] for name in key}])
    expected.pop()
    always(table, lambda: _equal(rows(table), sorted(expected, key=str)))
    for row in expected:
        only = pc.field("k") == pa.scalar(row["k"], table.schema.field("k").type)
        assert rows(table, only) == [row]


def test_a_key_of_eight_columns(lake: lakebed.Warehouse) -> None:
    schema = "a INT, b STRING, c DATE, d DECIMAL(20,3), e BINARY, f BOOLEAN, g TIMESTAMP, h SMALLINT, p STRING, v INT"
    base = {
        "a": 1, "b": "ü", "c": dt.date(2026, 1, 1), "d": Decimal("1.500"), "e": b"\x00", "f": True,
        "g": dt.datetime(2026, 1, 1, tzinfo=dt.UTC), "h": -1, "p": "x", "v": 0,
    }  # fmt: skip
    changed = [
        {"a": 2}, {"b": "u"}, {"c": dt.date(2026, 1, 2)}, {"d": Decimal("1.501")}, {"e": b""}, {"f": False},
        {"g": dt.datetime(2026, 1, 1, 0, 0, 0, 1, dt.UTC)}, {"h": 1},
    ]  # fmt: skip
    table = lake.create_table(
        "wide", schema, primary_key=list("abcdefgh"), partition_by=["p"], buckets=2, merge="on-read"
    )
    every = [base, *({**base, **change} for change in changed)]
    table.upsert(every)
    table.upsert([{**row, "v": 1, "p": "y"} for row in every[:5]])
    table.delete([{k: v for k, v in every[8].items() if k in "abcdefgh"}])
    expected = [*({**row, "v": 1, "p": "y"} for row in every[:5]), *every[5:8]]
    always(table, lambda: _equal(rows(table), sorted(expected, key=str)))
    assert table.count("p = 'x'") == 3


# Row kinds, sequences, sort_by


@pytest.mark.parametrize("merge", MERGES)
def test_row_kinds(local_lake: lakebed.Warehouse, merge: str) -> None:
    table = local_lake.create_table("t", "id INT, v STRING", primary_key=["id"], merge=merge)
    put(table)(dict.fromkeys(range(10), "old"))
    kinds = ["+I", "-U", "+U", "-D", "insert", "UPDATE", "Delete", "update_before", " update_after ", "-d"]
    table.upsert([{"id": n, "v": "new", "op": kind} for n, kind in enumerate(kinds)], row_kind="op")
    always(table, lambda: _equal(values(table), dict.fromkeys([0, 2, 4, 5, 8], "new")))
    table.upsert(pa.table({"id": pa.array([0, 2], pa.int32()), "v": ["x", "x"], "op": [3, 2]}), row_kind="op")
    assert values(table, "id in (0, 2)") == {2: "x"}
    pairs = pa.table({"id": pa.array([2, 2], pa.int32()), "v": ["x", "y"], "op": ["-U", "+U"]})
    table.upsert(pairs, row_kind="op")
    assert values(table, "id = 2") == {2: "y"}


def test_row_kinds_by_property(local_lake: lakebed.Warehouse) -> None:
    table = local_lake.create_table(
        "cdc", "id INT, v STRING, op STRING", primary_key=["id"],
        properties={"row-kind": "op", "row-kind-values": "c=insert, r=insert, u=update, d=delete"},
    )  # fmt: skip
    table.upsert([{"id": 1, "v": "a", "op": "c"}, {"id": 2, "v": "b", "op": "r"}])
    table.append([{"id": 1, "v": "A", "op": "u"}, {"id": 2, "op": "d"}])
    assert rows(table) == [{"id": 1, "v": "A", "op": "u"}]


def test_ignore_delete(local_lake: lakebed.Warehouse) -> None:
    for engine in ENGINES:
        table = local_lake.create_table(
            engine, "id INT, v INT", primary_key=["id"], merge_engine=engine, properties={"ignore-delete": True}
        )
        put(table)({1: 1})
        table.delete([{"id": 1}])
        table.upsert([{"id": 1, "v": 2, "op": "-D"}, {"id": 2, "v": 2, "op": "+I"}], row_kind="op")
        assert values(table) == {1: 1, 2: 2}


@pytest.mark.parametrize("merge", MERGES)
def test_sequences(local_lake: lakebed.Warehouse, merge: str) -> None:
    table = local_lake.create_table(
        "t", "id INT, s INT, u INT, v STRING", primary_key=["id"], sequence=["s", "u"], merge=merge, buckets=1
    )

    def write(*given: tuple[int, int | None, int | None, str]) -> None:
        table.upsert([dict(zip(("id", "s", "u", "v"), row, strict=True)) for row in given])

    write((1, 5, 1, "a"), (2, 1, 1, "low"), (2, 9, 0, "high"), (2, 3, 3, "mid"), (3, None, 9, "null"))
    assert values(table) == {1: "a", 2: "high", 3: "null"}
    write((1, 5, None, "loses"), (2, 8, 99, "late"), (3, None, 9, "equal: later commit"))
    assert values(table) == {1: "a", 2: "high", 3: "equal: later commit"}
    table.delete([{"id": 1, "s": 7, "u": 0}, {"id": 2, "s": 1, "u": 0}])
    assert values(table) == {2: "high", 3: "equal: later commit"}
    always(table, lambda: _equal(values(table), {2: "high", 3: "equal: later commit"}))
    write((1, 6, 9, "older than the delete"), (4, 1, 1, "new"))
    always(table, lambda: _equal(values(table), {2: "high", 3: "equal: later commit", 4: "new"}))
    write((1, 7, 0, "as old as the delete"))
    assert values(table)[1] == "as old as the delete"
    table.delete("id = 1")
    write((1, 1, 1, "a predicate leaves no trace"))
    always(table, lambda: _equal(values(table)[1], "a predicate leaves no trace"))


def test_sort_by_columns_that_are_stored_and_that_are_not(local_lake: lakebed.Warehouse) -> None:
    table = local_lake.create_table("t", "id INT, v STRING, n INT", primary_key=["id"])
    mixed = [{"id": 1, "v": "b", "n": 2, "at": 9}, {"id": 1, "v": "a", "n": 1, "at": 10}, {"id": 2, "v": "c", "at": 1}]
    table.upsert(mixed, sort_by="at")
    assert values(table) == {1: "a", 2: "c"}
    table.upsert([{k: v for k, v in row.items() if k != "at"} for row in mixed], sort_by=["n"])
    assert values(table) == {1: "b", 2: "c"}
    assert table.schema.names == ["id", "v", "n"]


# Buckets that span partitions


@pytest.fixture(
    params=[("on-read", 1), ("on-write", "dynamic"), ("copy-on-write", 2), ("on-read", "postpone")], ids=str
)
def places(local_lake: lakebed.Warehouse, request: pytest.FixtureRequest) -> lakebed.Table:
    """Six keys in partition ``a``, of which one has moved to ``b`` and one to no partition."""
    merge, buckets = request.param
    table = local_lake.create_table(
        "places", "id INT, p STRING, v INT", primary_key=["id"], partition_by=["p"], merge=merge, buckets=buckets
    )
    table.upsert([{"id": n, "p": "a", "v": 0} for n in range(6)])
    table.upsert([{"id": 1, "p": "b", "v": 1}, {"id": 2, "p": None, "v": 1}])
    return table


def partitions(table: Any, where: object = None) -> dict[int, str | None]:
    return {row["id"]: row["p"] for row in rows(table, where)}


def test_a_row_moves_and_its_old_place_forgets_it(places: lakebed.Table) -> None:
    def check() -> None:
        assert partitions(places) == {0: "a", 1: "b", 2: None, 3: "a", 4: "a", 5: "a"}
        assert partitions(places, "p = 'a'") == {0: "a", 3: "a", 4: "a", 5: "a"}
        assert partitions(places, "p = 'b'") == {1: "b"}
        assert partitions(places, "p is null") == {2: None}
        assert partitions(places, "v = 0 and id < 3") == {0: "a"}
        assert partitions(places, "p = 'a' and id = 1") == {}
        assert (places.count(), places.count("p = 'a'")) == (6, 4)
        assert partitions(places.at(version=1)) == dict.fromkeys(range(6), "a")

    always(places, check)


def test_moves_within_a_batch_overwrites_and_deletes(places: lakebed.Table) -> None:
    places.upsert([{"id": 7, "p": "a", "v": 1}, {"id": 7, "p": "b", "v": 2}, {"id": 7, "p": "a", "v": 3}])
    assert rows(places, "id = 7") == [{"id": 7, "p": "a", "v": 3}]
    places.overwrite([{"id": 7, "p": "b", "v": 4}], where="dynamic")
    assert partitions(places) == {0: "a", 2: None, 3: "a", 4: "a", 5: "a", 7: "b"}
    places.upsert([{"id": 0, "p": "b", "v": 9}])
    places.delete("p = 'a'")
    assert partitions(places) == {0: "b", 2: None, 7: "b"}
    places.overwrite([{"id": 0, "p": "c", "v": 1}], where="p = 'c'")
    places.delete([{"id": 2}])
    always(places, lambda: _equal(partitions(places), {0: "c", 7: "b"}))


def test_a_dynamic_overwrite_replaces_every_partition_that_rows_came_for(places: lakebed.Table) -> None:
    """Whether the row that came for it was then replaced in the same batch depends on how much fits in memory."""
    places.overwrite([{"id": 8, "p": "a", "v": 1}, {"id": 8, "p": "c", "v": 2}], where="dynamic")
    always(places, lambda: _equal(partitions(places), {1: "b", 2: None, 8: "c"}))


def test_maintenance_of_some_partitions(lake: lakebed.Warehouse) -> None:
    table = lake.create_table(
        "t", "id INT, p STRING, v INT", primary_key=["id", "p"], partition_by=["p"], merge="on-read", buckets=1
    )
    for v in range(2):
        table.upsert([{"id": n, "p": p, "v": v} for n in range(3) for p in ("a", "b")])
    assert table.settle("p = 'a'").buckets == 1
    waiting = {row["partition"] for row in table.files().to_pylist() if row["unsettled"]}
    assert waiting == {'{"p":"b"}'}
    assert table.read_optimised().count() == 3
    assert table.count("v = 1") == table.count() == 6
    table.compact("p = 'a'", full=True)
    assert [row["partition"] for row in table.files().to_pylist()].count('{"p":"a"}') == 1
    always(table, lambda: _equal(table.count("v = 1"), 6))


# Predicates before anything is settled


@pytest.mark.parametrize("engine", ENGINES[:3])
def test_predicates_never_find_stale_rows_nor_hide_live_ones(local_lake: lakebed.Warehouse, engine: str) -> None:
    """Hudi PR #14197: a predicate that is pushed below a merge finds the old row."""
    table = local_lake.create_table(
        "t", "id INT, v INT, s STRING", primary_key=["id"], merge="on-read", merge_engine=engine, buckets=2
    )
    table.upsert([{"id": n, "v": n, "s": "old"} for n in range(8)])
    table.settle()
    table.upsert([{"id": n, "v": 100 + n, "s": "new"} for n in (0, 3)])
    table.upsert([{"id": n, "v": 50, "s": None} for n in (3, 4, 9)])
    expected = {n: (n, "old") for n in range(8)}
    if engine == "first-row":
        expected |= {9: (50, None)}
    elif engine == "deduplicate":
        expected |= {0: (100, "new"), 3: (50, None), 4: (50, None), 9: (50, None)}
    else:
        expected |= {0: (100, "new"), 3: (50, "new"), 4: (50, "old"), 9: (50, None)}

    tests: dict[str, Callable[[int, int, str | None], bool]] = {
        "v = 3": lambda n, v, s: v == 3,
        "v < 8": lambda n, v, s: v < 8,
        "v >= 50": lambda n, v, s: v >= 50,
        "s = 'old'": lambda n, v, s: s == "old",
        "s is null": lambda n, v, s: s is None,
        "id = 3": lambda n, v, s: n == 3,
        "id in (0, 4, 77)": lambda n, v, s: n in (0, 4),
        "id = 3 and v = 3": lambda n, v, s: n == 3 and v == 3,
        "id = 0 or v = 4": lambda n, v, s: n == 0 or v == 4,
        "not (id > 1)": lambda n, v, s: n <= 1,
        "id + v = 54": lambda n, v, s: n + v == 54,
        "v between 4 and 99 and id <> 9": lambda n, v, s: 4 <= v <= 99 and n != 9,
    }

    def check() -> None:
        for where, test in tests.items():
            wanted = {n: v for n, (v, s) in expected.items() if test(n, v, s)}
            assert values(table, where) == wanted, where
        assert table.count("v >= 50") == len(values(table, "v >= 50"))

    check()
    table.settle()
    check()


# Merge engines


def test_partial_update_and_aggregation(local_lake: lakebed.Warehouse) -> None:
    functions = {
        "total": "sum", "top": "max", "names": "listagg", "all": "collect", "seen": "count", "last": "last_value",
    }  # fmt: skip
    table = local_lake.create_table(
        "agg", "id INT, total DECIMAL(10,2), top DATE, names STRING, all ARRAY<INT>, seen BIGINT, last STRING",
        primary_key=["id"], merge="on-read", merge_engine="aggregation",
        properties={f"fields.{name}.aggregate-function": function for name, function in functions.items()},
    )  # fmt: skip
    day = dt.date(2026, 1, 1)
    one = {"id": 1, "total": Decimal("1.50"), "top": day, "names": "a", "all": [1], "seen": 1, "last": "x"}
    two = {"id": 1, "total": Decimal("2.25"), "top": None, "names": "b", "all": [1, 2], "seen": 1, "last": None}
    for row in (one, two):
        table.upsert([row])
    merged = {"id": 1, "total": Decimal("3.75"), "top": day, "names": "a,b", "all": [1, 1, 2], "seen": 2, "last": None}
    always(table, lambda: _equal(rows(table), [merged]))
    table.upsert([one])
    assert table.to_arrow(["total", "names"]).to_pylist() == [{"total": Decimal("5.25"), "names": "a,b,a"}]
    assert table.count("names = 'a,b'") == 0
    assert table.count("total > 5") == 1

    parts = local_lake.create_table("parts", "id INT, a INT, b INT", primary_key=["id"], merge_engine="partial-update")
    parts.upsert([{"id": 1, "a": 1}, {"id": 1, "b": 2}])
    parts.upsert([{"id": 1, "a": 3}])
    always(parts, lambda: _equal(rows(parts), [{"id": 1, "a": 3, "b": 2}]))


def test_columns_are_read_alone_with_what_decides_them(local_lake: lakebed.Warehouse) -> None:
    """One column of a sequence group, without its sequence, its key or its neighbours."""
    table = local_lake.create_table(
        "t", "id INT, a INT, g INT, b INT, h INT", primary_key=["id"], merge="on-read", merge_engine="partial-update",
        properties={"fields.g.sequence-group": "a", "fields.h.sequence-group": "b"},
    )  # fmt: skip
    table.upsert([{"id": 1, "a": 1, "g": 5, "b": 1, "h": 1}])
    table.upsert([{"id": 1, "a": 2, "g": 3, "b": 2, "h": 2}])
    for name, value in {"a": 1, "g": 5, "b": 2, "h": 2, "id": 1}.items():
        assert table.to_arrow([name]).to_pylist() == [{name: value}]
    assert table.count("a = 2") == 0


@pytest.mark.parametrize(
    ("first", "then", "engine"),
    [
        *((*pair, "deduplicate") for pair in itertools.permutations(MERGES, 2)),
        *((*pair, e) for e in ENGINES[1:] for pair in itertools.permutations(MERGES[:2])),
    ],
)
def test_change_of_merge(local_lake: lakebed.Warehouse, first: str, then: str, engine: str) -> None:
    """Paimon #5874: deletion vectors that are turned on later bring duplicates."""
    table = local_lake.create_table("t", "id INT, v INT", primary_key=["id"], merge=first, merge_engine=engine)
    put(table)(dict.fromkeys(range(5), 0))
    put(table)({1: 1})
    table.alter(properties={"merge": then})
    put(table)({1: 2, 2: 2})
    first_row = engine == "first-row"
    expected = dict.fromkeys(range(5), 0) | ({} if first_row else {1: 2, 2: 2})
    assert values(table) == expected
    if then != "on-read":
        assert values(table.read_optimised()) == expected
    table.alter(properties={"merge": first})
    put(table)({0: 3})
    always(table, lambda: _equal(values(table), expected | ({} if first_row else {0: 3})))


# Schema evolution


@pytest.mark.parametrize("merge", MERGES)
def test_alter_between_upserts(local_lake: lakebed.Warehouse, merge: str) -> None:
    table = local_lake.create_table(
        "t", "id INT, a INT, b STRING, p STRING", primary_key=["id", "p"], partition_by=["p"], merge=merge, buckets=2,
    )  # fmt: skip
    table.upsert([{"id": n, "a": n, "b": "x", "p": "m"} for n in range(4)])
    table.alter(add={"c": "INT"})
    table.upsert([{"id": 1, "a": 10, "b": "y", "c": 5, "p": "m"}])
    table.alter(rename={"b": "text"}, widen={"a": "BIGINT"})
    table.upsert([{"id": 2, "a": 2**40, "text": "z", "c": 6, "p": "m"}])
    table.alter(drop=["c"])
    table.alter(add={"c": "STRING"})
    table.alter(rename={"id": "key", "p": "part"})
    table.upsert([{"key": 0, "a": 0, "text": "n", "c": "again", "part": "m"}])
    table.delete([{"key": 3, "part": "m"}])
    expected = [
        {"key": 0, "a": 0, "text": "n", "part": "m", "c": "again"},
        {"key": 1, "a": 10, "text": "y", "part": "m", "c": None},
        {"key": 2, "a": 2**40, "text": "z", "part": "m", "c": None},
    ]

    def check() -> None:
        assert rows(table) == expected
        assert rows(table, "text = 'x'") == []
        assert rows(table, "c = 'again' and key < 9") == expected[:1]
        assert rows(table, "a > 2147483647") == expected[2:]

    always(table, check)
    assert rows(table.at(version=3))[1] == {"id": 1, "a": 10, "b": "y", "p": "m", "c": 5}
    assert table.primary_key == ("key", "part")
    table.restore(1)
    assert {row["b"] for row in rows(table)} == {"x"}
    table.upsert([{"id": 1, "a": 7, "b": "after", "p": "m"}])
    assert [row["b"] for row in rows(table, "id = 1")] == ["after"]


def test_a_required_column_and_tombstones(local_lake: lakebed.Warehouse) -> None:
    table = local_lake.create_table(
        "t", "id INT, s INT, v INT NOT NULL, w STRUCT<a: INT NOT NULL>", primary_key=["id"], sequence=["s"],
        merge="on-read",
    )  # fmt: skip
    table.upsert([{"id": 1, "s": 1, "v": 1}, {"id": 2, "s": 1, "v": 2, "w": {"a": 1}}])
    table.delete([{"id": 1, "s": 2}])
    always(table, lambda: _equal(values(table), {2: 2}))
    assert not table.to_arrow().schema.field("v").nullable
    table.alter(nullable={"v": True})
    table.upsert([{"id": 3, "s": 1}])
    with pytest.raises(lakebed.DataError, match="1 row"):
        table.alter(nullable={"v": False})
    table.delete("v is null")
    table.alter(nullable={"v": False})
    always(table, lambda: _equal(values(table), {2: 2}))


@pytest.mark.parametrize("merge", ["on-read", "on-write"])
def test_a_required_column_is_never_left_without_a_value(local_lake: lakebed.Warehouse, merge: str) -> None:
    """A delete that would do so is refused when it is written, not when somebody reads the table."""
    table = local_lake.create_table(
        "t", "id INT, v INT NOT NULL", primary_key=["id"], merge_engine="aggregation", merge=merge
    )
    table.upsert([{"id": 1, "v": 1}, {"id": 2, "v": 2}])
    deletes: list[Callable[[], object]] = [
        lambda: table.delete([{"id": 1}]),
        lambda: table.upsert([{"id": 1, "v": 1, "op": "-D"}], row_kind="op"),
    ]
    for delete in deletes:
        with pytest.raises(lakebed.DataError, match=r"table default.t: .* NOT NULL columns: v[\s\S]*'id': 1"):
            delete()
    assert (table.version, values(table)) == (1, {1: 1, 2: 2})
    table.alter(nullable={"v": True})
    table.upsert([{"id": 1, "v": 1, "op": "-D"}], row_kind="op")
    with pytest.raises(lakebed.DataError, match="1 row"):
        table.alter(nullable={"v": False})
    table.upsert([{"id": 1, "v": 7}])
    table.alter(nullable={"v": False})
    always(table, lambda: _equal(values(table), {1: 7, 2: 2}))


# Shapes


def test_one_huge_row_and_a_huge_key(local_lake: lakebed.Warehouse) -> None:
    table = local_lake.create_table("t", "id STRING, v STRING", primary_key=["id"], merge="on-read")
    long, huge = "k" * (1 << 20), "ü" * (4 << 20)
    put(table)({"a": huge, long: "1", long + "x": "1"})
    put(table)({"a": huge + "!", long + "x": "2"})

    def check() -> None:
        assert values(table, pc.field("id") == long + "x") == {long + "x": "2"}
        assert values(table, "id = 'a'") == {"a": huge + "!"}
        assert table.count() == 3

    always(table, check)


@pytest.mark.parametrize("merge", MERGES)
def test_nested_columns(local_lake: lakebed.Warehouse, merge: str) -> None:
    schema = pa.schema(
        [
            pa.field("id", pa.int64()),
            pa.field("st", pa.struct([pa.field("x", pa.int32(), False), pa.field("y", pa.list_(pa.string()))])),
            pa.field("m", pa.map_(pa.string(), pa.list_(pa.int64()))),
            pa.field("l", pa.list_(pa.struct([pa.field("z", pa.date32())]))),
        ]
    )
    full = {"id": 1, "st": {"x": 1, "y": ["a", None]}, "m": [("k", [1, None])], "l": [{"z": dt.date(1, 1, 1)}, None]}
    empty = {"id": 2, "st": None, "m": None, "l": None}
    new = {"id": 1, "st": {"x": 2, "y": None}, "m": [], "l": []}
    for engine in ENGINES:
        table = local_lake.create_table(engine, schema, primary_key=["id"], merge=merge, merge_engine=engine)
        table.upsert(pa.Table.from_pylist([full, empty], schema))
        table.upsert(pa.Table.from_pylist([new], schema))
        expected = sorted([full if engine == "first-row" else new, empty], key=str)
        always(table, lambda table=table, expected=expected: _equal(rows(table), expected))
        assert table.count("st.x >= 1") == 1
        assert table.count("st is null") == 1


def test_two_thousand_columns(local_lake: lakebed.Warehouse) -> None:
    names = [f"c{n}" for n in range(2000)]
    schema = pa.schema({name: pa.int32() for name in names})
    table = local_lake.create_table("wide", schema, primary_key=["c7"], merge="on-read", buckets=1)
    table.upsert(pa.table({name: pa.array([1, 2], pa.int32()) for name in names}))
    table.upsert(pa.table({name: pa.array([9 if name == "c1999" else 1], pa.int32()) for name in names}))
    assert sorted(table.to_arrow(["c1999"])["c1999"].to_pylist()) == [2, 9]
    table.settle()
    assert table.to_arrow().num_columns == 2000
    assert table.count("c1999 = 1") == 0


def test_inputs(local_lake: lakebed.Warehouse) -> None:
    data = pa.table({"id": [2, 1, 2], "v": ["a", None, "b"]})
    table = local_lake.create_table("inputs", "id BIGINT, v STRING", primary_key=["id"])

    def batches() -> Iterator[pa.RecordBatch]:
        yield from data.to_batches(max_chunksize=1)

    for given in (data, data.to_reader(), pl.from_arrow(data), data.to_pandas(), data.to_pylist(), batches()):
        table.overwrite([])
        table.upsert(given)
        assert values(table) == {1: None, 2: "b"}
        table.delete(data.select(["id"]).slice(0, 1))
        assert values(table) == {1: None}
    renamed = pa.table({"V": ["c"], "ID": [1]})
    table.upsert(renamed)
    assert values(table) == {1: "c"}


# Compaction


def tracked(table: lakebed.Table) -> list[dict[str, Any]]:
    """Each row with its id and the version that last changed it; settled tables only."""
    order, sources = table._scan(table._point(), None, None)
    return sorted(read_tracked(order, sources).to_pylist(), key=str)  # type: ignore[arg-type]


@pytest.mark.parametrize("merge", MERGES)
@pytest.mark.parametrize("engine", ["deduplicate", "aggregation"])
def test_compaction_changes_no_row_and_no_row_version(local_lake: lakebed.Warehouse, merge: str, engine: str) -> None:
    table = local_lake.create_table(
        "t", "id INT, v INT", primary_key=["id"], merge=merge, buckets=2, merge_engine=engine,
        properties={"compaction-small-files": 2},
    )  # fmt: skip
    for version in range(4):
        put(table)(dict.fromkeys(range(version, 8), version))
    table.delete("id = 7 and v >= 0")
    table.settle()
    before = tracked(table)
    assert len({row[ROW_ID_COLUMN] for row in before}) == len(before) == 7
    if merge != "on-read":
        assert [row[ROW_VERSION_COLUMN] for row in before] == [1, 2, 3, 4, 4, 4, 4]
    done = table.compact(full=True)
    assert done.version == table.version
    assert tracked(table) == before
    assert table.compact(full=True).version is None
    assert not any(table.files()["dead_rows"].to_pylist())
    log = table._store.read(f"_delta_log/{done.version:020}.json").decode()
    assert '"dataChange":true' not in log
    assert '"dataChange":false' in log


def test_a_bucket_that_lost_its_race_is_reported(local_lake: lakebed.Warehouse) -> None:
    from lakebed.core.steps import Step, observe

    table = local_lake.create_table("t", "id INT, p INT, v INT", primary_key=["id", "p"], partition_by=["p"], buckets=1)
    for v in range(2):
        table.upsert([{"id": n, "p": p, "v": v} for p in range(2) for n in range(8 - 4 * v)])
    before = sorted(map(str, table.to_arrow().to_pylist()))
    seen: list[Step] = []

    def interrupt(step: Step) -> None:
        if step is Step.COMMIT_PREPARED and not seen:
            seen.append(step)
            assert table.compact("p = 0", full=True).buckets == 1

    stop = observe(interrupt)
    try:
        done = table.compact(full=True)
    finally:
        stop()
    assert (done.buckets, len(done.skipped)) == (1, 1)
    assert sorted(map(str, table.to_arrow().to_pylist())) == before
    assert table.compact(full=True).skipped == ()


def test_two_transactions_upsert_the_same_keys(lake: lakebed.Warehouse) -> None:
    """Upserts of a transaction do not conflict; deletes by predicate do."""
    table = lake.create_table("t", "id INT, v INT", primary_key=["id"])
    first, second = lake.transaction(), lake.transaction()
    put(first.table("t"))({1: 1, 2: 1})
    put(second.table("t"))({2: 2, 3: 2})
    first.commit()
    second.commit()
    assert values(table) == {1: 1, 2: 2, 3: 2}
    third, fourth = lake.transaction(), lake.transaction()
    third.table("t").delete("v = 2")
    put(fourth.table("t"))({1: 2})
    fourth.commit()
    with pytest.raises(ConflictError):
        third.commit()
    assert values(table) == {1: 2, 2: 2, 3: 2}
