"""Rows that are plain Python objects, turned into Arrow columns of the table's types without loss.

Arrow alone would cut 1.5 to 1 for an integer column and drop the time of day for a date; such values are
problems here, listed together with all others.
"""

from __future__ import annotations

import datetime as dt
import decimal
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.types as pat

from lakebed.core.conform import FIX, check_schema
from lakebed.core.errors import DataError, InputError
from lakebed.core.schema import Struct
from lakebed.core.schema_arrow import to_arrow, type_from_arrow
from lakebed.core.schema_ddl import type_ddl

_FAILURES = (pa.ArrowException, TypeError, ValueError, OverflowError)


def table_of_dicts(rows: Sequence[dict[str, Any]], schema: Struct, table_name: str) -> pa.Table:
    """The rows as an Arrow table; keys that a row lacks become nulls. Raises DataError with every problem.

    >>> from lakebed.core.schema_ddl import from_ddl
    >>> table_of_dicts([{"n": 1}, {}], from_ddl("n INT"), "t").to_pylist()
    [{'n': 1}, {'n': None}]
    >>> table_of_dicts([{"n": 1.5}], from_ddl("n INT"), "t")
    Traceback (most recent call last):
    lakebed.core.errors.DataError: table t: the rows do not fit:
      - column n: expected INT, found 1.5 (in row 0)
    fix: nothing was written; change the rows, or the table with alter()
    """
    names: dict[Any, None] = dict.fromkeys(key for row in rows for key in row)
    strange = next((name for name in names if not isinstance(name, str)), None)
    if strange is not None:
        raise InputError(f"table {table_name}: the keys of a row are column names", found=repr(strange))
    types = {field.name.casefold(): field.type for field in to_arrow(schema)}
    columns: dict[str, pa.Array] = {}
    problems: list[str] = []
    for name in names:
        values, kind = [row.get(name) for row in rows], types.get(name.casefold())
        found = _array(values, kind)
        if found is None:
            problems.append(_problem(name, values, kind))
        # A column that cannot be made stands as nulls, so that the others are still checked.
        columns[name] = pa.nulls(len(rows)) if found is None else found
    table = pa.table(columns)
    if problems:
        raise DataError(
            f"table {table_name}: the rows do not fit", (*problems, *check_schema(table.schema, schema)), fix=FIX
        )
    return table


def _array(values: list[Any], kind: pa.DataType | None) -> pa.Array | None:
    """The values as an array; None if one of them does not fit. A column that no table has never fails."""
    try:
        if kind is not None and any(_loses(values, kind)):
            return None
        return pa.array(values, kind)
    except _FAILURES:
        return pa.nulls(len(values)) if kind is None else None


def _problem(name: str, values: list[Any], kind: pa.DataType | None) -> str:
    assert kind is not None
    row = next(n for n, value in enumerate(values) if _array([value], kind) is None)
    expected = type_ddl(type_from_arrow(kind))
    return f"column {name}: expected {expected}, found {_short(values[row])} (in row {row})"


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}…"


def _loses(values: Iterable[Any], kind: pa.DataType) -> Iterator[bool]:
    """Whether some value, at any depth, would be changed silently by Arrow's own conversion."""
    if pat.is_struct(kind):
        members = [value for value in values if isinstance(value, dict)]
        for field in kind:
            yield from _loses([value.get(field.name) for value in members], field.type)
    elif pat.is_list(kind):
        lists = (value for value in values if isinstance(value, list | tuple))
        yield from _loses([element for value in lists for element in value], kind.value_type)
    elif pat.is_map(kind):
        pairs = [pair for value in values for pair in _pairs(value)]
        yield from _loses([pair[0] for pair in pairs], kind.key_type)
        yield from _loses([pair[1] for pair in pairs], kind.item_type)
    else:
        refused = _refused(kind)
        yield any(issubclass(python, refused) for python in {type(value) for value in values})


def _pairs(value: Any) -> Iterable[tuple[Any, Any]]:
    if isinstance(value, dict):
        return value.items()
    return [pair for pair in value if isinstance(pair, tuple) and len(pair) == 2] if isinstance(value, list) else []


def _refused(kind: pa.DataType) -> tuple[type, ...]:
    if pat.is_integer(kind):
        return (float, decimal.Decimal)
    if pat.is_date(kind):
        return (int, float, dt.datetime)
    if pat.is_timestamp(kind):
        return (int, float)
    return ()
