"""A database of an older Lakebed becomes what a new one is."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy import inspect, text
from table_under_test import Written, add, create

from lakebed.metastore import Metastore, open_metastore, schema
from lakebed.metastore.address import parse_address
from lakebed.metastore.connection import Database

HERE = Path(__file__).parent


def make_old(url: str) -> None:
    """A metastore as migration 0001 left it, with one table at version 1 that has one file."""
    rows = (HERE / "schema_0001_rows.sql").read_text()
    if url.startswith("sqlite"):
        path = parse_address(url).path
        path.parent.mkdir(parents=True)
        with sqlite3.connect(path) as old:
            old.executescript((HERE / "schema_0001_sqlite.sql").read_text() + rows)
        old.close()
    else:
        with psycopg.connect(url) as old_server:
            old_server.execute(((HERE / "schema_0001_postgres.sql").read_text() + rows).encode())


def described(metastore: Metastore) -> dict[str, Any]:
    """Columns and indexes of every table, apart from the order of columns."""

    def work(connection: Any) -> dict[str, Any]:
        inspector = inspect(connection)
        return {
            name: (
                {c["name"]: (str(c["type"]), c["nullable"], c["default"]) for c in inspector.get_columns(name)},
                {i["name"]: (i["column_names"], i["unique"]) for i in inspector.get_indexes(name)},
                sorted(inspector.get_pk_constraint(name)["constrained_columns"]),
            )
            for name in schema.metadata.tables
        }

    return metastore._database.read(work)


def test_an_old_database_becomes_as_a_new_one(new_url: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    make_old(new_url)
    with open_metastore(new_url, create=False) as migrated:
        found = described(migrated)
        table = Written(migrated, "old")
        [file] = table.live().values()
        assert migrated.files("old").data.select(["bucket", "unsettled"]).to_pylist() == [
            {"bucket": None, "unsettled": False}
        ]
        table.commit(file.remove(), add("new"))
        assert set(table.live()) == {"new"}
        if not new_url.startswith("sqlite"):
            with psycopg.connect(new_url) as server:
                tables = ", ".join(schema.metadata.tables)
                server.execute(f"DROP TABLE {tables}".encode())
    again = new_url if not new_url.startswith("sqlite") else f"sqlite:///{tmp_path}/new/metastore.db"
    with open_metastore(again) as fresh:
        assert described(fresh) == found
        create(fresh).commit(add("a"))


def test_a_migration_that_was_cut_off_is_done_by_the_next_who_opens(new_url: str) -> None:
    """Half of the change is there already, as after a database without transactional DDL, or by hand."""
    make_old(new_url)
    opened = Database(parse_address(new_url), 1)
    opened.write(lambda c: c.execute(text("ALTER TABLE lakebed_files ADD COLUMN bucket BIGINT")))
    opened.close()
    with open_metastore(new_url) as metastore:
        assert "unsettled" in metastore.files("old").data.column_names


def test_a_database_that_has_the_record_of_migrations_alone(new_url: str) -> None:
    """Before Lakebed made a new schema in one transaction, a process could die between the two."""
    address = parse_address(new_url)
    if address.is_sqlite:
        address.path.parent.mkdir(parents=True)
    opened = Database(address, 1)

    def begin(connection: Any) -> None:
        schema.metadata.create_all(connection, tables=[schema.meta, schema.migrations])
        connection.execute(schema.meta.insert(), {"schema_version": 0})

    opened.write(begin)
    opened.close()
    with open_metastore(new_url, create=False) as metastore:
        assert metastore.namespaces() == ["default"]
        create(metastore).commit(add("a"))
