"""migrate: the same warehouse on another metastore."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.mark.postgres
def test_sqlite_to_postgresql_and_back(run, warehouse: Path, tmp_path: Path, postgres: Callable[[], str]) -> None:
    before = run("ls", "--json").json
    server = postgres()
    done = run("migrate", server)
    assert done.code == 0, done.err
    assert "and verified" in done.out
    assert "use only one of the two" in done.out
    assert run("ls", "--json", "--metastore", server).json == before
    back = f"sqlite:///{tmp_path}/back.db"
    told = run("migrate", back, "--metastore", server, "--json").json
    assert told["tables"]["lakebed_tables"]["rows"] == 3
    assert run("ls", "--json", "--metastore", back).json == before == run("ls", "--json").json
    again = run("migrate", server)
    assert again.code == 1
    assert "there is a metastore with tables" in again.err


def test_no_password_is_shown(run) -> None:
    done = run("migrate", "postgresql://ann:hunter2@127.0.0.1:1/lake")
    assert done.code == 1
    assert "cannot be reached" in done.err
    assert "hunter2" not in done.out + done.err
    assert run("migrate", "mysql://x").code == 1
