"""The merge engines' fold against the dict model, without any table: every engine, function and kind of row."""

from __future__ import annotations

import itertools
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from key_reading import key_bag
from key_shapes import ALL_KINDS, Drawing, Shape, shapes
from model import State

import lakebed
from lakebed.core.file_tags import KIND_COLUMN, ROW_VERSION_COLUMN
from lakebed.core.merging.fold import fold
from lakebed.core.merging.spec import MergeSpec

NUMBERS = itertools.count()
CODES = {"+I": 0, "-U": 1, "+U": 2, "-D": 3}


class Folded:
    """The state of a table as Arrow rows, kept by nothing but ``fold``."""

    def __init__(self, lake: lakebed.Warehouse, shape: Shape) -> None:
        table = lake.create_table(f"t{next(NUMBERS)}", shape.ddl, **shape.create)
        self.schema = pa.schema([f.with_nullable(True) for f in table.schema])
        self.spec = MergeSpec.of(table._point().metadata)
        self.key = shape.create["primary_key"]
        self.state: pa.Table | None = None

    def upsert(self, rows: list[dict[str, Any]], kinds: list[str], version: int) -> None:
        batch = pa.Table.from_pylist(rows, self.schema)
        batch = batch.append_column(KIND_COLUMN, pa.array([CODES[k] for k in kinds], pa.int8()))
        batch = batch.append_column(ROW_VERSION_COLUMN, pa.array([version] * len(rows), pa.int64()))
        touched = {tuple(row[name] for name in self.key) for row in rows}
        before = self.state.to_pylist() if self.state is not None else []
        known = [tuple(row[name] for name in self.key) in touched for row in before]
        ours = None if self.state is None else self.state.filter(pa.array(known, pa.bool_()))
        folded = fold(ours, batch, self.spec)
        rest = [] if self.state is None else [self.state.filter(pa.array([not k for k in known], pa.bool_()))]
        self.state = pa.concat_tables([*rest, folded.select(batch.column_names)], promote_options="permissive")

    def live(self) -> pa.Table:
        if self.state is None:
            return self.schema.empty_table()
        dead = [kind == CODES["-D"] for kind in self.state[KIND_COLUMN].to_pylist()]
        return self.state.filter(pa.array([not d for d in dead], pa.bool_())).select(self.schema.names)


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> lakebed.Warehouse:
    return lakebed.connect(tmp_path_factory.mktemp("folds"))


@settings(max_examples=60, deadline=None)
@given(shape=shapes(), data=st.data())
def test_the_fold_is_the_model(lake: lakebed.Warehouse, shape: Shape, data: st.DataObject) -> None:
    compare(lake, shape, data)


@pytest.mark.soak
@settings(max_examples=5000, deadline=None, derandomize=False)
@given(shape=shapes(), data=st.data())
def test_the_fold_is_the_model_at_length(lake: lakebed.Warehouse, shape: Shape, data: st.DataObject) -> None:
    compare(lake, shape, data)


def compare(lake: lakebed.Warehouse, shape: Shape, data: st.DataObject) -> None:
    folded, model = Folded(lake, shape), shape.model()
    for version in range(1, data.draw(st.integers(2, 6))):
        drawing = Drawing(shape, model, data)
        rows = drawing.rows()
        if not rows:
            continue
        kinds = drawing.kinds(rows)
        assert set(kinds) <= set(ALL_KINDS)
        folded.upsert(rows, kinds, version)
        model.upsert(rows, kinds)
        assert key_bag(folded.live()) == State(shape.columns, tuple(model.now.rows.values())).visible()
        remembered = {k for k, slot in model.now.slots.items() if slot.row is None}
        assert tombstones(folded) == remembered


def tombstones(folded: Folded) -> set[tuple[Any, ...]]:
    rows = [] if folded.state is None else folded.state.to_pylist()
    return {tuple(row[name] for name in folded.key) for row in rows if row[KIND_COLUMN] == CODES["-D"]}
