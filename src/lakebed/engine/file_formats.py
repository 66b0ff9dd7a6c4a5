"""Reading files that are not part of a table, batch by batch: Parquet, CSV, and JSON with a row on each line."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pcsv
import pyarrow.json as pjson
import pyarrow.types as pat

from lakebed.core.errors import DataError, InputError
from lakebed.core.options import Options
from lakebed.storage.failure import storage_error
from lakebed.storage.file_glob import SourceFile
from lakebed.storage.parquet_reader import file_schema, read_batches

FORMATS = ("parquet", "csv", "json")
_ENDINGS = {".parquet": "parquet", ".csv": "csv", ".json": "json", ".jsonl": "json", ".ndjson": "json"}
_COMPRESSED = {".gz": "gzip", ".zst": "zstd", ".bz2": "bz2"}
_TIME_WITH_ZONE = r"\d\d:\d\d.*(Z|[+-]\d\d(:?\d\d)?)$"
_FIX = "nothing was loaded; correct the file, or leave it out"


@dataclass(frozen=True)
class FileFormat:
    """How files are understood."""

    name: str | None = None
    """One of FORMATS; None for what the ending of each file says."""
    header: bool = True
    """Whether the first line of a CSV file names its columns; if not, they are the table's, in order."""
    delimiter: str = ","
    null_values: tuple[str, ...] = ("",)
    """What means null in a CSV file, if it is not in quotes."""

    def of(self, file: SourceFile) -> str:
        """The format of a file. Raises InputError if nothing tells it."""
        if self.name is not None:
            return self.name
        stem, _ = _compression(file.location.name.lower())
        found = next((name for ending, name in _ENDINGS.items() if stem.endswith(ending)), None)
        if found is None:
            raise InputError(
                f"file {file.uri}: its ending does not tell its format",
                expected=", ".join(_ENDINGS),
                fix="say format='parquet', 'csv' or 'json', or name other files",
            )
        return found

    def schema(self, file: SourceFile, options: Options) -> pa.Schema:
        """The columns of a file; those of text files as their first rows look."""
        if self.of(file) == "parquet":
            return file_schema(*file.store(options))
        first = next(self.batches(file, pa.schema([]), options), None)
        return pa.schema([]) if first is None else first.schema

    def batches(self, file: SourceFile, schema: pa.Schema, options: Options) -> Iterator[pa.RecordBatch]:
        """The rows of a file; columns of text files that ``schema`` has are read as its types.

        Raises DataError, CorruptFileError and other StorageErrors that name the file.
        """
        kind = self.of(file)
        if kind == "parquet":
            yield from read_batches(*file.store(options), None, options.max_row_group_rows)
            return
        if not file.size:
            return
        store, name = file.store(options)
        with store.open_input(name) as raw:
            try:
                stream = _plain(raw, name)
                reader = self._csv(stream, schema, file, options) if kind == "csv" else _json(stream, schema)
                while (batch := _next(reader)) is not None:
                    yield _typed(batch, schema)
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowKeyError) as error:
                raise DataError(f"file {file.uri} is not {kind.upper()} that fits", (str(error),), fix=_FIX) from error
            except OSError as error:
                raise storage_error("read", file.uri, error) from error

    def _csv(self, stream: Any, schema: pa.Schema, file: SourceFile, options: Options) -> Any:
        known = {f.name.casefold(): _csv_type(f.type) for f in schema}
        names = self._header(file, options) if self.header else schema.names
        return pcsv.open_csv(
            stream,
            pcsv.ReadOptions(column_names=None if self.header else names),
            pcsv.ParseOptions(delimiter=self.delimiter, newlines_in_values=True),
            pcsv.ConvertOptions(
                column_types={name: known[name.casefold()] for name in names if name.casefold() in known},
                null_values=list(self.null_values),
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        )

    def _header(self, file: SourceFile, options: Options) -> list[str]:
        """The names of the columns of a CSV file."""
        store, name = file.store(options)
        with store.open_input(name) as raw:
            lines = io.TextIOWrapper(_plain(raw, name), encoding="utf-8-sig", newline="")
            try:
                return next(csv.reader(lines, delimiter=self.delimiter), [])
            except UnicodeDecodeError as error:
                raise DataError(f"file {file.uri} is not CSV that fits", (str(error),), fix=_FIX) from error


def _json(stream: Any, schema: pa.Schema) -> Any:
    explicit = pa.schema([pa.field(f.name, _json_type(f.type)) for f in schema])
    return pjson.open_json(stream, parse_options=pjson.ParseOptions(explicit_schema=explicit))


def _next(reader: Any) -> pa.RecordBatch | None:
    try:
        return reader.read_next_batch()
    except StopIteration:
        return None


def _compression(name: str) -> tuple[str, str | None]:
    """A file's name without the ending that tells its compression, and which that is.

    >>> _compression("a.csv.gz"), _compression("a.csv")
    (('a.csv', 'gzip'), ('a.csv', None))
    """
    for ending, codec in _COMPRESSED.items():
        if name.endswith(ending):
            return name.removesuffix(ending), codec
    return name, None


def _plain(raw: Any, name: str) -> Any:
    codec = _compression(name.lower())[1]
    return raw if codec is None else pa.CompressedInputStream(raw, codec)


def _csv_type(kind: pa.DataType) -> pa.DataType:
    """Times with a zone are read as text: a CSV file need not say that they are UTC."""
    return pa.string() if pat.is_timestamp(kind) and kind.tz is not None else kind


def _json_type(kind: pa.DataType) -> pa.DataType:
    """JSON has no dates: they are read as text."""
    if pat.is_date(kind):
        return pa.string()
    if pat.is_struct(kind):
        return pa.struct([pa.field(f.name, _json_type(f.type)) for f in kind])
    if pat.is_list(kind):
        return pa.list_(_json_type(kind.value_type))
    return kind


def _typed(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The batch with the columns that were read as text in their own types."""
    wanted = {f.name.casefold(): f.type for f in schema}
    for at, field in enumerate(batch.schema):
        kind = wanted.get(field.name.casefold(), field.type)
        if kind == field.type or not (pat.is_string(field.type) or pat.is_nested(field.type)):
            continue
        column = _zoned(batch.column(at)) if pat.is_timestamp(kind) else batch.column(at)
        batch = batch.set_column(at, pa.field(field.name, kind), pc.cast(column, kind))
    return batch


def _zoned(column: pa.Array) -> pa.Array:
    """Times of which the zone is not said are UTC."""
    timed = pc.if_else(pc.match_substring(column, ":"), column, pc.binary_join_element_wise(column, "T00:00:00", ""))
    zoned = pc.match_substring_regex(column, _TIME_WITH_ZONE)
    return pc.if_else(zoned, column, pc.binary_join_element_wise(timed, "Z", ""))
