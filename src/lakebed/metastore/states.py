"""A table's state and history, without its files."""

from __future__ import annotations

import json
from typing import Any

from sqlalchemy import Connection, Select, Table, bindparam, func, select

from lakebed.core.actions import DomainMetadata, Metadata, SetTransaction
from lakebed.core.commit import ROW_TRACKING, Kind
from lakebed.core.errors import NotFoundError
from lakebed.core.instant import to_text
from lakebed.metastore import schema
from lakebed.metastore.cache import Cache, SchemaGoneError
from lakebed.metastore.part import Head, Part, find_head, known_version, versions_left
from lakebed.metastore.records import TableState, VersionRecord
from lakebed.metastore.rows import dump, load_metadata

_NONE = -1
_VERSIONS = schema.versions.c
_OF_TABLE = _VERSIONS.table_num == bindparam("num")
_ONE_VERSION = select(_VERSIONS.timestamp, _VERSIONS.next_row_id).where(
    _OF_TABLE, _VERSIONS.version == bindparam("version")
)
_SCHEMA_AT = select(func.max(schema.schemas.c.version)).where(
    schema.schemas.c.table_num == bindparam("num"), schema.schemas.c.version <= bindparam("version")
)
_AT_TIME = (
    select(_VERSIONS.version)
    .where(_OF_TABLE, _VERSIONS.timestamp <= bindparam("moment"))
    .order_by(_VERSIONS.timestamp.desc())
    .limit(1)
)
_EARLIEST = select(_VERSIONS.version, _VERSIONS.timestamp).where(_OF_TABLE).order_by(_VERSIONS.version).limit(1)
_BY_COMMIT = select(_VERSIONS.version).where(_OF_TABLE, _VERSIONS.commit_id == bindparam("commit_id"))


class States(Part):
    """The part of the metastore that tells what a table is and was."""

    def head(self, table_id: str) -> int:
        """The newest version. Raises NotFoundError."""
        return self._database.read(lambda connection: find_head(connection, table_id).version)

    def heads(self) -> dict[str, int]:
        """The newest version of every table, by table id, as of one moment."""
        query = select(schema.tables.c.id, schema.tables.c.version)
        return self._database.read(lambda connection: {row.id: row.version for row in connection.execute(query)})

    def state(self, table_id: str, version: int | None = None) -> TableState:
        """The table at a version, the newest by default. Raises NotFoundError, saying which there are."""

        def work(connection: Connection) -> TableState:
            return state_at(connection, self._cache, find_head(connection, table_id), version)

        try:
            # Of the head only its row can change, and that is one statement.
            return self._database.read(work, single=version is None)
        except SchemaGoneError:
            return self._database.read(work)

    def schemas(self, table_id: str) -> list[tuple[int, Metadata]]:
        """What the table has had, and has, as metadata, each with the version that brought it, oldest first."""
        query = select(schema.schemas.c.version, schema.schemas.c.metadata).where(
            schema.schemas.c.table_num == bindparam("num"), schema.schemas.c.metadata_changed
        )

        def work(connection: Connection) -> list[tuple[int, Metadata]]:
            rows = connection.execute(query.order_by("version"), {"num": find_head(connection, table_id).num})
            return [(row.version, load_metadata(row.metadata)) for row in rows]

        return self._database.read(work)

    def version_at(self, table_id: str, timestamp: int) -> int:
        """The newest version that was committed at or before ``timestamp`` (ms). Raises NotFoundError."""

        def work(connection: Connection) -> int:
            head = find_head(connection, table_id)
            found = version_before(connection, head, timestamp)
            if found == _NONE:
                first = connection.execute(_EARLIEST, {"num": head.num}).one()
                raise NotFoundError(
                    f"table {head} has no version at {to_text(timestamp)}",
                    expected=f"{to_text(first.timestamp)}, when version {first.version} was committed, or later",
                )
            _refuse_expired(connection, head, found, timestamp)
            return found

        return self._database.read(work)

    def history(
        self, table_id: str, limit: int | None = None, *, start: int | None = None, end: int | None = None
    ) -> list[VersionRecord]:
        """The versions from ``start`` to ``end``, both included, newest first; at most ``limit``."""
        query = select(
            *(c for c in schema.versions.c if c.name not in ("body", "other_actions")),
            _VERSIONS.body.is_(None).label("published"),
        ).where(_OF_TABLE)
        if start is not None:
            query = query.where(_VERSIONS.version >= start)
        if end is not None:
            query = query.where(_VERSIONS.version <= end)
        query = query.order_by(_VERSIONS.version.desc()).limit(limit)

        def work(connection: Connection) -> list[VersionRecord]:
            rows = connection.execute(query, {"num": find_head(connection, table_id).num})
            return [
                VersionRecord(r.version, r.timestamp, Kind(r.kind), r.commit_id, json.loads(r.info), bool(r.published))
                for r in rows
            ]

        return self._database.read(work)

    def find_commit(self, table_id: str, commit_id: str) -> int | None:
        """The version that a commit landed as; None if it did not. Raises NotFoundError for the table."""
        return self._database.read(lambda c: version_of(c, find_head(c, table_id).num, commit_id))

    def transactions(self, table_id: str, version: int | None = None) -> dict[str, SetTransaction]:
        """The newest transaction of each application as of a version, by application id."""

        def work(connection: Connection) -> dict[str, SetTransaction]:
            head = find_head(connection, table_id)
            return transactions_at(connection, head, known_version(connection, head, version))

        return self._database.read(work)

    def domains(self, table_id: str, version: int | None = None, *, prefix: str = "") -> list[DomainMetadata]:
        """The domains that are set as of a version and whose names begin with ``prefix``, by name."""

        def work(connection: Connection) -> list[DomainMetadata]:
            head = find_head(connection, table_id)
            found = domains_at(connection, head, state_at(connection, self._cache, head, version))
            return [found[name] for name in sorted(found) if name.startswith(prefix)]

        return self._database.read(work)


def version_of(connection: Connection, num: int, commit_id: str) -> int | None:
    """The version that a commit of the table landed as; None if it did not."""
    found: int | None = connection.execute(_BY_COMMIT, {"num": num, "commit_id": commit_id}).scalar()
    return found


def version_before(connection: Connection, head: Head, timestamp: int) -> int:
    """The newest version that was committed at or before a time; -1 if there is none."""
    found: int | None = connection.execute(_AT_TIME, {"num": head.num, "moment": timestamp}).scalar()
    return _NONE if found is None else found


def _refuse_expired(connection: Connection, head: Head, found: int, timestamp: int) -> None:
    """Of a version whose follower has expired, nobody knows how long it was the newest. Raises NotFoundError."""
    if found == head.version:
        return
    then, following = (
        connection.execute(_ONE_VERSION, {"num": head.num, "version": version}).first()
        for version in (found, found + 1)
    )
    if following is None and (then is None or then.timestamp < timestamp):
        raise NotFoundError(
            f"the version that table {head} had at {to_text(timestamp)} has expired",
            expected=versions_left(connection, head),
        )


def state_at(connection: Connection, cache: Cache, head: Head, version: int | None) -> TableState:
    """The state of a table at a version; of its head if None."""
    at = known_version(connection, head, version)
    if at == head.version:
        timestamp, next_row_id, changed = head.timestamp, head.next_row_id, head.schema_version
    else:
        where = {"num": head.num, "version": at}
        timestamp, next_row_id = connection.execute(_ONE_VERSION, where).one()
        changed = connection.execute(_SCHEMA_AT, where).scalar_one()
    metadata, protocol = cache.schema(connection, head.num, changed)
    return TableState(head.table_id, at, timestamp, metadata, protocol, changed, next_row_id)


def _latest(table: Table, name: str) -> Select[Any]:
    """Of each ``name`` the row that was committed last, up to a version."""
    other = table.alias()
    newest = select(func.max(other.c.committed_version)).where(
        other.c.table_num == table.c.table_num,
        other.c[name] == table.c[name],
        other.c.committed_version <= bindparam("version"),
    )
    return select(table).where(
        table.c.table_num == bindparam("num"), table.c.committed_version == newest.scalar_subquery()
    )


_TRANSACTIONS = _latest(schema.transactions, "app_id")
_DOMAINS = _latest(schema.domains, "domain")


def transactions_at(connection: Connection, head: Head, version: int) -> dict[str, SetTransaction]:
    """The newest transaction of each application as of ``version``."""
    rows = connection.execute(_TRANSACTIONS, {"num": head.num, "version": version})
    return {row.app_id: SetTransaction(row.app_id, row.app_version, row.last_updated) for row in rows}


def domains_at(connection: Connection, head: Head, state: TableState) -> dict[str, DomainMetadata]:
    """The domains of a state. The high water mark of row ids is not stored as one: the state knows it."""
    rows = connection.execute(_DOMAINS, {"num": head.num, "version": state.version})
    found = {row.domain: DomainMetadata(row.domain, row.configuration) for row in rows if not row.removed}
    if state.next_row_id > 0:
        found[ROW_TRACKING] = row_tracking_domain(state.next_row_id)
    return found


def row_tracking_domain(next_row_id: int) -> DomainMetadata:
    """The protocol's domain that says which row ids are taken."""
    return DomainMetadata(ROW_TRACKING, dump({"rowIdHighWaterMark": next_row_id - 1}))
