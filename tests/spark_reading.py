"""Comparing what Spark reads with what the engine reads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa


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
    loose = pa.schema([field.with_nullable(True) for field in like])
    return rows.cast(loose)


def check(
    table: Any, columns: Sequence[str] | None = None, where: Any = None, engines: Sequence[str] = ("native", "arrow")
) -> int:
    """Every engine reads what ``to_arrow`` does; returns how many rows that are."""
    expected = table.to_arrow(columns, where)
    for engine in engines:
        frame = table.df(columns, where, engine=engine)
        assert canonical(collected(frame, expected.schema)) == canonical(expected), engine
    return int(expected.num_rows)
