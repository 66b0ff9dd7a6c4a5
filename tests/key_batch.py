"""One upsert of a random history: its rows as the table gets them, and in the order in which they count."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from key_model import KeyModel, KeyState
from key_reading import sql_order

KIND = "op"
LSN = "lsn"
"""A column that sorts, and is not stored."""


@dataclass(frozen=True)
class Batch:
    """Rows, perhaps with their kinds, perhaps with columns that order the rows of one key."""

    rows: list[dict[str, Any]]
    kinds: list[str] | None = None
    sort_by: tuple[str, ...] = ()
    lsns: Sequence[int | None] = ()
    """The values of ``LSN``, if rows are sorted by it."""

    def upsert_into(self, table: Any) -> None:
        rows = self._with_lsns(self.rows)
        if self.kinds is None:
            table.upsert(rows, sort_by=self.sort_by)
        else:
            kinds = zip(rows, self.kinds, strict=True)
            table.upsert([{**row, KIND: kind} for row, kind in kinds], row_kind=KIND, sort_by=self.sort_by)

    def tell(self, model: KeyModel, began: KeyState | None = None) -> None:
        """The same of the model, which takes rows as they come: those of one key by sequence, then in that order."""
        rows = self._with_lsns(self.rows)
        places = sorted(range(len(rows)), key=lambda at: [_rank(rows[at][name]) for name in self.sort_by])
        kinds = None if self.kinds is None else [self.kinds[at] for at in places]
        model.upsert([self.rows[at] for at in places], kinds, began)

    def _with_lsns(self, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [{**row, LSN: lsn} for row, lsn in zip(rows, self.lsns, strict=True)] if self.lsns else rows


def _rank(value: Any) -> tuple[bool, Any]:
    """Something that compares as values do: nulls are lowest."""
    return value is not None, 0 if value is None else sql_order(value)
