"""Every behaviour of the metastore is tried on SQLite and on PostgreSQL."""

from __future__ import annotations

import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from lakebed.metastore import Metastore, open_metastore

# Last, so that `conftest` stays the one of all tests.
sys.path.append(str(Path(__file__).parent))

from table_under_test import Written, create


@pytest.fixture(scope="session")
def shared_database(postgres: Callable[[], str]) -> str:
    """One database for many tests: a new schema in it takes a tenth of the time of a new database."""
    return postgres()


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A new, empty metastore's place of each kind."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/lake/metastore.db"
    database: str = request.getfixturevalue("shared_database")
    name = f"s{uuid.uuid4().hex}"
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {name}")
    return f"{database}&options=-csearch_path%3D{name}"


@pytest.fixture
def metastore(url: str) -> Iterator[Metastore]:
    """A new metastore of each kind."""
    with open_metastore(url, patience=5) as opened:
        yield opened


@pytest.fixture
def table(metastore: Metastore) -> Written:
    """An empty table at version 0."""
    return create(metastore)
