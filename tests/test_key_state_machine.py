"""Random histories of primary-key tables against the dict model, on both metastores."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule, run_state_machine_as_test
from key_history import KeyHistory, Told
from key_model import KeyModel
from key_reading import key_bag
from key_shapes import MERGES, PARTS, VALUES, WIDER, Shape, shapes
from model import ModelColumn

import lakebed
from lakebed.core.steps import Step, observe
from lakebed.engine import frames
from lakebed.storage import parquet_encoder

# Who loses a race waits for a random time; no strategy draws from that.
pytestmark = pytest.mark.filterwarnings("ignore:Do not use the `random` module")
AT_ONCE = timedelta(0)
MINE = st.sampled_from(["upsert", "upsert", "settle", "compact", "delete"])
THEIRS = st.sampled_from(
    ["upsert", "upsert", "settle", "compact", "delete", "restore", "merge", "add", "drop", "vacuum"]
)
Change = tuple[Callable[[], object], Told]


class Stop(Exception):
    """Leaves a transaction."""


class KeyWriters(KeyHistory):
    """All that can be done to a primary-key table."""

    # --- rows

    @rule(data=st.data())
    def upsert(self, data: st.DataObject) -> None:
        batch = self.drawing(data).batch()
        table = self.table(data)
        self.do(lambda: batch.upsert_into(table), batch.tell, least=bool(batch.rows))

    @rule(data=st.data())
    def append(self, data: st.DataObject) -> None:
        """On a key table this is an upsert; as another rule for them it makes them more frequent."""
        rows = self.drawing(data).rows()
        table = self.table(data)
        self.do(lambda: table.append(rows), lambda m: m.upsert(rows))

    @rule(data=st.data())
    def upserts(self, data: st.DataObject) -> None:
        """A few in a row."""
        for _ in range(data.draw(st.integers(2, 4))):
            self.upsert(data)
            self.adopt_settled()

    @precondition(lambda self: "-D" in self.shape.kinds)
    @rule(data=st.data())
    def delete_keys(self, data: st.DataObject) -> None:
        keys = self.drawing(data).keys()
        if keys:
            self.do(lambda: self.table(data).delete(keys), lambda m: m.delete_keys(keys))

    @rule(data=st.data())
    def delete_where(self, data: st.DataObject) -> None:
        text, test = self.drawing(data).predicate()
        table = self.table(data)
        expected = sum(test(self.model.named(row)) for row in self.model.now.rows.values())
        done = self.do(lambda: table.delete(text), lambda m: m.delete_where(test))
        assert done.metrics.get("numDeletedRows", 0) == expected

    @rule(data=st.data(), how=st.sampled_from(["all", "where", "dynamic"]))
    def overwrite(self, data: st.DataObject, how: str) -> None:
        table, drawing = self.table(data), self.drawing(data)
        if how == "where":
            part = data.draw(PARTS)
            rows = drawing.rows(part=part)
            change = lambda: table.overwrite(rows, where=f"part = '{part}'")  # noqa: E731
            self.do(change, lambda m: m.overwrite(rows, lambda row: row["part"] == part))
            return
        dynamic = how == "dynamic" and self.shape.partitioned
        rows = drawing.rows(wary=dynamic and self.shape.spans_partitions)
        if dynamic:
            self.do(lambda: table.overwrite(rows, where="dynamic"), lambda m: m.overwrite_partitions(rows, "part"))
        else:
            self.do(lambda: table.overwrite(rows), lambda m: m.overwrite(rows))

    # --- maintenance

    @rule(data=st.data(), part=st.one_of(st.none(), PARTS))
    def settle(self, data: st.DataObject, part: str | None) -> None:
        table = self.table(data)
        if part is not None and self.shape.partitioned and not self.shape.spans_partitions:
            self.do(lambda: table.settle(where=f"part = '{part}'"), lambda m: m.settle(everything=False))
        else:
            self.do(table.settle, lambda m: m.settle())
            assert key_bag(table.read_optimised().to_arrow()) == self.model.now.visible()

    @rule(data=st.data(), full=st.booleans(), part=st.one_of(st.none(), PARTS))
    def compact(self, data: st.DataObject, full: bool, part: str | None) -> None:
        table = self.table(data)
        limited = part is not None and self.shape.partitioned and not self.shape.spans_partitions
        where = f"part = '{part}'" if limited else None
        self.do(lambda: table.compact(where=where, full=full), lambda m: m.settle(everything=False), most=100)

    @rule(data=st.data())
    def vacuum(self, data: st.DataObject) -> None:
        table = self.table(data)
        self.do(lambda: table.vacuum(AT_ONCE, dry_run=True), lambda m: None, most=0)
        self.check_now()
        self.do(lambda: table.vacuum(AT_ONCE), lambda m: None, most=0)
        self.forget_old_versions()

    @rule(data=st.data())
    def expire(self, data: st.DataObject) -> None:
        self.do(lambda: self.table(data).expire(AT_ONCE), lambda m: None, most=0)
        self.forget_old_versions()

    def forget_old_versions(self) -> None:
        self.sure = {self.version, *self.model.tags.values()}
        self.log_begins = self.table().expire(AT_ONCE).earliest

    @rule(data=st.data())
    def tag(self, data: st.DataObject) -> None:
        name = f"tag{len(self.model.tags)}"
        version = data.draw(st.sampled_from(sorted(self.sure)))
        self.table(data).tag(name, version)
        self.model.tags[name] = version

    @rule(data=st.data())
    def restore(self, data: st.DataObject) -> None:
        version = data.draw(st.sampled_from(sorted(self.sure)))
        self.do(lambda: self.table(data).restore(version), lambda m: m.restore(version), most=2)

    # --- schema and properties

    @rule(data=st.data(), what=st.sampled_from(["add", "rename", "widen"]))
    def alter(self, data: st.DataObject, what: str) -> None:
        table = self.table(data)
        free = [c for c in self.model.now.columns if c.number not in self.fixed()]
        narrow = [c for c in free if c.type in WIDER and c.number not in self.shape.rules.sequence]
        if what == "add":
            self.add_column(data, table, f"c{len(self.model.states)}")
        elif what == "rename" and free:
            old = data.draw(st.sampled_from(free)).name
            new = data.draw(st.sampled_from(["y", "ä b", "dotted.name"])) + str(len(self.model.states))
            self.do(lambda: table.alter(rename={f"`{old}`": new}), lambda m: m.rename_column(old, new), least=1)
        elif narrow:
            column = data.draw(st.sampled_from(narrow))
            wider = WIDER[column.type]
            change = lambda: table.alter(widen={f"`{column.name}`": wider})  # noqa: E731
            self.do(change, lambda m: m.widen_column(column.name, wider), least=1)

    def fixed(self) -> set[int]:
        """Columns that keep their name and type: the key, and the partition."""
        return {*self.shape.rules.key, 1}

    def add_column(self, data: st.DataObject, table: lakebed.Table, name: str) -> None:
        kind = data.draw(st.sampled_from(sorted(VALUES)))
        self.do(lambda: table.alter(add={f"`{name}`": kind}), lambda m: m.add_column(name, kind), least=1)

    def droppable(self, data: st.DataObject) -> ModelColumn | None:
        """A column that nothing depends on: none of the key, of a sequence or of a sequence group."""
        rules = self.shape.rules
        kept = {*self.fixed(), *rules.sequence}.union(*((*group.sequence, *group.columns) for group in rules.groups))
        free = [c for c in self.model.now.columns if c.number not in kept]
        return data.draw(st.sampled_from(free)) if free else None

    def drop(self, table: lakebed.Table, column: ModelColumn) -> Change:
        """Properties that name the column go with it."""
        prefix = f"fields.{column.name}."
        named = [name for name in table.properties if name.startswith(prefix)]
        change = lambda: table.alter(drop=[f"`{column.name}`"], properties=dict.fromkeys(named))  # noqa: E731
        return change, lambda m: m.drop_column(column.name)

    @rule(data=st.data())
    def drop_column(self, data: st.DataObject) -> None:
        """A column that the key, a sequence or a property needs is refused; any other is gone.

        Values of a dropped column do not come back with a new one of its name.
        """
        table, shape = self.table(data), self.shape
        if data.draw(st.integers(0, 3)):
            if (column := self.droppable(data)) is not None:
                self.do(*self.drop(table, column), least=1)
                if data.draw(st.integers(0, 3)):
                    self.add_column(data, table, column.name)
            return
        structural = {*shape.rules.key, *shape.rules.sequence, *((1,) if shape.partitioned else ())}
        needed = [c for c in self.model.now.columns if c.number in structural | shape.named]
        column = data.draw(st.sampled_from(needed))
        with pytest.raises(lakebed.SchemaError if column.number in structural else lakebed.OptionError):
            table.alter(drop=[f"`{column.name}`"])

    @rule(data=st.data(), merge=st.sampled_from(MERGES))
    def change_merge(self, data: st.DataObject, merge: str) -> None:
        self.do(lambda: self.table(data).alter(properties={"merge": merge}), lambda m: m.change_merge(merge), most=2)

    # --- several writers

    @rule(data=st.data(), mine=MINE, theirs=THEIRS)
    def race(self, data: st.DataObject, mine: str, theirs: str) -> None:
        """Another writer commits when our commit is ready, but not begun: theirs comes first, and ours follows."""
        ours, others = self.step(data, mine, 0), self.step(data, theirs, 1)
        raced: list[int] = []

        def interrupt(step: Step) -> None:
            if step is Step.COMMIT_PREPARED and not raced:
                raced.append(1)
                self.do(*others, most=100)

        stop = observe(interrupt)
        try:
            self.do(*ours, most=100)
        except lakebed.ConflictError:
            self.check_conflict(theirs, upserts=mine == "upsert")
        finally:
            stop()

    def check_conflict(self, theirs: str | None, *, upserts: bool) -> None:
        """Who loses changes nothing. Upserts lose only what they cannot know, or when a vacuum took their files away.

        A vacuum that retains nothing takes the files of running writers; a restore brings back another schema.
        """
        assert theirs is not None
        if upserts:
            assert theirs in ("vacuum", "restore")
        assert self.table().version == self.version

    def step(self, data: st.DataObject, name: str, at: int) -> Change:
        table, began = self.lakes[at].table("t"), self.model.now
        if name == "upsert":
            batch = self.drawing(data).batch()
            return lambda: batch.upsert_into(table), lambda m: batch.tell(m, began)
        if name == "merge":
            merge = data.draw(st.sampled_from(MERGES))
            return lambda: table.alter(properties={"merge": merge}), lambda m: m.change_merge(merge)
        if name == "add":
            column = f"c{len(self.model.states)}"
            return lambda: table.alter(add={column: "INT"}), lambda m: m.add_column(column, "INT")
        if name == "drop" and (gone := self.droppable(data)) is not None:
            return self.drop(table, gone)
        if name == "delete":
            text, test = self.drawing(data).predicate()
            return lambda: table.delete(text), lambda m: m.delete_where(test, began)
        if name == "restore":
            version = data.draw(st.sampled_from(sorted(self.sure)))
            return lambda: table.restore(version), lambda m: m.restore(version)
        if name == "vacuum":
            return lambda: (table.vacuum(AT_ONCE), self.forget_old_versions()), lambda m: None
        run = table.settle if name == "settle" else table.compact
        return run, lambda m: m.settle(everything=False)

    @rule(data=st.data(), theirs=st.sampled_from([None, None, "upsert", "settle", "compact", "vacuum"]))
    def transaction(self, data: st.DataObject, theirs: str | None) -> None:
        """Several changes that are read before they land, as one; others may commit meanwhile."""
        kinds = data.draw(
            st.lists(st.sampled_from(["upsert", "upsert", "delete", "overwrite"]), min_size=1, max_size=4)
        )
        others = None if theirs is None else self.step(data, theirs, 1)
        told: list[Told] = []
        fails = data.draw(st.integers(0, 3)) == 0

        def run() -> None:
            draft = KeyModel(self.model.rules, [self.model.now])
            with self.lakes[0].transaction() as tx:
                for kind in kinds:
                    change, tell = self.statement(data, kind, tx.table("t"))
                    change()
                    tell(draft)
                    told.append(tell)
                    assert key_bag(tx.table("t").to_arrow()) == draft.now.visible()
                if others is not None:
                    self.do(*others, most=100)
                if theirs != "vacuum":
                    assert key_bag(tx.table("t").to_arrow()) == draft.now.visible()
                if fails:
                    raise Stop

        if fails:
            with pytest.raises(Stop):
                run()
            return
        try:
            self.do(run, lambda m: m.several(told), most=2)
        except lakebed.ConflictError:
            self.check_conflict(theirs, upserts=set(kinds) == {"upsert"})

    def statement(self, data: st.DataObject, kind: str, table: Any) -> Change:
        """One change in a transaction."""
        if kind == "delete":
            text, test = self.drawing(data).predicate()
            return lambda: table.delete(text), lambda m: m.delete_where(test)
        if kind == "overwrite":
            new = self.drawing(data).rows()
            return lambda: table.overwrite(new), lambda m: m.overwrite(new)
        batch = self.drawing(data).batch()
        return lambda: batch.upsert_into(table), batch.tell

    @rule()
    def reopen(self) -> None:
        for lake in self.lakes:
            lake.close()
        self.lakes = [self.connect(number) for number in range(2)]


class Packing(KeyWriters):
    """Tables whose upserts pack the few files that others before them have left."""

    @initialize(shape=shapes(packing=True))
    def begin(self, shape: Shape) -> None:
        super().begin(shape)

    @rule(data=st.data())
    def trickle(self, data: st.DataObject) -> None:
        for _ in range(data.draw(st.integers(3, 6))):
            self.upsert(data)
            self.adopt_settled()


@pytest.fixture
def spliced(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two encoders write each file, however small, and polars reads it for Arrow, as with large ones."""
    monkeypatch.setattr(parquet_encoder, "SPLICED_ROWS", 1)
    monkeypatch.setattr(frames, "LARGE", 1)


@pytest.fixture(params=["sqlite", "postgres"])
def machine(request: pytest.FixtureRequest) -> type[KeyWriters]:
    url: Callable[[], str | None] = lambda: None  # noqa: E731
    if request.param == "postgres":
        url = request.getfixturevalue("postgres_metastore")
    else:
        request.getfixturevalue("spliced")

    class OnMetastore(KeyWriters):
        metastore_url = staticmethod(url)

    return OnMetastore


def test_key_histories(machine: type[KeyWriters]) -> None:
    run_state_machine_as_test(machine, settings=settings(max_examples=4, stateful_step_count=10, deadline=None))


@pytest.mark.usefixtures("spliced")
def test_key_histories_with_packing() -> None:
    run_state_machine_as_test(Packing, settings=settings(max_examples=5, stateful_step_count=10, deadline=None))


@pytest.mark.soak
@pytest.mark.usefixtures("spliced")
def test_many_key_histories_with_packing() -> None:
    run_state_machine_as_test(
        Packing, settings=settings(max_examples=200, stateful_step_count=15, deadline=None, derandomize=False)
    )


@pytest.mark.soak
@pytest.mark.parametrize("hundred", range(11))
def test_many_key_histories(machine: type[KeyWriters], hundred: int) -> None:
    """A hundred histories of their own each time: what has run is seen before all have."""
    run_state_machine_as_test(
        machine, settings=settings(max_examples=100, stateful_step_count=15, deadline=None, derandomize=False)
    )
