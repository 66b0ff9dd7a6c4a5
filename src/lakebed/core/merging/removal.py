"""Rows that take a whole row away: what was merged before them does not count any more."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from lakebed.core.merging.lanes import with_rank
from lakebed.core.merging.rows import KEY_NUMBER, KIND, LATE, POSITION, RETRACT, ROW, STATE, VERSION, Rows
from lakebed.core.merging.spec import DELETE, MergeSpec, SequenceGroup

_CUT = "cut"


@dataclass(frozen=True)
class Outcome:
    """What becomes of the keys."""

    frame: pl.DataFrame
    """Per key of which something remains: kid, live (else a tombstone), the latest row, the version."""


def remove(rows: Rows, spec: MergeSpec) -> tuple[pl.DataFrame, Outcome]:
    """The rows that are merged, and which keys are live, which are tombstones, which are nothing."""
    if not rows.frame[RETRACT].any():
        return rows.frame, Outcome(_latest(rows.frame, spec).with_columns(pl.lit(True).alias("live")).collect())
    frame = rows.frame.join(_cuts(rows, spec), on=KEY_NUMBER, how="left", maintain_order="left")
    # A late row lies under a tombstone: it is gone whatever it says. And a late removal has nothing to remove.
    buried = pl.col(LATE) & ((pl.col(_CUT) == 0).fill_null(False) | _removes(rows, spec))
    touched = frame.filter(~buried & (pl.col(POSITION) >= pl.col(_CUT)).fill_null(True))
    merged = touched.filter((pl.col(POSITION) > pl.col(_CUT)).fill_null(True)).drop(_CUT)
    if not spec.aggregates:
        # In a partial-update table nothing can be taken back from a key that has no row.
        begins = pl.col(POSITION).filter(~pl.col(RETRACT)).min().over(KEY_NUMBER)
        merged = merged.filter(pl.col(POSITION) >= begins)
    return merged, Outcome(_outcome(touched, merged, spec))


def _cuts(rows: Rows, spec: MergeSpec) -> pl.DataFrame:
    """For each key the position of the last row that took it away."""
    tombstone = pl.col(STATE) & pl.col(RETRACT)
    removal = tombstone
    if spec.remove_on_delete:
        removal = tombstone | (_removes(rows, spec) & ~pl.col(LATE))
    cuts = rows.frame.filter(removal).select(KEY_NUMBER, pl.col(POSITION).alias(_CUT))
    if spec.remove_on_groups:
        cuts = pl.concat([cuts, _group_cuts(rows, spec)])
    return cuts.group_by(KEY_NUMBER).agg(pl.col(_CUT).max())


def _removes(rows: Rows, spec: MergeSpec) -> pl.Expr:
    """Rows that would take away the whole row if nothing newer was there."""
    deletes = (pl.col(KIND) == DELETE) & ~pl.col(STATE)
    if spec.remove_on_delete:
        return deletes
    groups = [with_rank(rows.source, rows.frame, group)[ROW] for group in _removing(spec)]
    return deletes & pl.col(ROW).is_in(pl.concat(groups).implode()) if groups else pl.lit(False)


def _removing(spec: MergeSpec) -> list[SequenceGroup]:
    return [group for group in spec.groups if set(group.sequence) & set(spec.remove_on_groups)]


def _group_cuts(rows: Rows, spec: MergeSpec) -> pl.DataFrame:
    """Rows of kind -D that take the row away because they are not older in their group than what is there.

    What is there begins anew after each removal, so that this goes row by row, for the keys with such rows.
    """
    deletes = rows.frame.filter((pl.col(KIND) == DELETE) & ~pl.col(STATE))[KEY_NUMBER].unique()
    mine = rows.frame.filter(pl.col(KEY_NUMBER).is_in(deletes.implode()) & ~pl.col(LATE))
    cuts: dict[int, int] = {}
    ranks: dict[int, list[tuple[int, int]]] = {}
    groups = _removing(spec)
    for number, group in enumerate(groups):
        for row, rank in with_rank(rows.source, mine, group).select(ROW, "rank").iter_rows():
            ranks.setdefault(row, []).append((number, rank))
    highest: dict[tuple[int, int], int] = {}
    for key, row, position, kind in mine.sort(POSITION).select(KEY_NUMBER, ROW, POSITION, KIND).iter_rows():
        current = [(number, rank) for number, rank in ranks.get(row, ()) if rank >= highest.get((key, number), -1)]
        if kind == DELETE and current:
            cuts[key] = position
            for number in range(len(groups)):
                highest.pop((key, number), None)
        else:
            highest.update({(key, number): rank for number, rank in current})
    schema = {KEY_NUMBER: mine.schema[KEY_NUMBER], _CUT: mine.schema[POSITION]}
    return pl.DataFrame({KEY_NUMBER: list(cuts), _CUT: list(cuts.values())}, schema=schema)


def _outcome(touched: pl.DataFrame, merged: pl.DataFrame, spec: MergeSpec) -> pl.DataFrame:
    live = merged.lazy().select(KEY_NUMBER, pl.lit(True).alias("live")).unique()
    keys = _latest(touched, spec).join(live, on=KEY_NUMBER, how="left", maintain_order="left")
    known = keys.with_columns(pl.col("live").fill_null(False))
    return (known if spec.keeps_tombstones else known.filter("live")).collect()


def _latest(touched: pl.DataFrame, spec: MergeSpec) -> pl.LazyFrame:
    """Per key the row whose sequence it has now, and its version."""
    latest = pl.col(ROW).last()
    if spec.sequence:
        on_time = ~pl.col(LATE)
        latest = pl.col(ROW).filter(on_time).get(pl.col(POSITION).filter(on_time).arg_max())
    return touched.lazy().group_by(KEY_NUMBER).agg(latest, pl.col(VERSION).max()).sort(KEY_NUMBER)
