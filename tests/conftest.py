"""Shared fixtures: real servers, and a warehouse on every kind of metastore and storage."""

from __future__ import annotations

import os
import sys
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

import lakebed

sys.path.insert(0, str(Path(__file__).parent))
MASTER = os.environ.get("SPARK_TEST_MASTER")

settings.register_profile(
    "default", deadline=None, max_examples=30, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)
settings.register_profile("soak", deadline=None, max_examples=500, suppress_health_check=list(HealthCheck))
settings.load_profile("default")


@pytest.fixture(autouse=True)
def _clean_environment(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """No setting of the machine reaches a test; on another cluster all warehouses of a test are in PostgreSQL."""
    for name in list(os.environ):
        if name.startswith("LAKEBED_"):
            monkeypatch.delenv(name)
    # Tables of tests are small; what Spark's jobs read and write elsewhere, they have to read and write here.
    monkeypatch.setenv("LAKEBED_READ_HERE", "0")
    monkeypatch.setenv("LAKEBED_WRITE_HERE", "0")
    if MASTER and request.node.get_closest_marker("spark"):
        monkeypatch.setenv("LAKEBED_METASTORE", request.getfixturevalue("postgres_metastore")())


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """The session of all tests of a process: with two threads, or on what SPARK_TEST_MASTER names."""
    from spark_sessions import spark_session

    with spark_session(MASTER or "local[2]") as session:
        yield session


@dataclass(frozen=True)
class Place:
    """Where a warehouse of a test lives; ``connect`` opens it, again and again."""

    kind: str
    warehouse: str
    metastore: str | None
    options: dict[str, Any]

    def connect(self, **options: Any) -> lakebed.Warehouse:
        return lakebed.connect(self.warehouse, self.metastore, **{**self.options, **options})


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[Any]:
    """One real PostgreSQL server."""
    pytest.importorskip("pgserver", reason="the wheel with PostgreSQL has no build for this Python")
    from pg_server import postgres_server

    with postgres_server() as server:
        yield server


@pytest.fixture(scope="session")
def postgres(postgres_server: Any) -> Callable[[], str]:
    """A function that makes a new, empty database and returns its URL."""
    make: Callable[[], str] = postgres_server.new_database
    return make


@pytest.fixture
def postgres_metastore(postgres_server: Any) -> Iterator[Callable[[], str]]:
    """A function that returns the URL of a metastore on PostgreSQL with nothing in it: quicker than a new database."""
    with ExitStack() as stack:
        yield lambda: stack.enter_context(postgres_server.lent_metastore())


@pytest.fixture(scope="session")
def s3() -> Iterator[Any]:
    """One real S3 protocol server on loopback."""
    from s3_server import s3_server

    with s3_server() as server:
        yield server


@pytest.fixture(scope="module")
def doomed() -> Iterator[Callable[[], Any]]:
    """A function that gives a new process of crash_worker.py."""
    import crash_worker
    from worker_processes import workers_in_waiting

    with workers_in_waiting(crash_worker.main) as take:
        yield take


KINDS = ["sqlite-local", "postgres-local", "sqlite-s3", "postgres-s3"]
on_every_pair = pytest.mark.parametrize("place", KINDS, indirect=True)
"""For tests of what depends on the pair of metastore and storage, and not on each alone."""


@pytest.fixture(
    params=[
        "sqlite-local",
        "postgres-s3",
        pytest.param("postgres-local", marks=pytest.mark.soak),
        pytest.param("sqlite-s3", marks=pytest.mark.soak),
    ]
)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """A new warehouse on each metastore and each storage; the other pairs of the two are left to the soak."""
    return make_place(request, request.param, tmp_path)


@pytest.fixture
def lake(place: Place) -> Iterator[lakebed.Warehouse]:
    """An open warehouse on each metastore and each storage."""
    with place.connect() as opened:
        yield opened


@pytest.fixture
def local_lake(tmp_path: Path) -> Iterator[lakebed.Warehouse]:
    """The embedded default: a directory with SQLite in it."""
    with lakebed.connect(tmp_path / "warehouse") as opened:
        yield opened


def make_place(request: pytest.FixtureRequest, kind: str, tmp_path: Path) -> Place:
    metastore, storage = kind.split("-")
    url = None
    if metastore == "postgres":
        url = request.getfixturevalue("postgres_metastore")()
    elif storage == "s3":
        url = f"sqlite:///{tmp_path}/metastore.db"
    if storage == "s3":
        server = request.getfixturevalue("s3")
        bucket = server.new_bucket()
        return Place(kind, f"s3://{bucket}/warehouse-{uuid.uuid4().hex[:8]}", url, server.options())
    return Place(kind, str(tmp_path / "warehouse"), url, {})
