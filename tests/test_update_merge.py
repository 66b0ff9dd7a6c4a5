"""update and merge: rows change as the same statements would change a plain list of dicts."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lakebed

SCHEMA = "id BIGINT NOT NULL, dt STRING, n INT, name STRING"
SHAPES: dict[str, dict[str, Any]] = {
    "plain": {},
    "partitions": {"partition_by": ["dt"]},
    "key": {"primary_key": ["id"], "buckets": 2},
    "key on read": {"primary_key": ["id"], "buckets": 2, "merge": "on-read"},
    "copy on write": {"primary_key": ["id"], "buckets": 2, "merge": "copy-on-write"},
    "dynamic": {"primary_key": ["id"], "properties": {"dynamic-bucket.target-rows": 3}},
    "cross-partition": {"primary_key": ["id"], "buckets": 2, "partition_by": ["dt"]},
}


def row(i: int, **other: Any) -> dict[str, Any]:
    return {"id": i, "dt": f"d{i % 2}", "n": i, "name": f"n{i}", **other}


def live(table: Any) -> list[dict[str, Any]]:
    return sorted(table.to_arrow().to_pylist(), key=lambda r: (r["id"], r["n"] or 0))


@pytest.fixture(params=SHAPES)
def table(request: pytest.FixtureRequest, local_lake: lakebed.Warehouse) -> Any:
    made = local_lake.create_table("t", SCHEMA, **SHAPES[request.param])
    made.append([row(i) for i in range(6)])
    made.append([row(i) for i in range(6, 12)])
    return made


def test_update(table: Any) -> None:
    done = table.update({"n": "n * 10", "name": "upper(name)"}, where="id >= 4 AND id < 8")
    assert (done.operation, done.metrics["numUpdatedRows"]) == ("update", 4)
    assert live(table) == [row(i, n=i * 10, name=f"N{i}") if 4 <= i < 8 else row(i) for i in range(12)]
    assert done.parameters["predicate"]


def test_update_of_all_rows_with_constants(table: Any) -> None:
    table.update({"n": 7, "name": None})
    assert live(table) == [row(i, n=7, name=None) for i in range(12)]


def test_update_moves_rows_to_another_partition(table: Any) -> None:
    table.update({"dt": "concat(dt, '-', name)"}, where="id = 3")
    assert live(table)[3] == row(3, dt="d1-n3")
    assert table.count() == 12


def test_an_update_that_concerns_no_row_is_a_version_without_files(table: Any) -> None:
    done = table.update({"n": 1}, where="id = 99")
    assert done.metrics["numUpdatedRows"] == 0
    assert live(table) == [row(i) for i in range(12)]


def test_rows_keep_their_ids(local_lake: lakebed.Warehouse) -> None:
    from lakebed.engine.scan import ScanOrder
    from lakebed.engine.source import plain
    from lakebed.engine.tracked_scan import read_tracked

    table = local_lake.create_table("t", SCHEMA)
    table.append([row(i) for i in range(5)])
    table.update({"n": 0}, where="id = 2")
    state = table._state()
    order = ScanOrder(table._store, table.name, state.metadata, table._options, ("id",))
    files = table._handle.metastore.files(table._handle.table_id, state.version).adds()
    found = read_tracked(order, plain(files)).sort_by("id")
    assert found["_lakebed_row_id"].to_pylist() == [0, 1, 2, 3, 4]
    assert found["_lakebed_row_version"].to_pylist() == [1, 1, 2, 1, 1]


@pytest.mark.parametrize(
    ("assignment", "error", "message"),
    [
        ({"nn": 1}, lakebed.InputError, "no column 'nn' to set"),
        ({"n": "nam"}, lakebed.PredicateError, "did you mean 'name'"),
        ({"n": "'x'"}, lakebed.PredicateError, "column 'n'"),
        ({"n": "id * 1000000000"}, lakebed.PredicateError, "fails on a row"),
        ({"id": None}, lakebed.LakebedError, "id"),
        ({}, lakebed.InputError, "update sets columns"),
        ({"n": dt.date(2026, 1, 1)}, lakebed.PredicateError, "does not fit"),
    ],
)
def test_wrong_updates(table: Any, assignment: Any, error: type[Exception], message: str) -> None:
    before, version = live(table), table.version
    with pytest.raises(error, match=message):
        table.update(assignment)
    assert (live(table), table.version) == (before, version)


def test_keys_and_sequences_cannot_be_set(local_lake: lakebed.Warehouse) -> None:
    table = local_lake.create_table("t", SCHEMA, primary_key=["id"], sequence=["n"])
    for name in ("id", "n"):
        with pytest.raises(lakebed.InputError, match=f"{name} is part of the primary key or of the sequence"):
            table.update({name: 1})


@pytest.mark.parametrize("engine", ["first-row", "partial-update", "aggregation"])
def test_engines_that_make_rows_of_several_refuse(local_lake: lakebed.Warehouse, engine: str) -> None:
    table = local_lake.create_table("t", SCHEMA, primary_key=["id"], merge_engine=engine)
    with pytest.raises(lakebed.InputError, match="or with the merge engine 'deduplicate'"):
        table.update({"n": 1})
    with pytest.raises(lakebed.InputError, match="no merge of rows that the merge engine"):
        table.merge([row(1)], on=["id"]).when_matched_delete().execute()


def test_a_merge_of_everything(table: Any) -> None:
    done = (
        table.merge([row(i, n=100 + i) for i in range(8, 16)], on="t.id = s.id")
        .when_matched_delete("s.id = 9")
        .when_matched_update({"n": "t.n + s.n"}, condition="s.id <> 10")
        .when_not_matched_insert(condition="s.id <> 15")
        .when_not_matched_by_source_update({"name": "'left'"}, condition="t.id < 3")
        .when_not_matched_by_source_delete("t.id = 3")
        .execute()
    )
    expected = [
        *(row(i, name="left") for i in range(3)),
        *(row(i) for i in range(4, 8)),
        row(8, n=116),
        row(10),
        row(11, n=122),
        *(row(i, n=100 + i) for i in range(12, 15)),
    ]
    assert live(table) == expected
    assert done.operation == "merge"
    metrics = [done.metrics[f"num{what}Rows"] for what in ("Updated", "Deleted", "Inserted")]
    assert metrics == [5, 2, 3]


def test_all_columns_by_name(table: Any) -> None:
    source = pa.table({"ID": [11, 12], "NAME": ["x", "y"]})
    table.merge(source, on=["id"]).when_matched_update().when_not_matched_insert().execute()
    assert live(table)[-2:] == [row(11, name="x"), {"id": 12, "dt": None, "n": None, "name": "y"}]


def test_conditions_without_equality(table: Any) -> None:
    table.merge([{"low": 3, "high": 5}], on="t.id BETWEEN s.low AND s.high").when_matched_delete().execute()
    assert [r["id"] for r in live(table)] == [0, 1, 2, 6, 7, 8, 9, 10, 11]


def test_nulls_match_nothing(table: Any) -> None:
    source = [{"id": 20, "name": None}, {"id": 21, "name": "n1"}]
    table.merge(source, on="t.name = s.name").when_matched_update({"n": 0}).when_not_matched_insert().execute()
    assert [r for r in live(table) if r["n"] == 0 or r["id"] >= 20] == [
        row(0),
        row(1, n=0),
        {"id": 20, "dt": None, "n": None, "name": None},
    ]


def test_several_rows_of_the_source_for_one_of_the_table(table: Any) -> None:
    before = live(table)
    twice = [row(1, n=5), row(1, n=6)]
    with pytest.raises(lakebed.DataError, match="several rows of the source match one row of the table"):
        table.merge(twice, on=["id"]).when_matched_update().execute()
    assert live(table) == before
    table.merge(twice, on=["id"]).when_matched_update(condition="s.n = 6").execute()
    assert live(table)[1] == row(1, n=6)
    table.merge(twice, on=["id"]).when_matched_delete().execute()
    assert [r["id"] for r in live(table)] == [0, *range(2, 12)]


def test_values_are_cast_as_columns_need_them(local_lake: lakebed.Warehouse) -> None:
    table = local_lake.create_table("t", "id BIGINT, price DECIMAL(6,2), at DATE")
    table.append([{"id": 1, "price": Decimal("1.50"), "at": dt.date(2026, 1, 1)}])
    source = pa.table({"id": pa.array([1, 2], pa.int32()), "price": [2, 3], "at": ["2026-02-01", "2026-03-01"]})
    table.merge(source, on="t.id = s.id").when_matched_update().when_not_matched_insert().execute()
    assert live_by_id(table) == [
        {"id": 1, "price": Decimal("2.00"), "at": dt.date(2026, 2, 1)},
        {"id": 2, "price": Decimal("3.00"), "at": dt.date(2026, 3, 1)},
    ]


def live_by_id(table: Any) -> list[dict[str, Any]]:
    return table.to_arrow().sort_by("id").to_pylist()


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda m: m, "the merge has no clause"),
        (lambda m: m.when_matched_update().when_matched_delete(), "no row reaches the clause"),
        (lambda m: m.when_matched_update({"x": 1}), "no column 'x' to set"),
        (lambda m: m.when_not_matched_insert({"n": "t.n"}), "no such column 't'"),
        (lambda m: m.when_matched_delete("n = 1"), "no such column 'n'"),
    ],
)
def test_wrong_merges(table: Any, build: Callable[[Any], Any], message: str) -> None:
    with pytest.raises(lakebed.InputError, match=message):
        build(table.merge([row(1)], on=["id"])).execute()
    assert table.version == 2


def test_files_that_the_source_cannot_concern_are_not_read(local_lake: lakebed.Warehouse) -> None:
    import os

    table = local_lake.create_table("t", SCHEMA)
    for n in range(3):
        table.append([row(i) for i in range(n * 10, n * 10 + 10)])
    for path in table.files("id >= 20")["path"].to_pylist():
        os.unlink(os.path.join(table.location.removeprefix("file://"), path))
    table.merge([row(5, n=99), row(15, n=99)], on=["id"]).when_matched_update().execute()
    assert [r["id"] for r in table.to_arrow(where="n = 99").to_pylist()] == [5, 15]


@pytest.mark.parametrize("theirs", ["append", "merge"])
def test_a_merge_and_what_it_has_not_seen(local_lake: lakebed.Warehouse, theirs: str) -> None:
    table = local_lake.create_table("t", SCHEMA)
    table.append([row(i) for i in range(5)])
    with (
        pytest.raises(lakebed.ConflictError, match="the merge conflicts with version 2"),
        local_lake.transaction() as tx,
    ):
        tx.table("t").merge([row(2, n=50)], on=["id"]).when_matched_update().when_not_matched_insert().execute()
        if theirs == "append":
            table.append([row(2)])
        else:
            table.merge([row(2, n=60)], on=["id"]).when_matched_update().execute()
    with local_lake.transaction() as tx:
        tx.table("t").merge([row(2, n=50)], on=["id"]).when_matched_update().execute()
        table.append([row(77)])
    assert table.count("n = 50") == (2 if theirs == "append" else 1)


def test_an_update_and_a_compaction(local_lake: lakebed.Warehouse) -> None:
    table = local_lake.create_table("t", SCHEMA, primary_key=["id"], buckets=1)
    for i in range(4):
        table.upsert([row(i), row(i + 10)])
    table.delete("id > 9")
    table.update({"n": 5}, where="id < 2")
    table.compact(full=True)
    table.update({"n": "n + 1"}, where="id = 0")
    assert [r["n"] for r in live(table)] == [6, 5, 2, 3]


rows_of_source = st.lists(
    st.tuples(st.integers(0, 12), st.one_of(st.none(), st.integers(-3, 3))), max_size=8, unique_by=lambda r: r[0]
)


@settings(max_examples=15)
@given(target=rows_of_source, source=rows_of_source, shape=st.sampled_from(sorted(SHAPES)), bound=st.integers(-2, 2))
def test_against_a_model(
    tmp_path_factory: pytest.TempPathFactory,
    target: list[tuple[int, int | None]],
    source: list[tuple[int, int | None]],
    shape: str,
    bound: int,
) -> None:
    with lakebed.connect(tmp_path_factory.mktemp("w")) as lake:
        table = lake.create_table("t", SCHEMA, **SHAPES[shape])
        half = len(target) // 2
        for part in (target[:half], target[half:]):
            table.append([row(i, n=n) for i, n in part])
        (
            table.merge(pa.Table.from_pylist([{"id": i, "n": n} for i, n in source], SOURCE), on="s.id = t.id")
            .when_matched_delete(f"s.n > {bound}")
            .when_matched_update({"n": "coalesce(t.n, 0) + s.n"}, "t.n IS NOT NULL OR s.n < 0")
            .when_not_matched_insert({"id": "s.id", "n": "s.n"}, f"s.n <= {bound}")
            .when_not_matched_by_source_update({"n": -1}, f"t.n < {bound}")
            .execute()
        )
        assert live(table) == _model(dict(target), dict(source), bound)


SOURCE = pa.schema([("id", pa.int64()), ("n", pa.int64())])


def _model(target: dict[int, int | None], source: dict[int, int | None], bound: int) -> list[dict[str, Any]]:
    found = []
    for i, n in target.items():
        if i not in source:
            found.append(row(i, n=-1 if n is not None and n < bound else n))
            continue
        s = source[i]
        if s is not None and s > bound:
            continue
        changes = n is not None or (s is not None and s < 0)
        found.append(row(i, n=n if not changes else None if s is None else (n or 0) + s))
    for i, s in source.items():
        if i not in target and s is not None and s <= bound:
            found.append({"id": i, "dt": None, "n": s, "name": None})
    return sorted(found, key=lambda r: (r["id"], r["n"] or 0))
