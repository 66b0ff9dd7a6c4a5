"""The rows of the state and of a batch, numbered by key and in the order in which they are merged.

Everything after this works on small frames of row numbers; the values stay in one Arrow table, ``Rows.source``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import polars as pl
import pyarrow as pa

from lakebed.core.file_tags import KIND_COLUMN, ROW_VERSION_COLUMN
from lakebed.core.merging.spec import DELETE, RETRACTS, MergeSpec

KEY_NUMBER = "kid"
"""The number of a row's key: keys in the order of their first row in the batch."""
ROW = "row"
"""The number of a row in the source."""
POSITION = "pos"
"""When a row is merged: 0 for the state, then the batch by sequence and order."""
STATE, RETRACT, LATE = "state", "retract", "late"
KIND, VERSION = "kind", "version"
_COLUMNS = (KEY_NUMBER, ROW, POSITION, STATE, KIND, RETRACT, LATE, VERSION)


@dataclass(frozen=True)
class Rows:
    """What is merged, and in which order."""

    source: pa.Table
    """The rows of the state that the batch meets, then the batch."""
    frame: pl.DataFrame
    """Per row that counts: kid, row, pos, state, kind, retract, late, version; sorted by pos within a kid."""
    first: pl.Series
    """For each key one of its rows, to take the key from."""

    @property
    def keys(self) -> int:
        """How many keys the batch has."""
        return len(self.first)


def arrange(state: pa.Table | None, batch: pa.Table, spec: MergeSpec) -> Rows:
    """The rows of both, ordered. Rows that the table ignores are left out; their keys are not."""
    by = _key_names(spec)
    keys = _keys(batch, spec).with_row_index(ROW)
    distinct = keys.unique(subset=by, keep="first", maintain_order=True)
    numbered = distinct.select(by).with_row_index(KEY_NUMBER)
    met = _met(state, numbered, spec)
    kept = 0 if met is None else met.height
    source = batch if met is None or state is None else _joined(state.take(met[ROW].to_arrow()), batch)
    numbers = keys.join(numbered, on=by, how="left", maintain_order="left")[KEY_NUMBER]
    if met is not None:
        numbers = pl.concat([met[KEY_NUMBER], numbers])
    frame = _ordered(source, _marked(source, numbers, kept), spec)
    ignored = _ignored(spec)
    return Rows(source, frame if ignored is None else frame.filter(~ignored), distinct[ROW] + kept)


def _key_names(spec: MergeSpec) -> list[str]:
    """The key columns' names in frames, where a column of the table may have the name of one of ours."""
    return [f"k{index}" for index in range(len(spec.key))]


def _keys(table: pa.Table, spec: MergeSpec) -> pl.DataFrame:
    return cast(pl.DataFrame, pl.from_arrow(table.select(spec.key).rename_columns(_key_names(spec))))


def _met(state: pa.Table | None, numbered: pl.DataFrame, spec: MergeSpec) -> pl.DataFrame | None:
    """The rows of the state whose key is in the batch."""
    if state is None or state.num_rows == 0:
        return None
    return (
        _keys(state, spec).with_row_index(ROW).join(numbered, on=_key_names(spec), how="inner").select(ROW, KEY_NUMBER)
    )


def _joined(state: pa.Table, batch: pa.Table) -> pa.Table:
    """Both, with the batch's columns. Only nullability may differ, so the cast never changes a value."""
    nullable = pa.schema([f.with_nullable(True) for f in batch.schema])
    return pa.concat_tables([state.select(batch.column_names).cast(nullable), batch.cast(nullable)]).combine_chunks()


def _marked(source: pa.Table, numbers: pl.Series, kept: int) -> pl.DataFrame:
    kind = pl.Series(KIND, source[KIND_COLUMN]).fill_null(0)
    frame = pl.DataFrame({KEY_NUMBER: numbers, KIND: kind, VERSION: pl.Series(VERSION, source[ROW_VERSION_COLUMN])})
    return frame.with_row_index(ROW).with_columns(
        (pl.col(ROW) < kept).alias(STATE),
        pl.col(KIND).is_in(RETRACTS).alias(RETRACT),
    )


def _ordered(source: pa.Table, frame: pl.DataFrame, spec: MergeSpec) -> pl.DataFrame:
    if not spec.sequence:
        position = pl.when(STATE).then(0).otherwise(pl.col(ROW).cast(pl.Int64) + 1)
        return frame.with_columns(position.alias(POSITION), pl.lit(False).alias(LATE))
    names = [f"s{index}" for index in range(len(spec.sequence))]
    values = [pl.Series(name, source[column]) for name, column in zip(names, spec.sequence, strict=True)]
    frame = frame.with_columns(values)
    theirs = [f"state_{name}" for name in names]
    states = frame.lazy().filter(STATE).select(
        KEY_NUMBER, pl.lit(True).alias("met"), *(pl.col(a).alias(b) for a, b in zip(names, theirs, strict=True))
    )  # fmt: skip
    position = pl.when(STATE).then(0).otherwise(pl.col("at").cast(pl.Int64) + 1)
    late = pl.col("met").fill_null(False) & ~pl.col(STATE) & older(names, theirs)
    return (
        frame.lazy()
        .sort([*names, ROW], nulls_last=False)
        .with_row_index("at")
        .join(states, on=KEY_NUMBER, how="left", maintain_order="left")
        .with_columns(position.alias(POSITION), late.alias(LATE))
        .select(*_COLUMNS)
        .sort(POSITION, maintain_order=True)
        .collect()
    )


def older(left: Sequence[str], right: Sequence[str]) -> pl.Expr:
    """Whether one tuple of columns is lower than another: compared left to right, null lowest."""
    result = pl.lit(False)
    for one, other in zip(reversed(left), reversed(right), strict=True):
        a, b = pl.col(one), pl.col(other)
        lower = (a.is_null() & b.is_not_null()) | (a < b).fill_null(False)
        result = lower | (a.eq_missing(b) & result)
    return result


def _ignored(spec: MergeSpec) -> pl.Expr | None:
    """Rows that the table does not look at, if it has such; a state is never one of them."""
    if spec.ignore_delete:
        return pl.col(RETRACT) & ~pl.col(STATE)
    if spec.remove_on_delete and not spec.aggregates:
        # partial-update takes whole rows away, so the old half of an update says nothing.
        return pl.col(RETRACT) & ~pl.col(STATE) & (pl.col(KIND) != DELETE)
    return None
