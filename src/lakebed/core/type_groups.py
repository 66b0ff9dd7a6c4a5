"""Types that are treated alike, and what they can hold."""

from __future__ import annotations

import struct

from lakebed.core.schema import BYTE, DOUBLE, FLOAT, INTEGER, LONG, SHORT, TIMESTAMP, TIMESTAMP_NTZ, Type

INTEGERS: dict[Type, tuple[int, int]] = {BYTE: (8, 3), SHORT: (16, 5), INTEGER: (32, 10), LONG: (64, 20)}
"""From narrow to wide, with the bits and the decimal digits of each."""
FLOATS: tuple[Type, ...] = (FLOAT, DOUBLE)
TIMESTAMPS: tuple[Type, ...] = (TIMESTAMP, TIMESTAMP_NTZ)


def single(value: float) -> float:
    """The nearest float of 32 bits, as a Python float; infinite when it is out of range."""
    try:
        (rounded,) = struct.unpack("<f", struct.pack("<f", value))
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")
    return float(rounded)
