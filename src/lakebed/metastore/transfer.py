"""A whole metastore in another database: copied in one transaction, then compared with its source.

The source is only read. Everything at the target, the schema included, is one transaction: whatever interrupts it, the
target is what it was. Before it commits, source and target are both read again, row by row in the same order, and
their digests compared; a writer that has changed the source meanwhile is found by that too.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, String, Table, Text, delete, func, inspect, select, text

from lakebed.core.errors import AlreadyExistsError, ConflictError, InputError, MetastoreVersionError
from lakebed.core.steps import Step, reach
from lakebed.metastore import schema
from lakebed.metastore.address import parse_address
from lakebed.metastore.bulk import copy_rows
from lakebed.metastore.connection import Database
from lakebed.metastore.migrations import MIGRATIONS, create_schema, lock_schema, refuse_strangers, schema_exists
from lakebed.metastore.opening import prepare_file

_ROWS = 5_000
_TABLES: Sequence[Table] = schema.metadata.sorted_tables


@dataclass(frozen=True)
class TableDigest:
    """What a table of a metastore holds: two that have the same digest hold the same rows."""

    rows: int
    digest: str


@dataclass(frozen=True)
class Transferred:
    """A metastore that was copied, and found to be the same."""

    source: str
    """Where it was copied from, without a password."""
    target: str
    tables: dict[str, TableDigest] = field(hash=False)
    """Rows and digest of each table of the metastore."""

    @property
    def rows(self) -> int:
        """All rows."""
        return sum(one.rows for one in self.tables.values())


def transfer(source_url: str, target_url: str) -> Transferred:
    """Copy the metastore at one URL to the database at another, which must hold no table of Lakebed's yet.

    The source stays as it is. Raises AlreadyExistsError if the target holds tables, ConflictError if the source has
    changed meanwhile, MetastoreVersionError if the source has not today's schema, and MetastoreError; the target is
    then what it was.

    >>> import lakebed, tempfile
    >>> root = tempfile.mkdtemp()
    >>> with lakebed.connect(root) as lake:
    ...     _ = lake.create_table("n", "n BIGINT").append([{"n": 1}])
    >>> done = transfer(f"sqlite:///{root}/.lakebed/metastore.db", f"sqlite:///{root}/copy.db")
    >>> done.tables["lakebed_versions"].rows
    2
    """
    addresses = [parse_address(url) for url in (source_url, target_url)]
    if addresses[0].url == addresses[1].url:
        raise InputError("source and target are the same metastore", found=str(addresses[0]))
    source = _source(source_url)
    try:
        if addresses[1].is_sqlite:
            prepare_file(addresses[1], create=True)
        target = Database(addresses[1], patience=30.0)
        try:
            target.probe()
            if target.is_sqlite:
                target.read(lambda connection: refuse_strangers(connection, str(target.address)))
            digests = target.write(
                lambda into: source.read(lambda out: _copied(source, out, into, str(target.address)))
            )
        finally:
            target.close()
    finally:
        source.close()
    return Transferred(str(addresses[0]), str(addresses[1]), digests)


def _source(url: str) -> Database:
    """The database to copy, opened without bringing an old schema up to date: it is not to be changed."""
    address = parse_address(url)
    if address.is_sqlite:
        prepare_file(address, create=False)
    database = Database(address, patience=30.0)
    try:
        database.probe()
        database.read(lambda connection: _refuse_other_schema(connection, str(address)))
    except BaseException:
        database.close()
        raise
    return database


def _refuse_other_schema(connection: Connection, place: str) -> None:
    known = {name for name, _ in MIGRATIONS}
    found: set[str] = set()
    if inspect(connection).has_table(schema.migrations.name):
        found = set(connection.execute(select(schema.migrations.c.name)).scalars())
    if found != known:
        raise MetastoreVersionError(
            f"metastore {place} cannot be copied: it has not today's schema",
            expected=", ".join(sorted(known)),
            found=", ".join(sorted(found)) or "no metastore",
            fix="open it once with this Lakebed, which brings an older one up to date" if found else "check the URL",
        )


def _copied(source: Database, out: Connection, into: Connection, place: str) -> dict[str, TableDigest]:
    """Copy all tables from one transaction to another, and compare what both databases hold then."""
    for connection in (out, into):
        if connection.dialect.name == "postgresql":
            # One of the two waits while the other one is read.
            connection.execute(text("SET LOCAL idle_in_transaction_session_timeout = 0"))
    _make_room(into, place)
    for table in _TABLES:
        copy_rows(into, table, _rows(out, table))
        reach(Step.TRANSFER_TABLE)
    _set_counter(into, _counter(out))
    there = digests(into)
    # A connection of its own sees what was committed since the copy began.
    here = source.read(digests)
    changed = [name for name, digest in here.items() if there[name] != digest]
    if changed or source.read(_counter) != _counter(into):
        raise ConflictError(
            "the metastore has changed while it was copied, or was not copied faithfully",
            found=f"differences in {', '.join(changed) or 'the numbers of tables'}",
            fix="nothing was kept; stop everything that uses the warehouse, and migrate again",
        )
    return there


def _make_room(into: Connection, place: str) -> None:
    """Give the target the schema, empty. Raises AlreadyExistsError if it has a metastore with something in it."""
    lock_schema(into)
    if not schema_exists(into):
        create_schema(into)
    else:
        _refuse_other_schema(into, place)
        if taken := _content(into):
            raise AlreadyExistsError(
                f"there is a metastore with tables at {place} already", found=taken, fix="name an empty database"
            )
    for table in reversed(_TABLES):
        into.execute(delete(table))


def _content(connection: Connection) -> str | None:
    """What a metastore holds beyond what a new one has; None if nothing."""
    tables = connection.execute(select(func.count()).select_from(schema.tables)).scalar_one()
    namespaces = connection.execute(select(func.count()).select_from(schema.namespaces)).scalar_one()
    return f"{tables} table(s) in {namespaces} namespace(s)" if tables or namespaces > 1 else None


def _rows(connection: Connection, table: Table) -> Iterator[dict[str, Any]]:
    """All rows in the order of the primary key, the same with every database."""
    found = connection.execution_options(yield_per=_ROWS).execute(select(table).order_by(*_order(connection, table)))
    for batch in found.mappings().partitions(_ROWS):
        yield from map(dict, batch)


def _order(connection: Connection, table: Table) -> list[Any]:
    """Texts are ordered by their bytes, as SQLite does; a server would do it by its language."""
    collation = "C" if connection.dialect.name == "postgresql" else "BINARY"
    return [c.collate(collation) if isinstance(c.type, String | Text) else c for c in table.primary_key.columns]


def digests(connection: Connection) -> dict[str, TableDigest]:
    """Rows and digest of each table of the metastore, the same with every database."""
    return {table.name: _digest(connection, table) for table in _TABLES}


def _digest(connection: Connection, table: Table) -> TableDigest:
    found = connection.execution_options(yield_per=_ROWS).execute(select(table).order_by(*_order(connection, table)))
    digest, count = hashlib.sha256(), 0
    for batch in found.partitions(_ROWS):
        rows = list(map(list, batch))
        digest.update(json.dumps(rows, separators=(",", ":")).encode())
        count += len(rows)
    return TableDigest(count, digest.hexdigest())


def _counter(connection: Connection) -> int:
    """The highest number that a table ever had: it is never given again."""
    if connection.dialect.name == "postgresql":
        sequence = connection.execute(
            text(f"SELECT pg_get_serial_sequence('{schema.tables.name}', 'num')")
        ).scalar_one()
        last = connection.execute(text(f"SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM {sequence}"))
        return int(last.scalar_one())
    last = connection.execute(
        text("SELECT max(seq) FROM sqlite_sequence WHERE name = :name"), {"name": schema.tables.name}
    )
    return int(last.scalar_one() or 0)


def _set_counter(connection: Connection, last: int) -> None:
    if connection.dialect.name == "postgresql":
        sequence = f"pg_get_serial_sequence('{schema.tables.name}', 'num')"
        connection.execute(
            text(f"SELECT setval({sequence}, :last, :called)"), {"last": max(last, 1), "called": last > 0}
        )
        return
    name = {"name": schema.tables.name}
    connection.execute(text("DELETE FROM sqlite_sequence WHERE name = :name"), name)
    if last:
        connection.execute(
            text("INSERT INTO sqlite_sequence (name, seq) VALUES (:name, :last)"), {**name, "last": last}
        )
