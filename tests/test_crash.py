"""kill -9 at each named step of write, commit and publish: what was committed is there, and work goes on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from crash_worker import Order
from worker_processes import Worker

import lakebed
from lakebed.core.steps import Step, observe

BEFORE_COMMIT = {
    Step.WRITE_OPENED,
    Step.WRITE_CLOSED,
    Step.VECTOR_WRITTEN,
    Step.COMMIT_PREPARED,
    Step.COMMIT_BEGUN,
    Step.COMMIT_INSERTED,
}
BASE = [{"id": i, "part": "a"} for i in range(400)]

APPEND = [step for step in Step if step.value.partition(".")[0] in ("write", "commit", "publish", "checkpoint")]
APPEND.remove(Step.VECTOR_WRITTEN)
CASES = [
    *(("append", step) for step in APPEND),
    *(("delete", step) for step in (Step.VECTOR_WRITTEN, Step.COMMIT_INSERTED, Step.COMMIT_DONE, Step.PUBLISH_WRITTEN)),
    *(("overwrite", step) for step in (Step.WRITE_CLOSED, Step.COMMIT_INSERTED, Step.COMMIT_DONE)),
    *(("alter", step) for step in (Step.COMMIT_INSERTED, Step.COMMIT_DONE, Step.PUBLISH_BEGUN)),
    *(
        ("transaction", step)
        for step in (Step.COMMIT_PREPARED, Step.COMMIT_INSERTED, Step.COMMIT_DONE, Step.PUBLISH_MARKED)
    ),
]


def expected(operation: str, committed: bool) -> list[int]:
    base = [row["id"] for row in BASE]
    if not committed:
        return base
    return {
        "append": [*base, 10100, 10101],
        "transaction": [*base, 10100],
        "delete": [i for i in base if i % 2],
        "overwrite": [10100],
        "alter": base,
    }[operation]


def ids(table: lakebed.Table | lakebed.TableView) -> list[int]:
    return sorted(table.to_arrow()["id"].to_pylist())


@dataclass(frozen=True)
class Place:
    """Where the tables of all tests of one metastore are; what one of them leaves must not trouble the next."""

    root: Path
    url: str | None


@pytest.fixture(scope="module")
def sqlite_place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    return Place(tmp_path_factory.mktemp("crash") / "w", None)


@pytest.fixture(scope="module")
def postgres_place(tmp_path_factory: pytest.TempPathFactory, postgres: Callable[[], str]) -> Place:
    return Place(tmp_path_factory.mktemp("crash") / "w", postgres())


# While files of the table are written, a metastore has nothing to do: one of them is enough.
WRITING = {Step.WRITE_OPENED, Step.WRITE_CLOSED, Step.VECTOR_WRITTEN, Step.CHECKPOINT_WRITTEN, Step.CHECKPOINT_POINTED}
KILLS = [
    pytest.param(
        metastore,
        operation,
        step,
        id=f"{operation}-{step.value}-{metastore}",
        marks=[pytest.mark.soak] if metastore == "postgres" and step in WRITING else [],
    )
    for operation, step in CASES
    for metastore in ("sqlite", "postgres")
]


@pytest.mark.parametrize(("metastore", "operation", "step"), KILLS)
def test_killed_at(
    request: pytest.FixtureRequest, doomed: Callable[[], Worker], metastore: str, operation: str, step: Step
) -> None:
    place: Place = request.getfixturevalue(f"{metastore}_place")
    name = f"{operation}_{step.value}".replace("-", "_").replace(".", "_")
    side = f"{name}_side"
    with lakebed.connect(place.root, place.url) as lake:
        table = lake.create_table(
            name, "id BIGINT NOT NULL, part STRING", partition_by=["part"], properties={"checkpoint-interval": 2}
        )
        table.append(BASE)
        lake.create_table(side, "id BIGINT")

    doomed().die_of(Order(str(place.root), place.url, name, operation, step, side))

    committed = step not in BEFORE_COMMIT
    with lakebed.connect(place.root, place.url) as lake:
        table = lake.table(name)
        assert table.version == (2 if committed else 1)
        assert ids(table) == expected(operation, committed)
        assert lake.table(side).count() == (1 if committed and operation == "transaction" else 0)

        after = table.append([{"id": 50000, "part": "a"}])
        lake.table(side).append([{"id": 5000}])
        assert after.version == table.version
        assert ids(table) == sorted([*expected(operation, committed), 50000])
        for one in (table, lake.table(side)):
            assert all(commit.published for commit in one.history())
            log = sorted(p.name for p in Path(one.location.removeprefix("file://"), "_delta_log").glob("*.json"))
            assert log == [f"{v:020d}.json" for v in range(one.version + 1)]
            mirrored = lakebed.read_delta(one.location)
            assert mirrored.version == one.version
            assert ids(mirrored) == ids(one)


@pytest.mark.parametrize("failure", [lakebed.MetastoreError("the server went away"), lakebed.StorageError("disk gone")])
def test_a_failure_after_the_commit_is_a_warning(tmp_path: Path, failure: lakebed.LakebedError) -> None:
    """An error would say that nothing was committed, and a second try would write the rows twice."""

    def fail(step: Step) -> None:
        if step is Step.PUBLISH_BEGUN:
            raise failure

    with lakebed.connect(tmp_path) as lake:
        table = lake.create_table("t", "id BIGINT")
        stop = observe(fail)
        with pytest.warns(lakebed.PublicationWarning, match="has landed"):
            commit = table.append([{"id": 1}])
        stop()
        assert (commit.version, commit.published) == (1, False)
        assert table.publish() == 1
        assert ids(lakebed.read_delta(table.location)) == [1]


def test_a_checkpoint_that_fails_is_told_as_such(tmp_path: Path) -> None:
    def fail(step: Step) -> None:
        if step is Step.CHECKPOINT_WRITTEN:
            raise lakebed.StorageError("disk gone")

    with lakebed.connect(tmp_path) as lake:
        table = lake.create_table("t", "id BIGINT", properties={"checkpoint-interval": 1})
        stop = observe(fail)
        with pytest.warns(lakebed.PublicationWarning, match="the log is complete, but a checkpoint"):
            commit = table.append([{"id": 1}])
        stop()
        assert commit.published
        assert table.checkpoint() == 1
