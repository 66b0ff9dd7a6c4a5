"""Comparing what Spark reads with what the engine reads."""

from __future__ import annotations

import contextlib
import datetime as dt
import io
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa

EVERY_TYPE = (
    "id BIGINT NOT NULL, b TINYINT, s SMALLINT, i INT, f FLOAT, d DOUBLE, t BOOLEAN, text STRING, raw BINARY, "
    "day DATE, at TIMESTAMP, wall TIMESTAMP_NTZ, small DECIMAL(7,2), large DECIMAL(38,10), list ARRAY<INT>, "
    "pairs MAP<STRING, BIGINT>, inner STRUCT<x: DOUBLE, deep: STRUCT<y: STRING, z: ARRAY<STRUCT<w: INT>>>>"
)


def every_type(number: int) -> dict[str, Any]:
    return {
        "id": number,
        "b": -128,
        "s": 32767,
        "i": -(2**31),
        "f": 0.5,
        "d": float("nan") if number % 2 else -0.0,
        "t": True,
        "text": "ü\n日本\x00'`",
        "raw": b"\x00\xff",
        "day": dt.date(1, 1, 1) if number % 2 else dt.date(9999, 12, 31),
        "at": dt.datetime(1500, 1, 1, tzinfo=dt.UTC),
        "wall": dt.datetime(2026, 3, 29, 2, 30, 0, 1),
        "small": Decimal("-12345.67"),
        "large": Decimal("1234567890123456789012345678.0123456789"),
        "list": [1, None],
        "pairs": {"a": 1, "b": None},
        "inner": {"x": 1.5, "deep": {"y": None, "z": [{"w": 1}, None]}},
    }


def canonical(rows: pa.Table) -> list[str]:
    """The rows as sorted text: NaN equals itself, and the entries of a map have no order."""
    return sorted(repr([_plain(row[name]) for name in rows.column_names]) for row in rows.to_pylist())


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(inner) for name, inner in value.items()}
    if isinstance(value, list):
        plain = [_plain(inner) for inner in value]
        return sorted(plain, key=repr) if plain and isinstance(plain[0], tuple) else plain
    if isinstance(value, tuple):
        return tuple(map(_plain, value))
    return value


def collected(frame: Any, like: pa.Schema) -> pa.Table:
    """The rows of a Spark frame, with the types of an Arrow schema; the names must be its names."""
    rows = frame.toArrow()
    assert rows.column_names == like.names
    return rows.cast(pa.schema([pa.field(field.name, _loose(field.type)) for field in like]))


def _loose(kind: pa.DataType) -> pa.DataType:
    """The type without anything that is never null."""
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(field.name, _loose(field.type)) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(_loose(kind.key_type), _loose(kind.item_type))
    if pa.types.is_list(kind):
        return pa.list_(_loose(kind.value_type))
    return kind


def physical_plan(frame: Any) -> str:
    """What Spark would do to make the rows."""
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        frame.explain()
    return printed.getvalue()


def check(
    table: Any, columns: Sequence[str] | None = None, where: Any = None, engines: Sequence[str] = ("native", "arrow")
) -> int:
    """Every engine reads what ``to_arrow`` does; returns how many rows that are."""
    expected = table.to_arrow(columns, where)
    for engine in engines:
        frame = table.df(columns, where, engine=engine)
        assert canonical(collected(frame, expected.schema)) == canonical(expected), engine
    return int(expected.num_rows)
