"""The truth: a table as a plain Python list of rows per version. Lakebed must never differ from it."""

from __future__ import annotations

import datetime as dt
import math
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any

Row = dict[int, Any]
"""A row by column number, so that renaming a column touches no row."""


@dataclass(frozen=True)
class ModelColumn:
    number: int
    name: str
    type: str
    """SQL text of the type."""


@dataclass(frozen=True)
class State:
    """One version of the model."""

    columns: tuple[ModelColumn, ...]
    rows: tuple[Row, ...] = ()

    def visible(self) -> Counter[tuple[Any, ...]]:
        """The rows as a reader sees them: a bag of values in column order."""
        return Counter(map(self.shown, self.rows))

    def shown(self, row: Row) -> tuple[Any, ...]:
        """One row as a reader sees it."""
        return tuple(_plain(_widened(row.get(c.number), c.type)) for c in self.columns)

    def column(self, name: str) -> ModelColumn:
        return next(c for c in self.columns if c.name == name)


def _widened(value: Any, kind: str) -> Any:
    """A value written before its column was widened, as the wider type shows it."""
    if value is not None and kind == "DOUBLE":
        return float(value)
    if type(value) is dt.date and kind == "TIMESTAMP_NTZ":
        return dt.datetime(value.year, value.month, value.day)
    return value


def _plain(value: Any) -> Any:
    """Something hashable that compares as SQL values do."""
    if isinstance(value, float) and math.isnan(value):
        return "NaN"
    if isinstance(value, list):
        return tuple(_plain(v) for v in value)
    if isinstance(value, dict):
        return tuple(sorted((k, _plain(v)) for k, v in value.items()))
    return value


@dataclass
class ModelTable:
    """The history of one table; the index of a state is its version."""

    states: list[State]
    tags: dict[str, int] = field(default_factory=dict)
    next_number: int = 100

    @property
    def now(self) -> State:
        return self.states[-1]

    def append(self, rows: list[dict[str, Any]]) -> None:
        self._push(self.now.rows + self._by_number(rows))

    def overwrite(self, rows: list[dict[str, Any]]) -> None:
        self._push(self._by_number(rows))

    def overwrite_partitions(self, rows: list[dict[str, Any]], partition: str) -> None:
        number = self.now.column(partition).number
        touched = {row.get(partition) for row in rows}
        kept = tuple(row for row in self.now.rows if row.get(number) not in touched)
        self._push(kept + self._by_number(rows))

    def overwrite_where(self, rows: list[dict[str, Any]], partition: str, value: Any) -> None:
        number = self.now.column(partition).number
        kept = tuple(row for row in self.now.rows if row.get(number) != value or row.get(number) is None)
        self._push(kept + self._by_number(rows))

    def delete(self, column: str, test: Any) -> int:
        """Remove rows whose value of ``column`` is not null and passes ``test``."""
        number = self.now.column(column).number
        kept = tuple(r for r in self.now.rows if r.get(number) is None or not test(r[number]))
        removed = len(self.now.rows) - len(kept)
        self._push(kept)
        return removed

    def restore(self, version: int) -> None:
        self.states.append(self.states[version])

    def add_column(self, name: str, kind: str) -> None:
        self._alter((*self.now.columns, ModelColumn(self.next_number, name, kind)))
        self.next_number += 1

    def drop_column(self, name: str) -> None:
        gone = self.now.column(name).number
        self._alter(tuple(c for c in self.now.columns if c.number != gone))

    def rename_column(self, old: str, new: str) -> None:
        self._alter(tuple(replace(c, name=new) if c.name == old else c for c in self.now.columns))

    def widen_column(self, name: str, kind: str) -> None:
        self._alter(tuple(replace(c, type=kind) if c.name == name else c for c in self.now.columns))

    def _by_number(self, rows: list[dict[str, Any]]) -> tuple[Row, ...]:
        numbers = {c.name: c.number for c in self.now.columns}
        return tuple({numbers[name]: value for name, value in row.items()} for row in rows)

    def _push(self, rows: tuple[Row, ...]) -> None:
        self.states.append(State(self.now.columns, rows))

    def _alter(self, columns: tuple[ModelColumn, ...]) -> None:
        self.states.append(State(columns, self.now.rows))


def bag(table: Any) -> Counter[tuple[Any, ...]]:
    """An Arrow table as a bag of rows, to be compared with ``State.visible``."""
    columns = [column.to_pylist() for column in table.columns]
    if not columns:
        return Counter()
    return Counter(tuple(_plain(v) for v in row) for row in zip(*columns, strict=True))
