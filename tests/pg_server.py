"""A real PostgreSQL server for the tests: one per test process, with new databases and emptied metastores."""

from __future__ import annotations

import itertools
import shutil
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
from psycopg import sql

from lakebed.core.names import DEFAULT_NAMESPACE
from lakebed.metastore import open_metastore, schema

_CONTENT = [table.name for table in schema.metadata.sorted_tables if table not in (schema.meta, schema.migrations)]
# Whoever is still connected has been killed, or was not closed by its test.
_EMPTY = ";".join(
    [
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE datname = current_database() AND pid <> pg_backend_pid()",
        *(f"DELETE FROM {name}" for name in reversed(_CONTENT)),
        f"INSERT INTO lakebed_namespaces (name, properties, created) VALUES ('{DEFAULT_NAMESPACE}', '{{}}', 0)",
    ]
)


class PostgresServer:
    """A running server; ``directory`` is where its unix socket is."""

    def __init__(self, url: str, directory: str, port: int) -> None:
        self._url = url
        self._numbers = itertools.count()
        self._idle: list[str] = []
        self.directory = directory
        self.port = port

    @property
    def socket(self) -> str:
        """The path of the server's unix socket, for a proxy in front of it."""
        return f"{self.directory}/.s.PGSQL.{self.port}"

    def new_database(self) -> str:
        """Make an empty database; returns its URL."""
        name = f"test_{next(self._numbers)}"
        with psycopg.connect(self._url, autocommit=True) as connection:
            connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        return f"postgresql://postgres@/{name}?host={self.directory}&port={self.port}"

    @contextmanager
    def lent_metastore(self) -> Iterator[str]:
        """The URL of a metastore with nothing in it; it is emptied for the next borrower.

        That takes a thirtieth of the time of a new database and its schema. Numbers of tables go on, as they would
        after a drop.
        """
        if not self._idle:
            new = self.new_database()
            open_metastore(new).close()
            self._idle.append(new)
        url = self._idle.pop()
        yield url
        with psycopg.connect(url) as connection:
            connection.execute(_EMPTY)
        self._idle.append(url)


@contextmanager
def postgres_server() -> Iterator[PostgresServer]:
    """Start a server in a new directory, and stop and delete it at the end.

    Every process (so every worker of pytest-xdist) has its own; they share nothing.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # pgserver warns that it chooses a directory for its sockets
        import pgserver

    root = Path(tempfile.mkdtemp(prefix="lakebed-pg-"))
    try:
        server = pgserver.get_server(root / "data", cleanup_mode="delete")
        try:
            info = server.get_postmaster_info()
            # The tests never pull the machine's plug: what the disk has flushed does not matter.
            server.psql("ALTER SYSTEM SET fsync = off; ALTER SYSTEM SET full_page_writes = off;")
            server.psql("SELECT pg_reload_conf();")
            yield PostgresServer(server.get_uri(), str(info.socket_dir), int(info.port or 5432))
        finally:
            server.cleanup()
    finally:
        shutil.rmtree(root, ignore_errors=True)
