"""A commit whose connection is lost has a known outcome: landed once, or certainly not."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest
from cutting_proxy import Cut, CuttingProxy, proxied
from table_under_test import PROTOCOL, Written, add, create, metadata, prepare

from lakebed.core.commit import Kind, Landed
from lakebed.core.errors import CommitUnknownError
from lakebed.core.steps import Step, observe
from lakebed.metastore import Metastore, open_metastore

pytestmark = pytest.mark.postgres


@pytest.fixture
def direct(postgres: Callable[[], str]) -> str:
    """The URL of a new database, without the proxy."""
    return postgres()


@pytest.fixture
def through(direct: str) -> Iterator[tuple[CuttingProxy, str]]:
    with proxied(direct) as made:
        yield made


@pytest.fixture
def proxy(through: tuple[CuttingProxy, str]) -> CuttingProxy:
    return through[0]


@pytest.fixture
def metastore(through: tuple[CuttingProxy, str]) -> Iterator[Metastore]:
    """A metastore that is reached only through the proxy."""
    with open_metastore(through[1], patience=2) as opened:
        yield opened


@pytest.mark.parametrize("cut", ["before", "after", "at_once"])
def test_a_cut_commit_lands_exactly_once(proxy: CuttingProxy, metastore: Metastore, cut: Cut) -> None:
    table = create(metastore)
    proxy.cut = cut
    done = table.commit(add("a"), read=0)
    assert proxy.cuts == 1
    assert (done.version, done.repeated) == (1, False)
    assert table.versions() == [0, 1]
    assert set(table.live()) == {"a"}
    assert metastore.find_commit(table.table_id, done.commit_id) == 1
    assert done.timestamp == metastore.history(table.table_id)[0].timestamp


@pytest.mark.parametrize("cut", ["before", "after", "at_once"])
def test_a_cut_commit_of_two_tables(proxy: CuttingProxy, metastore: Metastore, cut: Cut) -> None:
    one, two = create(metastore, "one"), create(metastore, "two")
    proxy.cut = cut
    outcome = metastore.commit([one.prepare(add("a"), read=0), two.prepare(add("b"), read=0)])
    assert isinstance(outcome, Landed)
    assert [c.version for c in outcome.commits] == [1, 1]
    assert (one.versions(), two.versions()) == ([0, 1], [0, 1])


@pytest.mark.parametrize("cut", ["before", "after", "at_once"])
def test_a_cut_creation_makes_one_table(proxy: CuttingProxy, metastore: Metastore, cut: Cut) -> None:
    first = prepare("x", [PROTOCOL, metadata("x")], -1, Kind.CREATE)
    proxy.cut = cut
    record = metastore.create_table("default", "t", "file:///x", first)
    assert proxy.cuts == 1
    assert metastore.tables("default") == [record]
    assert Written(metastore, "x").versions() == [0]


def test_a_server_that_stays_away_leaves_the_outcome_open(proxy: CuttingProxy, metastore: Metastore) -> None:
    table = create(metastore)
    proxy.cut, proxy.away_after_cut = "after", True
    with pytest.raises(CommitUnknownError, match="mine-1") as caught:
        table.commit(add("a"), read=0, commit_id="mine-1")
    assert "no file of it may be deleted" in str(caught.value)
    proxy.refusing = False
    assert metastore.find_commit(table.table_id, "mine-1") == 1


def test_a_standby_that_took_over_leaves_the_outcome_open(
    direct: str, proxy: CuttingProxy, metastore: Metastore
) -> None:
    """Whatever keeps the question from being answered, the files of the commit must stay."""
    table = create(metastore)
    name = urlsplit(direct).path[1:]
    with psycopg.connect(direct, autocommit=True) as connection:  # for new connections only: mine has begun
        connection.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
    proxy.cut = "after"
    with pytest.raises(CommitUnknownError, match="mine-1"):
        table.commit(add("a"), read=0, commit_id="mine-1")
    assert metastore.find_commit(table.table_id, "mine-1") == 1


def test_marking_on_a_connection_that_was_cut(direct: str, metastore: Metastore) -> None:
    table = create(metastore)
    with psycopg.connect(direct, autocommit=True) as connection:
        others = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = current_database()"
        (killed,) = connection.execute(others + " AND pid <> pg_backend_pid()").fetchone() or (0,)
    metastore.mark_published(table.table_id, 0)
    assert killed > 0
    assert metastore.published(table.table_id) == 0


@pytest.mark.parametrize("step", [Step.COMMIT_BEGUN, Step.COMMIT_INSERTED])
def test_a_killed_backend(direct: str, step: Step) -> None:
    killed: list[int] = []

    def kill(reached: Step) -> None:
        if reached is step and not killed:
            with psycopg.connect(direct, autocommit=True) as connection:
                rows = connection.execute(
                    "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE pid <> pg_backend_pid()"
                    " AND datname = current_database() AND state = 'idle in transaction'"
                ).fetchall()
            killed.append(len(rows))

    with open_metastore(direct, patience=5) as metastore:
        table = create(metastore)
        stop = observe(kill)
        try:
            done = table.commit(add("a"))
        finally:
            stop()
        assert killed == [1]
        assert done.version == 1
        assert table.versions() == [0, 1]
        assert set(table.live()) == {"a"}


def test_all_connections_killed_between_calls(direct: str) -> None:
    with open_metastore(direct) as metastore:
        table = create(metastore)
        for call in (lambda: metastore.head(table.table_id), lambda: table.commit(add("a"), read=0)):
            with psycopg.connect(direct, autocommit=True) as connection:
                connection.execute(
                    "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
                    " WHERE pid <> pg_backend_pid() AND datname = current_database()"
                )
            call()
        assert table.versions() == [0, 1]


def test_the_outcome_waits_for_a_commit_that_is_still_under_way(
    direct: str, proxy: CuttingProxy, metastore: Metastore
) -> None:
    """The server is still committing when the writer, already cut off, asks whether it has."""
    table = create(metastore)
    with psycopg.connect(direct, autocommit=True) as gate:
        gate.execute(
            "CREATE FUNCTION wait_at_commit() RETURNS trigger LANGUAGE plpgsql AS"
            " $$ BEGIN PERFORM pg_advisory_xact_lock_shared(1); RETURN NULL; END $$"
        )
        gate.execute(
            "CREATE CONSTRAINT TRIGGER slow AFTER INSERT ON lakebed_versions DEFERRABLE INITIALLY DEFERRED"
            " FOR EACH ROW EXECUTE FUNCTION wait_at_commit()"
        )
        gate.execute("SELECT pg_advisory_lock(1)")
        proxy.cut = "at_once"
        done: list[Any] = []
        writer = threading.Thread(target=lambda: done.append(table.attempt(add("a"), read=0)))
        writer.start()
        waiting = 0
        while waiting < 2:  # the COMMIT at the gate, and the question at the table's row
            waiting = gate.execute(
                "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
            ).fetchone()[0]  # type: ignore[index]
        gate.execute("SELECT pg_advisory_unlock(1)")
        writer.join()
    assert isinstance(done[0], Landed)
    assert done[0].commits[0].version == 1
    assert table.versions() == [0, 1]
