"""Direct addressing: when it is used, and that it gives what the other way does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import lakebed
from lakebed.engine import resolve
from lakebed.engine.resolving import dense, places

_REAL = dense.resolve_dense


@pytest.fixture
def used(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each resolution went by direct addressing."""
    found: list[bool] = []

    def watched(*arguments: Any) -> Any:
        answer = _REAL(*arguments)
        found.append(answer is not None)
        return answer

    monkeypatch.setattr(resolve, "resolve_dense", watched)
    return found


def upserts(tmp_path: Path, ddl: str, batches: list[list[dict[str, Any]]], **settings: Any) -> lakebed.Table:
    table = lakebed.connect(tmp_path).create_table("t", ddl, primary_key=["id"], buckets=1, **settings)
    for rows in batches:
        table.upsert(rows)
    return table


def test_whole_numbers_that_are_near_each_other(tmp_path: Path, used: list[bool]) -> None:
    table = upserts(tmp_path, "id BIGINT", [[{"id": -5}, {"id": 7}], [{"id": 7}, {"id": 9}]])
    assert used == [True, True]
    assert sorted(table.to_arrow()["id"].to_pylist()) == [-5, 7, 9]


@pytest.mark.parametrize(
    ("ddl", "settings", "batches"),
    [
        ("id STRING", {}, [[{"id": "a"}], [{"id": "a"}]]),
        ("id BIGINT", {}, [[{"id": -(2**63)}, {"id": 2**63 - 1}], [{"id": 0}, {"id": 2**62}]]),
        ("id BIGINT, ts INT", {"sequence": ["ts"]}, [[{"id": 1, "ts": 2}], [{"id": 1, "ts": 1}]]),
        ("id BIGINT", {"merge_engine": "first-row"}, [[{"id": 1}], [{"id": 1}]]),
    ],
    ids=["text", "far apart", "sequence", "first-row"],
)
def test_what_is_resolved_the_other_way(
    tmp_path: Path, used: list[bool], ddl: str, settings: dict[str, Any], batches: list[list[dict[str, Any]]]
) -> None:
    table = upserts(tmp_path, ddl, batches, **settings)
    assert used
    assert not any(used)
    assert table.count() == len({row["id"] for rows in batches for row in rows})


def test_deletes_are_resolved_the_other_way(tmp_path: Path, used: list[bool]) -> None:
    table = upserts(tmp_path, "id BIGINT", [[{"id": 1}, {"id": 2}]])
    table.delete([{"id": 1}])
    assert used == [True, False]
    assert table.to_arrow()["id"].to_pylist() == [2]


BATCHES = st.lists(st.lists(st.integers(-40, 40), min_size=1, max_size=40), min_size=1, max_size=6)


@given(BATCHES, st.sampled_from(["on-read", "on-write"]), st.booleans(), st.sampled_from([0, -(2**40), 2**40]))
@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])
@pytest.mark.parametrize(
    ("few", "together"),
    [(dense._FEW, dense._ROWS_AT_ONCE), (dense._FEW, 1), (dense._FEW, 60), (0, dense._ROWS_AT_ONCE)],
    ids=["looked up together", "one by one", "some together", "searched"],
)
def test_the_last_row_of_each_key_is_live(
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
    few: int,
    together: int,
    batches: list[list[int]],
    merge: str,
    large: bool,
    first: int,
) -> None:
    monkeypatch.setattr(dense, "_FEW", few)
    monkeypatch.setattr(dense, "_ROWS_AT_ONCE", together)
    place = tmp_path_factory.mktemp("lake")
    given_rows = [[{"id": first + key, "n": number} for key in keys] for number, keys in enumerate(batches)]
    if large:
        given_rows.insert(0, [{"id": first + key, "n": -1} for key in range(-500, 500)])
    table = upserts(place, "id BIGINT, n INT", given_rows, merge=merge)
    model = {row["id"]: row["n"] for rows in given_rows for row in rows}
    assert {row["id"]: row["n"] for row in table.to_arrow().to_pylist()} == model
    assert table.count() == len(model)
    table.settle()
    assert table.read_optimised().count() == len(model)
    assert all((array == places.NOBODY).all() for array in places.free._arrays)


def test_arrays_are_used_again() -> None:
    kept = places.FreePlaces()
    first = kept.take(1000)
    assert len(first) >= 1000
    first[[3, 7]] = 1
    kept.give_back(first, [np.array([3]), np.array([7])])
    again = kept.take(1001)
    assert again is first
    assert (again == places.NOBODY).all()
    again[:5] = 2
    kept.give_back(again, 5)
    assert (kept.take(1) == places.NOBODY).all()


def test_few_arrays_are_kept_and_none_that_is_very_large() -> None:
    kept = places.FreePlaces()
    for size in (100, 200, 300, 400, 500, 600):
        kept.give_back(np.full(size, places.NOBODY, np.uint8), 0)
    assert [len(array) for array in kept._arrays] == [300, 400, 500, 600]
    kept.give_back(np.full(places._LARGEST + 1, places.NOBODY, np.uint8), 0)
    assert len(kept._arrays) == 4


def test_an_array_that_somebody_failed_with_is_not_used_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, used: list[bool]
) -> None:
    table = upserts(tmp_path, "id BIGINT", [[{"id": key} for key in range(50)]])
    kept = places.FreePlaces()
    monkeypatch.setattr(places, "free", kept)

    def fails(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(dense._Range, "losers", fails)
        table.upsert([{"id": key} for key in range(30)])
    assert kept._arrays == []
    table.upsert([{"id": 60}])
    assert table.count() == 51
