"""Bitmaps and masks tell the same, whatever containers a bitmap has."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap64

from lakebed.storage.bitmap_bits import ROWS, from_mask, to_mask

SHAPES = {
    "none": [],
    "few": [0, 7, 8, ROWS - 1, ROWS, 3 * ROWS + 5],
    "one in three": range(0, 3 * ROWS + 100, 3),
    "all": range(2 * ROWS),
    "long runs": [*range(3, 5), *range(6, 100), *range(5000, 60_001), *range(ROWS - 1, ROWS + 1)],
    "runs in five containers": [at for start in range(0, 5 * ROWS, ROWS) for at in range(start + 9, start + 30_000)],
    "a list, bits and a run": [*range(0, 400, 2), *range(ROWS, 2 * ROWS, 2), *range(2 * ROWS + 1, 3 * ROWS - 1)],
    "as many as a list can have": range(0, 2 * 4096, 2),
    "one more": range(0, 2 * 4097, 2),
}


@pytest.mark.parametrize("optimised", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
def test_to_mask(shape: str, optimised: bool) -> None:
    positions = BitMap64(SHAPES[shape])
    if optimised:
        positions.run_optimize()
    length = 5 * ROWS + 17
    mask = to_mask(positions, length)
    assert mask is not None
    assert len(mask) == length
    assert [at for at, there in enumerate(mask.to_pylist()) if there] == sorted(positions)


@pytest.mark.parametrize("offset", [0, 8, 3])
@pytest.mark.parametrize("shape", SHAPES)
def test_from_mask(shape: str, offset: int) -> None:
    positions = set(SHAPES[shape])
    mask = pa.array([True] * offset + [at in positions for at in range(3 * ROWS + 101)])[offset:]
    assert set(from_mask(mask)) == {at for at in positions if at < len(mask)}


def test_rows_beyond_the_mask_are_not_in_it() -> None:
    positions = BitMap64([1, 5, ROWS + 1, 3 * ROWS])
    mask = to_mask(positions, 4)
    assert mask is not None
    assert mask.to_pylist() == [False, True, False, False]
    assert from_mask(mask) == BitMap64([1])


def test_positions_beyond_32_bits_are_left_to_others() -> None:
    assert to_mask(BitMap64([1, 2**32]), 4) is None
    assert to_mask(BitMap64([2**32]), 4) is None


@given(
    st.lists(st.tuples(st.integers(0, 3 * ROWS), st.integers(1, 5000), st.integers(1, 3)), max_size=6), st.booleans()
)
def test_there_and_back(spans: list[tuple[int, int, int]], optimised: bool) -> None:
    positions = BitMap64()
    for start, count, step in spans:
        positions |= BitMap64(range(start, start + count * step, step))
    if optimised:
        positions.run_optimize()
    mask = to_mask(positions, 4 * ROWS)
    assert mask is not None
    assert from_mask(mask) == positions
