"""What never changes once it is committed, kept so that a commit need not ask for it again.

Everything is kept under the table's number, which is never reused. No lock, which a fork could find taken:
single operations of a dict are atomic.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, bindparam, select

from lakebed.core.actions import Metadata, Protocol
from lakebed.metastore import schema
from lakebed.metastore.lookup import one_of
from lakebed.metastore.rows import load_metadata, load_protocol

_SCHEMAS_KEPT = 512
_PARTITIONS_KEPT = 100_000

_SCHEMA = select(schema.schemas.c.metadata, schema.schemas.c.protocol).where(
    schema.schemas.c.table_num == bindparam("num"), schema.schemas.c.version == bindparam("version")
)
_PARTITIONS = select(schema.partitions.c.key, schema.partitions.c.id).where(
    schema.partitions.c.table_num == bindparam("num"), one_of(schema.partitions.c.key, "keys")
)


class SchemaGoneError(Exception):
    """A schema that was in force a moment ago has been replaced, and its versions have expired."""


class Cache:
    """Schemas and partition numbers of any tables."""

    def __init__(self) -> None:
        self._schemas: dict[tuple[int, int], tuple[Metadata, Protocol]] = {}
        self._partitions: dict[tuple[int, int, str], int] = {}

    def schema(self, connection: Connection, num: int, version: int) -> tuple[Metadata, Protocol]:
        """What the table has since ``version``, which must be one that changed either.

        Raises SchemaGoneError if no version needs it any more.
        """
        found = self._schemas.get((num, version))
        if found is None:
            row = connection.execute(_SCHEMA, {"num": num, "version": version}).first()
            if row is None:
                raise SchemaGoneError
            found = load_metadata(row.metadata), load_protocol(row.protocol)
            if len(self._schemas) >= _SCHEMAS_KEPT:
                self._schemas.clear()
            self._schemas[num, version] = found
        return found

    def partition_ids(self, connection: Connection, num: int, epoch: int, keys: Sequence[str]) -> dict[str, int]:
        """The numbers of those partitions that the table has. Ask before inserting new ones: what a
        transaction has inserted itself may still be undone. Numbers of an earlier epoch may be void."""
        ids = {key: found for key in keys if (found := self._partitions.get((num, epoch, key))) is not None}
        missing = [key for key in keys if key not in ids]
        if missing:
            rows = connection.execute(_PARTITIONS, {"num": num, "keys": missing})
            stored = {row.key: row.id for row in rows}
            if len(self._partitions) + len(stored) > _PARTITIONS_KEPT:
                self._partitions.clear()
            self._partitions.update({(num, epoch, key): found for key, found in stored.items()})
            ids.update(stored)
        return ids
