"""Places to run in: a directory of its own on the disk, and a PostgreSQL server that flushes like a real one."""

from __future__ import annotations

import importlib.util
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg

_TESTS = Path(__file__).resolve().parent.parent / "tests"


@contextmanager
def scratch(name: str) -> Iterator[Path]:
    """A new directory, deleted at the end."""
    path = Path(tempfile.mkdtemp(prefix=f"lakebed-bench-{name}-"))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


@contextmanager
def postgres() -> Iterator[str]:
    """The URL of an empty database on a server of its own, stopped at the end.

    The tests' server does not flush to the disk. Here it must: a commit that may be lost is not a commit.
    """
    with _tests_server() as server:
        url: str = server.new_database()
        with psycopg.connect(url, autocommit=True) as connection:
            for setting in ("fsync", "full_page_writes"):
                connection.execute(f"ALTER SYSTEM RESET {setting}")
            connection.execute("SELECT pg_reload_conf()")
        with psycopg.connect(url) as connection:
            for setting in ("fsync", "full_page_writes", "synchronous_commit"):
                row = connection.execute("SELECT current_setting(%s)", (setting,)).fetchone()
                if row != ("on",):
                    raise RuntimeError(f"PostgreSQL's {setting} must be on for a measurement, it is {row}")
        yield url


def _tests_server() -> Any:
    """The server of the tests; tests are no package, so it is loaded by its path."""
    spec = importlib.util.spec_from_file_location("lakebed_tests_pg_server", _TESTS / "pg_server.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.postgres_server()
