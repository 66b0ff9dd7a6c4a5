"""Matching keys in columns: what the measurements of ``bench/settle_kernels.py`` found to be the fastest.

Key frames are sorted by key. Keys that are numbers underneath (integers, dates, timestamps, decimals of up to 18
digits; several columns if one number has room for them) are matched by merging two sorted columns; in one column of
another type each key is searched for. Other keys are joined by hash, window by window of the key's range, so that both
sides of a join stay in the processor's cache; few keys first choose the rows by a search for the first column. What is
not sorted is matched more slowly, and as rightly.
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
_CODE = "code"
_LARGEST = 2**62


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
    if len(by) == 1:
        return _ascends(rows[by[0]])
    if not rows[by[0]].is_sorted():  # it stops at the first row that is not
        return False
    greater = pl.lit(False)
    for name in reversed(by):
        now, before = pl.col(name), pl.col(name).shift(1)
        greater = (now > before) | ((now == before) & greater)
    return bool(rows.select(greater.slice(1).all()).item())


def _ascends(values: pl.Series) -> bool:
    """Piece by piece, without a copy."""
    before = None
    for piece in values.get_chunks():
        if len(piece) and before is not None and piece[0] <= before:
            return False
        if not (piece.slice(1) > piece.slice(0, max(0, len(piece) - 1))).all():
            return False
        before = piece[-1] if len(piece) else before
    return True


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
    packed = _packed(rows, keys, by)
    if packed is not None:
        return _merged(*packed)
    few = keys.height * _FEW <= rows.height
    if rows.height <= _WINDOW and not few:
        return _joined(rows, keys, by)
    if rows[by[0]].is_sorted():
        rows = rows.with_columns(pl.col(by[0]).set_sorted())
        found = _searched(rows, keys, by[0]) if len(by) == 1 else None
        if found is not None:
            return found
        if few:
            return _joined(_narrowed(rows, keys[by[0]]), keys, by)
    return pl.concat([_window(rows.slice(at, _WINDOW), keys, by) for at in range(0, rows.height, _WINDOW)])


def _searched(rows: pl.DataFrame, keys: pl.DataFrame, lead: str) -> pl.DataFrame | None:
    """The pairs by a search for every key in the sorted rows; None if one key has several rows."""
    values, wanted = rows[lead], keys[lead]
    place = values.search_sorted(wanted, "left")
    last = rows.height - 1
    hit = (place <= last) & (values[place.clip(0, last)] == wanted)
    place, wanted = place.filter(hit), wanted.filter(hit)
    following = place + 1
    if ((following <= last) & (values[following.clip(0, last)] == wanted)).any():
        return None
    return rows.drop(lead)[place].with_columns(keys[INDEX].filter(hit))


def _packed(rows: pl.DataFrame, keys: pl.DataFrame, by: Sequence[str]) -> tuple[pl.DataFrame, pl.DataFrame] | None:
    """Rows and keys with one number for the whole key, in the same order; None if there is no such number.

    Rows outside the range of the keys in any column match none, and are left out.
    """
    if any(rows.schema[name] != pl.Int64 for name in by):
        return None
    if len(by) == 1:
        return rows.rename({by[0]: _CODE}), keys.rename({by[0]: _CODE})
    ends = keys.select(pl.col(by).min().name.suffix(" low"), pl.col(by).max().name.suffix(" high")).row(0, named=True)
    code, room, inside = pl.lit(0, pl.Int64), 1, pl.lit(True)
    for name in by:
        low, high = ends[f"{name} low"], ends[f"{name} high"]
        room *= high - low + 1
        if room > _LARGEST:
            return None
        code = code * (high - low + 1) + (pl.col(name) - low)
        inside &= pl.col(name).is_between(low, high)
    packed = [frame.select(code.alias(_CODE), pl.exclude(by)) for frame in (rows.filter(inside), keys)]
    return packed[0], packed[1]


def _merged(rows: pl.DataFrame, keys: pl.DataFrame) -> pl.DataFrame:
    """The pairs by one number: polars merges if it knows that both are sorted."""
    if rows[_CODE].is_sorted():
        rows = rows.with_columns(pl.col(_CODE).set_sorted())
    keys = keys.with_columns(pl.col(_CODE).set_sorted())
    return rows.join(keys, on=_CODE, how="inner").drop(_CODE)


def _joined(rows: pl.DataFrame, keys: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
    return rows.join(keys, on=list(by), how="inner").drop(by)


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
    values = pl.col(lead)
    ends = (values.first(), values.last()) if rows[lead].flags["SORTED_ASC"] else (values.min(), values.max())
    low, high = (rows.select(end).to_series() for end in ends)
    start = keys[lead].search_sorted(low, "left").item()
    stop = keys[lead].search_sorted(high, "right").item()
    if start == stop:
        return _empty(rows, keys, by)
    return _joined(rows, keys.slice(start, stop - start), by)


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
