"""What an expiry would forget, found out without changing anything."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, Table, and_, bindparam, func, or_, select

from lakebed.core.actions import now_ms
from lakebed.metastore import schema
from lakebed.metastore.consumers import oldest_read
from lakebed.metastore.leases import leased
from lakebed.metastore.part import Head, Part, find_head, first_of_run
from lakebed.metastore.publication import published_version
from lakebed.metastore.states import version_before

_VERSIONS = schema.versions.c
_TAGS = schema.tags.c
_OF_TABLE = _VERSIONS.table_num == bindparam("num")
_TAGGED = select(_TAGS.version).where(
    _TAGS.table_num == bindparam("num"), or_(_TAGS.retain_until.is_(None), _TAGS.retain_until > bindparam("now"))
)
_BEFORE = (
    select(_VERSIONS.version).where(_OF_TABLE, _VERSIONS.version < bindparam("before")).order_by(_VERSIONS.version)
)
_FROM = select(func.min(_VERSIONS.version)).where(_OF_TABLE, _VERSIONS.version >= bindparam("at"))
_KNOWN = select(_VERSIONS.version).where(_OF_TABLE, _VERSIONS.version == bindparam("at"))


@dataclass(frozen=True)
class Expiring:
    """The versions that an expiry would forget, and those that it would leave."""

    versions: tuple[int, ...]
    """Those that would go, the oldest first."""
    before: int
    """Every version from this one on would stay."""
    kept: tuple[int, ...] = ()
    """The older ones that would stay too."""


class Expiries(Part):
    """The part of the metastore that tells what an expiry would do."""

    def kept_from(self, table_id: str, moment: int) -> int:
        """The oldest version that must stay for every instant from ``moment`` (ms) on to be readable.

        It is the one that was the newest then. Raises NotFoundError for the table.
        """

        def work(connection: Connection) -> int:
            head = find_head(connection, table_id)
            found = version_before(connection, head, moment)
            if found != head.version and connection.execute(_KNOWN, {"num": head.num, "at": found + 1}).first() is None:
                # Whatever followed it has expired, and with it the version that was the newest then.
                return int(connection.execute(_FROM, {"num": head.num, "at": found + 1}).scalar_one())
            return max(found, 0)

        return self._database.read(work)

    def begins(self, table_id: str) -> int:
        """The oldest version from which on no version has expired. Raises NotFoundError for the table."""

        def work(connection: Connection) -> int:
            return first_of_run(connection, find_head(connection, table_id))

        return self._database.read(work)

    def expiring(self, table_id: str, keep_from_version: int, keep_versions: Collection[int] = ()) -> Expiring:
        """What ``expire`` with the same arguments would forget now. Raises NotFoundError for the table."""

        def work(connection: Connection) -> Expiring:
            head = find_head(connection, table_id)
            bound = last_bound(connection, head, keep_from_version)
            needed = needed_versions(connection, head, now_ms()).union(keep_versions)
            old = connection.execute(_BEFORE, {"num": head.num, "before": bound}).scalars().all()
            gone = tuple(version for version in old if version not in needed)
            return Expiring(gone, bound, tuple(version for version in old if version in needed))

        return self._database.read(work)


def last_bound(connection: Connection, head: Head, before: int) -> int:
    """The version before which versions may go, if those before ``before`` are not wanted any more.

    The newest published version stays too: what is to be published next is known by it. And so does what a consumer
    has not read yet.
    """
    unread = oldest_read(connection, head, now_ms())
    bound = min(before, head.version, published_version(connection, head))
    return bound if unread is None else min(bound, unread)


def needed_versions(connection: Connection, head: Head, now: int) -> set[int]:
    """The versions that tags name, or running readers read."""
    tagged = connection.execute(_TAGGED, {"num": head.num, "now": now}).scalars()
    return set(tagged).union(leased(connection, head, now))


def outlives(table: Table, expiring: Expiring) -> ColumnElement[bool]:
    """Whether a row of ``table`` that says when it began and ended is needed after the expiry."""
    return or_(table.c.removed_version.is_(None), table.c.removed_version > expiring.before, _held(table, expiring))


def ends_with(table: Table, expiring: Expiring) -> ColumnElement[bool]:
    """Whether a row of ``table`` that says when it began and ended is not needed after the expiry."""
    return and_(table.c.removed_version <= expiring.before, ~_held(table, expiring))


def _held(table: Table, expiring: Expiring) -> ColumnElement[bool]:
    seen: Any = select(_VERSIONS.version).where(
        _VERSIONS.table_num == table.c.table_num,
        _VERSIONS.version.in_(expiring.kept),
        _VERSIONS.version >= table.c.added_version,
        _VERSIONS.version < table.c.removed_version,
    )
    held: ColumnElement[bool] = seen.correlate(table).exists()
    return held
