"""Rows in the order of their keys: every way of sorting gives the same order, equal rows as they came."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.engine import key_order
from lakebed.engine.key_order import sorted_rows

LONG = st.integers(-(2**63), 2**63 - 1)
NUMBERS = st.one_of(LONG, st.integers(-3, 3), st.just(2**63 - 1), st.just(-(2**63)))


def expected(values: list[Any]) -> list[int]:
    return sorted(range(len(values)), key=lambda at: (values[at] is not None, values[at] or 0, at))


def check(values: list[Any], kind: pa.DataType) -> None:
    order = sorted_rows([pa.array(values, kind)])
    column = pa.array(values, kind)
    found = list(range(len(values))) if order is None else order.to_pylist()
    numbers = column.cast(pa.int32()) if pa.types.is_date(kind) else column
    assert found == expected(numbers.cast(pa.int64()).to_pylist())


@given(st.lists(st.one_of(NUMBERS, st.none()), max_size=60))
def test_whole_numbers_near_and_far_apart(values: list[int | None]) -> None:
    check(values, pa.int64())


@pytest.mark.parametrize("kind", [pa.int8(), pa.int16(), pa.int32(), pa.int64()])
def test_whole_numbers_of_every_width(kind: pa.DataType) -> None:
    check([3, -128, 3, 127, 0, -1, 3], kind)


def test_dates_and_times() -> None:
    check([date(2026, 1, 2), date(1960, 1, 1), date(2026, 1, 2), date(1970, 1, 1)], pa.date32())
    times = [datetime(2026, 1, 2, tzinfo=UTC), datetime(1900, 5, 1, tzinfo=UTC), datetime(2026, 1, 2, tzinfo=UTC)]
    check(times, pa.timestamp("us", "UTC"))


@pytest.mark.parametrize("span", [2**60, 2**61, 2**62, 2**63 - 1])
def test_as_far_apart_as_fits_into_a_number(span: int) -> None:
    """Three rows take two bits: beyond 61 bits of values another way is taken."""
    values = [span - 2**62, -(2**62), span - 2**62]
    packed = key_order._packed(pa.array(values, pa.int64()))
    assert (packed is None) == (span >= 2**61)
    check(values, pa.int64())


def test_other_keys_are_not_packed() -> None:
    for column in (pa.array([2**64 - 1, 1], pa.uint64()), pa.array(["b", "a"]), pa.array([1, None]), pa.array([1.5])):
        assert key_order._packed(column) is None
