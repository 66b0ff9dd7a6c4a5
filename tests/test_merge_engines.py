"""Every merge engine in every merge mode, through the table: reads, settles and compactions against the dict model."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from key_model import KeyModel
from key_reading import key_bag
from key_shapes import ENGINES, MERGES, Drawing, Shape, shapes

import lakebed
from lakebed.engine import keyed_read
from lakebed.engine.combining.places import find_places

NUMBERS = itertools.count()
PAIRS = list(itertools.product(ENGINES, MERGES))


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> lakebed.Warehouse:
    return lakebed.connect(tmp_path_factory.mktemp("engines"), sync=False)


on_every_pair = pytest.mark.parametrize(
    ("engine", "merge"), PAIRS, ids=[f"{engine}-{merge}" for engine, merge in PAIRS]
)


@on_every_pair
@settings(max_examples=3, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_engine_in_mode(lake: lakebed.Warehouse, engine: str, merge: str, data: st.DataObject) -> None:
    compare(lake, engine, merge, data)


@pytest.mark.soak
@on_every_pair
@settings(max_examples=100, deadline=None, derandomize=False, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_engine_in_mode_at_length(lake: lakebed.Warehouse, engine: str, merge: str, data: st.DataObject) -> None:
    compare(lake, engine, merge, data)


def compare(lake: lakebed.Warehouse, engine: str, merge: str, data: st.DataObject) -> None:
    shape = data.draw(shapes().filter(lambda one: one.rules.engine == engine))
    shape = replace(shape, create={**shape.create, "merge": merge})
    table = lake.create_table(f"t{next(NUMBERS)}", shape.ddl, **shape.create)
    model = shape.model()
    for _ in range(data.draw(st.integers(2, 5))):
        upsert(table, shape, model, data)
        check(table, shape, model, data)
        maintain(table, data)
        assert key_bag(table.to_arrow()) == model.now.visible()
    table.settle()
    check(table, shape, model, data)
    assert key_bag(table.read_optimised().to_arrow()) == model.now.visible()
    table.compact(full=True)
    check(table, shape, model, data)


def upsert(table: lakebed.Table, shape: Shape, model: KeyModel, data: st.DataObject) -> None:
    drawing = Drawing(shape, model, data)
    rows = drawing.rows()
    kinds = drawing.kinds(rows)
    if rows:
        table.upsert([{**row, "op": kind} for row, kind in zip(rows, kinds, strict=True)], row_kind="op")
        model.upsert(rows, kinds)


def maintain(table: lakebed.Table, data: st.DataObject) -> None:
    what = data.draw(st.sampled_from(["nothing", "settle", "compact"]))
    if what == "settle":
        table.settle()
    elif what == "compact":
        table.compact()


def check(table: lakebed.Table, shape: Shape, model: KeyModel, data: st.DataObject) -> None:
    """All rows; some columns; the rows of a predicate, batch by batch."""
    assert key_bag(table.to_arrow()) == model.now.visible()
    names = [column.name for column in model.now.columns]
    some = data.draw(st.lists(st.sampled_from(names), min_size=1, max_size=3, unique=True))
    text, test, *_ = Drawing(shape, model, data).predicate()
    passing = {key: row for key, row in model.now.rows.items() if test(model.named(row))}
    visible = replace(model.now, slots={key: model.now.slots[key] for key in passing}, _settled=None).visible()
    expected: Counter[Any] = Counter()
    for row, times in visible.items():
        expected[tuple(row[names.index(name)] for name in some)] += times
    assert key_bag(table.to_arrow(columns=some, where=text)) == expected


def test_keys_are_matched_once_however_often_they_are_read(
    lake: lakebed.Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []

    def counted(*arguments: Any) -> Any:
        calls.append(arguments)
        return find_places(*arguments)

    monkeypatch.setattr(keyed_read, "find_places", counted)
    create: dict[str, Any] = {"primary_key": ["id"], "buckets": 1, "merge": "on-read"}
    table = lake.create_table("read_often", "id BIGINT, a STRING, b STRING", merge_engine="partial-update", **create)
    table.upsert([{"id": 1, "a": "x"}])
    table.upsert([{"id": 1, "b": "y"}])
    assert table.to_arrow().to_pylist() == [{"id": 1, "a": "x", "b": "y"}]
    assert table.to_arrow(columns=["b"]).to_pylist() == [{"b": "y"}]
    assert len(calls) == 1
