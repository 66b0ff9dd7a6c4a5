"""Expiry: which versions stay, what is said of the others, and a log that still opens everywhere."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from conftest import make_place
from crash_worker import Order
from deltalake import DeltaTable, QueryBuilder
from worker_processes import Worker

import lakebed
from lakebed.core.actions import now_ms
from lakebed.core.steps import Step, observe
from lakebed.delta.checkpoint import pointed_version
from lakebed.delta.log import list_log
from lakebed.engine.lease import end_pending

AT_ONCE = timedelta(0)


@pytest.fixture(params=["sqlite-local", "postgres-local"])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[lakebed.Warehouse]:
    """A warehouse on each metastore."""
    with make_place(request, request.param, tmp_path).connect() as opened:
        yield opened


def numbers(lake: lakebed.Warehouse, appends: int = 5, **properties: Any) -> lakebed.Table:
    """Version v has the numbers from 1 to v, one to a file."""
    table = lake.create_table("n", "n BIGINT", properties=properties)
    for n in range(1, appends + 1):
        table.append([{"n": n}])
    return table


def at(table: lakebed.Table, version: int) -> list[int]:
    return sorted(table.at(version=version).to_arrow()["n"].to_pylist())


def versions(table: lakebed.Table) -> list[int]:
    return sorted(commit.version for commit in table.history())


def local_path(table: lakebed.Table) -> Path:
    return Path(table.location.removeprefix("file://"))


def log_names(table: lakebed.Table) -> list[str]:
    return sorted(p.name for p in (local_path(table) / "_delta_log").iterdir())


def check_log(table: lakebed.Table, oldest: int) -> None:
    """deltalake, polars and Lakebed itself open the newest version and every kept one from the log alone."""
    path = str(local_path(table))
    for version in range(oldest, table.version + 1):
        expected = at(table, version)
        assert sorted(lakebed.read_delta(path, version).to_arrow()["n"].to_pylist()) == expected
        assert sorted(pl.read_delta(path, version=version)["n"].to_list()) == expected
        theirs = QueryBuilder().register("t", DeltaTable(path, version=version)).execute("select n from t")
        assert sorted(value for batch in theirs for value in batch["n"].to_pylist()) == expected
    assert DeltaTable(path).version() == table.version
    assert lakebed.read_delta(path).version == table.version
    for version in range(oldest):
        with pytest.raises(lakebed.LakebedError):
            lakebed.read_delta(path, version)


def test_any_instant_within_the_retention_stays_readable(lake: lakebed.Warehouse) -> None:
    table = numbers(lake)
    stamps = {commit.version: commit.timestamp for commit in table.history()}
    age = now_ms() - int(stamps[3].timestamp() * 1000)
    assert table.expire(age + 60_000) == lakebed.Expired("default.n", 0, 0)
    cut = now_ms() - 1
    before = table.at(timestamp=cut).version
    assert before == 5
    expired = table.expire(now_ms() - int(stamps[3].timestamp() * 1000) - 1)
    # The version in force at the cut-off stays: some instants within the retention are still its.
    assert expired.earliest in (3, 4, 5)
    assert versions(table) == list(range(expired.earliest, 6))
    for version in versions(table):
        assert at(table, version) == list(range(1, version + 1))
        assert table.at(timestamp=stamps[version]).version == version


@pytest.mark.parametrize("retain", ["0 days", 0, timedelta(0)])
def test_what_is_said_of_an_expired_version(local_lake: lakebed.Warehouse, retain: Any) -> None:
    table = numbers(local_lake)
    stamps = {commit.version: commit.timestamp for commit in table.history()}
    table.tag("kept", 2)
    table.tag("short", 3, retain="0 seconds")
    assert table.expire(retain) == lakebed.Expired("default.n", 4, 5)
    for version in (0, 1, 3, 4):
        with pytest.raises(
            lakebed.NotFoundError,
            match=rf"table default\.n has no version {version} any more: it has expired; "
            r"expected a version from 5 to 5, or one of 2",
        ):
            table.at(version=version)
    with pytest.raises(lakebed.NotFoundError, match=r"has expired; expected a version from 5 to 5, or one of 2"):
        table.at(timestamp=stamps[4])
    with pytest.raises(lakebed.NotFoundError, match=r"no version at .*; expected .*version 2 was committed, or later"):
        table.at(timestamp=stamps[1])
    with pytest.raises(lakebed.NotFoundError, match=r"no tag 'short'; expected one of kept"):
        table.at(tag="short")
    with pytest.raises(lakebed.NotFoundError, match="no version 9; expected a version from 5 to 5"):
        table.at(version=9)
    with pytest.raises(lakebed.NotFoundError, match="expired"):
        table.restore(version=3)
    assert [tag.name for tag in table.tags()] == ["kept"]


@pytest.mark.parametrize("retain", ["soon", -1, True, None, "7 parsecs", timedelta(days=-1)])
def test_a_retention_that_is_none(local_lake: lakebed.Warehouse, retain: Any) -> None:
    table = numbers(local_lake, 1)
    for forget in (table.expire, table.vacuum):
        with pytest.raises(lakebed.InputError, match="no length of time"):
            forget(retain)
    assert versions(table) == [0, 1]


def test_tags_hold_their_versions(lake: lakebed.Warehouse) -> None:
    table = numbers(lake, **{"checkpoint-interval": 2})
    table.tag("ever", 1)
    table.tag("long", 2, retain="30 days")
    table.tag("short", 3, retain=0)
    assert table.expire(AT_ONCE) == lakebed.Expired("default.n", 3, 5)
    assert versions(table) == [1, 2, 5]
    # Older than the log's beginning, and yet readable.
    assert [name for name in log_names(table) if name.endswith(".json")] == [f"{5:020d}.json"]
    assert (at(table, 1), at(table, 2)) == ([1], [1, 2])
    assert table.at(tag="ever").to_polars()["n"].to_list() == [1]
    check_log(table, 5)
    table.delete_tag("ever")
    assert table.expire(AT_ONCE).versions == 1
    assert versions(table) == [2, 5]
    table.restore(tag="long")
    assert sorted(table.to_arrow()["n"].to_pylist()) == [1, 2]
    check_log(table, 5)


def test_a_tag_of_the_newest_kept_run_joins_it(local_lake: lakebed.Warehouse) -> None:
    table = numbers(local_lake)
    table.tag("previous", 4)
    assert table.expire(AT_ONCE).earliest == 4
    check_log(table, 4)


@pytest.mark.parametrize("interval", [1, 2, 3, 100])
def test_the_log_follows(local_lake: lakebed.Warehouse, interval: int) -> None:
    table = numbers(local_lake, 7, **{"checkpoint-interval": interval})
    pointed = pointed_version(table._store)
    table.tag("a", 4)
    table.tag("b", 5)
    table.tag("c", 6)
    table.expire(AT_ONCE)
    names = log_names(table)
    assert names[0] == f"{4:020d}.checkpoint.parquet"
    assert names[1] == f"{4:020d}.json"
    check_log(table, 4)
    # The pointer never goes back, and never to what is not there.
    now = pointed_version(table._store)
    assert now is not None
    assert now >= max(pointed or 0, 4)
    assert now in {checkpoint.version for checkpoint in list_log(table._store).checkpoints}
    before = log_names(table)
    assert table.expire(AT_ONCE).versions == 0
    assert log_names(table) == before
    table.append([{"n": 8}])
    check_log(table, 4)


def test_a_stale_pointer_is_mended(local_lake: lakebed.Warehouse) -> None:
    """A checkpoint that a killed process wrote and did not point at: readers would follow the pointer into nothing."""
    table = numbers(local_lake, 4, **{"checkpoint-interval": 2})
    pointer = local_path(table) / "_delta_log" / "_last_checkpoint"
    pointer.write_text(json.dumps({"version": 2, "size": 5}))
    table.expire(AT_ONCE)
    assert json.loads(pointer.read_text())["version"] == 4
    check_log(table, 4)


def test_an_older_checkpoint_does_not_move_the_pointer_back(local_lake: lakebed.Warehouse) -> None:
    table = numbers(local_lake, 6, **{"checkpoint-interval": 6})
    table.tag("a", 3), table.tag("b", 4), table.tag("c", 5)
    table.expire(AT_ONCE)
    assert pointed_version(table._store) == 6
    assert {c.version for c in list_log(table._store).checkpoints} == {3, 6}


@pytest.mark.parametrize("kind", ["sqlite-local", "postgres-s3"])
def test_recovered_after_expiry(request: pytest.FixtureRequest, tmp_path: Path, kind: str) -> None:
    place = make_place(request, kind, tmp_path)
    with place.connect() as lake:
        table = lake.create_table("k", "id BIGINT NOT NULL, v STRING", primary_key=["id"], buckets=2, merge="on-read")
        for turn in range(4):
            table.upsert([{"id": i, "v": f"{turn}"} for i in range(turn, turn + 4)])
        table.delete([{"id": 0}])
        table.tag("two", 4)
        table.expire(AT_ONCE)
        table.upsert([{"id": 9, "v": "late"}], txn=("loader", 3))
        expected = {v: sorted(map(str, table.at(version=v).to_arrow().to_pylist())) for v in versions(table)}
        location = table.location
    metastore = f"sqlite:///{tmp_path}/new.db"
    with lakebed.connect(place.warehouse, metastore, **place.options) as lake:
        table = lake.recover(location)
        assert versions(table) == sorted(expected)
        for version, rows in expected.items():
            assert sorted(map(str, table.at(version=version).to_arrow().to_pylist())) == rows
        assert table.append([], txn=("loader", 3)).repeated
        table.settle()
        table.expire(AT_ONCE)
        assert sorted(map(str, table.to_arrow().to_pylist())) == expected[max(expected)]


def test_running_readers_hold_their_versions(lake: lakebed.Warehouse) -> None:
    table = numbers(lake)
    batches = table.at(version=2).to_batches()
    table.expire(AT_ONCE)
    assert versions(table) == [2, 5]
    assert sorted(n for batch in batches for n in batch["n"].to_pylist()) == [1, 2]
    assert table.expire(AT_ONCE).versions == 1
    assert versions(table) == [5]


def test_what_is_not_published_stays(local_lake: lakebed.Warehouse) -> None:
    table = numbers(local_lake, 2)

    def fail(step: Step) -> None:
        if step is Step.PUBLISH_BEGUN:
            raise lakebed.StorageError("no log today")

    stop = observe(fail)
    for n in (3, 4):
        with pytest.warns(lakebed.PublicationWarning):
            table.append([{"n": n}])
    stop()
    table.expire(AT_ONCE)
    assert versions(table) == [2, 3, 4]
    table.publish()
    check_log(table, 2)
    table.expire(AT_ONCE)
    assert versions(table) == [4]
    check_log(table, 4)


def test_a_transaction_of_an_expired_version_is_still_known(local_lake: lakebed.Warehouse) -> None:
    table = numbers(local_lake, 1)
    table.append([{"n": 2}], txn=("loader", 1))
    table.append([{"n": 3}])
    table.expire(AT_ONCE)
    again = table.append([{"n": 2}], txn=("loader", 1))
    assert (again.repeated, again.version, again.operation) == (True, 2, "append")
    assert table.count() == 3


def test_expiry_of_a_table_that_is_gone(local_lake: lakebed.Warehouse) -> None:
    table = numbers(local_lake, 1)
    local_lake.drop_table("n")
    with pytest.raises(lakebed.NotFoundError, match="dropped"):
        table.expire(AT_ONCE)


STEPS = [Step.EXPIRE_FORGOTTEN, Step.CHECKPOINT_WRITTEN, Step.CHECKPOINT_POINTED, Step.EXPIRE_DONE]


@pytest.mark.parametrize("step", STEPS)
def test_killed_at(tmp_path: Path, doomed: Callable[[], Worker], step: Step) -> None:
    root = tmp_path / "w"
    with lakebed.connect(root) as lake:
        table = numbers(lake, 5, **{"checkpoint-interval": 2})
        table.tag("kept", 2)
    doomed().die_of(Order(str(root), None, "n", "expire", step))
    with lakebed.connect(root) as lake:
        table = lake.table("n")
        assert versions(table) == [2, 5]
        path = str(local_path(table))
        assert sorted(lakebed.read_delta(path).to_arrow()["n"].to_pylist()) == [1, 2, 3, 4, 5]
        assert sorted(pl.read_delta(path)["n"].to_list()) == [1, 2, 3, 4, 5]
        table.append([{"n": 6}])
        table.expire(AT_ONCE)
        check_log(table, 6)
        assert at(table, 2) == [1, 2]


def test_a_log_that_was_trimmed_in_part_can_be_recovered(local_lake: lakebed.Warehouse, tmp_path: Path) -> None:
    """Whatever part of the old files is gone: kill -9 may come between any two deletions."""
    table = numbers(local_lake, 6, **{"checkpoint-interval": 2})
    whole = tmp_path / "whole"
    shutil.copytree(local_path(table), whole)
    table.tag("a", 5)
    table.expire(AT_ONCE)
    left = set(log_names(table))
    gone = sorted(p.name for p in (whole / "_delta_log").iterdir() if p.name not in left)
    for name in left:
        shutil.copy(local_path(table) / "_delta_log" / name, whole / "_delta_log" / name)
    for name in gone:
        (whole / "_delta_log" / name).unlink()
        with lakebed.connect(tmp_path / f"w-{name}") as other:
            back = other.recover(whole, "n")
            assert back.version == 6
            assert at(back, 5) == [1, 2, 3, 4, 5]
        assert sorted(pl.read_delta(str(whole))["n"].to_list()) == [1, 2, 3, 4, 5, 6]


def test_leases_end(lake: lakebed.Warehouse) -> None:
    table = numbers(lake)
    metastore, table_id = table._handle.metastore, table._handle.table_id

    def leased() -> list[int]:
        end_pending()
        return metastore.leased_versions(table_id, now_ms())

    view = table.at(version=2)
    view.to_arrow(), view.count("n > 1"), view.to_polars(), view.read_optimised().to_arrow()
    assert leased() == []
    stream = view.to_batches()
    assert leased() == [2]
    next(stream)
    assert leased() == [2]
    list(stream)
    assert leased() == []
    begun, never, closed = table.to_batches(), view.read_optimised().to_batches(), view.to_batches()
    next(begun)
    assert leased() == [2, 5]
    del begun, never
    closed.close()  # type: ignore[attr-defined]
    assert leased() == []
    with pytest.raises(lakebed.InputError):
        view.to_batches(columns=["missing"])
    file = next(local_path(table).glob("*.parquet"))
    file.rename(file.with_suffix(".away"))
    with pytest.raises(lakebed.FileMissingError):
        table.at(version=5).to_arrow()
    with pytest.raises(lakebed.FileMissingError):
        list(table.to_batches())
    assert leased() == []


def test_a_view_of_a_version_that_has_expired(local_lake: lakebed.Warehouse) -> None:
    table = numbers(local_lake)
    view = table.at(version=2)
    table.expire(AT_ONCE)
    settled = view.read_optimised()
    for read in (view.to_arrow, view.to_batches, view.count, view.to_polars, settled.to_arrow, view.files):
        with pytest.raises(lakebed.NotFoundError, match="no version 2 any more: it has expired; expected a version"):
            read()
