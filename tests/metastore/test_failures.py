"""What the database means is told by its codes, in whatever language it speaks."""

from __future__ import annotations

import sqlite3

import pytest
from sqlalchemy.exc import OperationalError

from lakebed.metastore.failures import is_lost, is_no_space, is_transient


class Refused(Exception):
    """An error of psycopg, as far as it matters here."""

    def __init__(self, sqlstate: str | None, text: str) -> None:
        super().__init__(text)
        self.sqlstate = sqlstate


def of_postgres(sqlstate: str | None, text: str) -> OperationalError:
    return OperationalError("COMMIT", None, Refused(sqlstate, text))


@pytest.mark.parametrize(
    ("state", "text"),
    [
        ("40001", "konnte Zugriff nicht serialisieren wegen gleichzeitiger Aktualisierung"),
        ("40P01", "デッドロックを検出しました"),
        ("55P03", ""),
    ],
)
def test_ducklake_233_1094_1311_retries_do_not_depend_on_words(state: str, text: str) -> None:
    """DuckLake #233, #1094, #1311: concurrent commits fail; whether they are retried depends on English text."""
    assert is_transient(of_postgres(state, text))
    assert not is_lost(of_postgres(state, text))
    english = "could not serialize access due to concurrent update; deadlock detected; database is locked"
    assert not is_transient(of_postgres("42P01", english))
    assert not is_lost(of_postgres("42P01", "server closed the connection unexpectedly"))
    assert not is_no_space(of_postgres("42P01", "no space left on device"))


def test_sqlite_too(tmp_path: object) -> None:
    first, second = (sqlite3.connect(f"{tmp_path}/a.db", isolation_level=None, timeout=0) for _ in range(2))
    first.execute("BEGIN IMMEDIATE")
    with pytest.raises(sqlite3.OperationalError) as busy:
        second.execute("BEGIN IMMEDIATE")
    assert is_transient(OperationalError("BEGIN", None, busy.value))
    with pytest.raises(sqlite3.OperationalError) as unknown:
        second.execute("SELECT 'database is locked' FROM nowhere")
    assert not is_transient(OperationalError("SELECT", None, unknown.value))
    for connection in (first, second):
        connection.close()
