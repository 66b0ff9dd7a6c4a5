"""Rows as bytes: Parquet, CSV, JSON with a row on each line, and Arrow."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.types as pat

from lakebed.core.errors import InputError

Write = Callable[[pa.RecordBatch], object]


def write(batches: Iterable[pa.RecordBatch], schema: pa.Schema, sink: BinaryIO, format: str) -> int:
    """Write all rows to an open stream; how many there were. Raises InputError for what the format cannot hold.

    >>> import io
    >>> out, rows = io.BytesIO(), pa.table({"id": [1, 2], "name": ["ann", None]})
    >>> write(rows.to_batches(), rows.schema, out, "json"), out.getvalue()
    (2, b'{"id":1,"name":"ann"}\\n{"id":2,"name":null}\\n')
    """
    if format not in FORMATS:
        raise InputError("there is no such format", expected=", ".join(FORMATS), found=repr(format))
    count = 0
    with FORMATS[format](sink, schema) as one:
        for batch in batches:
            one(batch)
            count += batch.num_rows
    return count


@contextlib.contextmanager
def _parquet(sink: BinaryIO, schema: pa.Schema) -> Iterator[Write]:
    import pyarrow.parquet as pq

    with pq.ParquetWriter(sink, schema, compression="zstd") as writer:
        yield writer.write_batch


@contextlib.contextmanager
def _csv(sink: BinaryIO, schema: pa.Schema) -> Iterator[Write]:
    import pyarrow.csv as pcsv

    nested = [field.name for field in schema if pat.is_nested(field.type)]
    if nested:
        raise InputError(
            f"CSV cannot hold nested values: column {nested[0]!r}", fix="leave it out, or use json, parquet or arrow"
        )
    with pcsv.CSVWriter(sink, schema) as writer:
        yield writer.write_batch


@contextlib.contextmanager
def _json(sink: BinaryIO, schema: pa.Schema) -> Iterator[Write]:
    import polars

    def one(batch: pa.RecordBatch) -> None:
        frame: Any = polars.from_arrow(pa.Table.from_batches([batch], schema))
        sink.write(frame.write_ndjson().encode() if frame.width else b"{}\n" * batch.num_rows)

    yield one


@contextlib.contextmanager
def _arrow(sink: BinaryIO, schema: pa.Schema) -> Iterator[Write]:
    """The streaming format, which can be read while it is written, as from a pipe."""
    with pa.ipc.new_stream(sink, schema) as writer:
        yield writer.write_batch


FORMATS: dict[str, Callable[[BinaryIO, pa.Schema], contextlib.AbstractContextManager[Write]]] = {
    "parquet": _parquet,
    "csv": _csv,
    "json": _json,
    "arrow": _arrow,
}
ENDINGS = {
    ".parquet": "parquet", ".csv": "csv", ".json": "json", ".jsonl": "json", ".ndjson": "json", ".arrow": "arrow",
    ".arrows": "arrow",
}  # fmt: skip
