"""What is read from a primary-key table, as bags of rows, and predicates in SQL and in Python."""

from __future__ import annotations

from collections import Counter
from typing import Any

import deltalake
import polars as pl
import pyarrow as pa
from model import bag

import lakebed


def key_bag(table: pa.Table) -> Counter[tuple[Any, ...]]:
    """The rows; a map by its keys, whatever their order."""
    maps = {f.name for f in table.schema if pa.types.is_map(f.type)}
    if not maps or not table.num_columns:
        return bag(table)
    rows = [{n: dict(v) if n in maps and v is not None else v for n, v in row.items()} for row in table.to_pylist()]
    columns = [[row[name] for row in rows] for name in table.column_names]
    return bag(_Columns(columns))


class _Columns:
    """As much of an Arrow table as ``bag`` needs."""

    def __init__(self, columns: list[list[Any]]) -> None:
        self.columns = [_Values(values) for values in columns]


class _Values(list[Any]):
    def to_pylist(self) -> list[Any]:
        return self


def literal(kind: str, value: Any) -> str:
    """A value in SQL."""
    if kind == "DATE":
        return f"DATE '{value}'"
    if isinstance(value, bytes):
        return f"X'{value.hex()}'"
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int) else f"'{value}'"


def sql_order(value: Any) -> Any:
    """Something that compares as SQL compares the value: text by its bytes."""
    return value.encode() if isinstance(value, str) else value


def check_outside(table: lakebed.Table, settled: Counter[tuple[Any, ...]]) -> None:
    """deltalake and polars read the settled rows of the newest version, as far as they know its features."""
    features = set(table._point().state.protocol.reader_features or ())  # type: ignore[attr-defined]
    if "typeWidening" in features:
        return
    seen = deltalake.QueryBuilder().register("t", deltalake.DeltaTable(table.location)).execute("select * from t")
    assert key_bag(pa.table(seen)) == settled, "deltalake"
    # polars passes over the vectors of files whose path has to be encoded, and knows no maps.
    encoded = any("%" in add.path for add in table._point().files(None))
    maps = any(pa.types.is_map(field.type) for field in table.schema)
    if "columnMapping" not in features and not encoded and not maps:
        assert bag(pl.scan_delta(table.location).collect().to_arrow()) == settled, "polars"
