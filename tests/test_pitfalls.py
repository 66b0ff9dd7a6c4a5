"""What went wrong elsewhere (see PITFALLS in the design papers), each line shown not to happen here."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakebed
from lakebed.core.steps import Step, observe
from lakebed.metastore import schema as tables_of_metastore


@pytest.fixture(params=["sqlite-local", "postgres-local"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    from conftest import make_place

    return make_place(request, request.param, tmp_path)


@pytest.fixture
def lake(place: Any) -> Iterator[lakebed.Warehouse]:
    with place.connect() as opened:
        yield opened


@pytest.fixture
def orders(lake: lakebed.Warehouse) -> lakebed.Table:
    table = lake.create_table("orders", "id BIGINT, dt STRING", partition_by=["dt"])
    table.append([{"id": 1, "dt": "mon"}, {"id": 2, "dt": "tue"}])
    return table


def ids(table: lakebed.Table) -> list[int]:
    return sorted(table.to_arrow()["id"].to_pylist())


def meanwhile(place: Any, other: Callable[[lakebed.Table], object]) -> None:
    """Let another writer commit when the next commit of this process is ready, but not begun."""
    done = threading.Event()

    def interrupt(step: Step) -> None:
        if step is Step.COMMIT_PREPARED and not done.is_set():
            done.set()
            with place.connect() as second:
                other(second.table("orders"))

    stop = observe(interrupt)
    interrupt.stop = stop  # type: ignore[attr-defined]


@pytest.fixture(autouse=True)
def _no_observer_stays() -> Iterator[None]:
    from lakebed.core import steps

    yield
    steps._observers.clear()


def test_paimon_8226_5762_two_writers_both_succeed_and_both_stay(place: Any, orders: lakebed.Table) -> None:
    meanwhile(place, lambda t: t.append([{"id": 4, "dt": "mon"}]))
    orders.append([{"id": 3, "dt": "mon"}])
    assert ids(orders) == [1, 2, 3, 4]


def test_lakesoul_a_conflicting_commit_is_an_error_not_a_silent_nothing(place: Any, orders: lakebed.Table) -> None:
    meanwhile(place, lambda t: t.delete("id = 1"))
    with pytest.raises(lakebed.ConflictError, match=r"delete conflicts with version 2 \(delete\)"):
        orders.delete("id = 1 or id = 2")
    assert ids(orders) == [2]


def test_lakesoul_an_overwrite_does_not_replace_what_others_have_appended(place: Any, orders: lakebed.Table) -> None:
    meanwhile(place, lambda t: t.append([{"id": 4, "dt": "mon"}]))
    with pytest.raises(lakebed.ConflictError, match="overwrite conflicts with version 2"):
        orders.overwrite([{"id": 9, "dt": "mon"}])
    assert ids(orders) == [1, 2, 4]


@pytest.mark.parametrize(
    ("mine", "theirs"),
    [
        (lambda t: t.delete("dt = 'mon'"), lambda t: t.delete("dt = 'tue'")),
        (lambda t: t.delete("dt = 'mon'"), lambda t: t.append([{"id": 3, "dt": "tue"}])),
        (lambda t: t.delete("id = 1"), lambda t: t.append([{"id": 3, "dt": "mon"}])),
        (
            lambda t: t.overwrite([{"id": 5, "dt": "mon"}], where="dt = 'mon'"),
            lambda t: t.overwrite([{"id": 6, "dt": "tue"}], where="dt = 'tue'"),
        ),
        (
            lambda t: t.overwrite([{"id": 5, "dt": "mon"}], where="dynamic"),
            lambda t: t.overwrite([{"id": 6, "dt": "tue"}], where="dynamic"),
        ),
        (lambda t: t.append([{"id": 5, "dt": "mon"}]), lambda t: t.delete("dt = 'mon'")),
        (lambda t: t.append([{"id": 5, "dt": "mon"}]), lambda t: t.alter(add={"note": "STRING"})),
        (lambda t: t.append([{"id": 5, "dt": "mon"}]), lambda t: t.alter(rename={"id": "key"})),
        (lambda t: t.alter(add={"note": "STRING"}), lambda t: t.append([{"id": 5, "dt": "mon"}])),
    ],
)
def test_delta_761_1804_2170_disjoint_work_does_not_conflict(
    place: Any, orders: lakebed.Table, mine: Callable[[Any], object], theirs: Callable[[Any], object]
) -> None:
    meanwhile(place, theirs)
    mine(orders)
    assert orders.version == 3


def test_paimon_v1_a_failed_write_leaves_no_file(orders: lakebed.Table) -> None:
    before = {f.path for f in orders._store.list()}

    def batches() -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"id": [7], "dt": ["new-partition"]})
        raise RuntimeError("the source broke")

    with pytest.raises(RuntimeError, match="the source broke"):
        orders.append(batches())
    assert {f.path for f in orders._store.list()} == before


def test_a_conflicting_commit_leaves_no_file(place: Any, orders: lakebed.Table) -> None:
    meanwhile(place, lambda t: t.append([{"id": 4, "dt": "mon"}]))
    with pytest.raises(lakebed.ConflictError):
        orders.overwrite([{"id": 9, "dt": "wed"}])
    live = {row["path"] for row in orders.files().to_pylist()}
    found = {f.path for f in orders._store.list() if f.path.endswith(".parquet")}
    assert found == live


def test_ducklake_859_one_row_per_file_whatever_the_columns(lake: lakebed.Warehouse) -> None:
    wide = lake.create_table("wide", pa.schema({f"c{n}": pa.int64() for n in range(500)}))
    wide.append(pa.table({f"c{n}": [n] for n in range(500)}))
    counts = lake._metastore._database.read(
        lambda c: {t.name: c.exec_driver_sql(f"select count(*) from {t.name}").scalar() for t in _all_tables()}
    )
    assert sum(counts.values()) < 20


def _all_tables() -> list[Any]:
    return list(tables_of_metastore.metadata.sorted_tables)


@pytest.mark.parametrize(
    "place", ["sqlite-local", pytest.param("postgres-local", marks=pytest.mark.soak)], indirect=True
)
def test_delta_1790_ten_thousand_columns(lake: lakebed.Warehouse) -> None:
    schema = pa.schema({f"c{n}": pa.int32() for n in range(10_000)})
    wide = lake.create_table("wide", schema)
    wide.append(pa.table({f"c{n}": pa.array([n, -n], pa.int32()) for n in range(10_000)}, schema=schema))
    wide.delete("c9999 < 0")
    assert wide.to_arrow(["c0", "c9999"]).to_pylist() == [{"c0": 0, "c9999": 9999}]
    assert wide.to_arrow().num_columns == 10_000


def test_delta_832_several_tables_in_one_commit(lake: lakebed.Warehouse, orders: lakebed.Table) -> None:
    other = lake.create_table("other", "id BIGINT")
    with pytest.raises(ZeroDivisionError), lake.transaction() as tx:
        tx.table("orders").append([{"id": 5, "dt": "mon"}])
        tx.table("other").append([{"id": 5}])
        _ = 1 / 0
    assert (orders.version, other.version) == (1, 0)


def test_hudi_8756_an_added_column_is_null_in_old_rows(orders: lakebed.Table) -> None:
    orders.alter(add={"note": "STRING"})
    orders.append([{"id": 3, "dt": "mon", "note": "x"}])
    assert sorted(map(str, orders.to_arrow()["note"].to_pylist())) == ["None", "None", "x"]


def test_hudi_14197_a_predicate_never_brings_back_a_dead_row(orders: lakebed.Table) -> None:
    orders.delete("id = 1")
    assert orders.to_arrow(where="id = 1").num_rows == 0
    assert orders.count("dt = 'mon'") == 0


def test_one_huge_row_and_an_all_null_column(lake: lakebed.Warehouse) -> None:
    table = lake.create_table("odd", "s STRING, n INT")
    huge = "ü" * (8 << 20)
    table.append([{"s": huge, "n": None}, {"s": None, "n": None}])
    found = table.to_arrow(where="s is not null").to_pylist()
    assert found == [{"s": huge, "n": None}]
    assert table.count("n is null") == 2
