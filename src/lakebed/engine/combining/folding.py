"""Rows of settled files and of several commits become one row per key: the fold, commit by commit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from lakebed.core.file_tags import KIND_COLUMN, ROW_VERSION_COLUMN
from lakebed.core.merging import MergeSpec, fold
from lakebed.core.merging.functions import Function
from lakebed.core.schema import DOUBLE, FLOAT
from lakebed.engine.key_order import same_as_before, sorted_rows
from lakebed.engine.key_runs import in_order, key_columns
from lakebed.engine.tracked_scan import DELETING

FILE = "_lakebed_file"
"""The column of the number of a row's file: settled ones first, then unsettled ones in fold order."""

# The version of rows that have none yet, since their commit is still to come: newer than all others.
_TO_COME = pa.scalar(2**63 - 1, pa.int64())


@dataclass(frozen=True)
class Folding:
    """Folds the rows of whole keys."""

    spec: MergeSpec
    settled: int
    """How many of the file numbers are those of settled files."""
    batches: tuple[int, ...]
    """For each unsettled file the number of the batch that it is a part of."""

    def fold(self, rows: pa.Table) -> pa.Table:
        """The new state of all keys of these rows, sorted by key; a row of kind 3 is a tombstone.

        The rows of each file are in the order of the file. Raises DataError for rows that cannot be merged.
        """
        version = rows.schema.get_field_index(ROW_VERSION_COLUMN)
        rows = rows.set_column(version, ROW_VERSION_COLUMN, pc.fill_null(rows.column(version), _TO_COME))
        parts = _by_file(rows)
        state = self._newest(pa.concat_tables([rows.slice(0, 0), *(part for n, part in parts if n < self.settled)]))
        state = state.drop_columns([FILE])
        for batch in self._batches([(n, part.drop_columns([FILE])) for n, part in parts if n >= self.settled]):
            state = pa.concat_tables([self._others(state, batch), fold(state, batch, self.spec)])
        state = in_order([state], self.spec.key)
        made = state.column(version)
        return state.set_column(
            version, ROW_VERSION_COLUMN, pc.if_else(pc.equal(made, _TO_COME), pa.scalar(None, pa.int64()), made)
        )

    def _newest(self, rows: pa.Table) -> pa.Table:
        """One row per key: its live one, else its newest tombstone."""
        if not self.spec.keeps_tombstones or rows.num_rows < 2:
            return rows
        keys, (kinds,) = key_columns(rows, self.spec.key), key_columns(rows, [KIND_COLUMN])
        live = pc.invert(pc.is_in(kinds, DELETING)).cast(pa.int8())
        order = sorted_rows([*keys, live, *key_columns(rows, [*self.spec.sequence, FILE])])
        if order is not None:
            rows, keys = rows.take(order), [key.take(order) for key in keys]
        last = pa.concat_arrays([pc.invert(same_as_before(keys)), pa.array([True])])
        return rows.filter(last)

    def _batches(self, changes: Sequence[tuple[int, pa.Table]]) -> Sequence[pa.Table]:
        """What is folded as one: the rows of each batch, or of all where it comes to the same."""
        found: dict[int, list[pa.Table]] = {}
        for number, rows in changes:
            found.setdefault(self.batches[number - self.settled], []).append(rows)
        batches = [pa.concat_tables(parts) for parts in found.values()]
        if len(batches) < 2:
            return batches
        every = pa.concat_tables(batches)
        return [every] if self._is_one(every) else batches

    def _is_one(self, rows: pa.Table) -> bool:
        """Whether no commit takes anything back or is late, so that the rows are merged in the order in which they are.

        Sums and products of floating-point numbers depend on what is added first, so they go commit by commit.
        """
        inexact = (FLOAT, DOUBLE)
        if any(r.function in (Function.SUM, Function.PRODUCT) and r.type in inexact for r in self.spec.fields):
            return False
        if pc.any(pc.is_in(rows.column(KIND_COLUMN), DELETING)).as_py():
            return False
        if not self.spec.sequence:
            return True
        keys = key_columns(rows, self.spec.key)
        order = sorted_rows(keys)
        found = [*keys, *key_columns(rows, self.spec.sequence)]
        ordered = found if order is None else [column.take(order) for column in found]
        at = sorted_rows(ordered)
        return at is None or bool(pc.all(pc.equal(at.cast(pa.int64()), pa.arange(0, len(at)))).as_py())

    def _others(self, state: pa.Table, batch: pa.Table) -> pa.Table:
        """The rows of the state whose key is not in the batch."""
        if not state.num_rows:
            return state
        names = [f"k{i}" for i in range(len(self.spec.key))]
        columns = ([rows.column(name) for name in self.spec.key] for rows in (state, batch))
        mine, theirs = (pl.DataFrame(dict(zip(names, keys, strict=True))) for keys in columns)
        others = mine.with_row_index("at").join(theirs, on=names, how="anti", maintain_order="left")
        return state.take(others["at"].to_arrow())


def _by_file(rows: pa.Table) -> list[tuple[int, pa.Table]]:
    """The rows of each file, by its number."""
    (numbers,) = key_columns(rows, [FILE])
    order = sorted_rows([numbers])
    if order is not None:
        rows, numbers = rows.take(order), numbers.take(order)
    encoded = pc.run_end_encode(numbers)
    ends = encoded.run_ends.to_pylist()
    starts = [0, *ends[:-1]]
    return [
        (number, rows.slice(start, end - start))
        for number, start, end in zip(encoded.values.to_pylist(), starts, ends, strict=True)
    ]
