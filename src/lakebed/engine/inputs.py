"""What callers may hand in as rows, turned into one stream of Arrow batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

from lakebed.core.errors import InputError
from lakebed.core.schema import Struct
from lakebed.core.schema_arrow import to_arrow
from lakebed.engine.python_rows import table_of_dicts

ACCEPTED = "a pyarrow Table, RecordBatch or RecordBatchReader, a pandas or polars DataFrame, a list of dicts, \
or any object with the Arrow C stream interface"


def to_reader(data: Any, schema: Struct, table_name: str) -> pa.RecordBatchReader:
    """A reader over ``data``; the table's ``schema`` types plain Python rows. Raises InputError for anything else.

    >>> from lakebed.core.schema_ddl import from_ddl
    >>> to_reader([{"id": 1}], from_ddl("id BIGINT"), "t").read_all().num_rows
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
        return _from_list(data, schema, table_name)
    if hasattr(data, "__arrow_c_stream__"):
        return _from_stream(data)
    if isinstance(data, Iterator):
        return _from_iterator(data)
    fix = "pass a list with it: [row]" if isinstance(data, dict) else None
    raise InputError("rows of this type cannot be written", expected=ACCEPTED, found=_type_name(data), fix=fix)


def is_repeatable(data: Any) -> bool:
    """Whether ``data`` can be read a second time, should the first attempt have to be redone.

    >>> is_repeatable([{"id": 1}]), is_repeatable(iter([]))
    (True, False)
    """
    return not isinstance(data, Iterator | pa.RecordBatchReader) and (
        isinstance(data, list | tuple | pa.Table | pa.RecordBatch) or hasattr(type(data), "columns")
    )


def _type_name(value: object) -> str:
    return f"{type(value).__module__}.{type(value).__qualname__}".removeprefix("builtins.")


def _from_pandas(frame: Any) -> pa.RecordBatchReader:
    try:
        return pa.Table.from_pandas(frame, preserve_index=False).replace_schema_metadata(None).to_reader()
    except (pa.ArrowException, TypeError) as error:
        raise InputError(
            "the pandas DataFrame cannot be turned into Arrow",
            found=": ".join(map(str, reversed(error.args))),
            fix="give each column one type, or pass a pyarrow Table",
        ) from error


def _from_stream(data: Any) -> pa.RecordBatchReader:
    try:
        return pa.RecordBatchReader.from_stream(data)
    except (pa.ArrowException, TypeError) as error:
        raise InputError(f"the Arrow stream of {_type_name(data)} cannot be read", found=str(error)) from error


def _from_list(rows: list[Any] | tuple[Any, ...], schema: Struct, table_name: str) -> pa.RecordBatchReader:
    if rows and isinstance(rows[0], pa.RecordBatch):
        return _from_iterator(iter(rows))
    wrong = next((row for row in rows if not isinstance(row, dict)), None)
    if wrong is not None:
        raise InputError("a list of rows must hold dicts", expected="[{'id': 1}, …]", found=f"a list with {wrong!r}")
    if not rows:
        return to_arrow(schema).empty_table().to_reader()
    return table_of_dicts(rows, schema, table_name).to_reader()


def _batch(item: Any) -> pa.RecordBatch:
    if not isinstance(item, pa.RecordBatch):
        raise InputError(
            "an iterator of rows must yield record batches", found=_type_name(item), fix="pass dicts as a list"
        )
    return item


def _from_iterator(batches: Iterable[Any]) -> pa.RecordBatchReader:
    iterator = map(_batch, batches)
    first = next(iterator, None)
    if first is None:
        raise InputError("an empty iterator has no schema", fix="pass an empty pyarrow Table with a schema")

    def rest() -> Iterator[pa.RecordBatch]:
        yield first
        yield from iterator

    return pa.RecordBatchReader.from_batches(first.schema, rest())
