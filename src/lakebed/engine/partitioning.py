"""Splitting rows by partition, in columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

PartitionRow = tuple[Any, ...]
"""The typed values of the partition columns, None for null."""


def split(batch: pa.RecordBatch, columns: Sequence[str]) -> Iterator[tuple[PartitionRow, pa.RecordBatch]]:
    """The batch's rows by the values of ``columns``; the order of rows within a part is kept.

    >>> batch = pa.record_batch({"dt": ["b", "a", "b"], "n": [1, 2, 3]})
    >>> [(values, part.column("n").to_pylist()) for values, part in split(batch, ["dt"])]
    [(('b',), [1, 3]), (('a',), [2])]
    """
    if batch.num_rows == 0:
        return
    if not columns:
        yield (), batch
        return
    numbers, distinct = codes([batch.column(name) for name in columns])
    if len(distinct) == 1:
        yield _values(batch, columns, 0), batch
        return
    order = pc.sort_indices(numbers)
    runs = pc.run_end_encode(numbers.take(order))
    ordered = batch.take(order)
    start = 0
    for end in runs.run_ends.to_pylist():
        part = ordered.slice(start, end - start)
        yield _values(part, columns, 0), part
        start = end


def codes(arrays: list[pa.Array]) -> tuple[pa.Array, pa.Array]:
    """One whole number per row, equal exactly where all ``arrays`` are equal, and the distinct numbers.

    The numbers count from 0 in the order in which they first appear.

    >>> codes([pa.array(["b", "a", "b"]), pa.array([None, 1, None])])[0].to_pylist()
    [0, 1, 0]
    """
    combined: pa.Array | None = None
    for array in arrays:
        numbers = pc.dictionary_encode(array, null_encoding="encode").indices.cast(pa.int64())
        if combined is not None:
            width = pc.add(pc.max(numbers), 1)
            numbers = pc.dictionary_encode(pc.add(pc.multiply(combined, width), numbers)).indices.cast(pa.int64())
        combined = numbers
    assert combined is not None
    return combined, pc.unique(combined)


def _values(batch: pa.RecordBatch, columns: Sequence[str], row: int) -> PartitionRow:
    return tuple(batch.column(name)[row].as_py() for name in columns)
