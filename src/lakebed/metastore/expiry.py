"""Expiry: old versions are forgotten, and then whatever no remaining version needs.

A version's row is what makes it readable, so these go first, a few per transaction. Everything else is swept
afterwards, again a few rows per transaction, by looking at the versions that are left: an expiry that was cut
off anywhere leaves only rows that nobody reads, and the next one sweeps them.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import partial
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Table,
    and_,
    bindparam,
    delete,
    func,
    select,
    union,
    update,
)

from lakebed.core.actions import now_ms
from lakebed.metastore import schema
from lakebed.metastore.expiring import last_bound, needed_versions
from lakebed.metastore.leases import end_lapsed
from lakebed.metastore.lookup import one_of
from lakebed.metastore.part import Part, find_head

_CHUNK = 2_000
_VERSIONS = schema.versions.c
_TAGS = schema.tags.c
_FILES = schema.files.c
_OLD = (
    select(_VERSIONS.version)
    .where(
        _VERSIONS.table_num == bindparam("num"),
        _VERSIONS.version > bindparam("after"),
        _VERSIONS.version < bindparam("before"),
    )
    .order_by(_VERSIONS.version)
    .limit(bindparam("most"))
)
_FORGET = delete(schema.versions).where(_VERSIONS.table_num == bindparam("num"), one_of(_VERSIONS.version, "forgotten"))
_FORGET_TAGS = delete(schema.tags).where(_TAGS.table_num == bindparam("num"), one_of(_TAGS.version, "forgotten"))


@dataclass(frozen=True)
class Expired:
    """How many rows an expiry has forgotten."""

    versions: int = 0
    files: int = 0
    vectors: int = 0
    schemas: int = 0
    transactions: int = 0
    domains: int = 0
    partitions: int = 0


@dataclass(frozen=True)
class _Sweep:
    """Rows of one kind that no version needs: how to find some of them, and how to delete those."""

    table: Table
    number: ColumnElement[Any]
    """What a chunk is counted by."""
    stale: ColumnElement[bool]

    def __call__(self, connection: Connection, num: int, before: int) -> int:
        """Delete one chunk; returns how many rows that were."""
        where = and_(self.table.c.table_num == bindparam("num"), self.stale)
        some = select(self.number).where(where).distinct().limit(_CHUNK)
        numbers = connection.execute(some, {"num": num, "before": before}).scalars().all()
        if not numbers:
            return 0
        gone = delete(self.table).where(where, one_of(self.number, "numbers"))
        return connection.execute(gone, {"num": num, "before": before, "numbers": numbers}).rowcount


def _unseen(table: Table, first: ColumnElement[Any], end: ColumnElement[Any]) -> ColumnElement[bool]:
    """Whether no version that is left is one from ``first`` to before ``end``."""
    seen = select(_VERSIONS.version).where(
        _VERSIONS.table_num == table.c.table_num, _VERSIONS.version >= first, _VERSIONS.version < end
    )
    return ~seen.correlate(table).exists()


def _ended(table: Table, number: ColumnElement[Any]) -> _Sweep:
    """Rows that say when they began and ended."""
    # Every version from ``before`` on is left, so a row that ended later is needed; and this condition has an index.
    old = table.c.removed_version <= bindparam("before")
    return _Sweep(table, number, and_(old, _unseen(table, table.c.added_version, table.c.removed_version)))


def _replaced(table: Table, since: str, name: str | None = None) -> _Sweep:
    """Rows that hold until the next one of the same ``name``; the newest ones always stay."""
    later = table.alias("later")
    same = [later.c.table_num == table.c.table_num, later.c[since] > table.c[since]]
    if name is not None:
        same.append(later.c[name] == table.c[name])
    next_one = select(func.min(later.c[since])).where(*same).correlate(table).scalar_subquery()
    old = table.c[since] < bindparam("before")
    stale = and_(old, next_one.is_not(None), _unseen(table, table.c[since], next_one))
    return _Sweep(table, table.c[since], stale)


_VECTORS_SWEEP = _ended(schema.vectors, schema.vectors.c.file_id)
_FILES_SWEEP = _ended(schema.files, _FILES.id)
_SCHEMAS_SWEEP = _replaced(schema.schemas, "version")
_TRANSACTIONS_SWEEP = _replaced(schema.transactions, "committed_version", "app_id")
_DOMAINS_SWEEP = _replaced(schema.domains, "committed_version", "domain")
_EMPTY_PARTITIONS = select(schema.partitions.c.id).where(
    schema.partitions.c.table_num == bindparam("num"),
    schema.partitions.c.id.not_in(select(_FILES.partition_id).where(_FILES.table_num == bindparam("num"))),
)
_NEW_FILES = select(_FILES.partition_id).where(
    _FILES.table_num == bindparam("num"), _FILES.added_version > bindparam("since")
)
# Live and removed rows have an index each.
_FILLED_PARTITIONS = union(
    _NEW_FILES.where(_FILES.removed_version.is_(None)), _NEW_FILES.where(_FILES.removed_version.is_not(None))
)
_FORGET_PARTITIONS = delete(schema.partitions).where(
    schema.partitions.c.table_num == bindparam("num"), one_of(schema.partitions.c.id, "ids")
)
_NEXT_EPOCH = (
    update(schema.tables)
    .where(schema.tables.c.num == bindparam("of_table"))
    .values(partition_epoch=schema.tables.c.partition_epoch + 1)
)


class Expiry(Part):
    """The part of the metastore that forgets."""

    def expire(self, table_id: str, keep_from_version: int, keep_versions: Collection[int] = ()) -> Expired:
        """Forget the versions before ``keep_from_version`` except ``keep_versions``, and what only they needed.

        The newest version always stays, and so does what is not in the open log yet, what a reader has leased,
        and what a tag names whose time has not passed; other tags go with their versions. Files are not touched:
        vacuum finds those that nobody refers to any more. Raises NotFoundError for the table.
        """
        versions = self._forget_versions(table_id, keep_from_version, frozenset(keep_versions))
        return Expired(
            versions=versions,
            vectors=self._sweep(table_id, _VECTORS_SWEEP, keep_from_version),
            files=self._sweep(table_id, _FILES_SWEEP, keep_from_version),
            schemas=self._sweep(table_id, _SCHEMAS_SWEEP, keep_from_version),
            transactions=self._sweep(table_id, _TRANSACTIONS_SWEEP, keep_from_version),
            domains=self._sweep(table_id, _DOMAINS_SWEEP, keep_from_version),
            partitions=self._forget_partitions(table_id),
        )

    def _forget_versions(self, table_id: str, before: int, kept: frozenset[int]) -> int:
        forgotten = 0
        after: int | None = -1
        while after is not None:
            some = partial(_forget_some, table_id=table_id, after=after, before=before, kept=kept)
            after, gone = self._database.write(some, landed=lambda _connection: None)
            forgotten += gone
        return forgotten

    def _sweep(self, table_id: str, sweep: _Sweep, before: int) -> int:
        def work(connection: Connection) -> int:
            head = find_head(connection, table_id)
            return sweep(connection, head.num, min(before, head.version))

        total = 0
        while gone := self._database.write(work, landed=lambda _connection: None):
            total += gone
        return total

    def _forget_partitions(self, table_id: str) -> int:
        """Forget the partitions without any file: they are looked for at leisure, and only what has come since is
        looked at while commits wait."""

        def look(connection: Connection) -> tuple[int, set[int]]:
            head = find_head(connection, table_id)
            return head.version, set(connection.execute(_EMPTY_PARTITIONS, {"num": head.num}).scalars())

        def forget(connection: Connection) -> int:
            head = find_head(connection, table_id, lock=True)
            filled = connection.execute(_FILLED_PARTITIONS, {"num": head.num, "since": since}).scalars()
            ids = empty.difference(filled)
            connection.execute(_NEXT_EPOCH, {"of_table": head.num})
            return connection.execute(_FORGET_PARTITIONS, {"num": head.num, "ids": sorted(ids)}).rowcount

        since, empty = self._database.read(look)
        return self._database.write(forget, landed=lambda _connection: None) if empty else 0


def _forget_some(
    connection: Connection, table_id: str, after: int, before: int, kept: frozenset[int]
) -> tuple[int | None, int]:
    """Forget some versions after ``after``; the last one looked at (None: there are no more), and how many went.

    Under the table's lock, as whoever tags or leases a version: it is there, and stays, or is not.
    """
    head = find_head(connection, table_id, lock=True)
    now = now_ms()
    where = {"num": head.num, "after": after, "before": last_bound(connection, head, before), "most": _CHUNK}
    old = connection.execute(_OLD, where).scalars().all()
    if not old:
        return None, 0
    needed = needed_versions(connection, head, now).union(kept)
    end_lapsed(connection, head, now)
    forgotten = [version for version in old if version not in needed]
    if forgotten:
        connection.execute(_FORGET, {"num": head.num, "forgotten": forgotten})
        connection.execute(_FORGET_TAGS, {"num": head.num, "forgotten": forgotten})
    return old[-1], len(forgotten)
