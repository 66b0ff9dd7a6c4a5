"""A whole metastore in another database: the same, or nothing at all."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

import lakebed
from lakebed.core.steps import Step, observe
from lakebed.metastore.address import parse_address
from lakebed.metastore.connection import Database
from lakebed.metastore.transfer import digests, transfer


def content(url: str) -> dict:
    database = Database(parse_address(url), 1.0)
    try:
        return database.read(digests)
    finally:
        database.close()


@pytest.fixture
def source(tmp_path: Path) -> str:
    """A metastore with something in every table that a warehouse fills by itself, and odd texts."""
    url = f"sqlite:///{tmp_path}/source.db"
    with lakebed.connect(tmp_path / "w", url) as lake:
        lake.create_namespace("größe", {"owner": 'ann\'s \\ "team"'})
        table = lake.create_table("größe.t", "id BIGINT, ü STRING", primary_key=["id"], buckets=2, merge="on-read")
        table.upsert([{"id": n, "ü": "☃"} for n in range(20)], txn=("loader", 1))
        table.settle()
        table.tag("eod", retain="1 day")
        table.delete("id < 3")
        for name in ("b", "a", "_Z", "ä"):
            lake.create_table(name, "n BIGINT, p STRING", partition_by=["p"]).append(
                [{"n": 1, "p": value} for value in ("Ä", "a", "B", "ß", None)]
            )
        lake.drop_table("ä", purge=True)
    return url


def rows(url: str, warehouse: Path) -> list:
    with lakebed.connect(warehouse, url) as lake:
        return [
            (name, lake.table(name).version, sorted(map(str, lake.table(name).to_arrow().to_pylist())))
            for space in lake.namespaces()
            for name in lake.tables(space)
        ]


@pytest.mark.postgres
def test_there_and_back(source: str, tmp_path: Path, postgres: Callable[[], str]) -> None:
    before, server, back = content(source), postgres(), f"sqlite:///{tmp_path}/back.db"
    done = transfer(source, server)
    assert done.tables == before
    assert content(server) == before
    assert transfer(server, back).tables == before
    assert content(source) == content(back) == before
    assert rows(source, tmp_path / "w") == rows(server, tmp_path / "w") == rows(back, tmp_path / "w")
    assert done.tables["lakebed_tables"].rows == 4


@pytest.mark.postgres
def test_a_copy_goes_on(source: str, tmp_path: Path, postgres: Callable[[], str]) -> None:
    """New tables get numbers that no table ever had, even one that was dropped."""
    server = postgres()
    transfer(source, server)
    with lakebed.connect(tmp_path / "w", server) as lake:
        made = lake.create_table("new", "n BIGINT")
        made.append([{"n": 1}])
        assert made.count() == 1
        assert lake.table("größe.t").upsert([{"id": 1, "ü": "again"}]).version == 4
    assert max(_numbers(server)) == 6
    transfer(server, f"sqlite:///{tmp_path}/back.db")
    with lakebed.connect(tmp_path / "w", f"sqlite:///{tmp_path}/back.db") as lake:
        lake.drop_table("new", purge=True)
        lake.create_table("newer", "n BIGINT")
    assert max(_numbers(f"sqlite:///{tmp_path}/back.db")) == 7


def _numbers(url: str) -> list[int]:
    from sqlalchemy import select

    from lakebed.metastore import schema

    database = Database(parse_address(url), 1.0)
    try:
        return database.read(lambda connection: list(connection.execute(select(schema.tables.c.num)).scalars()))
    finally:
        database.close()


def test_a_target_with_tables_is_refused(source: str, tmp_path: Path) -> None:
    other = f"sqlite:///{tmp_path}/other.db"
    with lakebed.connect(tmp_path / "o", other) as lake:
        lake.create_table("t", "n BIGINT")
    before = content(other)
    with pytest.raises(lakebed.AlreadyExistsError, match=r"1 table\(s\) in 1 namespace"):
        transfer(source, other)
    assert content(other) == before
    with pytest.raises(lakebed.InputError, match="the same metastore"):
        transfer(source, source)


def test_an_empty_metastore_is_a_target(source: str, tmp_path: Path) -> None:
    other = f"sqlite:///{tmp_path}/other.db"
    lakebed.connect(tmp_path / "o", other).close()
    assert transfer(source, other).tables == content(source)


def test_another_applications_database_is_refused(source: str, tmp_path: Path) -> None:
    import sqlite3

    with sqlite3.connect(tmp_path / "theirs.db") as database:
        database.execute("CREATE TABLE theirs (n)")
    database.close()
    with pytest.raises(lakebed.MetastoreError, match="another application"):
        transfer(source, f"sqlite:///{tmp_path}/theirs.db")


def test_a_source_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(lakebed.MetastoreError, match="there is no metastore"):
        transfer(f"sqlite:///{tmp_path}/none.db", f"sqlite:///{tmp_path}/copy.db")
    assert list(tmp_path.iterdir()) == []


def test_an_older_schema_is_not_touched(source: str, tmp_path: Path) -> None:
    import sqlite3

    with sqlite3.connect(source.removeprefix("sqlite:///")) as database:
        database.execute("DELETE FROM lakebed_migrations WHERE name LIKE '0004%'")
        database.execute("UPDATE lakebed_meta SET schema_version = 3")
    database.close()
    with pytest.raises(lakebed.MetastoreVersionError, match="brings an older one up to date"):
        transfer(source, f"sqlite:///{tmp_path}/copy.db")
    lakebed.connect(tmp_path / "w", source).close()
    assert transfer(source, f"sqlite:///{tmp_path}/copy.db").tables == content(source)


@pytest.mark.parametrize("kind", ["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
@pytest.mark.parametrize("after", [1, 8])
def test_a_migration_that_is_killed_leaves_nothing(
    request: pytest.FixtureRequest, source: str, tmp_path: Path, kind: str, after: int
) -> None:
    target = f"sqlite:///{tmp_path}/copy.db" if kind == "sqlite" else request.getfixturevalue("postgres")()
    child = os.fork()
    if child == 0:
        seen: list[Step] = []

        def die(step: Step) -> None:
            seen.append(step)
            if len(seen) == after:
                os.kill(os.getpid(), signal.SIGKILL)

        observe(die)
        transfer(source, target)
        os._exit(0)
    assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL
    with pytest.raises(lakebed.MetastoreError, match="there is no metastore"):
        from lakebed.metastore import open_metastore

        open_metastore(target, create=False)
    assert transfer(source, target).tables == content(source)


def test_a_commit_meanwhile_is_noticed(source: str, tmp_path: Path) -> None:
    """Whoever writes to the source while it is copied would otherwise be forgotten."""
    target = f"sqlite:///{tmp_path}/copy.db"
    done: list[Step] = []

    def write(step: Step) -> None:
        if step is Step.TRANSFER_TABLE and not done:
            done.append(step)
            with lakebed.connect(tmp_path / "w", source) as lake:
                lake.table("a").append([{"n": 2, "p": "x"}])

    stop = observe(write)
    try:
        with pytest.raises(lakebed.ConflictError, match="has changed while it was copied"):
            transfer(source, target)
    finally:
        stop()
    assert transfer(source, target).tables == content(source)
