"""Vacuum never takes a live file, whatever others do at the same time: random scripts for several actors.

While some write, settle, compact, tag, restore and expire, others vacuum with next to no retention, and a reader holds
a version that was opened before all of them began.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from key_functions import Function
from key_merge import Rules
from key_model import KeyModel
from model import ModelColumn, bag
from test_vacuum import AT_ONCE, referenced, stored
from vacuum_crowd import Action, Actor, Log, Order, Script, Signals, serve
from worker_processes import Worker

import lakebed
from lakebed.core.steps import Step

# Who loses a race waits for a random time; no strategy draws from that.
pytestmark = [
    pytest.mark.filterwarnings("ignore:Do not use the `random` module"),
    # Where versions expire at once, nobody can tell what has changed since a settle began.
    pytest.mark.filterwarnings("ignore::lakebed.engine.maintain.UnsettledWarning"),
]
COLUMNS = (ModelColumn(0, "id", "BIGINT"), ModelColumn(1, "v", "BIGINT"))
KEYS = 24
MOST_ACTORS = 5
RULES = {
    "deduplicate": Rules(key=(0,)),
    "aggregation": Rules(key=(0,), engine="aggregation", functions={1: Function("sum")}),
}
ALWAYS = ("upsert", "upsert", "upsert", "delete_where", "overwrite", "settle", "compact", "compact", "restore")
CROWDED = (*ALWAYS, "tag", "untag", "expire", "read")
WRITES_WAIT = (None, Step.WRITE_CLOSED, Step.VECTOR_WRITTEN, Step.COMPACT_WRITTEN, *[Step.COMMIT_PREPARED] * 4)
CLEANS_WAIT = (None, Step.EXPIRE_FORGOTTEN, Step.EXPIRE_DONE, Step.VACUUM_CONDEMNED, *[Step.VACUUM_FOUND] * 4)


@dataclass(frozen=True)
class Plan:
    """One table, what was done to it before, and who works on it then."""

    engine: str
    merge: str
    buckets: Any
    before: Script
    read: int
    """Which of the versions until then is being read."""
    begun: bool
    """Whether some of it has been read already."""
    scripts: tuple[Script, ...]

    @property
    def create(self) -> dict[str, Any]:
        properties = {"checkpoint-interval": 3, "dynamic-bucket.target-rows": 8}
        if self.engine == "aggregation":
            properties["fields.v.aggregate-function"] = "sum"
        return {"merge_engine": self.engine, "merge": self.merge, "buckets": self.buckets, "properties": properties}


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    engine = draw(st.sampled_from(sorted(RULES)))
    deletes = ("delete",) if engine == "deduplicate" else ()

    def actions(kinds: Sequence[str], least: int, most: int) -> tuple[Action, ...]:
        one = st.builds(Action, st.sampled_from([*kinds, *deletes]), st.integers(0, KEYS - 4), st.integers(1, KEYS))
        return tuple(draw(st.lists(one, min_size=least, max_size=most)))

    writers = draw(st.integers(1, 3))
    scripts = [Script(n, actions(CROWDED, 2, 5), draw(st.sampled_from(WRITES_WAIT))) for n in range(1, writers + 1)]
    for n in range(draw(st.integers(1, MOST_ACTORS - writers))):
        retain = draw(st.sampled_from([AT_ONCE, timedelta(milliseconds=30)]))
        scripts.append(Script(10 + n, (), draw(st.sampled_from(CLEANS_WAIT)), retain, cleans=True))
    return Plan(
        engine=engine,
        merge=draw(st.sampled_from(["on-write", "on-read", "copy-on-write"])),
        buckets=draw(st.sampled_from([1, 2, "dynamic"])),
        before=Script(0, (Action("upsert", 0, KEYS), *actions(ALWAYS, 1, 4))),
        read=draw(st.integers(0, 9)),
        begun=draw(st.booleans()),
        scripts=tuple(scripts),
    )


@dataclass
class Place:
    """A warehouse for many tables, one for each plan."""

    root: Path
    url: str | None
    lake: lakebed.Warehouse
    workers: list[Worker] = field(default_factory=list)
    """Processes for the actors; without any they are threads."""
    numbers: Iterator[int] = field(default_factory=count)

    def play(self, name: str, scripts: Sequence[Script], signals: Path) -> list[Log]:
        """All scripts at the same time; when those that write have ended, the others do too."""
        begin = self._in_processes if self.workers else self._in_threads
        told = begin(name, scripts, signals)
        logs = [take() for take, script in zip(told, scripts, strict=True) if not script.cleans]
        Signals(signals).tell("ended")
        logs += [take() for take, script in zip(told, scripts, strict=True) if script.cleans]
        wrong = "\n".join(log.error for log in logs)
        assert not wrong.strip(), wrong
        return logs

    def _in_processes(self, name: str, scripts: Sequence[Script], signals: Path) -> list[Callable[[], Log]]:
        busy = self.workers[: len(scripts)]
        for worker, script in zip(busy, scripts, strict=True):
            worker.send(Order(str(self.root), self.url, name, script, signals))
        for worker in busy:
            assert worker.receive() == "ready"
        for worker in busy:
            worker.send("go")
        return [worker.receive for worker in busy]

    def _in_threads(self, name: str, scripts: Sequence[Script], signals: Path) -> list[Callable[[], Log]]:
        together = threading.Barrier(len(scripts))
        logs: dict[int, Log] = {}

        def run(script: Script) -> None:
            actor = Actor(self.lake.table(name), script, Signals(signals))
            together.wait()
            logs[script.actor] = actor.run()

        def take(script: Script) -> Log:
            threads[script.actor].join()
            return logs[script.actor]

        threads = {script.actor: threading.Thread(target=run, args=(script,)) for script in scripts}
        for thread in threads.values():
            thread.start()
        return [lambda script=script: take(script) for script in scripts]  # type: ignore[misc]


@pytest.fixture(scope="module")
def workers() -> Iterator[list[Worker]]:
    with ExitStack() as stack:
        started = []
        for _ in range(MOST_ACTORS):
            worker = Worker(serve)
            stack.callback(worker.kill)
            started.append(worker)
        yield started


@pytest.fixture
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    metastore, actors = request.param
    url = request.getfixturevalue("postgres_metastore")() if metastore == "postgres" else None
    with lakebed.connect(tmp_path / "w", url, batch_size=4, prefetch=1) as lake:
        yield Place(tmp_path / "w", url, lake, request.getfixturevalue("workers") if actors == "processes" else [])


def check(place: Place, plan: Plan) -> list[Log]:
    name = f"t{next(place.numbers)}"
    table = place.lake.create_table(name, "id BIGINT NOT NULL, v BIGINT", primary_key=["id"], **plan.create)
    signals = place.root.parent / f"signals-{name}"
    before = Actor(table, plan.before, Signals(signals)).run()
    assert not before.error, before.error
    chosen = plan.read % (table.version + 1)
    held = {add.file_path for add in table.at(version=chosen)._point().files(None)}
    reader = table.at(version=chosen).to_batches()
    first = [next(reader, None)] if plan.begun else []

    logs = place.play(name, plan.scripts, signals)

    model = modelled(plan, [before, *logs], table.version)
    assert held <= stored(table)
    assert referenced(table) <= stored(table)
    read = pa.Table.from_batches([batch for batch in [*first, *reader] if batch is not None], table.schema)
    assert bag(read) == model.states[chosen].visible(), f"the reader of version {chosen}"
    check_retained(table, model, logs)
    table.settle()
    table.vacuum(AT_ONCE)
    assert {path for path in stored(table) if not path.endswith(".tmp")} == referenced(table)
    check_retained(table, model, logs)
    assert bag(lakebed.read_delta(table.location).to_arrow()) == model.now.visible()
    return logs


def check_retained(table: lakebed.Table, model: KeyModel, logs: Sequence[Log]) -> None:
    """Whatever is said to be there can be read, in full."""
    while len(model.states) <= table.version:
        model.settle()
    versions = {commit.version for commit in table.history()}
    assert table.version in versions
    for version in versions:
        view = table.at(version=version)
        assert bag(view.to_arrow()) == model.states[version].visible(), f"version {version}"
        assert view.count() == len(model.states[version].rows)
    tags = {tag: version for log in logs for tag, version in log.tags.items()}
    assert {tag.name: tag.version for tag in table.tags()} == tags
    assert versions >= set(tags.values())
    for tag, version in tags.items():
        assert bag(table.at(tag=tag).to_arrow()) == model.states[version].visible(), f"tag {tag}"


def modelled(plan: Plan, logs: Sequence[Log], head: int) -> KeyModel:
    """The changes in the order of their versions; all other versions have changed no row."""
    changed = {version: change for log in logs for version, change in log.changed.items()}
    assert len(changed) == sum(len(log.changed) for log in logs), "every change has a version of its own"
    model = KeyModel.new(RULES[plan.engine], COLUMNS)
    for version in range(1, head + 1):
        action, told = changed.get(version, (Action("settle"), None))
        if action.kind == "upsert":
            model.upsert(told)
        elif action.kind == "overwrite":
            model.overwrite(told)
        elif action.kind == "delete":
            model.delete_keys(told)
        elif action.kind == "delete_where":
            model.delete_where(lambda row, low=action.low: row["id"] < low)  # type: ignore[misc]
        elif action.kind == "restore":
            model.restore(told)
        else:
            model.settle()
    for version, rows in [seen for log in logs for seen in log.seen]:
        assert Counter(rows) == model.states[version].visible(), f"read at version {version}"
    return model


PLACES = [(metastore, actors) for metastore in ("sqlite", "postgres") for actors in ("threads", "processes")]
IDS = ["-".join(pair) for pair in PLACES]
FIXTURES = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
# What others do at the same time cannot be done again in the same way, so that nothing would come of shrinking.
WITHOUT_SHRINKING = (Phase.explicit, Phase.generate)


def run(place: Place, examples: int, *, derandomize: bool) -> list[Log]:
    """Check so many plans; what was done in all of them together."""
    logs: list[Log] = []

    @settings(
        max_examples=examples,
        deadline=None,
        derandomize=derandomize,
        phases=WITHOUT_SHRINKING,
        suppress_health_check=FIXTURES,
    )
    @given(plans())
    def each(plan: Plan) -> None:
        logs.extend(check(place, plan))

    each()
    return logs


@pytest.mark.parametrize("place", [PLACES[0], PLACES[-1]], indirect=True, ids=IDS[:: len(IDS) - 1])
def test_no_live_file_goes(place: Place) -> None:
    """DuckLake #527, #530, #815: expiry or cleanup removed live files."""
    logs = run(place, 3, derandomize=True)
    assert any(log.deleted for log in logs)


@pytest.mark.soak
@pytest.mark.parametrize("place", PLACES, indirect=True, ids=IDS)
@pytest.mark.parametrize("fifty", range(4))
def test_no_live_file_goes_for_long(place: Place, fifty: int) -> None:
    logs = run(place, 50, derandomize=False)
    assert sum(log.deleted for log in logs) > 50
    assert sum(len(log.changed) for log in logs) > 50
