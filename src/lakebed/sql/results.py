"""What a statement gives back: rows as an Arrow table, or as a DataFrame where there is a Spark session."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

import pyarrow as pa

from lakebed.core.unsliced import unsliced

MOMENT = pa.timestamp("us", "UTC")
_TYPES: Mapping[type, pa.DataType] = {
    str: pa.string(),
    int: pa.int64(),
    float: pa.float64(),
    bool: pa.bool_(),
    datetime: MOMENT,
}
NOTHING = pa.table({})
"""What a statement gives back that only does something."""


def table_of(columns: Mapping[str, type | pa.DataType], rows: Iterable[Sequence[Any]]) -> pa.Table:
    """Rows of values as an Arrow table.

    >>> table_of({"name": str, "version": int}, [("eod", 3)]).to_pylist()
    [{'name': 'eod', 'version': 3}]
    """
    schema = pa.schema([(name, _TYPES[kind] if isinstance(kind, type) else kind) for name, kind in columns.items()])
    given = list(rows)
    if not given:
        return schema.empty_table()
    return pa.table(
        [pa.array(values, f.type) for values, f in zip(zip(*given, strict=True), schema, strict=True)], schema
    )


def row_of(**values: Any) -> pa.Table:
    """One row; what has no value is a text that is null.

    >>> row_of(table="n", version=None).to_pylist()
    [{'table': 'n', 'version': None}]
    """
    kinds = {
        name: pa.string() if value is None else _TYPES.get(type(value), pa.string()) for name, value in values.items()
    }
    return table_of(kinds, [tuple(values.values())])


def arrow_of(rows: Any) -> pa.Table:
    """Rows of either kind, in the memory of this process."""
    return rows if isinstance(rows, pa.Table) else rows.toArrow()


def delivered(rows: pa.Table, session: Any) -> Any:
    """The rows as the caller gets them: with a Spark session as a DataFrame."""
    if session is None:
        return rows
    return session.createDataFrame(unsliced(rows)) if rows.num_columns else session.range(0).select()
