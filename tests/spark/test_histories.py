"""Random histories with Spark, on a small scale: frames in, and every way of reading shows the dict model."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from conftest import MASTER
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import rule, run_state_machine_as_test
from key_reading import key_bag
from spark_frames import FramedWarehouse
from test_key_state_machine import KeyWriters
from test_state_machine import History

import lakebed

pytestmark = [
    pytest.mark.spark,
    # Who loses a race waits for a random time; no strategy draws from that.
    pytest.mark.filterwarnings("ignore:Do not use the `random` module"),
]
# The two connections differ in what they leave to Spark: all there is, or only the rows of frames.
CONNECTIONS: tuple[dict[str, Any], ...] = ({"distribute_from": 0, "shuffle": "always"}, {"shuffle": "never"})
SOAK = int(os.environ.get("SPARK_HISTORIES", "100"))
ENGINES = ("native", "arrow")
Bag = Counter[tuple[Any, ...]]


def read_all(spark: Any, table: Any, expected: Bag, **at: Any) -> None:
    """Both scans and the data source show the rows; ``at`` is a version."""
    view = table.at(**at) if at else table
    assert key_bag(view.to_arrow()) == expected
    for engine in ENGINES:
        assert key_bag(view.df(engine=engine).toArrow()) == expected, engine
    source = spark.read.format("lakebed").options(**at).load(table.location)
    assert key_bag(source.toArrow()) == expected, "format('lakebed')"


class SparkKeyWriters(KeyWriters):
    """All that can be done to a primary-key table, with a Spark session."""

    spark: Callable[[], Any]

    def connect(self, number: int) -> Any:
        session = type(self).spark()
        return FramedWarehouse(
            lakebed.connect(self.root, self.url, spark=session, **CONNECTIONS[number], **self.shape.options), session
        )

    def teardown(self) -> None:
        if hasattr(self, "model"):
            read_all(type(self).spark(), self.table(), self.model.now.visible())
        super().teardown()

    @rule(data=st.data())
    def read_with_spark(self, data: st.DataObject) -> None:
        """Any version; and with a predicate and some columns, what the engine reads."""
        version = data.draw(st.sampled_from(sorted(self.sure)))
        read_all(type(self).spark(), self.table(data), self.model.states[version].visible(), version=version)
        text, _ = self.drawing(data).predicate()
        names = [c.name for c in self.model.now.columns]
        chosen = data.draw(st.lists(st.sampled_from(names), min_size=1, max_size=3, unique=True))
        for view in (self.table(data), self.table().read_optimised()):
            expected = key_bag(view.to_arrow(chosen, text))
            for engine in ENGINES:
                assert key_bag(view.df(chosen, text, engine=engine).toArrow()) == expected, (engine, text)


class SparkHistory(History):
    """All that can be done to a table without a key, with a Spark session."""

    spark: Callable[[], Any]

    def connect(self) -> Any:
        session = type(self).spark()
        return FramedWarehouse(lakebed.connect(self.root, self.url, spark=session, **CONNECTIONS[0]), session)

    def teardown(self) -> None:
        if hasattr(self, "models"):
            for name, model in self.models.items():
                read_all(type(self).spark(), self.lake.table(name), model.now.visible())
        super().teardown()

    @rule(full=st.booleans())
    def compact(self, full: bool) -> None:
        done = self.lake.table("t").compact(full=full)
        if done.version is not None:
            self.model.states.append(self.model.now)

    @rule(data=st.data())
    def read_with_spark(self, data: st.DataObject) -> None:
        version = data.draw(st.integers(0, len(self.model.states) - 1))
        read_all(type(self).spark(), self.lake.table("t"), self.model.states[version].visible(), version=version)


@pytest.fixture(params=[SparkKeyWriters, SparkHistory], ids=["key", "keyless"])
def machine(request: pytest.FixtureRequest, spark: Any) -> Any:
    members = {"spark": staticmethod(lambda: spark)}
    if MASTER:
        members["metastore_url"] = staticmethod(request.getfixturevalue("postgres_metastore"))
    return type("WithSpark", (request.param,), members)


def test_histories_with_spark(machine: Any) -> None:
    run_state_machine_as_test(
        machine,
        settings=settings(max_examples=2, stateful_step_count=5, deadline=None, phases=[Phase.generate, Phase.explain]),
    )


@pytest.mark.soak
def test_many_histories_with_spark(machine: Any) -> None:
    run_state_machine_as_test(
        machine, settings=settings(max_examples=SOAK, stateful_step_count=12, deadline=None, derandomize=False)
    )
