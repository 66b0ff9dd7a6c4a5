"""Thrift's compact protocol, as far as a Parquet footer needs it: bytes to a tree of fields, and back.

Nothing is known of what the fields mean, so whatever a writer has put into a footer comes out as it went in.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

TRUE, FALSE, BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, SET, MAP, STRUCT, UUID = (
    1,
    2,
    3,
    4,
    5,
    6,
    7,
    8,
    9,
    10,
    11,
    12,
    13,
)
_FIXED = {BYTE: 1, DOUBLE: 8, UUID: 16}
_STOP = 0
_SHORT = 15
"""Lists from this length on, and fields that are more than this apart, have a number of their own."""


@dataclass
class Fields:
    """The fields of a struct by their ids, each with its kind, in the order in which they came."""

    by_id: dict[int, tuple[int, Any]] = field(default_factory=dict)

    def __contains__(self, number: int) -> bool:
        return number in self.by_id

    def __getitem__(self, number: int) -> Any:
        """The value of a field. Raises KeyError if it is not there."""
        return self.by_id[number][1]

    def get(self, number: int, otherwise: Any) -> Any:
        """The value of a field, or the other one if it is not there."""
        return self.by_id[number][1] if number in self.by_id else otherwise

    def __setitem__(self, number: int, value: Any) -> None:
        """Change the value of a field that is there."""
        self.by_id[number] = (self.by_id[number][0], value)


@dataclass
class Items:
    """A list, or a set: values of one kind."""

    kind: int
    values: list[Any]


@dataclass
class Pairs:
    """A map."""

    key: int
    value: int
    pairs: list[tuple[Any, Any]]


def decode(data: bytes) -> Fields:
    """The struct that the bytes begin with. Raises ValueError for what is none.

    >>> decode(encode(Fields({1: (I32, -5), 30: (BINARY, b"x")})))[1]
    -5
    """
    try:
        return _Reader(data).fields()
    except IndexError as cause:
        raise ValueError("the bytes end in the middle of a struct") from cause


def encode(fields: Fields) -> bytes:
    """The bytes of a struct."""
    out = bytearray()
    _write_fields(out, fields)
    return bytes(out)


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def fields(self) -> Fields:
        found: dict[int, tuple[int, Any]] = {}
        number = 0
        while head := self._byte():
            kind, step = head & 15, head >> 4
            number = number + step if step else self._signed()
            found[number] = (kind, kind == TRUE if kind in (TRUE, FALSE) else self._value(kind))
        return Fields(found)

    def _value(self, kind: int) -> Any:
        if kind in (I16, I32, I64):
            return self._signed()
        if kind == BINARY:
            return self._raw(self._unsigned())
        if kind == STRUCT:
            return self.fields()
        if kind in (LIST, SET):
            return self._items()
        if kind == MAP:
            return self._pairs()
        if kind in _FIXED:
            return self._raw(_FIXED[kind])
        if kind in (TRUE, FALSE):
            return self._byte() == TRUE
        raise ValueError(f"there is no kind {kind} of values")

    def _items(self) -> Items:
        head = self._byte()
        kind, length = head & 15, head >> 4
        if length == _SHORT:
            length = self._unsigned()
        return Items(kind, [self._value(kind) for _ in range(length)])

    def _pairs(self) -> Pairs:
        length = self._unsigned()
        kinds = self._byte() if length else 0
        key, value = kinds >> 4, kinds & 15
        return Pairs(key, value, [(self._value(key), self._value(value)) for _ in range(length)])

    def _byte(self) -> int:
        self._at += 1
        return self._data[self._at - 1]

    def _raw(self, length: int) -> bytes:
        self._at += length
        if self._at > len(self._data):
            raise IndexError
        return self._data[self._at - length : self._at]

    def _unsigned(self) -> int:
        byte = self._byte()
        value, shift = byte & 127, 7
        while byte & 128:
            byte = self._byte()
            value |= (byte & 127) << shift
            shift += 7
        return value

    def _signed(self) -> int:
        value = self._unsigned()
        return (value >> 1) ^ -(value & 1)


def _write_fields(out: bytearray, fields: Fields) -> None:
    before = 0
    for number, (kind, value) in fields.by_id.items():
        shown = kind if kind not in (TRUE, FALSE) else TRUE if value else FALSE
        step = number - before
        if 0 < step <= _SHORT:
            out.append(step << 4 | shown)
        else:
            out.append(shown)
            _write_signed(out, number)
        before = number
        if kind not in (TRUE, FALSE):
            _write(out, kind, value)
    out.append(_STOP)


def _write(out: bytearray, kind: int, value: Any) -> None:
    if kind in (I16, I32, I64):
        _write_signed(out, value)
    elif kind == BINARY:
        _write_unsigned(out, len(value))
        out += value
    elif kind == STRUCT:
        _write_fields(out, value)
    elif kind in (LIST, SET):
        length = len(value.values)
        out.append(min(length, _SHORT) << 4 | value.kind)
        if length >= _SHORT:
            _write_unsigned(out, length)
        for one in value.values:
            _write(out, value.kind, one)
    elif kind == MAP:
        _write_unsigned(out, len(value.pairs))
        if value.pairs:
            out.append(value.key << 4 | value.value)
        for pair in value.pairs:
            _write(out, value.key, pair[0])
            _write(out, value.value, pair[1])
    elif kind in (TRUE, FALSE):
        out.append(TRUE if value else FALSE)
    else:
        out += value


def _write_signed(out: bytearray, value: int) -> None:
    _write_unsigned(out, value << 1 if value >= 0 else (-value << 1) - 1)


def _write_unsigned(out: bytearray, value: int) -> None:
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
