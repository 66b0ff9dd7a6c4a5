"""Matching keys in columns: what the measurements of ``bench/settle_kernels.py`` found to be the fastest.

Key frames are sorted by key. One key column that is a number underneath (integers, dates, timestamps, decimals of
up to 18 digits) is matched by merging two sorted columns. Everything else is joined by hash, window by window of
the key's range, so that both sides of a join stay in the processor's cache; few keys first choose the rows by a
search for the first column. What is not sorted is matched more slowly, and as rightly.
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

INDEX = "index"
"""The column of a key's row number, in the keys and in what ``pairs`` gives."""
_SAME = "same as above"

_WINDOW = 250_000
_FEW = 64
"""Keys are few if there are so many times more rows."""
_LONG_DIGITS = 18


def plain(column: pl.Expr, kind: pl.DataType) -> pl.Expr:
    """The column as the kernels want it: a 64-bit integer where its type is one underneath, in the same order."""
    if kind.is_integer() or isinstance(kind, pl.Boolean):
        return column.cast(pl.Int64)
    if isinstance(kind, pl.Date | pl.Datetime):
        return column.to_physical().cast(pl.Int64)
    if isinstance(kind, pl.Decimal) and kind.precision <= _LONG_DIGITS:
        return column.to_physical().cast(pl.Int64)
    return column


def ascending(rows: pl.DataFrame, by: Sequence[str]) -> bool:
    """Whether every row's key is greater than that of the row before."""
    if not rows[by[0]].is_sorted():  # it stops at the first row that is not
        return False
    greater = pl.lit(False)
    for name in reversed(by):
        now, before = pl.col(name), pl.col(name).shift(1)
        greater = (now > before) | ((now == before) & greater)
    return bool(rows.select(greater.slice(1).all()).item())


def winners(rows: pl.DataFrame, by: Sequence[str], sequence: Sequence[str], *, first: bool = False) -> pl.DataFrame:
    """Each key once, sorted, with the ``index`` of the row that wins.

    It is the row with the highest sequence (nulls lowest), the last of those in the order given; or the ``first``.
    """
    number = pl.int_range(0, pl.len(), dtype=pl.UInt32).alias(INDEX)
    numbered = rows.select(*by, number)
    if ascending(rows, by):
        return numbered
    # Sorted files one after the other are runs, which a stable sort merges; further columns would cost much more.
    ordered = numbered.sort(by, maintain_order=True)
    above = pl.all_horizontal(pl.col(name) == pl.col(name).shift(1) for name in by).fill_null(False)
    if sequence:
        ordered = _by_sequence(ordered.with_columns(above.alias(_SAME)), rows, by, sequence)
    return ordered.filter(~above) if first else ordered.filter(~above.shift(-1, fill_value=False))


def _by_sequence(ordered: pl.DataFrame, rows: pl.DataFrame, by: Sequence[str], sequence: Sequence[str]) -> pl.DataFrame:
    """The rows sorted by key, those of one key now by sequence: only keys that are there several times move."""
    repeated = ordered[_SAME] | ordered[_SAME].shift(-1, fill_value=False)
    among = ordered.filter(repeated).select(*by, INDEX)
    values = rows.select(sequence)[among[INDEX]]
    moved = pl.concat([among, values], how="horizontal").sort([*by, *sequence], nulls_last=False, maintain_order=True)
    index = ordered[INDEX].scatter(repeated.arg_true(), moved[INDEX])
    return ordered.select(*by, index)


def pairs(rows: pl.DataFrame, keys: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
    """The rows whose key is among the keys, without the key, and with that key's ``index``.

    ``keys`` are sorted and have only key columns and ``index``; the rows may be in any order.
    """
    if not rows.height or not keys.height:
        return _empty(rows, keys, by)
    lead = by[0]
    keys = keys.with_columns(pl.col(lead).set_sorted())
    if rows[lead].is_sorted():
        rows = rows.with_columns(pl.col(lead).set_sorted())
    if len(by) == 1 and rows.schema[lead] == pl.Int64:
        return rows.join(keys, on=lead, how="inner").drop(lead)
    if keys.height * _FEW <= rows.height and rows[lead].flags["SORTED_ASC"]:
        rows = _narrowed(rows, keys[lead])
    found = [_window(rows.slice(at, _WINDOW), keys, by) for at in range(0, rows.height, _WINDOW)]
    return pl.concat(found) if found else _empty(rows, keys, by)


def _narrowed(rows: pl.DataFrame, wanted: pl.Series) -> pl.DataFrame:
    """The rows, sorted by their first key column, that have one of a few values in it."""
    values, name = wanted.unique(maintain_order=True), wanted.name
    bounds = pl.DataFrame(
        {"start": rows[name].search_sorted(values, "left"), "stop": rows[name].search_sorted(values, "right")}
    )
    places = bounds.filter(pl.col("start") < pl.col("stop")).select(pl.int_ranges("start", "stop").explode())
    return rows[places.to_series()]


def _window(rows: pl.DataFrame, keys: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
    """The pairs of some neighbouring rows; the keys outside their range are left aside."""
    lead = by[0]
    ends = rows.select(pl.col(lead).min().alias("low"), pl.col(lead).max().alias("high"))
    start = keys[lead].search_sorted(ends["low"], "left").item()
    stop = keys[lead].search_sorted(ends["high"], "right").item()
    if start == stop:
        return _empty(rows, keys, by)
    return rows.join(keys.slice(start, stop - start), on=list(by), how="inner").drop(by)


def _empty(rows: pl.DataFrame, keys: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
    return rows.clear().drop(by).with_columns(keys[INDEX].clear())


def at_least(mine: Sequence[str], theirs: Sequence[str]) -> pl.Expr:
    """Whether my sequence values are the same or higher: compared from left to right, nulls lowest."""
    result = pl.lit(True)
    for one, other in zip(reversed(mine), reversed(theirs), strict=True):
        a, b = pl.col(one), pl.col(other)
        higher = (a > b).fill_null(False) | (a.is_not_null() & b.is_null())
        result = higher | (a.eq_missing(b) & result)
    return result
