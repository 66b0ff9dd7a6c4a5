"""Rows that a table cannot take: how many there are, and one of them to look at."""

from __future__ import annotations

import reprlib
from dataclasses import dataclass, field
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc

from lakebed.core.conform import FIX
from lakebed.core.errors import DataError

_COLUMNS_SHOWN = 8


@dataclass
class RefusedRows:
    """Counts rows that are refused for one reason and keeps the first of them."""

    count: int = 0
    example: str = ""

    def look(self, wrong: pa.Array, batch: pa.RecordBatch, first_row: int, shown: list[str]) -> None:
        """Count the true positions of a mask over the batch; the columns ``shown`` come first in the example."""
        found = wrong.true_count
        if found and not self.count:
            at = pc.index(wrong, True).as_py()
            self.example = f"row {first_row + at}: {_text(batch, at, shown)}"
        self.count += found

    def problem(self, what: str) -> str:
        """What is wrong, for a message; ``what`` follows the number of rows."""
        counted = "1 row" if self.count == 1 else f"{self.count} rows"
        return f"{counted} {what}, like {self.example}"

    def error(self, table_name: str, what: str, fix: str = FIX) -> DataError:
        """The refusal; ``what`` follows the number of rows."""
        return DataError(f"table {table_name}: the rows do not fit", (self.problem(what),), fix=fix)


@dataclass
class RefusedKeys:
    """Counts rows whose primary key lacks a value."""

    key: tuple[str, ...]
    nulls: RefusedRows = field(default_factory=RefusedRows)
    empty: RefusedRows = field(default_factory=RefusedRows)
    """Rows with an empty text in a partition column of the key."""

    def __bool__(self) -> bool:
        return bool(self.nulls.count or self.empty.count)

    def look(self, given: pa.RecordBatch, stored: pa.RecordBatch, first_row: int) -> None:
        """Count the rows that have no key as they are ``stored``: empty text in a partition column is null there."""
        columns = [(given.column(name), stored.column(name)) for name in self.key]
        if not any(column.null_count for _, column in columns):
            return
        null = reduce(pc.or_, [column.is_null() for column, _ in columns])
        missing = reduce(pc.or_, [column.is_null() for _, column in columns])
        self.nulls.look(null, given, first_row, list(self.key))
        self.empty.look(pc.and_not(missing, null), given, first_row, list(self.key))

    def error(self, table_name: str) -> DataError:
        """The refusal of all rows that were found."""
        key = f"the primary key ({', '.join(self.key)})"
        problems = []
        if self.nulls.count:
            problems.append(self.nulls.problem(f"with a null in {key}"))
        if self.empty.count:
            what = f"with an empty text in a partition column of {key}, which Delta cannot tell from a null"
            problems.append(self.empty.problem(what))
        return DataError(f"table {table_name}: the rows do not fit", tuple(problems), fix=FIX)


def _text(batch: pa.RecordBatch, row: int, shown: list[str]) -> str:
    names = list(dict.fromkeys([name for name in shown if name in batch.schema.names] + batch.schema.names))
    short = reprlib.Repr()
    short.maxstring = short.maxother = 60
    values = [f"{name}={short.repr(batch.column(name)[row].as_py())}" for name in names[:_COLUMNS_SHOWN]]
    return ", ".join(values) + (", …" if len(names) > _COLUMNS_SHOWN else "")
