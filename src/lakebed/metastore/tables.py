"""The catalogue: tables by namespace and name, and where they lie."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, bindparam, delete, insert, select, update
from sqlalchemy.exc import IntegrityError

from lakebed.core.actions import now_ms
from lakebed.core.commit import PreparedCommit
from lakebed.core.errors import AlreadyExistsError, InputError, NotFoundError
from lakebed.core.names import check_name
from lakebed.core.steps import Step, reach
from lakebed.core.suggest import did_you_mean
from lakebed.metastore import schema
from lakebed.metastore.commits import land
from lakebed.metastore.landing import check_whole
from lakebed.metastore.namespaces import find_namespace
from lakebed.metastore.part import Head, Part, find_head, head_of
from lakebed.metastore.records import TableRecord
from lakebed.metastore.states import version_of

_TABLES = schema.tables.c


class Tables(Part):
    """The part of the metastore that knows tables by name."""

    def create_table(self, namespace: str, name: str, location: str, first: PreparedCommit) -> TableRecord:
        """Make a table with its version 0, in one transaction.

        Raises InputError, NotFoundError for the namespace, and AlreadyExistsError for a name or a location
        that is taken.
        """
        check_name(name, "table")
        if first.read_version != -1:
            raise InputError(f"table {namespace}.{name}: the first commit is made from version -1")
        check_whole(first.actions, f"{namespace}.{name}")

        def work(connection: Connection) -> TableRecord:
            if (mine := landed(connection)) is not None:
                return mine
            head = insert_table(connection, first.table_id, namespace, name, location)
            reach(Step.COMMIT_BEGUN)
            done = land(connection, self._cache, head, first, careful=False)
            reach(Step.COMMIT_INSERTED)
            return _record(head, version=done.version)

        def landed(connection: Connection) -> TableRecord | None:
            row = connection.execute(select(schema.tables).where(_TABLES.id == first.table_id)).mappings().first()
            if row is None or version_of(connection, head_of(row).num, first.commit_id) is None:
                return None
            return _record(head_of(row))

        try:
            made = self._database.write(work, landed=landed, what=f"commit {first.commit_id} of table {name}")
        except IntegrityError as error:
            # Somebody was quicker, or this very commit after a lost connection: then it has landed.
            found = self._database.read(landed)
            if found is None:
                raise AlreadyExistsError(
                    f"table {namespace}.{name} or its location {location} was taken meanwhile",
                    fix="choose another name or location",
                ) from error
            made = found
        reach(Step.COMMIT_DONE)
        return made

    def table(self, namespace: str, name: str) -> TableRecord:
        """The table of that name. Raises NotFoundError with the nearest name."""
        return self._database.read(lambda connection: _record(find_table(connection, namespace, name)))

    def table_by_id(self, table_id: str) -> TableRecord:
        """The table with that id, whatever it is called now. Raises NotFoundError."""
        return self._database.read(lambda connection: _record(find_head(connection, table_id)))

    def tables(self, namespace: str) -> list[TableRecord]:
        """The tables of a namespace, by name. Raises NotFoundError."""

        def work(connection: Connection) -> list[TableRecord]:
            find_namespace(connection, namespace)
            rows = connection.execute(select(schema.tables).where(_TABLES.namespace == namespace)).mappings()
            return sorted((_record(head_of(row)) for row in rows), key=lambda record: record.name)

        return self._database.read(work)

    def rename_table(self, namespace: str, name: str, to_namespace: str, to_name: str) -> TableRecord:
        """Give a table another name, or move it to another namespace; its location stays.

        Raises InputError, NotFoundError and AlreadyExistsError.
        """
        check_name(to_name, "table")

        def work(connection: Connection) -> TableRecord:
            head = find_table(connection, namespace, name, lock=True)
            find_namespace(connection, to_namespace)
            change = update(schema.tables).where(_TABLES.num == head.num)
            connection.execute(change.values(namespace=to_namespace, name=to_name))
            return _record(find_head(connection, head.table_id))

        try:
            return self._database.write(work)
        except IntegrityError as error:
            raise AlreadyExistsError(
                f"table {to_namespace}.{to_name} exists already", fix="choose another name"
            ) from error

    def drop_table(self, namespace: str, name: str, *, only_published: bool = False) -> str | None:
        """Forget a table with all its history, in one transaction; returns where its files are.

        With ``only_published`` a table with a version that the open log lacks is kept, and the answer is None:
        its files would otherwise outlive a commit that nobody knows of. Raises NotFoundError with the nearest name.
        """

        def work(connection: Connection) -> str | None:
            head = find_table(connection, namespace, name, lock=True)
            if only_published and connection.execute(_ANY_UNPUBLISHED, {"num": head.num}).first() is not None:
                return None
            for part in schema.OF_ONE_TABLE:
                connection.execute(delete(part).where(part.c.table_num == head.num))
            connection.execute(delete(schema.tables).where(_TABLES.num == head.num))
            return head.location

        return self._database.write(work)


_ANY_UNPUBLISHED = (
    select(schema.versions.c.version)
    .where(schema.versions.c.table_num == bindparam("num"), schema.versions.c.body.is_not(None))
    .limit(1)
)


def find_table(connection: Connection, namespace: str, name: str, *, lock: bool = False) -> Head:
    """The row of a table by name, locked if asked for. Raises NotFoundError with the nearest name."""
    query = select(schema.tables).where(_TABLES.namespace == namespace, _TABLES.name == name)
    row = connection.execute(query.with_for_update() if lock else query).mappings().first()
    if row is not None:
        return head_of(row)
    find_namespace(connection, namespace)
    known = connection.execute(select(_TABLES.name).where(_TABLES.namespace == namespace)).scalars().all()
    raise NotFoundError(
        f"there is no table {namespace}.{name}",
        fix=did_you_mean(f"{namespace}.{name}", [f"{namespace}.{one}" for one in known])
        or (f"the namespace has {len(known)} table(s)" if known else "create it first"),
    )


def insert_table(connection: Connection, table_id: str, namespace: str, name: str, location: str) -> Head:
    """A new table's row, before its first version. Raises NotFoundError and AlreadyExistsError."""
    find_namespace(connection, namespace)
    _refuse_taken(connection, table_id, namespace, name, location)
    row: dict[str, Any] = {
        "id": table_id,
        "namespace": namespace,
        "name": name,
        "location": location,
        "created": now_ms(),
        "version": -1,
        "timestamp": -1,
        "schema_version": -1,
        "next_row_id": 0,
        "next_file_id": 0,
        "next_partition_id": 0,
    }
    connection.execute(insert(schema.tables), row)
    return find_head(connection, table_id)


def _refuse_taken(connection: Connection, table_id: str, namespace: str, name: str, location: str) -> None:
    same_name = (_TABLES.namespace == namespace) & (_TABLES.name == name)
    query = select(schema.tables).where(same_name | (_TABLES.location == location) | (_TABLES.id == table_id))
    for row in connection.execute(query):
        taken = f"{row.namespace}.{row.name}"
        if (row.namespace, row.name) == (namespace, name):
            raise AlreadyExistsError(f"table {taken} exists already", fix="drop it first, or choose another name")
        if row.location == location:
            raise AlreadyExistsError(
                f"table {namespace}.{name}: its location {location} belongs to table {taken}",
                fix=f"use lake.table('{taken}'), or choose another location",
            )
        raise AlreadyExistsError(
            f"table {namespace}.{name}: table {taken} has the same id {table_id}",
            fix="it is a copy of that table's files; give the copy another id in its metadata, or drop the other",
        )


def _record(head: Head, version: int | None = None) -> TableRecord:
    return TableRecord(
        table_id=head.table_id,
        namespace=head.namespace,
        name=head.name,
        location=head.location,
        created=head.created,
        version=head.version if version is None else version,
    )
