"""Rows that a table cannot take: how many there are, and one of them to look at."""

from __future__ import annotations

import reprlib
from dataclasses import dataclass

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

    def error(self, table_name: str, what: str, fix: str = FIX) -> DataError:
        """The refusal; ``what`` follows the number of rows."""
        counted = "1 row" if self.count == 1 else f"{self.count} rows"
        return DataError(
            f"table {table_name}: the rows do not fit", (f"{counted} {what}, like {self.example}",), fix=fix
        )


def _text(batch: pa.RecordBatch, row: int, shown: list[str]) -> str:
    names = list(dict.fromkeys([name for name in shown if name in batch.schema.names] + batch.schema.names))
    short = reprlib.Repr()
    short.maxstring = short.maxother = 60
    values = [f"{name}={short.repr(batch.column(name)[row].as_py())}" for name in names[:_COLUMNS_SHOWN]]
    return ", ".join(values) + (", …" if len(names) > _COLUMNS_SHOWN else "")
