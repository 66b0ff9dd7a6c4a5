"""Which versions the open log does not have yet, and the text of their files.

A version's row holds the text of its log file until the file is there. The published version is where that
text ends: no counter of its own that could disagree, and no lock that commits would have to wait for.
"""

from __future__ import annotations

from sqlalchemy import Connection, bindparam, func, select, update

from lakebed.core.errors import NotFoundError
from lakebed.metastore import schema
from lakebed.metastore.part import Head, Part, find_head

_VERSIONS = schema.versions.c
_TABLES = schema.tables.c
_OF_TABLE = _VERSIONS.table_num == bindparam("num")
# From the newest version backwards: only the unpublished end of the history is read.
_PUBLISHED = (
    select(_VERSIONS.version).where(_OF_TABLE, _VERSIONS.body.is_(None)).order_by(_VERSIONS.version.desc()).limit(1)
)
# Every commit asks and marks, so each is one statement: the table's number and the published version are found by
# the database itself.
_NUMBER = select(_TABLES.num).where(_TABLES.id == bindparam("table_id")).scalar_subquery()
_HEAD = select(_TABLES.version).where(_TABLES.id == bindparam("table_id")).scalar_subquery()
_earlier = schema.versions.alias("earlier")
_BEFORE = func.coalesce(
    select(_earlier.c.version)
    .where(_earlier.c.table_num == _NUMBER, _earlier.c.body.is_(None))
    .order_by(_earlier.c.version.desc())
    .limit(1)
    .scalar_subquery(),
    -1,
)
_UNPUBLISHED = (
    select(_VERSIONS.version, _VERSIONS.body)
    .where(_VERSIONS.table_num == _NUMBER, _VERSIONS.version > _BEFORE, _VERSIONS.body.is_not(None))
    .order_by(_VERSIONS.version)
    .limit(bindparam("most"))
)
_MARK = (
    update(schema.versions)
    .where(
        _VERSIONS.table_num == _NUMBER,
        _VERSIONS.version > _BEFORE,
        _VERSIONS.version <= bindparam("upto"),
        bindparam("upto") <= _HEAD,
    )
    .values(body=None)
)

# Not to wait for the disk is a setting of the transaction, made on the way: this statement is all there is.
_MARK_RELAXED = _MARK.where(func.set_config("synchronous_commit", "off", True) == "off")


class Publication(Part):
    """The part of the metastore that the open log follows."""

    def published(self, table_id: str) -> int:
        """The newest version that is in the open log; -1 if none is."""
        return self._database.read(lambda c: published_version(c, find_head(c, table_id)))

    def unpublished(self, table_id: str, limit: int = 100) -> list[tuple[int, str]]:
        """The oldest versions that are not in the open log yet, in order, with the text of their files."""

        def work(connection: Connection) -> list[tuple[int, str]]:
            rows = connection.execute(_UNPUBLISHED, {"table_id": table_id, "most": limit}).all()
            if not rows:
                find_head(connection, table_id)
            return [(row.version, row.body) for row in rows]

        return self._database.read(work, single=True)

    def mark_published(self, table_id: str, version: int) -> None:
        """The open log has every version up to this one. Marking an older version changes nothing."""

        def work(connection: Connection) -> None:
            mark = _MARK if self._database.is_sqlite else _MARK_RELAXED
            if connection.execute(mark, {"table_id": table_id, "upto": version}).rowcount:
                return
            head = find_head(connection, table_id)
            if version > head.version:
                raise NotFoundError(f"table {head} has no version {version}", found=f"{head.version} as the newest")

        # A lost mark is harmless: the log file is there, and whoever publishes it again finds its own bytes.
        self._database.touch(work)


def published_version(connection: Connection, head: Head) -> int:
    """The newest version that is in the open log; -1 if none is."""
    found = connection.execute(_PUBLISHED, {"num": head.num}).scalar()
    return -1 if found is None else int(found)
