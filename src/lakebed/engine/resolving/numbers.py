"""A key column of 64-bit numbers as Arrow has it: of polars even small questions take long."""

from __future__ import annotations

from bisect import bisect_left
from functools import cached_property

import polars as pl
import pyarrow as pa


class KeyNumbers:
    """Numbers without nulls, in the pieces in which they were read."""

    def __init__(self, series: pl.Series, *, ascending: bool) -> None:
        self.series = series
        self.ascending = ascending
        """Whether each is greater than the one before it."""
        pieces = [piece.to_arrow() for piece in series.get_chunks()]
        self.column = pa.chunked_array([piece for piece in pieces if len(piece)], pa.int64())

    def __len__(self) -> int:
        return len(self.column)

    @cached_property
    def _numbers(self) -> list[memoryview[int]]:
        return [_numbers(piece) for piece in self.column.chunks]

    @property
    def ends(self) -> tuple[int, int]:
        """The first and the last number."""
        return self._numbers[0][0], self._numbers[-1][-1]

    def first(self, least: int) -> int:
        """The position of the first of ascending numbers that is not less.

        >>> KeyNumbers(pl.Series([3, 5, 9]), ascending=True).first(4)
        1
        """
        before = 0
        for some in self._numbers:
            if least <= some[-1]:
                return before + bisect_left(some, least)
            before += len(some)
        return before

    def span(self, low: int, high: int) -> tuple[int, int]:
        """Where ascending numbers between two, both included, begin, and how many there are."""
        start = self.first(low)
        return start, self.first(high + 1) - start


def _numbers(piece: pa.Array) -> memoryview[int]:
    whole = memoryview(piece.buffers()[1]).cast("q")
    return whole[piece.offset : piece.offset + len(piece)]
