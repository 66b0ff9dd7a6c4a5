"""How values of a column are written in messages."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from lakebed.core.schema import Type


class Encoding(StrEnum):
    """What a value in a message stands for, where that is not plain."""

    PLAIN = "plain"
    """Numbers, texts, and dates and timestamps as ISO texts."""
    DAYS = "days since 1970"
    MILLIS = "milliseconds since 1970"
    MICROS = "microseconds since 1970"
    NANOS = "nanoseconds since 1970"
    TIME_MILLIS = "milliseconds since midnight"
    TIME_MICROS = "microseconds since midnight"
    TIME_NANOS = "nanoseconds since midnight"
    BASE64 = "bytes in base64"
    LATIN1 = "bytes as characters"
    UNSCALED = "the bytes of a whole number in base64"
    SCALED = "a whole number in base64 with its own scale"
    UNKNOWN_UNIT = "a time whose unit nothing tells"
    UNKNOWN_DECIMAL = "a number of which nothing tells whether it is text or base64"


@dataclass(frozen=True)
class Declared:
    """What a message says of a column."""

    type: Type | None
    """The type that a new column would have; None if the message does not tell."""
    encoding: Encoding = Encoding.PLAIN
    scale: int = 0
    """Of UNSCALED numbers: how many digits are behind the point."""
