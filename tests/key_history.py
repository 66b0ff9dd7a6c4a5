"""The frame of random histories of primary-key tables: a table, two connections, the model, and what must hold."""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Collection
from typing import Any

import pyarrow as pa
import pytest
from change_model import check_key_changes
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from key_files import check_files
from key_model import KeyModel, KeyState
from key_reading import check_outside, key_bag
from key_shapes import Drawing, Shape, shapes
from model import State

import lakebed
from lakebed.engine import tiers

Told = Callable[[KeyModel], object]
"""The same change, of the model."""
LOGGED = 4
"""How many old versions of the open log are read at the end of a history."""


class KeyHistory(RuleBasedStateMachine):
    """One primary-key table of any kind, two connections that write to it, and its model."""

    metastore_url: Callable[[], str | None] = staticmethod(lambda: None)

    @initialize(shape=shapes())
    def begin(self, shape: Shape) -> None:
        self.shape = shape
        self.patch = pytest.MonkeyPatch()
        for name in ("FULL", "ALMOST_FULL"):
            self.patch.setattr(tiers, name, shape.full)
        self.root = tempfile.mkdtemp()
        self.url = type(self).metastore_url()
        self.lakes = [self.connect(number) for number in range(2)]
        self.lakes[0].create_table("t", shape.ddl, **shape.create)
        self.model = shape.model()
        self.model.now.settled()
        self.sure = {0}
        """The versions that must be readable."""
        self.log_begins = 0

    def connect(self, number: int) -> Any:
        """One of the two connections."""
        return lakebed.connect(self.root, self.url, **self.shape.options)

    def teardown(self) -> None:
        if hasattr(self, "model"):
            try:
                self.check_every_version()
            finally:
                self.patch.undo()
                for lake in self.lakes:
                    lake.close()
                shutil.rmtree(self.root)

    def table(self, data: st.DataObject | None = None) -> lakebed.Table:
        """The table through either connection."""
        return self.lakes[0 if data is None else data.draw(st.integers(0, 1), label="connection")].table("t")

    def drawing(self, data: st.DataObject) -> Drawing:
        return Drawing(self.shape, self.model, data)

    @property
    def version(self) -> int:
        return len(self.model.states) - 1

    def do(self, change: Callable[[], object], told: Told, most: int = 1, least: int = 0) -> Any:
        """Make a change, then tell the model; a change that commits nothing changes nothing.

        Versions after the first only settle or pack rows.
        """
        began = self.version
        result = change()
        between = tuple(state.slots for state in self.model.states[began:-1])
        made = self.table().version - self.version
        compacts = bool(self.shape.create["properties"]["compact-on-write"])
        assert least <= made <= most + (compacts and most > 0), f"{made} versions"
        if not made:
            draft = KeyModel(self.model.rules, list(self.model.states), dict(self.model.tags), self.model.next_number)
            told(draft)
            assert draft.now.visible() == self.model.now.visible()
        for number in range(made):
            if number == 0:
                told(self.model)
            else:
                self.model.settle(everything=False)
            self.model.now.between += between
            self.sure.add(self.version)
        return result

    # --- what must hold

    @invariant()
    def newest_version_is_the_model(self) -> None:
        if hasattr(self, "model"):
            self.check_now()

    def check_now(self) -> None:
        """What both connections read now is the model, and so is the open log."""
        state = self.model.now
        for number, lake in enumerate(self.lakes):
            table = lake.table("t")
            assert table.version == self.version
            assert table.schema.names == [c.name for c in state.columns]
            if number == 0 or self.version % 3 == 0:
                assert key_bag(table.to_arrow()) == state.visible()
                assert table.count() == len(state.rows)
        self.adopt_settled()
        assert key_bag(lakebed.read_delta(self.table().location).to_arrow()) == settled_bag(state)

    def adopt_settled(self) -> None:
        """What is settled is one of the possible states, version by version."""
        for version, state in enumerate(self.model.states):
            if state._settled is None:
                table = self.table()
                view = table.read_optimised() if state is self.model.now else table.at(version=version).read_optimised()
                state.adopt(key_bag(view.to_arrow()))

    @rule(data=st.data())
    def read(self, data: st.DataObject) -> None:
        """With a predicate and some columns: no stale row, and no live one hidden."""
        text, test = self.drawing(data).predicate()
        names = [c.name for c in self.model.now.columns]
        chosen = data.draw(st.lists(st.sampled_from(names), min_size=1, max_size=3, unique=True))
        table, state = self.table(data), self.model.now
        for view, rows in ((table, state.rows.values()), (table.read_optimised(), state.settled().values())):
            found = tuple(row for row in rows if test(self.model.named(row)))
            columns = tuple(next(c for c in state.columns if c.name == name) for name in chosen)
            expected = State(columns, found).visible()
            assert key_bag(view.to_arrow(chosen, text)) == expected
            assert view.count(text) == len(found)
            assert _bag_of_batches(view.to_batches(chosen, text)) == expected
            assert _bag_of_batches(view.to_batches()) == State(state.columns, tuple(rows)).visible()

    @rule()
    def read_from_outside(self) -> None:
        """Other engines see the settled rows."""
        check_outside(self.table(), settled_bag(self.model.now))

    @rule()
    def read_history(self) -> None:
        self.check_every_version()

    @rule(data=st.data())
    def read_changes(self, data: st.DataObject) -> None:
        known = sorted(self.sure)
        start, end = sorted(data.draw(st.lists(st.sampled_from(known), min_size=2, max_size=2)))
        check_key_changes(self.table(data), self.model.states, start, end)

    @rule()
    def look_at_files(self) -> None:
        check_files(self.table(), self.shape)

    def check_every_version(self) -> None:
        table = self.table()
        self.adopt_settled()
        check_key_changes(table, self.model.states, min(self.sure), self.version)
        for version, state in enumerate(self.model.states):
            if version in self.sure:
                self.check_version(table.at(version=version), state)
                continue
            try:
                view = table.at(version=version)
                found = key_bag(view.to_arrow())
            except lakebed.LakebedError:
                continue
            assert found == state.visible()
        for tag, version in self.model.tags.items():
            assert table.at(tag=tag).version == version
        self.check_log([version for version in sorted(self.sure) if version >= self.log_begins])
        check_files(table, self.shape)

    def check_version(self, view: lakebed.TableView, state: KeyState) -> None:
        assert key_bag(view.to_arrow()) == state.visible()
        assert view.count() == len(state.rows)
        assert key_bag(view.read_optimised().to_arrow()) == settled_bag(state)

    def check_log(self, versions: Collection[int]) -> None:
        """The open log of some versions, the first and the last among them, tells what is settled."""
        sample = list(versions)[:: max(1, len(versions) // LOGGED)]
        for version in sample:
            view = lakebed.read_delta(self.table().location, version)
            assert key_bag(view.to_arrow()) == settled_bag(self.model.states[version]), f"the log of version {version}"


def settled_bag(state: KeyState) -> Counter[tuple[Any, ...]]:
    return State(state.columns, tuple(state.settled().values())).visible()


def _bag_of_batches(batches: Any) -> Counter[tuple[Any, ...]]:
    found = list(batches)
    return key_bag(pa.Table.from_batches(found)) if found else Counter()
