"""Tags: names for versions that must stay readable."""

from __future__ import annotations

from sqlalchemy import Connection, delete, insert, select
from sqlalchemy.exc import IntegrityError

from lakebed.core.actions import now_ms
from lakebed.core.errors import AlreadyExistsError, NotFoundError
from lakebed.core.names import check_name
from lakebed.core.suggest import did_you_mean
from lakebed.metastore import schema
from lakebed.metastore.part import Part, find_head, known_version
from lakebed.metastore.records import Tag

_TAGS = schema.tags.c


class Tags(Part):
    """The part of the metastore that keeps tags."""

    def create_tag(self, table_id: str, name: str, version: int, retain_until: int | None = None) -> Tag:
        """Name a version. Raises InputError, NotFoundError for an unknown version, AlreadyExistsError."""
        check_name(name, "tag")
        made = Tag(name, version, now_ms(), retain_until)

        def work(connection: Connection) -> Tag:
            # Under the table's lock, so that no tag outlives its table.
            head = find_head(connection, table_id, lock=True)
            known_version(connection, head, version)
            connection.execute(
                insert(schema.tags),
                {
                    "table_num": head.num,
                    "name": name,
                    "version": version,
                    "created": made.created,
                    "retain_until": retain_until,
                },
            )
            return made

        try:
            return self._database.write(work)
        except IntegrityError as error:
            raise AlreadyExistsError(
                f"table {self._name(table_id)} has a tag {name!r} already",
                found=f"version {self.tag(table_id, name).version}",
                fix="delete it first",
            ) from error

    def tags(self, table_id: str) -> list[Tag]:
        """All tags of a table, by version, then by name."""

        def work(connection: Connection) -> list[Tag]:
            head = find_head(connection, table_id)
            rows = connection.execute(select(schema.tags).where(_TAGS.table_num == head.num))
            found = [Tag(row.name, row.version, row.created, row.retain_until) for row in rows]
            return sorted(found, key=lambda tag: (tag.version, tag.name))

        return self._database.read(work)

    def tag(self, table_id: str, name: str) -> Tag:
        """One tag. Raises NotFoundError with the nearest name."""
        found = {tag.name: tag for tag in self.tags(table_id)}
        if name not in found:
            raise NotFoundError(
                f"table {self._name(table_id)} has no tag {name!r}",
                expected=f"one of {', '.join(found)}" if found else "a tag, but the table has none",
                fix=did_you_mean(name, found),
            )
        return found[name]

    def _name(self, table_id: str) -> str:
        return str(self._database.read(lambda connection: find_head(connection, table_id)))

    def delete_tag(self, table_id: str, name: str) -> None:
        """Forget a tag; its version stays. Raises NotFoundError."""

        def work(connection: Connection) -> int:
            head = find_head(connection, table_id)
            gone = delete(schema.tags).where(_TAGS.table_num == head.num, _TAGS.name == name)
            return connection.execute(gone).rowcount

        if self._database.write(work) == 0:
            self.tag(table_id, name)
