"""Opening: addresses, migrations, versions, forks, busy and absent databases."""

from __future__ import annotations

import os
import socket
import sqlite3
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import psycopg
import pytest
from sqlalchemy import Connection, insert, inspect, text, update
from table_under_test import add, create

from lakebed.core.errors import MetastoreError, MetastoreVersionError, OptionError
from lakebed.core.steps import Step, observe
from lakebed.metastore import Metastore, connection, open_metastore, schema
from lakebed.metastore.address import parse_address
from lakebed.metastore.connection import Database
from lakebed.metastore.migrations import MIGRATIONS, prepare


def database(url: str) -> Database:
    return Database(parse_address(url), 1)


def add_column(connection: Connection) -> None:
    connection.execute(text("ALTER TABLE lakebed_tags ADD COLUMN note TEXT"))


def columns(opened: Database) -> set[str]:
    return opened.read(lambda c: {column["name"] for column in inspect(c).get_columns("lakebed_tags")})


def test_opening_again_keeps_everything(new_url: str) -> None:
    with open_metastore(new_url) as first:
        table = create(first)
    with open_metastore(new_url, create=False) as second:
        assert second.table("default", "t").table_id == table.table_id


def test_not_creating(new_url: str) -> None:
    with pytest.raises(MetastoreError, match="there is no metastore"):
        open_metastore(new_url, create=False)


def test_an_older_schema_is_migrated(new_url: str) -> None:
    open_metastore(new_url).close()
    opened = database(new_url)
    prepare(opened, create=False, migrations=(*MIGRATIONS, ("0002-note", add_column)))
    assert "note" in columns(opened)
    prepare(opened, create=False, migrations=(*MIGRATIONS, ("0002-note", add_column)))
    opened.close()
    with pytest.raises(MetastoreVersionError, match="0002-note"):
        open_metastore(new_url)


def test_a_failed_migration_changes_nothing(new_url: str) -> None:
    def fail(connection: Connection) -> None:
        add_column(connection)
        raise ZeroDivisionError

    open_metastore(new_url).close()
    opened = database(new_url)
    with pytest.raises(ZeroDivisionError):
        prepare(opened, create=False, migrations=(*MIGRATIONS, ("0002-note", fail)))
    assert "note" not in columns(opened)
    opened.close()
    open_metastore(new_url).close()


def test_unknown_versions_are_refused(new_url: str) -> None:
    open_metastore(new_url).close()
    opened = database(new_url)
    opened.write(lambda c: c.execute(update(schema.meta).values(schema_version=99)))
    with pytest.raises(MetastoreVersionError, match="schema version 99"):
        open_metastore(new_url)
    opened.write(lambda c: c.execute(update(schema.meta).values(schema_version=2)))
    opened.write(lambda c: c.execute(insert(schema.migrations), {"name": "0002-from-the-future", "applied_at": 0}))
    with pytest.raises(MetastoreVersionError, match="0002-from-the-future"):
        open_metastore(new_url)
    opened.close()


def test_many_open_a_new_database_at_once(new_url: str) -> None:
    opened: list[Metastore] = []
    threads = [threading.Thread(target=lambda: opened.append(open_metastore(new_url))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [m.namespaces() for m in opened] == [["default"]] * 4
    for metastore in opened:
        metastore.close()


def test_a_forked_process_has_its_own_connections(metastore: Metastore) -> None:
    table = create(metastore)
    table.commit(add("parent"))
    pid = os.fork()
    if pid == 0:
        try:
            table.commit(add("child"))
            os._exit(0)
        except BaseException:
            os._exit(1)
    assert os.waitpid(pid, 0)[1] == 0
    table.commit(add("parent-again"))
    assert set(table.live()) == {"parent", "child", "parent-again"}
    assert table.versions() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    "bad", ["", "mysql://ann:hunter2@db/x", "sqlite://", "sqlite:///:memory:", "postgresql://ann:hunter2@db:port/x"]
)
def test_addresses_that_cannot_be(bad: str) -> None:
    with pytest.raises(OptionError) as caught:
        open_metastore(bad)
    assert "hunter2" not in str(caught.value)
    assert caught.value.__cause__ is None


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
    return port


def test_an_absent_server_is_named_without_the_password() -> None:
    port = free_port()
    for scheme in ("postgres", "postgresql", "postgresql+psycopg"):
        with pytest.raises(MetastoreError, match=f"postgresql://127.0.0.1:{port}/lake cannot be reached") as caught:
            open_metastore(f"{scheme}://ann:hunter2@127.0.0.1:{port}/lake?application_name=x")
        error: BaseException | None = caught.value
        assert "check that the server runs" in str(error)
        while error is not None:
            assert "hunter2" not in repr(error) + str(error)
            error = error.__cause__


def test_reprs_hide_the_password() -> None:
    address = parse_address("postgresql://ann:hunter2@db:5433/lake?password=hunter2")
    opened = Database(address, 1)
    shown = repr(address) + str(address) + repr(opened) + repr(Metastore(opened))
    assert "hunter2" not in shown
    assert "db:5433/lake" in shown
    opened.close()


def test_a_file_that_is_no_database(tmp_path: Path) -> None:
    path = tmp_path / "metastore.db"
    path.write_text("this is no database, but it is long enough to be looked at" * 20)
    with pytest.raises(MetastoreError, match=r"metastore\.db"):
        open_metastore(f"sqlite:///{path}")
    (tmp_path / "file").write_text("")
    with pytest.raises(MetastoreError, match="directory"):
        open_metastore(f"sqlite:///{tmp_path}/file/x/metastore.db")


def test_a_busy_sqlite_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "_BUSY_MS", 20)
    path = tmp_path / "metastore.db"
    with open_metastore(f"sqlite:///{path}") as metastore:
        table = create(metastore)
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        pauses: list[float] = []

        def release(pause: float) -> None:
            pauses.append(pause)
            other.execute("ROLLBACK")

        monkeypatch.setattr(connection, "time", SimpleNamespace(sleep=release, monotonic=time.monotonic))
        assert table.commit(add("a")).version == 1
        assert len(pauses) == 1
        other.execute("BEGIN IMMEDIATE")
        monkeypatch.setattr(connection, "time", SimpleNamespace(sleep=lambda _: None, monotonic=time.monotonic))
        monkeypatch.setattr(connection, "ATTEMPTS", 2)
        with pytest.raises(MetastoreError, match="busy"):
            table.commit(add("b"))
        other.close()
        assert table.versions() == [0, 1]


@pytest.mark.postgres
def test_a_lock_timeout_is_tried_again(postgres: Callable[[], str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "_BUSY_MS", 20)
    url = postgres()
    with open_metastore(url) as metastore, psycopg.connect(url) as other:
        table = create(metastore)
        other.execute("SELECT 1 FROM lakebed_tables FOR UPDATE")
        pauses: list[float] = []

        def release(pause: float) -> None:
            pauses.append(pause)
            other.rollback()

        monkeypatch.setattr(connection, "time", SimpleNamespace(sleep=release, monotonic=time.monotonic))
        assert table.commit(add("a")).version == 1
        assert len(pauses) == 1


@pytest.mark.postgres
def test_a_deadlock_is_tried_again(postgres: Callable[[], str]) -> None:
    """A foreign transaction holds a row that the commit needs, and waits for the table that the commit holds."""
    url = postgres()
    with open_metastore(url) as metastore, psycopg.connect(url) as other:
        other.execute("SET deadlock_timeout = '10s'")  # so that the commit is the one that gives way
        table = create(metastore)
        other.commit()
        seen: list[Step] = []

        def cross(step: Step) -> None:
            seen.append(step)
            if seen == [Step.COMMIT_BEGUN]:
                other.execute(
                    "INSERT INTO lakebed_versions (table_num, version, commit_id, timestamp, kind, data_change,"
                    " next_row_id, info) SELECT num, 1, 'other', 0, 'append', false, 0, '{}' FROM lakebed_tables"
                )
                crossing.start()

        def wait_for_the_table() -> None:
            other.execute("SELECT 1 FROM lakebed_tables FOR UPDATE")
            other.rollback()

        crossing = threading.Thread(target=wait_for_the_table)
        stop = observe(cross)
        try:
            assert table.commit(add("a"), read=0).version == 1
        finally:
            stop()
            crossing.join()
        assert seen.count(Step.COMMIT_BEGUN) == 2
        assert table.versions() == [0, 1]


def test_sqlite_keeps_commits_through_a_power_cut(tmp_path: Path) -> None:
    with open_metastore(f"sqlite:///{tmp_path}/metastore.db") as metastore:
        settings = metastore._database.read(
            lambda c: [c.execute(text(f"PRAGMA {name}")).scalar() for name in ("journal_mode", "synchronous")]
        )
    assert settings == ["wal", 2]


def test_the_file_of_another_application_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    with sqlite3.connect(path) as other:
        other.execute("create table invoices (id integer)")
    with pytest.raises(MetastoreError, match="another application; found its tables invoices"):
        open_metastore(f"sqlite:///{path}")
    with sqlite3.connect(path) as other:
        assert [name for (name,) in other.execute("select name from sqlite_master")] == ["invoices"]
