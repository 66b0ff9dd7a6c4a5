"""The order of rows in an upsert file, and which rows of one key stay.

All functions work on row numbers and on the columns that decide; the other columns are moved once, at the end.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from lakebed.core.keyed import MergeEngine
from lakebed.storage.forked import polars_is_lost

# Rows in no order are told by the first few of them.
_GLANCE = 1024
_ROW = "row"
_ROW_BITS = 32
_NUMBER_BITS = 63


def sorted_rows(columns: Sequence[pa.Array]) -> pa.Array | None:
    """The row numbers in ascending order of the columns, nulls first, equal rows as they came; None if they are so.

    NaN is larger than any other number.

    >>> sorted_rows([pa.array([2, 1, 2]), pa.array([5, None, None])]).to_pylist()
    [1, 2, 0]
    >>> sorted_rows([pa.array([1, 2, 2])]) is None
    True
    """
    if _in_order([column.slice(0, _GLANCE) for column in columns]) and _in_order(columns):
        return None
    if polars_is_lost():
        named = {str(at): column for at, column in enumerate(_with_nan_last(columns))}
        by = [(name, "ascending", "at_start") for name in named]
        return pc.sort_indices(pa.table(named), sort_keys=by)
    import polars as pl

    packed = _packed(columns[0]) if len(columns) == 1 else None
    if packed is not None:
        numbers, last = packed
        return pc.bit_wise_and(pl.Series(numbers).sort().to_arrow(), last).cast(pa.uint32())
    frame = pl.DataFrame([pl.Series(str(at), column) for at, column in enumerate(columns)])
    # The row number as the last column of an unstable sort gives what a stable one does, in less than half the time.
    numbered = frame.with_row_index(_ROW).sort([*frame.columns, _ROW], nulls_last=False)
    return numbered[_ROW].to_arrow()


def same_as_before(keys: Sequence[pa.Array]) -> pa.Array:
    """Whether each row has the key of the row before it; one shorter than the keys.

    >>> same_as_before([pa.array([1, 1, 2])]).to_pylist()
    [True, False]
    """
    same: pa.Array | None = None
    for key in keys:
        equal = pc.equal(key.slice(1), key.slice(0, len(key) - 1))
        same = equal if same is None else pc.and_(same, equal)
    assert same is not None
    return same


def survivors(same: pa.Array, engine: MergeEngine) -> pa.Array | None:
    """Which rows, sorted by key, stay in a file; None if all do. Engines that combine rows need every one.

    >>> survivors(pa.array([True, False]), MergeEngine.DEDUPLICATE).to_pylist()
    [False, True, True]
    >>> survivors(pa.array([True, False]), MergeEngine.FIRST_ROW).to_pylist()
    [True, False, True]
    """
    if engine in (MergeEngine.PARTIAL_UPDATE, MergeEngine.AGGREGATION) or not same.true_count:
        return None
    always = pa.array([True])
    parts = [always, pc.invert(same)] if engine is MergeEngine.FIRST_ROW else [pc.invert(same), always]
    return pa.concat_arrays(parts)


def moves(same: pa.Array, partitions: pa.Array) -> pa.Array:
    """How often the key of each row, sorted by key, has changed its partition up to that row.

    Rows that stay in order only when they are in different files get different numbers.

    >>> moves(pa.array([True, True, False]), pa.array([0, 1, 0, 1])).to_pylist()
    [0, 1, 2, 0]
    """
    moved = pc.and_(same, pc.not_equal(partitions.slice(1), partitions.slice(0, len(partitions) - 1)))
    so_far = pc.cumulative_sum(pa.concat_arrays([pa.array([0]), moved.cast(pa.int64())]))
    first = pa.concat_arrays([pa.array([True]), pc.invert(same)])
    before = pc.fill_null_forward(pc.if_else(first, so_far, pa.scalar(None, pa.int64())))
    return pc.subtract(so_far, before)


def runs(numbers: pa.Array) -> Iterator[tuple[int, pa.Array]]:
    """The positions of each number, ascending, as they came.

    >>> [(number, at.to_pylist()) for number, at in runs(pa.array([7, 3, 7]))]
    [(3, [1]), (7, [0, 2])]
    """
    order = pc.sort_indices(numbers)
    encoded = pc.run_end_encode(numbers.take(order))
    start = 0
    for number, end in zip(encoded.values.to_pylist(), encoded.run_ends.to_pylist(), strict=True):
        yield number, order.slice(start, end - start)
        start = end


def _packed(column: pa.Array) -> tuple[pa.Array, pa.Scalar] | None:
    """Each value and, in the lowest bits, the number of its row: one number, which sorts in a fraction of the time.

    The second value has these bits set. None for what is no whole number, for nulls, and for numbers too far apart.
    """
    kind = column.type
    if column.null_count or not (pat.is_signed_integer(kind) or pat.is_date32(kind) or pat.is_timestamp(kind)):
        return None
    import polars as pl

    values = column.cast(pa.int32() if pat.is_date32(kind) else pa.int64()).cast(pa.int64())
    ends = pc.min_max(values).as_py()
    bits = (len(values) - 1).bit_length()
    if bits > _ROW_BITS or (ends["max"] - ends["min"]).bit_length() + bits > _NUMBER_BITS:
        return None
    high = pc.shift_left(pc.subtract(values, pa.scalar(ends["min"], pa.int64())), pa.scalar(bits, pa.int64()))
    rows = pl.int_range(len(values), eager=True).to_arrow()
    return pc.add(high, rows), pa.scalar((1 << bits) - 1, pa.int64())


def _with_nan_last(columns: Sequence[pa.Array]) -> Iterator[pa.Array]:
    """The columns for Arrow's sort, which takes NaN for a null; for polars, and everywhere else, it is the largest."""
    for column in columns:
        if pat.is_floating(column.type):
            yield pc.fill_null(pc.is_nan(column), False)
        yield column


def _in_order(columns: Sequence[pa.Array]) -> bool:
    if len(columns[0]) < 2:
        return True
    if any(column.null_count for column in columns):
        return False
    fine: pa.Array | None = None
    for column in reversed(columns):
        left, right = column.slice(0, len(column) - 1), column.slice(1)
        if fine is None:
            fine = pc.less_equal(left, right)
        else:
            fine = pc.or_(pc.less(left, right), pc.and_(pc.equal(left, right), fine))
    return bool(pc.all(fine).as_py())
