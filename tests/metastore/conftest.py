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


BOTH = ["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)]


@pytest.fixture(params=BOTH)
def new_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A place of each kind where there is no metastore yet."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/lake/metastore.db"
    database: str = request.getfixturevalue("shared_database")
    name = f"s{uuid.uuid4().hex}"
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {name}")
    return f"{database}&options=-csearch_path%3D{name}"


@pytest.fixture(params=BOTH)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A metastore of each kind with nothing in it."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/lake/metastore.db"
    lent: str = request.getfixturevalue("postgres_metastore")()
    return lent


@pytest.fixture
def metastore(url: str) -> Iterator[Metastore]:
    """An open metastore of each kind with nothing in it."""
    with open_metastore(url, patience=5) as opened:
        yield opened


@pytest.fixture
def table(metastore: Metastore) -> Written:
    """An empty table at version 0."""
    return create(metastore)
