"""What went wrong elsewhere with primary-key tables (see PITFALLS in the design papers), each line shown not to happen.

Vacuum and expiry, streaming reads and kill -9 have tests of their own.
"""

from __future__ import annotations

import importlib
import itertools
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from conftest import Place, make_place

import lakebed
from lakebed import CommitUnknownError, ConflictError, DataError
from lakebed.core.steps import Step, observe
from lakebed.metastore import schema as tables_of_metastore

MERGES = ("on-write", "on-read", "copy-on-write")


@pytest.fixture
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """A warehouse with SQLite, or where ``on_both`` stands, once more with PostgreSQL."""
    return make_place(request, getattr(request, "param", "sqlite-local"), tmp_path)


on_both = pytest.mark.parametrize("place", ["sqlite-local", "postgres-local"], indirect=True)


@pytest.fixture
def lake(place: Any) -> Iterator[lakebed.Warehouse]:
    with place.connect() as opened:
        yield opened


@pytest.fixture
def orders(lake: lakebed.Warehouse) -> lakebed.Table:
    return make(lake)


def make(lake: lakebed.Warehouse, **more: Any) -> lakebed.Table:
    """Eight rows in two partitions; the key has the partition, unless told otherwise."""
    given = {"primary_key": ["id", "p"], "partition_by": ["p"], "buckets": 2, **more}
    table = lake.create_table("orders", "id INT, p STRING, v INT", **given)
    table.upsert([{"id": n, "p": p, "v": 0} for p in ("mon", "tue") for n in range(4)])
    return table


def at(table: Any, where: object = None) -> dict[tuple[int, str], int]:
    rows = table.to_arrow(where=where).to_pylist()
    found = {(row["id"], row["p"]): row["v"] for row in rows}
    assert len(found) == len(rows), f"a key is there twice: {rows}"
    return found


def begun() -> dict[tuple[int, str], int]:
    return {(n, p): 0 for p in ("mon", "tue") for n in range(4)}


def row(key: int, p: str, v: int) -> list[dict[str, Any]]:
    return [{"id": key, "p": p, "v": v}]


@pytest.fixture(autouse=True)
def _no_observer_stays() -> Iterator[None]:
    from lakebed.core import steps

    yield
    steps._observers.clear()
    happened = [done.is_set() for done in _INTERRUPTED]
    _INTERRUPTED.clear()
    assert all(happened), "another writer should have come in between, but no commit was made"


_INTERRUPTED: list[threading.Event] = []


def meanwhile(place: Any, other: Callable[[lakebed.Table], object], step: Step = Step.COMMIT_PREPARED) -> None:
    """Let another writer commit when the next commit of this process is at ``step``."""
    done = threading.Event()
    _INTERRUPTED.append(done)

    def interrupt(reached: Step) -> None:
        if reached is step and not done.is_set():
            done.set()
            with place.connect() as second:
                other(second.table("orders"))

    observe(interrupt)


def data_files(table: lakebed.Table) -> set[str]:
    return {f.path for f in table._store.list() if not f.path.startswith("_delta_log")}


def live_files(table: lakebed.Table) -> set[str]:
    """The files of all versions, data and vectors."""
    found: set[str] = set()
    for version in range(table.version + 1):
        for add in table.at(version=version)._point().files(None):
            found.add(add.file_path)
            vector = add.deletion_vector
            if vector is not None and vector.storage_type == "u":
                from lakebed.storage.deletion_vector import vector_path

                found.add(vector_path(vector.path_or_inline_dv))
    return found


# Losing or doubling data


@pytest.mark.parametrize("merge", MERGES)
def test_paimon_9666_10010_a_replayed_batch_is_added_once(lake: lakebed.Warehouse, merge: str) -> None:
    """Paimon #9666, #10010: a replayed micro-batch commits twice; aggregates are silently wrong."""
    table = make(
        lake, merge=merge, merge_engine="aggregation", properties={"fields.v.aggregate-function": "sum"}
    )  # fmt: skip
    for batch in (1, 2, 2, 1, 3):
        table.upsert(row(1, "mon", 10), txn=("query", batch))
    assert at(table)[1, "mon"] == 30
    with lake.transaction() as tx:
        tx.table("orders").upsert(row(1, "mon", 10), txn=("query", 4))
    again = lake.transaction()
    again.table("orders").upsert(row(1, "mon", 10), txn=("query", 4))
    again.commit()
    assert at(table)[1, "mon"] == 40
    assert data_files(table) == live_files(table)


@on_both
def test_paimon_9666_two_processes_with_the_same_batch(place: Any, lake: lakebed.Warehouse) -> None:
    """Paimon #9666: the other process has committed the batch while this one was writing it."""
    table = make(lake, merge_engine="aggregation", properties={"fields.v.aggregate-function": "sum"})
    meanwhile(place, lambda t: t.upsert(row(1, "mon", 10), txn=("query", 7)))
    assert table.upsert(row(1, "mon", 10), txn=("query", 7)).repeated
    assert at(table)[1, "mon"] == 10


@pytest.mark.parametrize("merge", MERGES)
def test_paimon_4831_a_retried_task_loses_no_rows(lake: lakebed.Warehouse, merge: str) -> None:
    """Paimon #4831: rows lost after task retries: the first attempt dies after writing its files."""
    table = make(lake, merge=merge)
    for step in (Step.WRITE_OPENED, Step.WRITE_CLOSED, Step.COMMIT_PREPARED):

        def die(reached: Step, step: Step = step) -> None:
            if reached is step:
                raise RuntimeError("the task died")

        stop = observe(die)
        with pytest.raises(RuntimeError, match="the task died"):
            table.upsert([*row(1, "mon", 1), *row(7, "wed", 1)])
        stop()
        assert at(table) == begun()
    table.upsert([*row(1, "mon", 1), *row(7, "wed", 1)])
    assert at(table) == begun() | {(1, "mon"): 1, (7, "wed"): 1}
    assert data_files(table) == live_files(table)


@on_both
@pytest.mark.parametrize("merge", MERGES)
@pytest.mark.parametrize("buckets", [1, "dynamic"])
def test_paimon_8226_5762_two_writers_both_stay(place: Any, lake: lakebed.Warehouse, merge: str, buckets: Any) -> None:
    """Paimon #8226, #5762: two writers both succeed, and the data of one is gone."""
    table = make(lake, merge=merge, buckets=buckets, partition_by=[])
    meanwhile(place, lambda t: t.upsert([*row(1, "mon", 1), *row(2, "mon", 1), *row(8, "mon", 1)]))
    table.upsert([*row(2, "mon", 2), *row(9, "mon", 2)])
    expected = begun() | {(1, "mon"): 1, (2, "mon"): 2, (8, "mon"): 1, (9, "mon"): 2}
    assert at(table) == expected
    table.compact(full=True)
    assert at(table.read_optimised()) == expected


@on_both
def test_paimon_4802_compaction_keeps_what_came_meanwhile(place: Any, lake: lakebed.Warehouse) -> None:
    """Paimon #4802: a sort-compaction that is an overwrite loses concurrent inserts."""
    table = make(lake, buckets=1)
    table.upsert([{"id": n, "p": p, "v": 1} for p in ("mon", "tue") for n in range(2)])
    meanwhile(place, lambda t: t.upsert([*row(0, "mon", 2), *row(9, "mon", 2)]))
    assert not table.compact(full=True).skipped  # rows that died meanwhile are found by their ids
    expected = begun() | {(n, p): 1 for p in ("mon", "tue") for n in range(2)} | {(0, "mon"): 2, (9, "mon"): 2}
    assert at(table) == expected
    meanwhile(place, lambda t: t.delete("p = 'mon' and id < 2"))
    table.compact(full=True)
    expected = {key: v for key, v in expected.items() if key not in {(0, "mon"), (1, "mon")}}
    assert at(table) == expected
    table.compact(full=True)
    assert at(table) == at(table.read_optimised()) == expected


@pytest.mark.parametrize(("first", "then"), [("copy-on-write", "on-write"), ("on-read", "on-write")])
def test_paimon_5874_vectors_that_come_later(lake: lakebed.Warehouse, first: str, then: str) -> None:
    """Paimon #5874: enabling deletion vectors later returns duplicates."""
    table = make(lake, merge=first)
    table.upsert(row(1, "mon", 1))
    table.alter(properties={"merge": then})
    table.upsert(row(1, "mon", 2))
    expected = begun() | {(1, "mon"): 2}
    assert at(table) == at(table.read_optimised()) == expected
    assert at(lakebed.read_delta(table.location)) == expected


@pytest.mark.parametrize("merge", MERGES)
def test_paimon_v1_a_failed_upsert_leaves_no_file(orders: lakebed.Table, merge: str) -> None:
    """Paimon V1 leaves a failed write's files behind for ever."""
    orders.alter(properties={"merge": merge})
    before = data_files(orders)

    def batches() -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"id": pa.array([7], pa.int32()), "p": ["new"], "v": pa.array([1], pa.int32())})
        raise RuntimeError("the source broke")

    with pytest.raises(RuntimeError, match="the source broke"):
        orders.upsert(batches())
    with pytest.raises(DataError, match="null in the primary key"):
        orders.upsert([*row(7, "new", 1), {"id": None, "p": "new"}])
    assert data_files(orders) == before


def test_paimon_v1_a_lost_race_leaves_no_file(place: Any, orders: lakebed.Table) -> None:
    """Paimon V1: an upsert that settles twice, and a delete that conflicts, leave only files of versions."""
    meanwhile(place, lambda t: t.upsert([{"id": n, "p": "mon", "v": 1} for n in range(4)]))
    orders.upsert([{"id": n, "p": "mon", "v": 2} for n in range(4)])
    meanwhile(place, lambda t: t.upsert(row(1, "mon", 0)))
    with pytest.raises(ConflictError):
        orders.delete("v = 0")
    assert data_files(orders) == live_files(orders)


@on_both
def test_lakesoul_a_lost_race_is_no_success_with_zero_rows(place: Any, orders: lakebed.Table) -> None:
    """LakeSoul: a conflicting commit returns success with zero rows, and vanishes."""
    meanwhile(place, lambda t: t.overwrite(row(1, "mon", 1)))
    done = orders.upsert(row(2, "mon", 2))
    assert done.metrics["numOutputRows"] == 1
    assert at(orders) == {(1, "mon"): 1, (2, "mon"): 2}
    meanwhile(place, lambda t: t.delete("id = 1"))
    with pytest.raises(ConflictError, match=r"delete conflicts with version \d+ \(delete\)"):
        orders.delete("id = 1 or id = 2")


def test_lakesoul_an_overwrite_does_not_replace_what_others_have_put(place: Any, orders: lakebed.Table) -> None:
    """LakeSoul: an update's first attempt replaces a snapshot that others have appended to."""
    meanwhile(place, lambda t: t.upsert(row(8, "mon", 8)))
    with pytest.raises(ConflictError, match="overwrite conflicts with version 2"):
        orders.overwrite(row(9, "mon", 9))
    assert at(orders) == begun() | {(8, "mon"): 8}


def test_hudi_18943_rows_are_merged_whole_before_they_are_filtered(lake: lakebed.Warehouse) -> None:
    """Hudi #18943: filtering rows before merging makes partial updates incomplete and breaks sequence order."""
    table = lake.create_table(
        "t", "id INT, s INT, a INT, b INT", primary_key=["id"], sequence=["s"], merge="on-read",
        merge_engine="partial-update",
    )  # fmt: skip
    table.upsert([{"id": 1, "s": 5, "a": 1, "b": 1}])
    table.settle()
    table.upsert([{"id": 1, "s": 7, "a": 2}])
    table.upsert([{"id": 1, "s": 6, "a": 3, "b": 3}])
    whole = [{"id": 1, "s": 7, "a": 2, "b": 1}]
    for where in ("s = 7", "a = 2", "b = 1", "a = 2 and b = 1", "s > 5 and a < 3"):
        assert table.to_arrow(where=where).to_pylist() == whole, where
    for where in ("s = 6", "s = 5", "a = 1", "a = 3", "b = 3"):
        assert table.count(where) == 0, where


@pytest.mark.parametrize("merge", MERGES)
def test_hudi_14197_a_predicate_finds_no_stale_row(lake: lakebed.Warehouse, merge: str) -> None:
    """Hudi PR #14197: a non-key predicate that is pushed to one side of a merge returns stale rows."""
    table = make(lake, merge=merge, primary_key=["id"], buckets="dynamic")
    table.upsert(row(1, "tue", 1))
    assert at(table, "id = 1") == {(1, "tue"): 1}
    table.upsert(row(1, "wed", 2))
    for where in ("v = 0 and id = 1", "p = 'mon' and id = 1", "p = 'tue' and id = 1", "v = 1", "v < 2 and id = 1"):
        assert at(table, where) == {}, where
    assert at(table, "v = 2") == at(table, "p = 'wed'") == at(table, "id = 1") == {(1, "wed"): 2}


@on_both
def test_delta_1830_an_ambiguous_failure_is_not_tried_again(
    lake: lakebed.Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Delta #1830: the commit landed, then the store threw: it must not be done again as new, nor its files deleted."""
    table = make(lake, merge_engine="aggregation", properties={"fields.v.aggregate-function": "sum"})
    commit = table._handle.metastore.commit

    def then_lost(prepared: Any) -> Any:
        commit(prepared)
        raise CommitUnknownError("the connection broke during COMMIT")

    with monkeypatch.context() as patched:
        patched.setattr(type(table._handle.metastore), "commit", lambda self, prepared: then_lost(prepared))
        with pytest.raises(CommitUnknownError):
            table.upsert(row(1, "mon", 10), txn=("query", 1))
    assert at(table)[1, "mon"] == 10
    assert table.upsert(row(1, "mon", 10), txn=("query", 1)).repeated
    assert at(table)[1, "mon"] == 10


@on_both
def test_hudi_8611_versions_are_given_when_a_commit_lands(place: Any, orders: lakebed.Table) -> None:
    """Hudi PR #8611: a commit that began early and finished late was skipped: here it has the later version."""
    meanwhile(place, lambda t: t.upsert(row(1, "mon", 1)))
    late = orders.upsert(row(1, "mon", 2))
    assert [(c.version, c.operation) for c in orders.history(2)] == [(late.version, "upsert"), (2, "upsert")]
    assert (late.version, at(orders)[1, "mon"]) == (3, 2)
    assert at(orders.at(version=2))[1, "mon"] == 1


# Conflicts and scale


@pytest.mark.parametrize(
    ("mine", "theirs"),
    [
        (lambda t: t.upsert(row(1, "mon", 1)), lambda t: t.upsert(row(1, "mon", 2))),
        (lambda t: t.upsert(row(1, "mon", 1)), lambda t: t.upsert(row(1, "tue", 2))),
        (lambda t: t.upsert(row(1, "mon", 1)), lambda t: t.delete("p = 'mon'")),
        (lambda t: t.upsert(row(1, "mon", 1)), lambda t: t.delete([{"id": 1, "p": "mon"}])),
        (lambda t: t.upsert(row(1, "mon", 1)), lambda t: t.overwrite(row(5, "mon", 5), where="dynamic")),
        (lambda t: t.upsert(row(1, "mon", 1)), lambda t: t.compact(full=True)),
        (lambda t: t.upsert(row(1, "mon", 1)), lambda t: t.settle()),
        (lambda t: t.upsert(row(1, "mon", 1)), lambda t: t.alter(add={"note": "STRING"})),
        (lambda t: t.upsert(row(1, "mon", 1)), lambda t: t.alter(properties={"merge": "on-write"})),
        (lambda t: t.delete([{"id": 1, "p": "mon"}]), lambda t: t.delete([{"id": 1, "p": "mon"}])),
        (lambda t: t.delete("p = 'mon'"), lambda t: t.delete("p = 'tue'")),
        (lambda t: t.delete("p = 'mon'"), lambda t: t.upsert(row(1, "tue", 1))),
        (
            lambda t: t.overwrite(row(5, "mon", 5), where="dynamic"),
            lambda t: t.overwrite(row(6, "tue", 6), where="dynamic"),
        ),
        (lambda t: t.alter(add={"note": "STRING"}), lambda t: t.upsert(row(1, "mon", 1))),
    ],
)
def test_delta_761_1804_2170_disjoint_keys_do_not_conflict(
    tmp_path: Path, mine: Callable[[Any], object], theirs: Callable[[Any], object]
) -> None:
    """Delta #761, #1804, #2170; delta-rs #2279, #3166: jobs on disjoint keys conflict. Upserts never do at all."""
    results = []
    for interleaved, merge in ((True, "on-write"), (True, "on-read"), (False, "on-write")):
        place = Place("sqlite-local", str(tmp_path / f"{merge}-{interleaved}"), None, {})
        with place.connect() as lake:
            table = make(lake, merge=merge)
            if interleaved:
                meanwhile(place, theirs)
            else:
                theirs(table)
            mine(table)
            results.append(sorted(table.to_arrow(["id", "p", "v"]).to_pylist(), key=str))
    assert results[0] == results[1] == results[2], "the outcome is that of the commit order"


@on_both
def test_ducklake_859_few_rows_of_the_metastore_whatever_the_keys(lake: lakebed.Warehouse) -> None:
    """DuckLake #859: millions of statistics rows; here a file is a row, whatever its keys and columns."""
    schema = pa.schema({f"c{n}": pa.int64() for n in range(300)})
    table = lake.create_table("wide", schema, primary_key=["c0"], buckets=2, merge="on-read")
    table.upsert(pa.table({f"c{n}": range(1000) for n in range(300)}))
    table.upsert(pa.table({f"c{n}": range(500) for n in range(300)}))
    table.settle()
    listed = list(tables_of_metastore.metadata.sorted_tables)
    counts = lake._metastore._database.read(
        lambda c: {t.name: c.exec_driver_sql(f"select count(*) from {t.name}").scalar() for t in listed}
    )
    assert sum(counts.values()) < 60, counts


@pytest.mark.parametrize("key", [["c0"], []], ids=["key", "no key"])
def test_delta_1790_3118_a_merge_of_many_columns(
    local_lake: lakebed.Warehouse, key: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a merge does grows with the number of columns, not with its square: calls are counted, not seconds."""
    plans: list[pa.Table] = []
    evaluation = importlib.import_module("lakebed.core.predicate.evaluate")
    project = evaluation.project

    def planning(expression: Any, table: pa.Table) -> pa.Array:
        plans.append(table)
        return project(expression, table)

    monkeypatch.setattr(evaluation, "project", planning)

    def calls_for(width: int) -> int:
        names = [f"c{n}" for n in range(width)]
        keyed: dict[str, Any] = {"primary_key": key, "buckets": 1} if key else {}
        table = local_lake.create_table(f"t{width}", pa.schema({name: pa.int32() for name in names}), **keyed)
        table.append(pa.table({name: pa.array([1, 2], pa.int32()) for name in names}))
        source = pa.table({name: pa.array([2, 3], pa.int32()) for name in names})
        merge = table.merge(source, on="t.c0 = s.c0").when_matched_update().when_not_matched_insert()
        calls = 0

        def count(_frame: Any, event: str, _argument: Any) -> None:
            nonlocal calls
            calls += event == "call"

        plans.clear()
        threading.setprofile(count)
        sys.setprofile(count)
        try:
            merge.execute()
        finally:
            sys.setprofile(None)
            threading.setprofile(None)  # type: ignore[arg-type]
        assert sorted(table.to_arrow([names[-1]])[names[-1]].to_pylist()) == [1, 2, 3]
        return calls

    calls_for(10)
    narrow, planned = calls_for(400), len(plans)
    assert calls_for(1600) < 5 * narrow
    assert len(plans) == planned, "values that are just columns are not computed"


def test_delta_1790_2484_a_merge_of_ten_thousand_columns(local_lake: lakebed.Warehouse) -> None:
    names = [f"c{n}" for n in range(10_000)]
    table = local_lake.create_table(
        "wide", pa.schema({name: pa.int32() for name in names}), primary_key=["c0"], buckets=1
    )
    table.upsert(pa.table({name: pa.array([1, 2], pa.int32()) for name in names}))
    source = pa.table({name: pa.array([2, 3], pa.int32()) for name in names})
    table.merge(source, on="t.c0 = s.c0").when_matched_update(
        {"c9999": "s.c9998 + 5"}
    ).when_not_matched_insert().execute()
    assert sorted(table.to_arrow(["c9999"])["c9999"].to_pylist()) == [1, 3, 7]


def test_delta_1790_2484_ten_thousand_columns(local_lake: lakebed.Warehouse) -> None:
    """Delta #1790, #2484, #3118; delta-rs #1846, #2107: MERGE hangs with 10,000 columns."""
    names = [f"c{n}" for n in range(10_000)]
    table = local_lake.create_table(
        "wide", pa.schema({name: pa.int32() for name in names}), primary_key=["c0"], buckets=1, merge="on-read"
    )
    table.upsert(pa.table({name: pa.array([1, 2], pa.int32()) for name in names}))
    table.upsert(pa.table({"c0": pa.array([1], pa.int32()), "c9999": pa.array([7], pa.int32())}))
    assert sorted(table.to_arrow(["c9999"])["c9999"].to_pylist()) == [2, 7]
    table.settle()
    assert table.count("c9999 = 1") == 0


def test_paimon_5136_an_upsert_reads_no_file_that_it_does_not_touch(orders: lakebed.Table) -> None:
    """Paimon #5136: MERGE reads untouched files. Files of other buckets and partitions may even be missing."""
    touched = orders.files("p = 'mon' AND id = 1")["path"].to_pylist()
    assert len({file["path"] for file in orders.files("p = 'mon'").to_pylist()}) > len(touched) == 1
    hidden = [f.path for f in orders._store.list() if f.path.endswith(".parquet") and f.path not in touched]
    root = Path(orders.location.removeprefix("file://"))
    for path in hidden:
        (root / path).rename(root.parent / Path(path).name)
    orders.upsert(row(1, "mon", 1))
    assert at(orders, "p = 'mon' AND id = 1") == {(1, "mon"): 1}
    for path in hidden:
        (root.parent / Path(path).name).rename(root / path)
    assert at(orders) == begun() | {(1, "mon"): 1}


LIMITED = """
import resource, sys
import pyarrow as pa
import lakebed

lake = lakebed.connect(sys.argv[1], writer_memory_limit="8MiB")
kind, rows = sys.argv[2], 300_000
table = lake.create_table(
    "t", "id BIGINT, v STRING", primary_key=["id"], buckets="dynamic", merge=kind,
    properties={"dynamic-bucket.target-rows": 50_000},
)
table.upsert([{"id": -1, "v": "warm"}])
table.compact(full=True)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

def batches(times, text):
    for start in range(0, rows, 10_000):
        ids = [(n * 7919) % rows for n in range(start, start + 10_000)]
        yield pa.record_batch({"id": ids, "v": [text * times] * 10_000})

table.upsert(batches(300, "x"))
table.upsert(batches(1, "y"))
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024, table.count("v = 'y'"), table.count())
"""


def test_delta_rs_3371_and_paimon_dynamic_buckets_memory_is_bounded(tmp_path: Path) -> None:
    """delta-rs #3371: memory of a merge; Paimon: 1 GB per 100 M keys of dynamic buckets. Here: the writer's limit."""
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, str(tmp_path / "lake"), "on-read"], capture_output=True, text=True, check=True
    )
    megabytes, fresh, count = map(int, done.stdout.split())
    assert (fresh, count) == (300_000, 300_001)
    assert megabytes < 250, f"{megabytes} MiB for 90 MB of rows and a limit of 8 MiB"


@on_both
def test_paimon_dynamic_buckets_have_many_writers(place: Any, lake: lakebed.Warehouse) -> None:
    """Paimon: one writer per partition, or duplicates. Two writers split the same bucket at the same time."""
    table = lake.create_table(
        "orders", "id INT, p STRING, v INT", primary_key=["id"], properties={"dynamic-bucket.target-rows": 8},
    )  # fmt: skip
    for turn in range(3):
        meanwhile(place, lambda t, turn=turn: t.upsert([{"id": n, "p": "a", "v": turn} for n in range(40)]))
        table.upsert([{"id": n, "p": "a", "v": 10 + turn} for n in range(20, 60)])
        found = {n: v for (n, _), v in at(table).items()}
        assert found == {n: turn if n < 20 else 10 + turn for n in range(60)}
    assert len(set(table.files()["bucket"].to_pylist())) > 4
    table.compact(full=True)
    assert {n: v for (n, _), v in at(table).items()} == {n: 2 if n < 20 else 12 for n in range(60)}


def test_lakesoul_616_compaction_is_cheap_and_controlled(lake: lakebed.Warehouse) -> None:
    """LakeSoul #616: compaction cost and control: only what pays, one partition, and nothing the second time."""
    table = make(lake, properties={"compaction-dead-ratio": 0.5, "compaction-small-files": 4}, buckets=1)
    table.upsert(row(0, "mon", 1))
    assert table.compact().version is None
    for v in (2, 3, 4):
        table.upsert(row(0, "tue", v))
    assert table.compact("p = 'mon'").version is None
    before = {r["path"] for r in table.files("p = 'mon'").to_pylist()}
    table.compact()
    assert {r["path"] for r in table.files("p = 'mon'").to_pylist()} == before
    assert table.files("p = 'tue'").num_rows < 4
    assert table.compact().version is None
    assert at(table) == begun() | {(0, "mon"): 1, (0, "tue"): 4}


# Users' daily pain


def test_hudi_settings_are_said_once(lake: lakebed.Warehouse) -> None:
    """Hudi repeats its keys on every write: here a plain upsert knows key, sequence, kinds and merging."""
    table = lake.create_table(
        "t", "id INT, s INT, v INT", primary_key=["id"], sequence=["s"], merge="on-read",
        properties={"row-kind": "op", "row-kind-values": "d=delete,u=update"},
    )  # fmt: skip
    table.upsert([{"id": 1, "s": 1, "v": 1, "op": "u"}, {"id": 2, "s": 1, "v": 1, "op": "u"}])
    lake.table("t").upsert([{"id": 1, "s": 2, "op": "d"}, {"id": 2, "s": 0, "op": "d"}])
    assert table.to_arrow().to_pylist() == [{"id": 2, "s": 1, "v": 1}]


@pytest.mark.parametrize("merge", MERGES)
def test_hudi_8756_schema_changes_between_upserts(lake: lakebed.Warehouse, merge: str) -> None:
    """Hudi #8756, #10309; Paimon #6026: schema evolution corrupts or is refused."""
    table = make(lake, merge=merge)
    table.alter(add={"note": "STRING"})
    table.upsert([{"id": 1, "p": "mon", "v": 1, "note": "x"}])
    table.alter(rename={"note": "text"}, widen={"v": "BIGINT"})
    table.upsert([{"id": 2, "p": "mon", "v": 2**40, "text": "y"}])
    table.compact(full=True)
    found = {(r["id"], r["p"]): (r["v"], r["text"]) for r in table.to_arrow().to_pylist()}
    expected = dict.fromkeys(begun(), (0, None)) | {(1, "mon"): (1, "x"), (2, "mon"): (2**40, "y")}
    assert found == expected


@on_both
def test_delta_832_upserts_of_several_tables_in_one_commit(lake: lakebed.Warehouse, orders: lakebed.Table) -> None:
    """Delta #832: no multi-table transaction."""
    other = lake.create_table("other", "id INT", primary_key=["id"])
    with pytest.raises(DataError), lake.transaction() as tx:
        tx.table("orders").upsert(row(1, "mon", 1))
        tx.table("other").upsert([{"id": None}])
    assert (orders.version, other.version) == (1, 0)
    with lake.transaction() as tx:
        tx.table("orders").upsert(row(1, "mon", 1))
        tx.table("other").upsert([{"id": 1}])
    assert tx.versions == {"default.orders": 2, "default.other": 1}


def test_delta_3341_a_primary_key_is_kept(lake: lakebed.Warehouse) -> None:
    """Delta #3341: no primary key. No order of operations makes a key appear twice."""
    steps: list[Callable[[lakebed.Table], object]] = [
        lambda t: t.append(row(1, "mon", 1)),
        lambda t: t.overwrite([*row(1, "mon", 2), *row(1, "mon", 3)], where="p = 'mon'"),
        lambda t: t.restore(1),
        lambda t: t.compact(full=True),
    ]
    for number, order in enumerate(itertools.permutations(steps, 3)):
        if number % 6:
            continue
        table = make(lake, merge=MERGES[number % 3])
        for step in order:
            step(table)
            at(table)
        lake.drop_table("orders", purge=True)
