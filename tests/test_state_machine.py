"""Random histories against the dict model, reopened now and then, on both metastores."""

from __future__ import annotations

import datetime as dt
import shutil
import tempfile
from collections.abc import Callable
from typing import Any

import pytest
from change_model import check_changes
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from model import ModelColumn, ModelTable, State, bag

import lakebed

COLUMNS = (
    ModelColumn(0, "id", "BIGINT"),
    ModelColumn(1, "part", "STRING"),
    ModelColumn(2, "n", "INT"),
    ModelColumn(3, "x", "FLOAT"),
)
DDL = "id BIGINT NOT NULL, part STRING, n INT, x FLOAT"
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "BIGINT": st.integers(-(2**63), 2**63 - 1),
    "INT": st.integers(-(2**31), 2**31 - 1),
    "FLOAT": st.floats(width=32, allow_nan=False),
    "DOUBLE": st.floats(allow_nan=False),
    "STRING": st.text(max_size=6),
    "DATE": st.dates(dt.date(1, 1, 1), dt.date(9999, 12, 31)),
    "TIMESTAMP_NTZ": st.datetimes(dt.datetime(1900, 1, 1), dt.datetime(2100, 1, 1)),
    "DECIMAL(12,3)": st.decimals(-(10**8), 10**8, places=3, allow_nan=False),
    "ARRAY<INT>": st.lists(st.one_of(st.none(), st.integers(-5, 5)), max_size=3),
    "BOOLEAN": st.booleans(),
}
WIDER = {"INT": "BIGINT", "FLOAT": "DOUBLE", "DATE": "TIMESTAMP_NTZ"}
PARTS = st.one_of(st.none(), st.sampled_from(["a", "b", "ü/x=1 %", "c"]))


class History(RuleBasedStateMachine):
    """One partitioned table, one side table for transactions, and their models."""

    metastore_url: Callable[[], str | None] = staticmethod(lambda: None)

    @initialize()
    def begin(self) -> None:
        self.root = tempfile.mkdtemp()
        self.url = type(self).metastore_url()
        self.lake = self.connect()
        self.lake.create_table("t", DDL, partition_by=["part"], properties={"checkpoint-interval": 4})
        self.lake.create_table("side", "id BIGINT NOT NULL, part STRING, n INT, x FLOAT")
        self.models = {"t": ModelTable([State(COLUMNS)]), "side": ModelTable([State(COLUMNS)])}

    def connect(self) -> Any:
        return lakebed.connect(self.root, self.url)

    def teardown(self) -> None:
        if hasattr(self, "lake"):
            for name, model in self.models.items():
                self.check_every_version(name, model)
            self.lake.close()
            shutil.rmtree(self.root)

    @property
    def model(self) -> ModelTable:
        return self.models["t"]

    def rows(self, data: st.DataObject, model: ModelTable, part: Any = PARTS) -> list[dict[str, Any]]:
        def row() -> dict[str, Any]:
            made: dict[str, Any] = {}
            for column in model.now.columns:
                if column.name == "part":
                    made["part"] = data.draw(part)
                elif column.number == 0:
                    made[column.name] = data.draw(st.integers(0, 20))
                elif data.draw(st.booleans()):
                    made[column.name] = data.draw(VALUES[column.type])
            return made

        return [row() for _ in range(data.draw(st.integers(0, 4)))]

    def key_name(self, model: ModelTable) -> str:
        return next(c.name for c in model.now.columns if c.number == 0)

    @rule(data=st.data())
    def append(self, data: st.DataObject) -> None:
        rows = self.rows(data, self.model)
        self.lake.table("t").append(rows)
        self.model.append(rows)

    @rule(data=st.data())
    def overwrite(self, data: st.DataObject) -> None:
        rows = self.rows(data, self.model)
        self.lake.table("t").overwrite(rows)
        self.model.overwrite(rows)

    @rule(data=st.data(), part=st.sampled_from(["a", "b"]))
    def overwrite_where(self, data: st.DataObject, part: str) -> None:
        rows = self.rows(data, self.model, st.just(part))
        self.lake.table("t").overwrite(rows, where=f"part = '{part}'")
        self.model.overwrite_where(rows, "part", part)

    @rule(data=st.data())
    def overwrite_dynamic(self, data: st.DataObject) -> None:
        rows = self.rows(data, self.model)
        self.lake.table("t").overwrite(rows, where="dynamic")
        self.model.overwrite_partitions(rows, "part")

    @rule(limit=st.integers(0, 20), sign=st.sampled_from(["<", ">=", "="]))
    def delete(self, limit: int, sign: str) -> None:
        tests = {"<": lambda v: v < limit, ">=": lambda v: v >= limit, "=": lambda v: v == limit}
        done = self.lake.table("t").delete(f"`{self.key_name(self.model)}` {sign} {limit}")
        assert done.metrics.get("numDeletedRows", 0) == self.model.delete(self.key_name(self.model), tests[sign])

    @rule(part=st.sampled_from(["a", "ü/x=1 %"]))
    def delete_partition(self, part: str) -> None:
        self.lake.table("t").delete(f"part = '{part}'")
        self.model.delete("part", lambda v: v == part)

    @rule(data=st.data())
    def add_column(self, data: st.DataObject) -> None:
        name = f"c{len(self.model.states)}"
        kind = data.draw(st.sampled_from(sorted(VALUES)))
        self.lake.table("t").alter(add={name: kind})
        self.model.add_column(name, kind)

    @precondition(lambda self: len(self.model.now.columns) > 4)
    @rule(data=st.data())
    def drop_column(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from([c.name for c in self.model.now.columns if c.number > 1]))
        self.lake.table("t").alter(drop=[f"`{name}`"])
        self.model.drop_column(name)

    @rule(data=st.data())
    def rename_column(self, data: st.DataObject) -> None:
        old = data.draw(st.sampled_from([c.name for c in self.model.now.columns if c.number != 1]))
        new = data.draw(st.sampled_from(["y", "ä b", "dotted.name"])) + str(len(self.model.states))
        self.lake.table("t").alter(rename={f"`{old}`": new})
        self.model.rename_column(old, new)

    @precondition(lambda self: any(c.type in WIDER for c in self.model.now.columns))
    @rule(data=st.data())
    def widen_column(self, data: st.DataObject) -> None:
        column = data.draw(st.sampled_from([c for c in self.model.now.columns if c.type in WIDER]))
        self.lake.table("t").alter(widen={f"`{column.name}`": WIDER[column.type]})
        self.model.widen_column(column.name, WIDER[column.type])

    @rule(data=st.data())
    def restore(self, data: st.DataObject) -> None:
        version = data.draw(st.integers(0, len(self.model.states) - 1))
        self.lake.table("t").restore(version)
        self.model.restore(version)

    @rule(full=st.booleans())
    def compact(self, full: bool) -> None:
        if self.lake.table("t").compact(full=full).version is not None:
            self.model.states.append(self.model.now)

    @rule(data=st.data())
    def read_changes(self, data: st.DataObject) -> None:
        end = data.draw(st.integers(0, len(self.model.states) - 1))
        check_changes(self.lake.table("t"), self.model.states, data.draw(st.integers(0, end)), end)

    @rule(data=st.data())
    def tag(self, data: st.DataObject) -> None:
        name = f"tag{len(self.model.tags)}"
        version = data.draw(st.integers(0, len(self.model.states) - 1))
        self.lake.table("t").tag(name, version)
        self.model.tags[name] = version

    @rule(data=st.data(), fails=st.booleans())
    def transaction(self, data: st.DataObject, fails: bool) -> None:
        ours, theirs = self.rows(data, self.model), self.rows(data, self.models["side"])
        limit = data.draw(st.integers(0, 20))
        key = self.key_name(self.model)

        class Stop(Exception):
            pass

        try:
            with self.lake.transaction() as tx:
                tx.table("t").append(ours)
                tx.table("side").append(theirs)
                tx.table("t").delete(f"`{key}` < {limit}")
                draft = ModelTable([self.model.now])
                draft.append(ours)
                draft.delete(key, lambda v: v < limit)
                assert bag(tx.table("t").to_arrow()) == draft.now.visible()
                if fails:
                    raise Stop
        except Stop:
            return
        self.model.states.append(draft.now)
        self.models["side"].append(theirs)

    @rule()
    def reopen(self) -> None:
        self.lake.close()
        self.lake = self.connect()

    @invariant()
    def newest_version_is_the_model(self) -> None:
        for name, model in getattr(self, "models", {}).items():
            table = self.lake.table(name)
            assert table.version == len(model.states) - 1
            assert table.schema.names == [c.name for c in model.now.columns]
            assert bag(table.to_arrow()) == model.now.visible()
            assert table.count() == len(model.now.rows)

    def check_every_version(self, name: str, model: ModelTable) -> None:
        table = self.lake.table(name)
        check_changes(table, model.states, 0, len(model.states) - 1)
        for version, state in enumerate(model.states):
            assert bag(table.at(version=version).to_arrow()) == state.visible()
            assert bag(lakebed.read_delta(table.location, version).to_arrow()) == state.visible()
        for tag, version in model.tags.items():
            assert table.at(tag=tag).version == version
        assert [c.version for c in table.history()] == list(reversed(range(len(model.states))))
        assert all(c.published for c in table.history())


@pytest.fixture(params=["sqlite", "postgres"])
def machine(request: pytest.FixtureRequest) -> type[History]:
    url: Callable[[], str | None] = lambda: None  # noqa: E731
    if request.param == "postgres":
        url = request.getfixturevalue("postgres_metastore")

    class OnMetastore(History):
        metastore_url = staticmethod(url)

    return OnMetastore


def test_histories(machine: type[History]) -> None:
    run_state_machine_as_test(machine, settings=settings(max_examples=5, stateful_step_count=14, deadline=None))


@pytest.mark.soak
@pytest.mark.parametrize("hundred", range(10))
def test_many_histories(machine: type[History], hundred: int) -> None:
    """A hundred histories of their own each time: what has run is seen before all have."""
    run_state_machine_as_test(
        machine, settings=settings(max_examples=100, stateful_step_count=30, deadline=None, derandomize=False)
    )
