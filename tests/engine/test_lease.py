"""Leases: renewed while a reader is slow, ended by whoever drops it, and never in a reader's way."""

from __future__ import annotations

import gc
import logging
import os
from collections.abc import Iterator

import pytest

import lakebed
from lakebed.core.actions import now_ms
from lakebed.core.errors import MetastoreError
from lakebed.core.steps import Step, observe
from lakebed.engine import lease


@pytest.fixture
def table(local_lake: lakebed.Warehouse) -> lakebed.Table:
    """Three versions."""
    made = local_lake.create_table("t", "n BIGINT")
    made.append([{"n": 1}])
    made.append([{"n": 2}])
    return made


def leased(table: lakebed.Table) -> list[int]:
    lease.end_pending()
    return table._handle.metastore.leased_versions(table._handle.table_id, now_ms())


def until(table: lakebed.Table) -> int:
    with table._handle.metastore._database._engine.connect() as connection:
        return int(connection.exec_driver_sql('SELECT max("until") FROM lakebed_leases').scalar() or 0)


def test_a_slow_reader_keeps_its_version(table: lakebed.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease, "RENEW_SECONDS", 0.01)
    batches = table.at(version=1).to_batches()
    first = until(table)
    assert first > now_ms() + lease.LEASE_MS - 60_000
    while until(table) == first:
        lease.end_pending()
    assert leased(table) == [1]
    assert sum(batch.num_rows for batch in batches) == 1
    assert leased(table) == []


def test_a_lease_that_ran_out_is_told(
    table: lakebed.Table, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that was asleep for longer than its lease: the version may be gone."""
    monkeypatch.setattr(lease, "LEASE_MS", -1)
    batches = table.at(version=1).to_batches()
    table.expire(0)
    kept = lease.take(table._handle, table.version)
    assert kept is not None
    table._handle.metastore.release(kept._holder)
    kept.renew()
    assert "has run out" in caplog.text
    kept.end()
    with pytest.raises(lakebed.NotFoundError, match="expired"):
        table.at(version=1)
    del batches


def test_without_a_metastore_that_can_be_written(
    table: lakebed.Table, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As for a user who may only read."""
    database = table._handle.metastore._database
    with database._relaxed.connect() as connection:
        connection.exec_driver_sql("PRAGMA query_only=ON")
    view = table.at(version=1)
    with caplog.at_level(logging.WARNING):
        assert view.to_arrow()["n"].to_pylist() == [1]
        assert [batch.num_rows for batch in view.to_batches()] == [1]
        assert view.count("n = 1") == 1
    assert caplog.text.count("readers cannot lease versions") == 1


def test_a_metastore_that_is_away_at_the_end(table: lakebed.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(_holder: str) -> None:
        raise MetastoreError("gone")

    monkeypatch.setattr(table._handle.metastore, "release", away)
    assert table.at(version=1).to_arrow().num_rows == 1
    lease.end_pending()
    monkeypatch.undo()
    assert leased(table) == [1]  # until it runs out


def test_garbage_in_a_cycle(table: lakebed.Table) -> None:
    """Collected while this very thread is inside the metastore, whose lock it holds."""

    class Cycle:
        stream: Iterator[object]

        def __init__(self) -> None:
            self.itself = self

    made = Cycle()
    made.stream = table.at(version=1).to_batches()
    next(made.stream)
    assert leased(table) == [1]
    del made

    def collect(step: Step) -> None:
        if step is Step.COMMIT_INSERTED:
            gc.collect()

    stop = observe(collect)
    table.append([{"n": 3}])
    stop()
    assert leased(table) == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_process_leaves_its_parents_leases(table: lakebed.Table) -> None:
    batches = table.at(version=1).to_batches()
    child = os.fork()
    if child == 0:
        try:
            batches.close()  # type: ignore[attr-defined]
            own = table.at(version=2).to_batches()
            fine = leased(table) == [1, 2]
            own.close()  # type: ignore[attr-defined]
            os._exit(0 if fine and leased(table) == [1] else 1)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert leased(table) == [1]
    list(batches)
    assert leased(table) == []


def test_a_head_read_that_vacuum_overtakes_begins_again(
    local_lake: lakebed.Warehouse, table: lakebed.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between planning and reading, the newest version is replaced, expires, and loses its files."""
    other = local_lake.table("t")
    sources = lakebed.engine.point.StoredPoint.sources
    turns = []

    def overtaken(point: object, predicate: object) -> object:
        found = sources(point, predicate)  # type: ignore[arg-type]
        if len(turns) < 3:
            turns.append(point)
            other.overwrite([{"n": 10 + len(turns)}])
            other.vacuum(0)
        return found

    def streamed() -> object:
        return list(table.to_batches())

    for read in (table.to_arrow, table.to_polars, lambda: table.count("n > 0"), streamed):
        turns.clear()
        with monkeypatch.context() as patch:
            patch.setattr(lakebed.engine.point.StoredPoint, "sources", overtaken)
            read()
        assert table.to_arrow()["n"].to_pylist() == [10 + len(turns)]
        assert len(turns) == (1 if read is streamed else 2)  # leased from the second attempt on
