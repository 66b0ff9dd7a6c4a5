"""Rows on the screen: as a table if they fit, one value on a line if they do not."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.types as pat

from lakebed.cli import screen
from lakebed.cli.screen import FAINT, NAME, Cell, Column

_NARROWEST = 6
"""A column that is narrower than its values tells little."""
_LONGEST = 2_000
"""Of a longer text nobody reads the rest on a screen."""


def show_table(rows: pa.Table, limit: int | None = None) -> None:
    """The first rows, and how many are left."""
    shown = rows if limit is None else rows.slice(0, limit)
    if not rows.num_columns:
        return
    right = [_is_number(kind) for kind in rows.schema.types]
    cells = [[_cell(value) for value in column.to_pylist()] for column in shown.columns]
    lines = list(zip(*cells, strict=True))
    if _fits(rows.column_names, cells):
        columns = [Column(name, right=r, wrap=not r) for name, r in zip(rows.column_names, right, strict=True)]
        screen.table(columns, lines, empty=f"no rows ({', '.join(rows.column_names)})")
    else:
        _down(rows.column_names, lines)
    if shown.num_rows < rows.num_rows:
        screen.say(Cell(f"{rows.num_rows - shown.num_rows:,} more rows: --limit, or --format csv for all", FAINT))


def _fits(names: list[str], cells: list[list[str | Cell]]) -> bool:
    widths = [
        max([len(name), *(min(len(str(c)), _NARROWEST) for c in column)])
        for name, column in zip(names, cells, strict=True)
    ]
    return sum(widths) + 2 * len(widths) <= screen.width()


def _down(names: list[str], lines: list[tuple[str | Cell, ...]]) -> None:
    width = max(map(len, names))
    for number, line in enumerate(lines, start=1):
        screen.say(Cell(f"row {number}", NAME))
        for name, cell in zip(names, line, strict=True):
            screen.say(Cell(f"  {name.ljust(width)}  ", FAINT), cell)


def _is_number(kind: pa.DataType) -> bool:
    return bool(pat.is_integer(kind) or pat.is_floating(kind) or pat.is_decimal(kind))


def _cell(value: Any) -> str | Cell:
    if value is None:
        return Cell("NULL", FAINT)
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, datetime):
        return value.isoformat(" ")
    if isinstance(value, bytes):
        return f"0x{value[:_LONGEST].hex()}"
    text = str(value)
    return text if len(text) <= _LONGEST else text[:_LONGEST] + "…"
