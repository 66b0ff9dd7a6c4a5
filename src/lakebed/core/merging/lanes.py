"""Lanes: columns that share an order. The columns of a sequence group are one lane, all others another."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl
import pyarrow as pa

from lakebed.core.merging.functions import COMMUTES, Function
from lakebed.core.merging.rows import KEY_NUMBER, LATE, POSITION, RETRACT, ROW, Rows
from lakebed.core.merging.spec import FieldRule, MergeSpec, SequenceGroup

UNDER = "under"
"""Whether a row is late in the table; ``late`` tells whether it is late in its lane."""


@dataclass(frozen=True)
class Lane:
    """The rows that matter for some columns."""

    source: pa.Table
    keys: int
    frame: pl.DataFrame
    """Per row: kid, row, pos, state, retract, late, under. In merge order: late rows go before what is there."""
    grouped: bool
    has_late: bool
    has_retracts: bool

    @staticmethod
    def of(rows: Rows, frame: pl.DataFrame, *, grouped: bool) -> Lane:
        """The lane of these rows, put into merge order."""
        has_late = bool(frame.select(pl.any_horizontal(pl.col(LATE).any(), pl.col(UNDER).any())).item())
        if has_late:
            order = pl.when(pl.col(LATE)).then(-pl.col(POSITION)).otherwise(pl.col(POSITION))
            frame = frame.sort(order, maintain_order=True)
        return Lane(rows.source, rows.keys, frame, grouped, has_late, bool(frame[RETRACT].any()))

    def used(self, rule: FieldRule) -> pl.Expr:
        """Which rows of the lane count for a column."""
        used = pl.lit(True)
        if self.has_retracts and rule.ignore_retract:
            used = used & ~pl.col(RETRACT)
        if self.has_late and self.grouped and rule.function is None:
            used = used & ~pl.col(LATE)
        if self.has_late and self.has_retracts and rule.function is not None and rule.function not in COMMUTES:
            # A row taken back before all that is there finds nothing to be taken from.
            void = pl.col(UNDER) & pl.col(RETRACT)
            used = used & ~(void & pl.col(LATE) if rule.function is Function.LAST_VALUE else void)
        return used


def plain_lane(rows: Rows, frame: pl.DataFrame, spec: MergeSpec) -> Lane:
    """The lane of the columns that are in no sequence group."""
    if not spec.aggregates:
        # A row that is taken back says nothing of columns outside of sequence groups.
        frame = frame.filter(~pl.col(RETRACT))
    return Lane.of(rows, frame.with_columns(pl.col(LATE).alias(UNDER)), grouped=False)


def group_lane(rows: Rows, frame: pl.DataFrame, group: SequenceGroup) -> Lane:
    """The lane of a sequence group: rows without any of its sequence values are not in it."""
    ranked = with_rank(rows.source, frame, group).sort(POSITION, maintain_order=True)
    highest = pl.col("rank").cum_max().shift(1).over(KEY_NUMBER)
    # A row that is late in the table goes under a row of the same rank in the group.
    late = (pl.col("rank") < highest) | ((pl.col("rank") == highest) & pl.col(LATE))
    return Lane.of(
        rows, ranked.with_columns(pl.col(LATE).alias(UNDER), late.fill_null(False).alias(LATE)), grouped=True
    )


def with_rank(source: pa.Table, frame: pl.DataFrame, group: SequenceGroup) -> pl.DataFrame:
    """The rows that have a sequence value in the group, with a number that orders them."""
    names = [f"q{index}" for index in range(len(group.sequence))]
    values = [pl.Series(n, source[c]).gather(frame[ROW]) for n, c in zip(names, group.sequence, strict=True)]
    frame = frame.with_columns(values).filter(pl.any_horizontal(pl.col(name).is_not_null() for name in names))
    ranks = frame.select(names).unique().sort(names, nulls_last=False).with_row_index("rank")
    return frame.join(ranks, on=names, how="left", nulls_equal=True, maintain_order="left").drop(names)
