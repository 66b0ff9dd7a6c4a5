"""Lanes: columns that share an order. The columns of a sequence group are one lane, all others another."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl
import pyarrow as pa

from lakebed.core.merging.functions import ORDER_FREE
from lakebed.core.merging.rows import KEY_NUMBER, LATE, POSITION, RETRACT, ROW, Rows
from lakebed.core.merging.spec import FieldRule, MergeSpec, SequenceGroup


@dataclass(frozen=True)
class Lane:
    """The rows that matter for some columns."""

    source: pa.Table
    keys: int
    frame: pl.DataFrame
    """Per row: kid, row, pos, state, retract, late. In merge order: late rows go before what is there."""
    grouped: bool
    has_late: bool
    has_retracts: bool

    @staticmethod
    def of(rows: Rows, frame: pl.DataFrame, *, grouped: bool) -> Lane:
        """The lane of these rows, put into merge order."""
        has_late = bool(frame[LATE].any())
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
        if self.has_late and self.has_retracts and rule.function not in ORDER_FREE:
            used = used & ~(pl.col(LATE) & pl.col(RETRACT))
        return used


def plain_lane(rows: Rows, frame: pl.DataFrame, spec: MergeSpec) -> Lane:
    """The lane of the columns that are in no sequence group."""
    if not spec.aggregates:
        # A row that is taken back says nothing of columns outside of sequence groups.
        frame = frame.filter(~pl.col(RETRACT))
    return Lane.of(rows, frame, grouped=False)


def group_lane(rows: Rows, frame: pl.DataFrame, group: SequenceGroup) -> Lane:
    """The lane of a sequence group: rows without any of its sequence values are not in it."""
    ranked = with_rank(rows.source, frame, group)
    late = pl.col("rank") < pl.col("rank").cum_max().over(KEY_NUMBER)
    return Lane.of(rows, ranked.sort(POSITION, maintain_order=True).with_columns(late.alias(LATE)), grouped=True)


def with_rank(source: pa.Table, frame: pl.DataFrame, group: SequenceGroup) -> pl.DataFrame:
    """The rows that have a sequence value in the group, with a number that orders them."""
    names = [f"q{index}" for index in range(len(group.sequence))]
    values = [pl.Series(n, source[c]).gather(frame[ROW]) for n, c in zip(names, group.sequence, strict=True)]
    frame = frame.with_columns(values).filter(pl.any_horizontal(pl.col(name).is_not_null() for name in names))
    ranks = frame.select(names).unique().sort(names, nulls_last=False).with_row_index("rank")
    return frame.join(ranks, on=names, how="left", nulls_equal=True, maintain_order="left").drop(names)
