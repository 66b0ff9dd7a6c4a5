"""What a query reads at one of its places: rows of a table, its changes, or what is known of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import pyarrow as pa

from lakebed.core.predicate import Node
from lakebed.core.schema import Struct
from lakebed.core.schema_arrow import from_arrow
from lakebed.core.unsliced import unsliced
from lakebed.table import Table
from lakebed.view import Readable


class Rows(Protocol):
    """Rows that both kinds of engines can read. ``columns`` and ``where`` limit what is read."""

    @property
    def schema(self) -> pa.Schema:
        """The columns."""

    def arrow(self, columns: Sequence[str] | None, where: Node | None) -> pa.Table:
        """The rows as an Arrow table."""

    def frame(self, session: Any, columns: Sequence[str] | None, where: Node | None) -> Any:
        """The rows as a DataFrame."""


def columns_of(rows: Rows) -> Struct:
    """The columns in the words of predicates; none for what is no table's."""
    return from_arrow(rows.schema) if isinstance(rows, TableRows) else Struct(())


@dataclass(frozen=True)
class TableRows:
    """The rows of a table at one version."""

    view: Readable
    facts: tuple[str, ...] = ()
    """What is told of each row besides, like its file."""

    @property
    def schema(self) -> pa.Schema:
        """The columns of the table."""
        return self.view.schema

    def arrow(self, columns: Sequence[str] | None, where: Node | None) -> pa.Table:
        """Read now."""
        if self.facts:
            return self.view._described(columns, where, self.facts)
        return self.view.to_arrow(columns, where)

    def frame(self, session: Any, columns: Sequence[str] | None, where: Node | None) -> Any:
        """Read when the frame is."""
        return self.view.df(columns, where, metadata_columns=self.facts)


@dataclass(frozen=True)
class ChangeRows:
    """What became of the rows of a table in some versions."""

    table: Table
    start: Any
    end: Any = None
    mode: str = "all"
    extra: dict[str, Any] = field(default_factory=dict, hash=False)

    @property
    def schema(self) -> pa.Schema:
        """The columns of the table, and those that tell of changes."""
        return self._changes().schema

    def arrow(self, columns: Sequence[str] | None, where: Node | None) -> pa.Table:
        """Read now."""
        return self._changes().to_arrow()

    def frame(self, session: Any, columns: Sequence[str] | None, where: Node | None) -> Any:
        """Read when the frame is."""
        return self._changes().df()

    def _changes(self) -> Any:
        return self.table.changes(self.start, self.end, mode=self.mode, **self.extra)


@dataclass(frozen=True)
class FixedRows:
    """Rows that are there."""

    rows: pa.Table = field(hash=False)

    @property
    def schema(self) -> pa.Schema:
        """The columns."""
        return self.rows.schema

    def arrow(self, columns: Sequence[str] | None, where: Node | None) -> pa.Table:
        """The rows themselves."""
        return self.rows

    def frame(self, session: Any, columns: Sequence[str] | None, where: Node | None) -> Any:
        """The same, sent to Spark."""
        return session.createDataFrame(unsliced(self.rows))
