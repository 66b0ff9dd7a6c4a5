"""The metastore's own schema: created, brought up to date, or refused."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from sqlalchemy import Column, Connection, insert, inspect, select, text, update
from sqlalchemy.schema import CreateColumn

from lakebed.core.actions import now_ms
from lakebed.core.errors import MetastoreError, MetastoreVersionError
from lakebed.core.names import DEFAULT_NAMESPACE
from lakebed.metastore import schema
from lakebed.metastore.connection import Database

Migration = tuple[str, Callable[[Connection], None]]

# Any fixed number: processes that open the same new database wait for each other on it.
_OPENING = 0x4C414B45


_RECORD = (schema.meta, schema.migrations)


def _create_tables(connection: Connection) -> None:
    schema.metadata.create_all(
        connection, checkfirst=False, tables=[t for t in schema.metadata.sorted_tables if t not in _RECORD]
    )
    row = {"name": DEFAULT_NAMESPACE, "properties": "{}", "created": now_ms()}
    connection.execute(insert(schema.namespaces), row)


def _add_buckets(connection: Connection) -> None:
    _add_column(connection, schema.files.c.bucket)
    _add_column(connection, schema.files.c.unsettled)
    schema.LIVE_IN_BUCKET.create(connection, checkfirst=True)


def _add_retention(connection: Connection) -> None:
    _add_column(connection, schema.tables.c.partition_epoch)
    _add_column(connection, schema.tables.c.condemned)
    schema.UNSETTLED.create(connection, checkfirst=True)
    schema.condemned.create(connection, checkfirst=True)
    schema.leases.create(connection, checkfirst=True)


def _add_consumers(connection: Connection) -> None:
    schema.consumers.create(connection, checkfirst=True)


def _add_column(connection: Connection, column: Column[Any]) -> None:
    """Add a column that is not there yet."""
    present = {known["name"] for known in inspect(connection).get_columns(column.table.name)}
    if column.name not in present:
        definition = CreateColumn(column).compile(dialect=connection.dialect)
        connection.exec_driver_sql(f"ALTER TABLE {column.table.name} ADD COLUMN {definition}")


MIGRATIONS: Sequence[Migration] = (
    ("0001-tables", _create_tables),
    ("0002-buckets", _add_buckets),
    ("0003-retention", _add_retention),
    ("0004-consumers", _add_consumers),
)
"""In order. One that has been released never changes: a change of the schema is a further one.

The first gives a new database today's schema: the further ones are for older databases, and add only what is not
there yet.
"""


def prepare(database: Database, *, create: bool, migrations: Sequence[Migration] = MIGRATIONS) -> None:
    """Create the schema in one transaction, or run the migrations that are missing, each in one.

    Raises MetastoreVersionError for a schema that this Lakebed does not know, and MetastoreError if there is
    none and ``create`` is False.
    """
    if not database.read(schema_exists):
        if not create:
            raise MetastoreError(
                f"there is no metastore at {database.address}", fix="check the URL, or create the warehouse first"
            )
        if database.is_sqlite:
            database.read(lambda connection: refuse_strangers(connection, str(database.address)))
        database.write(create_schema)
    place = str(database.address)
    while database.read(lambda connection: _pending(connection, migrations, place)):
        database.write(lambda connection: _advance(connection, migrations, place))


def schema_exists(connection: Connection) -> bool:
    """Whether there is a metastore, of whatever version."""
    return inspect(connection).has_table(schema.meta.name)


def refuse_strangers(connection: Connection, place: str) -> None:
    """Raise MetastoreError if a SQLite file is another's; a PostgreSQL database may well have several owners."""
    # Ours may be there by now: another process is just creating them.
    others = [name for name in inspect(connection).get_table_names() if name not in schema.metadata.tables]
    if others:
        raise MetastoreError(
            f"{place} is the database of another application",
            found=f"its tables {', '.join(others[:3])}",
            fix="give the metastore a file of its own",
        )


def lock_schema(connection: Connection) -> None:
    """Let one process at a time change the schema; SQLite's write transaction is that lock already."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _OPENING})


def create_schema(connection: Connection) -> None:
    """Make today's schema, for which no migration is left to run, unless another process has done it meanwhile."""
    lock_schema(connection)
    if not schema_exists(connection):
        schema.metadata.create_all(connection, checkfirst=False, tables=_RECORD)
        _create_tables(connection)
        connection.execute(insert(schema.meta), {"schema_version": len(MIGRATIONS)})
        connection.execute(
            insert(schema.migrations), [{"name": name, "applied_at": now_ms()} for name, _ in MIGRATIONS]
        )


def _pending(connection: Connection, migrations: Sequence[Migration], place: str) -> Sequence[Migration]:
    """The migrations that have not run yet. Raises MetastoreVersionError."""
    version = connection.execute(select(schema.meta.c.schema_version)).scalar_one()
    done = set(connection.execute(select(schema.migrations.c.name)).scalars())
    known = [name for name, _ in migrations]
    if version != len(done) or done != set(known[: len(done)]):
        unknown = ", ".join(sorted(done.difference(known)))
        raise MetastoreVersionError(
            f"metastore {place} has a schema that this Lakebed does not know",
            expected=f"schema version {len(known)} or older",
            found=f"schema version {version}" + (f" with {unknown}" if unknown else ""),
            fix="use the Lakebed that made it, or a newer one",
        )
    return migrations[len(done) :]


def _advance(connection: Connection, migrations: Sequence[Migration], place: str) -> None:
    """Run the first pending migration, unless another process has done it meanwhile."""
    lock_schema(connection)
    for name, change in _pending(connection, migrations, place)[:1]:
        change(connection)
        connection.execute(insert(schema.migrations), {"name": name, "applied_at": now_ms()})
        connection.execute(update(schema.meta).values(schema_version=schema.meta.c.schema_version + 1))
