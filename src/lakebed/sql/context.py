"""What all parts of one statement share: the warehouse, its names, one moment in time, and the engine for queries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from lakebed.core.errors import LakebedError, NotFoundError, SqlError
from lakebed.sql.cursor import Cursor, Name, Span
from lakebed.sql.names import Names
from lakebed.sql.source import Source
from lakebed.sql.spark_engine import SparkEngine
from lakebed.table import Table
from lakebed.warehouse import Warehouse


@dataclass
class Context:
    """One statement while it runs."""

    lake: Warehouse
    source: Source
    parameters: Mapping[str, Any]
    names: Names = field(init=False)

    def __post_init__(self) -> None:
        self.names = Names(self.lake)

    @property
    def session(self) -> Any:
        """The Spark session; None without one."""
        return self.lake.spark

    @property
    def spark(self) -> SparkEngine | None:
        """Spark as an engine for queries."""
        return None if self.session is None else SparkEngine(self.session, self.names.near)

    @cached_property
    def is_ansi(self) -> bool:
        """Whether Spark takes overflow and division by zero for errors, as it does by default."""
        return self.session is None or self.session.conf.get("spark.sql.ansi.enabled", "true").lower() == "true"

    @cached_property
    def heads(self) -> Mapping[str, int]:
        """The newest version of every table, as of one moment."""
        return self.lake._metastore.heads()

    def on(self, source: Source) -> Context:
        """The same for a query that was made of this statement."""
        other = Context(self.lake, source, self.parameters)
        other.names = self.names
        other.__dict__["heads"] = self.heads
        return other

    def begin_at(self, table: Table, version: int) -> None:
        """All tables are now seen as of this moment, and one of them at the version that is to be changed."""
        self.__dict__["heads"] = {**self.lake._metastore.heads(), table._handle.table_id: version}

    def cursor(self, at: int = 0) -> Cursor:
        """A place in the statement."""
        return Cursor(self.source, self.parameters, at)

    def table(self, name: Name) -> Table:
        """The table of that name. Raises SqlError with the nearest name."""
        found = self.names.table(name.parts)
        if found is None:
            raise self.no_table(name)
        return found

    def no_table(self, name: Name) -> SqlError:
        """The error that says that there is no such table."""
        return self.cursor().error(
            name, f"there is no table {name}", fix=self.names.near(name.parts) or "SHOW TABLES lists them"
        )

    def tried(self, place: Name | Span, error: LakebedError) -> LakebedError:
        """An error of the table API as one that points at a place of the statement."""
        if isinstance(error, SqlError | NotFoundError) or not isinstance(error, ValueError):
            return error
        pointed = self.cursor().error(place, error.what, expected=error.expected, found=error.found, fix=error.fix)
        pointed.__cause__ = error
        return pointed
