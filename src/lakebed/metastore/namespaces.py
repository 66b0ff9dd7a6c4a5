"""Namespaces: named groups of tables, with properties."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from sqlalchemy import Connection, delete, insert, select, update
from sqlalchemy.exc import IntegrityError

from lakebed.core.actions import now_ms
from lakebed.core.errors import AlreadyExistsError, InputError, NotFoundError
from lakebed.core.names import DEFAULT_NAMESPACE, check_name
from lakebed.core.suggest import did_you_mean
from lakebed.metastore import schema
from lakebed.metastore.part import Part
from lakebed.metastore.rows import dump

_NAMES = schema.namespaces.c


@dataclass(frozen=True)
class Namespace:
    """A namespace and its properties."""

    name: str
    properties: Mapping[str, str] = field(hash=False)
    created: int


class Namespaces(Part):
    """The part of the metastore that keeps namespaces."""

    def create_namespace(
        self, name: str, properties: Mapping[str, str] | None = None, *, if_not_exists: bool = False
    ) -> None:
        """Make a namespace. Raises InputError, and AlreadyExistsError unless ``if_not_exists``."""
        check_name(name, "namespace")
        row = {"name": name, "properties": dump(dict(properties or {})), "created": now_ms()}
        try:
            self._database.write(lambda connection: connection.execute(insert(schema.namespaces), row))
        except IntegrityError as error:
            if not if_not_exists:
                raise AlreadyExistsError(f"namespace {name} exists already", fix="choose another name") from error

    def namespaces(self) -> list[str]:
        """The names of all namespaces, sorted."""
        return sorted(self._database.read(lambda c: c.execute(select(_NAMES.name)).scalars().all()))

    def namespace(self, name: str) -> Namespace:
        """One namespace. Raises NotFoundError with the nearest name."""
        return self._database.read(lambda connection: find_namespace(connection, name))

    def set_namespace_properties(self, name: str, properties: Mapping[str, str | None]) -> None:
        """Set properties of a namespace; a value of None removes one. Raises NotFoundError."""

        def work(connection: Connection) -> None:
            merged = {**find_namespace(connection, name, lock=True).properties, **properties}
            kept = dump({key: value for key, value in merged.items() if value is not None})
            connection.execute(update(schema.namespaces).where(_NAMES.name == name).values(properties=kept))

        self._database.write(work)

    def drop_namespace(self, name: str) -> None:
        """Remove an empty namespace. Raises InputError, listing its tables, while there are any."""
        if name == DEFAULT_NAMESPACE:
            raise InputError(f"namespace {name} always exists and cannot be dropped")

        def work(connection: Connection) -> None:
            find_namespace(connection, name, lock=True)
            _refuse_if_used(connection, name)
            connection.execute(delete(schema.namespaces).where(_NAMES.name == name))

        try:
            self._database.write(work)
        except IntegrityError as error:
            raise InputError(f"namespace {name} is not empty", fix="drop or rename its tables first") from error


def find_namespace(connection: Connection, name: str, *, lock: bool = False) -> Namespace:
    """One namespace, locked against others' changes if asked for. Raises NotFoundError."""
    query = select(schema.namespaces).where(_NAMES.name == name)
    row = connection.execute(query.with_for_update() if lock else query).first()
    if row is None:
        known = connection.execute(select(_NAMES.name)).scalars().all()
        raise NotFoundError(
            f"there is no namespace {name!r}",
            expected=f"one of {', '.join(sorted(known))}",
            fix=did_you_mean(name, known) or "create it with create_namespace",
        )
    return Namespace(row.name, json.loads(row.properties), row.created)


def _refuse_if_used(connection: Connection, name: str) -> None:
    tables = connection.execute(select(schema.tables.c.name).where(schema.tables.c.namespace == name)).scalars().all()
    if tables:
        raise InputError(
            f"namespace {name} is not empty",
            found=f"{len(tables)} table(s): {', '.join(sorted(tables))}",
            fix="drop or rename them first",
        )
