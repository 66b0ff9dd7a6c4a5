"""Every behaviour of the metastore is tried on SQLite and on PostgreSQL."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lakebed.metastore import Metastore, open_metastore

sys.path.insert(0, str(Path(__file__).parent))

from table_under_test import Written, create


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A new, empty database of each kind."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/lake/metastore.db"
    make: Callable[[], str] = request.getfixturevalue("postgres")
    return make()


@pytest.fixture
def metastore(url: str) -> Iterator[Metastore]:
    """A new metastore of each kind."""
    with open_metastore(url, patience=5) as opened:
        yield opened


@pytest.fixture
def table(metastore: Metastore) -> Written:
    """An empty table at version 0."""
    return create(metastore)
