"""Upserts that pack the many small files that upserts before them have left."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from key_crash_worker import AT_ONCE, FEW_ROWS, Order, main, operate
from model import bag
from test_compact_on_write import Rows, check, cut_off, operations, rows
from test_key_crash import FOR_LONG, SUMS, age
from test_key_races import before_commits
from test_vacuum import referenced, stored
from worker_processes import Worker, workers_in_waiting

import lakebed
from lakebed.core.errors import StorageError
from lakebed.core.steps import Step, observe
from lakebed.engine import tiers
from lakebed.engine.compact_after import DeadRowsWarning
from lakebed.engine.draft import Draft
from lakebed.engine.tiers import FULL

COLUMNS = "id BIGINT NOT NULL, v BIGINT"


def make(lake: lakebed.Warehouse, name: str = "t", columns: str = COLUMNS, **given: Any) -> lakebed.Table:
    return lake.create_table(name, columns, **{"primary_key": ["id"], "buckets": 1, **given})


def trickle(table: Any, times: int = FULL, start: int = 0) -> Rows:
    """Upserts of a few rows, all of the same bucket if there is one: each is a small file."""
    batches = [{start + n * 10 + i: n for i in range(10)} for n in range(times)]
    for batch in batches:
        put(table, batch)
    return {key: value for batch in batches for key, value in batch.items()}


def put(table: Any, batch: Rows) -> Any:
    return table.upsert([{"id": key, "v": value} for key, value in batch.items()])


def files_of(table: Any) -> list[dict[str, Any]]:
    return table.files().to_pylist()


def largest(table: lakebed.Table) -> int:
    """The files of the bucket that has most."""
    return max(Counter((str(file["partition"]), file["bucket"]) for file in files_of(table)).values())


@pytest.mark.parametrize("buckets", [pytest.param(1, marks=pytest.mark.soak), 3, "dynamic", "postpone"])
def test_the_number_of_files_stays_bounded(local_lake: lakebed.Warehouse, buckets: int | str) -> None:
    """Puts and deletes of any keys: the rows are those of a dict, and no bucket has many files."""
    table, drawn, wanted = make(local_lake, buckets=buckets), random.Random(1), Rows()
    for n in range(70):
        if n % 4 == 3:
            gone = drawn.sample(sorted(wanted), 20)
            table.delete([{"id": key} for key in gone])
            wanted = {key: value for key, value in wanted.items() if key not in gone}
        else:
            batch = {drawn.randrange(2000): n for _ in range(40)}
            put(table, batch)
            wanted |= batch
        assert largest(table) <= FULL
        assert n % 7 or rows(table) == wanted
    check(table, wanted)
    assert 5 < operations(table).count("compact") < 30


def test_a_row_is_rewritten_once_for_each_tier(local_lake: lakebed.Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiers, "LEAST", 2200)
    table, wanted, rewritten = make(local_lake), Rows(), 0
    for n in range(150):
        batch = {n * 100 + i: n for i in range(100)}
        before = {file["path"] for file in files_of(table)}
        done = put(table, batch)
        wanted |= batch
        fresh = [file["rows"] for file in files_of(table) if file["path"] not in before]
        rewritten += sum(fresh) - 100 if table.version > done.version else 0
    sizes = [file["size"] for file in files_of(table)]
    highest = tiers.tier_of(max(sizes))
    assert highest >= 2
    assert len(sizes) <= FULL * (highest + 1)
    assert len(wanted) * (highest - 1) <= rewritten <= len(wanted) * (highest + 1)
    check(table, wanted)


def test_versions_of_rows_and_changes_are_as_without_it(local_lake: lakebed.Warehouse) -> None:
    table, plain = make(local_lake), make(local_lake, "off", properties={"compact-on-write": 0})
    drawn, landed = random.Random(2), {0: 0}
    for n in range(1, 25):
        batch = {drawn.randrange(60): n for _ in range(10)}
        landed[n] = put(table, batch).version
        assert put(plain, batch).version == n
    assert table.version > 24
    number = {version: n for n, version in landed.items()}

    def told(changes: Any, versions: dict[int, int] | None = None) -> list[Any]:
        found = changes.to_arrow().select(["id", "v", "_change_type", "_commit_version"]).to_pylist()
        return sorted((r["id"], r["v"], r["_change_type"], (versions or {}).get(r["_commit_version"])) for r in found)

    same = {n: n for n in landed}
    for start, end in [(0, 24), (0, 9), (5, 20), (8, 9), (9, 10), (16, 24), (23, 24)]:
        for mode in ("combine", "all", "append"):
            mine = told(table.changes(landed[start], landed[end], mode=mode), number)
            assert mine == told(plain.changes(start, end, mode=mode), same)
            assert mine
    for version in range(table.version):
        if version + 1 not in number:
            assert table.changes(version, version + 1, mode="all").to_arrow().num_rows == 0
            assert bag(table.at(version=version + 1).to_arrow()) == bag(table.at(version=version).to_arrow())


def test_its_own_files_are_left_to_the_next_one(local_lake: lakebed.Warehouse) -> None:
    """A load that leaves many files does not write its rows twice."""
    table = make(local_lake)
    with local_lake.transaction() as tx:
        wanted = trickle(tx.table("t"), FULL * 2)
    assert operations(table) == ["create", "upsert"]
    assert table.files().num_rows == FULL * 2
    put(table, {0: 5})
    assert operations(table) == ["create", "upsert", "upsert", "compact"]
    assert table.files().num_rows == 2
    check(table, {**wanted, 0: 5})


def test_nothing_to_do_costs_no_question(local_lake: lakebed.Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    table = make(local_lake)
    wanted = trickle(table, FULL - 1)
    asked: list[Any] = []
    real = Draft.live_in
    monkeypatch.setattr(Draft, "live_in", lambda *given: asked.append(given) or real(*given))
    put(table, {0: 5})
    assert len(asked) == 1
    put(table, {1: 5})
    assert len(asked) == 3
    assert operations(table)[-1] == "compact"
    check(table, {**wanted, 0: 5, 1: 5})


@pytest.mark.parametrize("given", [{"merge": "on-read"}, {"properties": {"compact-on-write": 0}}])
def test_not_where_it_is_not_wanted(local_lake: lakebed.Warehouse, given: dict[str, Any]) -> None:
    table = make(local_lake, **given)
    wanted = trickle(table, FULL * 2)
    assert set(operations(table)) == {"create", "upsert"}
    assert table.files().num_rows == FULL * 2
    table.settle()
    check(table, wanted)


def test_not_where_upserts_rewrite_anyway(local_lake: lakebed.Warehouse) -> None:
    table = make(local_lake, merge="copy-on-write")
    wanted = trickle(table, FULL * 2)
    assert set(operations(table)) == {"create", "upsert"}
    check(table, wanted)


PARTITIONED = {"columns": f"{COLUMNS}, part STRING NOT NULL", "partition_by": ["part"]}


def put_in(table: lakebed.Table, part: str, batch: Rows) -> None:
    table.upsert([{"id": key, "v": value, "part": part} for key, value in batch.items()])


def counts(table: lakebed.Table) -> dict[str, int]:
    """The number of files of each partition."""
    return Counter(json.loads(file["partition"])["part"] for file in files_of(table))


def test_only_partitions_that_are_touched(local_lake: lakebed.Warehouse) -> None:
    table = make(local_lake, primary_key=["id", "part"], **PARTITIONED)
    for n in range(FULL):
        for part in "ab":
            put_in(table, part, {n: n})
    put_in(table, "c", {0: 1})
    assert "compact" not in operations(table)
    put_in(table, "a", {50: 1})
    assert operations(table)[-2:] == ["upsert", "compact"]
    assert counts(table) == {"a": 2, "b": FULL, "c": 1}
    found = sorted((row["part"], row["id"], row["v"]) for row in table.to_arrow().to_pylist())
    many = [[(part, n, n) for n in range(FULL)] for part in "ab"]
    assert found == [*many[0], ("a", 50, 1), *many[1], ("c", 0, 1)]


def test_buckets_of_all_partitions(local_lake: lakebed.Warehouse) -> None:
    """A bucket has files in several partitions: each stays in its own, and a row that moves is in one only."""
    table = make(local_lake, **PARTITIONED)
    for n in range(FULL - 1):
        for at, part in enumerate("ab"):
            put_in(table, part, {at * 100 + n: n, at * 100 + n + 50: n})
    assert "compact" not in operations(table)
    put_in(table, "a", {99: 1})
    put_in(table, "c", {0: 5, 100: 6})
    assert operations(table)[-2:] == ["upsert", "compact"]
    assert counts(table) == {"a": 1, "b": 1, "c": 1}
    old = {at * 100 + n + more: n for at in (0, 1) for n in range(FULL - 1) for more in (0, 50)}
    check(table, {**old, 99: 1, 0: 5, 100: 6})


def test_deleted_keys_stay_deleted(local_lake: lakebed.Warehouse) -> None:
    """The memory of a deleted key is packed too: a late row still loses."""
    table = make(local_lake, columns="id BIGINT, s BIGINT, v BIGINT", sequence=["s"])
    for n in range(FULL):
        kinds = [{"id": n * 10 + i, "s": 5, "v": n, "op": "-D" if i < 3 else "+I"} for i in range(10)]
        table.upsert(kinds, row_kind="op")
    table.delete([{"id": n * 10 + 9, "s": 6} for n in range(FULL)])
    assert operations(table)[-1] == "compact"
    assert table.files().num_rows == 2
    wanted = {n * 10 + i: n for n in range(FULL) for i in range(3, 9)}
    assert rows(table) == wanted
    table.upsert([{"id": i, "s": 4, "v": 99} for i in range(FULL * 10)])
    assert rows(table) == wanted
    table.upsert([{"id": i, "s": 7, "v": 99} for i in range(10)])
    assert rows(table) == {**wanted, **dict.fromkeys(range(10), 99)}


@pytest.mark.parametrize("engine", ["aggregation", "partial-update", "first-row"])
def test_merge_engines(local_lake: lakebed.Warehouse, engine: str) -> None:
    given = {"fields.v.aggregate-function": "sum"} if engine == "aggregation" else {}
    table = make(local_lake, merge_engine=engine, properties=given)
    wanted, drawn = Rows(), random.Random(3)
    for n in range(1, 40):
        batch = {drawn.randrange(300): n for _ in range(20)}
        put(table, batch)
        for key, value in batch.items():
            old = wanted.get(key)
            wanted[key] = value if old is None or engine == "partial-update" else old
            wanted[key] += value if old is not None and engine == "aggregation" else 0
        assert table.files().num_rows <= FULL
    assert "compact" in operations(table)
    check(table, wanted)


def test_others_write_meanwhile(local_lake: lakebed.Warehouse) -> None:
    """What another upsert kills while files are packed is dead in the new one."""
    table = make(local_lake)
    wanted = trickle(table)
    between = dict.fromkeys(range(0, 80, 3), 9)
    other = local_lake.table("t")

    def interfere(number: int) -> None:
        if number == 1:
            other.alter(properties={"compact-on-write": 0})
            put(other, between)

    with before_commits(interfere):
        put(table, {1: 5})
    assert operations(table)[-4:] == ["upsert", "alter", "upsert", "compact"]
    assert table.files().num_rows == 3
    check(table, {**wanted, 1: 5, **between})


@pytest.mark.parametrize("full", [False, True])
def test_others_pack_the_same_files(local_lake: lakebed.Warehouse, full: bool) -> None:
    """The first one wins; the other has nothing left to do, and nothing is left of it."""
    table = make(local_lake)
    wanted = trickle(table)
    other = local_lake.table("t")
    change = (lambda: other.compact(full=True)) if full else (lambda: put(other, {2: 6}))
    with before_commits(lambda number: change() if number == 1 else None):
        put(table, {1: 5})
    assert operations(table).count("compact") == 1
    check(table, {**wanted, 1: 5, **({} if full else {2: 6})})
    assert stored(table) == referenced(table)


def test_a_failure_is_a_warning(local_lake: lakebed.Warehouse) -> None:
    table = make(local_lake)
    wanted = trickle(table)

    def fail(step: Step) -> None:
        if step is Step.COMPACT_WRITTEN:
            raise StorageError("no space left on device")

    stop = observe(fail)
    try:
        with pytest.warns(
            DeadRowsWarning, match=r"default.t: the commit has landed.*small.*no space left.*compact\(\)"
        ):
            put(table, {1: 5})
    finally:
        stop()
    assert operations(table)[-1] == "upsert"
    assert stored(table) == referenced(table)
    put(table, {2: 6})
    assert operations(table)[-1] == "compact"
    check(table, {**wanted, 1: 5, 2: 6})


def test_files_stay_if_nobody_knows_whether_they_have_landed(local_lake: lakebed.Warehouse) -> None:
    table = make(local_lake)
    wanted = trickle(table)
    stop = cut_off(table, 2)
    try:
        with pytest.warns(DeadRowsWarning, match="the connection broke"):
            put(table, {1: 5})
    finally:
        stop()
    assert operations(table)[-1] == "compact"
    assert rows(table) == {**wanted, 1: 5}
    assert referenced(table) <= stored(table)


def test_what_is_not_settled_is_passed_over(local_lake: lakebed.Warehouse) -> None:
    """Somebody else's rows wait by the time that files are looked up."""
    table = make(local_lake)
    wanted = trickle(table)
    seen: list[Step] = []

    def interfere(step: Step) -> None:
        seen.append(step)
        if step is Step.PUBLISH_WRITTEN and seen.count(step) == 1:
            table.alter(properties={"merge": "on-read"})
            put(table, {2: 6})

    stop = observe(interfere)
    try:
        put(table, {1: 5})
    finally:
        stop()
    assert "compact" not in operations(table)
    assert rows(table) == {**wanted, 1: 5, 2: 6}


def test_a_table_that_is_dropped_before_its_files_are_packed(local_lake: lakebed.Warehouse) -> None:
    """The transaction has landed: to raise would make its caller add the same rows to the other table again."""
    sums = {"merge_engine": "aggregation", "properties": {"fields.v.aggregate-function": "sum"}}
    packed, other = make(local_lake, "a", **sums), make(local_lake, "b", **sums)
    trickle(packed)
    put(other, {1: 100})
    dropped = []

    def drop(step: Step) -> None:
        if step is Step.PUBLISH_WRITTEN and not dropped:
            dropped.append(step)
            local_lake.drop_table("a")

    stop = observe(drop)
    try:
        with local_lake.transaction() as tx:
            put(tx.table("a"), {1: 5})
            put(tx.table("b"), {1: 5})
    finally:
        stop()
    assert dropped
    assert set(tx.versions) == {"default.a", "default.b"}
    assert other.to_arrow().to_pylist() == [{"id": 1, "v": 105}]


@pytest.mark.parametrize("error", [MemoryError("all of it"), OSError(28, "no space"), RuntimeError("odd")])
def test_no_failure_to_pack_is_a_failure_of_the_upsert(local_lake: lakebed.Warehouse, error: Exception) -> None:
    table = make(local_lake)
    wanted = trickle(table)
    version, raised = table.version, []

    def fail(step: Step) -> None:
        if step is Step.COMPACT_WRITTEN:
            raised.append(step)
            raise error

    stop = observe(fail)
    try:
        with pytest.warns(DeadRowsWarning, match="has landed.*" + type(error).__name__):
            put(table, {1: 5})
    finally:
        stop()
    assert raised
    assert table.version == version + 1
    check(table, {**wanted, 1: 5})
    assert stored(table) == referenced(table)


def test_an_interruption_says_that_the_rows_have_landed(local_lake: lakebed.Warehouse) -> None:
    table = make(local_lake)
    trickle(table)

    def interrupt(step: Step) -> None:
        if step is Step.COMPACT_WRITTEN:
            raise KeyboardInterrupt

    stop = observe(interrupt)
    try:
        with pytest.raises(KeyboardInterrupt) as caught:
            put(table, {1: 5})
    finally:
        stop()
    assert "the commit had landed already" in caught.value.__notes__
    assert table.to_arrow(where="id = 1").to_pylist() == [{"id": 1, "v": 5}]


SECOND = [
    Step.COMPACT_WRITTEN,
    Step.COMMIT_PREPARED,
    Step.COMMIT_BEGUN,
    Step.COMMIT_INSERTED,
    Step.COMMIT_DONE,
    Step.PUBLISH_BEGUN,
    Step.PUBLISH_WRITTEN,
    Step.PUBLISH_MARKED,
    Step.CHECKPOINT_WRITTEN,
    Step.CHECKPOINT_POINTED,
]
"""What an upsert passes after its own commit, in the commit that packs files."""
LANDED = SECOND[SECOND.index(Step.COMMIT_DONE) :]
ENGINES: dict[str, dict[str, Any]] = {"deduplicate": {"properties": {}}, "aggregation": SUMS}
"""A sum shows whether rows were lost or doubled."""


def about_to_pack(lake: lakebed.Warehouse, name: str, engine: str) -> tuple[lakebed.Table, Rows]:
    """A table whose next upsert packs files of both buckets, and its rows; the checkpoint is due then."""
    given = ENGINES[engine]
    table = make(lake, name, buckets=2, **{**given, "properties": {**given["properties"], "checkpoint-interval": 10}})
    wanted = trickle(table)
    assert table.version == FULL
    return table, wanted


def after(wanted: Rows, engine: str, batch: Rows) -> Rows:
    return wanted | {
        key: value + (wanted.get(key, 0) if engine == "aggregation" else 0) for key, value in batch.items()
    }


@pytest.mark.parametrize("engine", ENGINES)
def test_the_steps_of_packing_are_known(local_lake: lakebed.Warehouse, engine: str) -> None:
    """Or a kill would be tried at fewer steps than there are."""
    table, _ = about_to_pack(local_lake, "t", engine)
    passed: list[Step] = []
    stop = observe(passed.append)
    try:
        operate(table, "replace few")
    finally:
        stop()
    assert list(dict.fromkeys(passed[passed.index(Step.PUBLISH_MARKED) + 1 :])) == SECOND
    assert operations(table)[-2:] == ["upsert", "compact"]


@pytest.fixture(scope="module")
def workers() -> Iterator[Callable[[], Worker]]:
    with workers_in_waiting(main) as take:
        yield take


def kills() -> Iterator[Any]:
    """Every step for both engines; what comes before and after the commit is the same for both."""
    for engine in ENGINES:
        for step in SECOND:
            soak = engine == "aggregation" and step in FOR_LONG
            yield pytest.param(step, engine, id=f"{engine}-{step.value}", marks=[pytest.mark.soak] if soak else [])


@pytest.mark.parametrize(("step", "engine"), list(kills()))
def test_killed_while_packing(tmp_path: Path, workers: Callable[[], Worker], step: Step, engine: str) -> None:
    kill_and_check(tmp_path / "w", None, workers(), step, engine)


@pytest.mark.parametrize("step", [Step.COMMIT_INSERTED, Step.COMMIT_DONE], ids=lambda step: step.value)
def test_killed_while_packing_on_postgres(
    tmp_path: Path, postgres_metastore: Callable[[], str], workers: Callable[[], Worker], step: Step
) -> None:
    kill_and_check(tmp_path / "w", postgres_metastore(), workers(), step, "aggregation")


def kill_and_check(root: Path, url: str | None, worker: Worker, step: Step, engine: str) -> None:
    """kill -9 in the second commit of an upsert: its rows have landed, once, and the next one goes on."""
    with lakebed.connect(root, url) as lake:
        table, wanted = about_to_pack(lake, "t", engine)
        worker.die_of(Order(str(root), url, "t", "replace few", step, after=Step.PUBLISH_MARKED))
        landed = step in LANDED
        assert operations(table) == ["create", *["upsert"] * (FULL + 1), *["compact"] * landed]
        before, wanted = wanted, after(wanted, engine, {row["id"]: row["v"] for row in FEW_ROWS})
        assert rows(table) == wanted
        assert table.count() == table.to_arrow().num_rows == len(wanted)
        assert rows(table.at(version=FULL)) == before
        assert rows(table.at(version=FULL + 1)) == wanted
        orphans = stored(table) - referenced(table)
        assert bool(orphans) is not landed
        assert referenced(table) <= stored(table)
        go_on(table, engine, wanted, landed, orphans)


def go_on(table: lakebed.Table, engine: str, wanted: Rows, landed: bool, orphans: set[str]) -> None:
    """The next upsert packs what the dead one has not, and vacuum takes what it has left."""
    batch = {1: 5, 2: 5, 3: 5, 4: 5, 7000: 5}
    put(table, batch)
    assert operations(table)[-1] == ("upsert" if landed else "compact")
    assert largest(table) < FULL
    check(table, after(wanted, engine, batch))
    assert all(commit.published for commit in table.history())
    age(table, orphans)
    found = table.vacuum(AT_ONCE).paths
    assert orphans <= set(found)
    assert stored(table) == referenced(table)
    check(table, after(wanted, engine, batch))
