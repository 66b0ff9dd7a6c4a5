"""Consumers: named readers of changes, and how far each has come."""

from __future__ import annotations

from sqlalchemy import Connection, delete, func, insert, select

from lakebed.core.actions import now_ms
from lakebed.core.errors import NotFoundError
from lakebed.core.names import check_name
from lakebed.core.suggest import did_you_mean
from lakebed.metastore import schema
from lakebed.metastore.part import Head, Part, find_head, known_version
from lakebed.metastore.records import Consumer

_CONSUMERS = schema.consumers.c


class Consumers(Part):
    """The part of the metastore that knows how far readers of changes have come."""

    def advance(self, table_id: str, name: str, version: int, until: int, *, whole: bool = False) -> Consumer:
        """Note that a consumer has read all changes up to a version; those after it stay until a time (ms).

        ``whole``: it has read nothing, and begins with all rows of that version.

        A consumer that is not known is one from now on. It may also go back, to a version that is still there.
        Raises InputError for a name that is none, and NotFoundError for a version that is not there.
        """
        check_name(name, "consumer")
        made = Consumer(name, version, now_ms(), until, whole)

        def work(connection: Connection) -> Consumer:
            # Under the table's lock: expiry looks at the consumers under it too.
            head = find_head(connection, table_id, lock=True)
            known_version(connection, head, version)
            mine = delete(schema.consumers).where(_CONSUMERS.table_num == head.num, _CONSUMERS.name == name)
            connection.execute(mine)
            row = {
                "table_num": head.num,
                "name": name,
                "version": version,
                "whole": whole,
                "updated": made.updated,
                "until": until,
            }
            connection.execute(insert(schema.consumers), row)
            return made

        return self._database.write(work, landed=lambda _connection: None)

    def consumers(self, table_id: str) -> list[Consumer]:
        """All consumers of a table, by name."""

        def work(connection: Connection) -> list[Consumer]:
            head = find_head(connection, table_id)
            rows = connection.execute(select(schema.consumers).where(_CONSUMERS.table_num == head.num))
            found = [Consumer(row.name, row.version, row.updated, row.until, bool(row.whole)) for row in rows]
            return sorted(found, key=lambda consumer: consumer.name)

        return self._database.read(work)

    def forget_consumer(self, table_id: str, name: str) -> None:
        """Forget a consumer. Raises NotFoundError with the nearest name."""

        def work(connection: Connection) -> int:
            head = find_head(connection, table_id, lock=True)
            gone = delete(schema.consumers).where(_CONSUMERS.table_num == head.num, _CONSUMERS.name == name)
            return connection.execute(gone).rowcount

        if self._database.write(work) == 0:
            names = [consumer.name for consumer in self.consumers(table_id)]
            raise NotFoundError(
                f"there is no consumer {name!r}",
                expected=f"one of {', '.join(names)}" if names else "a consumer, but the table has none",
                fix=did_you_mean(name, names),
            )


def oldest_read(connection: Connection, head: Head, now: int) -> int | None:
    """The oldest version from which on a consumer has to read changes; None if there is no such consumer."""
    query = select(func.min(_CONSUMERS.version)).where(_CONSUMERS.table_num == head.num, _CONSUMERS.until > now)
    found: int | None = connection.execute(query).scalar()
    return found
