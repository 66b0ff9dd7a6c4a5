"""What callers may hand in as rows, turned into one stream of Arrow batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

from lakebed.core.errors import InputError

ACCEPTED = "a pyarrow Table, RecordBatch or RecordBatchReader, a pandas or polars DataFrame, a list of dicts, \
or any object with the Arrow C stream interface"


def to_reader(data: Any, schema: pa.Schema) -> pa.RecordBatchReader:
    """A reader over ``data``; ``schema`` types plain Python rows. Raises InputError for anything else.

    >>> to_reader([{"id": 1}], pa.schema({"id": pa.int64()})).read_all().num_rows
    1
    """
    if isinstance(data, pa.RecordBatchReader):
        return data
    if isinstance(data, pa.Table):
        return data.to_reader()
    if isinstance(data, pa.RecordBatch):
        return pa.RecordBatchReader.from_batches(data.schema, [data])
    module = type(data).__module__.partition(".")[0]
    if module == "polars" and hasattr(data, "collect"):
        data = data.collect()
    if module == "pandas" and hasattr(data, "columns"):
        return _from_pandas(data)
    if isinstance(data, list | tuple):
        return _from_list(data, schema)
    if hasattr(data, "__arrow_c_stream__"):
        return _from_stream(data)
    if isinstance(data, Iterator):
        return _from_iterator(data)
    raise InputError("rows of this type cannot be written", expected=ACCEPTED, found=_type_name(data))


def _type_name(value: object) -> str:
    return f"{type(value).__module__}.{type(value).__qualname__}"


def _from_pandas(frame: Any) -> pa.RecordBatchReader:
    try:
        return pa.Table.from_pandas(frame, preserve_index=False).replace_schema_metadata(None).to_reader()
    except (pa.ArrowException, TypeError) as error:
        raise InputError(
            "the pandas DataFrame cannot be turned into Arrow",
            found=str(error),
            fix="give each column one type, or pass a pyarrow Table",
        ) from error


def _from_stream(data: Any) -> pa.RecordBatchReader:
    try:
        return pa.RecordBatchReader.from_stream(data)
    except (pa.ArrowException, TypeError) as error:
        raise InputError(f"the Arrow stream of {_type_name(data)} cannot be read", found=str(error)) from error


def _from_list(rows: list[Any] | tuple[Any, ...], schema: pa.Schema) -> pa.RecordBatchReader:
    if rows and isinstance(rows[0], pa.RecordBatch):
        return _from_iterator(iter(rows))
    if not all(isinstance(row, dict) for row in rows):
        wrong = next(row for row in rows if not isinstance(row, dict))
        raise InputError("a list of rows must hold dicts", expected=ACCEPTED, found=f"a list with {wrong!r}")
    if not rows:
        return schema.empty_table().to_reader()
    names = dict.fromkeys(key for row in rows for key in row)
    present = {name: schema.field(name).type if name in schema.names else None for name in names}
    try:
        columns = {name: pa.array([row.get(name) for row in rows], kind) for name, kind in present.items()}
    except (pa.ArrowException, TypeError, OverflowError) as error:
        raise InputError("a list of rows does not fit the table's types", found=str(error)) from error
    return pa.table(columns).to_reader()


def _from_iterator(batches: Iterable[Any]) -> pa.RecordBatchReader:
    iterator = iter(batches)
    first = next(iterator, None)
    if first is None:
        raise InputError("an empty iterator has no schema", fix="pass an empty pyarrow Table with a schema")
    if not isinstance(first, pa.RecordBatch):
        raise InputError("an iterator of rows must yield record batches", found=_type_name(first))

    def rest() -> Iterator[pa.RecordBatch]:
        yield first
        yield from iterator

    return pa.RecordBatchReader.from_batches(first.schema, rest())
