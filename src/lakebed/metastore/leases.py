"""Leases: versions that must stay readable while a reader is at work."""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import Connection, delete, insert, select, update

from lakebed.metastore import schema
from lakebed.metastore.lookup import one_of
from lakebed.metastore.part import Head, Part, find_head, known_version

_LEASES = schema.leases.c


class Leases(Part):
    """The part of the metastore that knows the running readers."""

    def lease(self, table_id: str, version: int, holder: str, until: int) -> None:
        """Keep a version readable for ``holder`` until a time (ms). Leasing it again sets the time anew.

        Raises NotFoundError for the table, and for a version that is not there (any more).
        """
        self.lease_all(table_id, [version], holder, until)

    def lease_all(self, table_id: str, versions: Collection[int], holder: str, until: int) -> None:
        """The same for several versions at once: all of them, or, if one is not there, none."""

        def work(connection: Connection) -> None:
            # Under the table's lock: expiry looks at the leases under it too.
            head = find_head(connection, table_id, lock=True)
            for version in versions:
                known_version(connection, head, version)
            connection.execute(
                delete(schema.leases).where(
                    _LEASES.holder == holder, _LEASES.table_num == head.num, one_of(_LEASES.version, "leased")
                ),
                {"leased": list(versions)},
            )
            rows = [
                {"table_num": head.num, "holder": holder, "version": version, "until": until} for version in versions
            ]
            connection.execute(insert(schema.leases), rows)

        # A power cut ends the reader as well: nothing to wait for the disk for.
        self._database.write(work, landed=lambda _connection: None, durable=False)

    def renew(self, holder: str, until: int) -> bool:
        """Keep all that ``holder`` has leased until a later time; False if nothing of it is left.

        A lease that ran out is still there until versions of its table expire.
        """
        later = update(schema.leases).where(_LEASES.holder == holder).values(until=until)
        return self._database.write(
            lambda connection: connection.execute(later).rowcount > 0, landed=lambda _connection: None, durable=False
        )

    def release(self, holder: str) -> None:
        """End all leases of ``holder``; it need not have any."""
        gone = delete(schema.leases).where(_LEASES.holder == holder)
        self._database.write(
            lambda connection: connection.execute(gone), landed=lambda _connection: None, durable=False
        )

    def leased_versions(self, table_id: str, now: int) -> list[int]:
        """The versions of a table that running readers need, the oldest first."""
        return self._database.read(lambda connection: leased(connection, find_head(connection, table_id), now))


def leased(connection: Connection, head: Head, now: int) -> list[int]:
    """The versions of a table whose leases have not run out at ``now``."""
    query = select(_LEASES.version).where(_LEASES.table_num == head.num, _LEASES.until > now).distinct()
    return sorted(connection.execute(query).scalars())


def end_lapsed(connection: Connection, head: Head, now: int) -> None:
    """Forget the leases of a table that have run out: what they were for may be gone, so none may be renewed."""
    connection.execute(delete(schema.leases).where(_LEASES.table_num == head.num, _LEASES.until <= now))
