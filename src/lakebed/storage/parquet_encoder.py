"""Rows as a Parquet file.

Polars encodes what it keeps exactly, in about half the time of Arrow; Arrow encodes the rest. Both write
the same Parquet types: nullability and field ids of the schema, and types that Spark reads as they are. Numbers that
ascend, as sorted keys do, are Arrow's in any case, in an encoding that polars reads but does not write. Columns that
compression would hardly make smaller are not compressed: every reader would have to undo it.
"""

from __future__ import annotations

import base64
import inspect
import io
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pyarrow.types as pat

from lakebed.core.errors import StorageError
from lakebed.core.options import Options
from lakebed.core.schema_arrow import FIELD_ID
from lakebed.storage.forked import polars_is_lost
from lakebed.storage.parquet_splice import column_bytes, group_rows, splice

if TYPE_CHECKING:
    import polars as pl

# On mixed data level 1 was 1.8 times as fast as polars' default of 3, and no larger.
_LEVELS = {"zstd": 1}
_SAMPLE = 4096
_DIFFERENCES = "DELTA_BINARY_PACKED"
# LZ4 is for files that are read soon and rewritten later. If more than this is left of a column, or of a small file as
# a whole, readers lose more time than anybody gains by the space. A sample of the rows tells.
_FAST: Final = "lz4"
_COLUMN_LEFT = 5 / 6
_FILE_LEFT = 3 / 4
_FEW_ROWS = 1024
_SAMPLE_BYTES = 1 << 22
# Of smaller files the footer takes longer to put together than anybody gains; so does that of very many columns.
SPLICED_ROWS = 1 << 16
_SPLICED_COLUMNS = 500
# Arrow makes several of a larger one.
_LARGEST_GROUP = 1 << 26
# How Rust writes the number of an operating system's error, whatever the words before it.
_OS_ERROR = re.compile(r"\(os error (\d+)\)")


def encode(rows: pa.Table, options: Options, name: str, target: str | io.BytesIO) -> None:
    """Write a Parquet file with these rows to a path or to memory; ``name`` is for the error.

    The schema of ``rows`` is the schema of the file: physical names, nullability, field ids. Raises StorageError,
    or OSError if the file system refuses.
    """
    import polars as pl  # not at the top: a process that only reads metadata starts faster without it

    schema = file_schema(rows.schema)
    rows = rows.replace_schema_metadata(None).cast(schema)
    with _translated(name):
        if keeps(schema):
            frame = pl.from_arrow(rows, rechunk=False)
            assert isinstance(frame, pl.DataFrame)
            _encode_polars(frame, schema, options, target)
        else:
            _encode_arrow(rows, options, target)


def encode_frame(frame: pl.DataFrame, schema: pa.Schema, options: Options, name: str, target: str | io.BytesIO) -> None:
    """Write a Parquet file with the rows of a polars frame; only for a ``schema`` that polars ``keeps``.

    The columns of the frame are those of the schema, which says their nullability and field ids. Raises what
    ``encode`` does.
    """
    with _translated(name):
        _encode_polars(frame, file_schema(schema), options, target)


def keeps(schema: pa.Schema) -> bool:
    """Whether polars can be used in this process and writes every type of the schema exactly.

    >>> keeps(pa.schema([("id", pa.int64())])), keeps(pa.schema([("m", pa.map_(pa.string(), pa.int64()))]))
    (True, False)
    """
    return not polars_is_lost() and _polars_keeps_schema() and all(_polars_keeps(f.type) for f in schema)


@contextmanager
def _translated(name: str) -> Iterator[None]:
    import polars as pl

    try:
        yield
    except (pl.exceptions.PolarsError, pa.ArrowException, ValueError) as cause:
        code = _OS_ERROR.search(str(cause))
        if code is not None:
            raise OSError(int(code[1]), os.strerror(int(code[1]))) from cause
        raise StorageError(f"{name}: the rows cannot be encoded as Parquet", found=str(cause)) from cause


@cache
def _polars_keeps_schema() -> bool:
    """Without this argument polars makes every column optional and knows no field ids."""
    import polars as pl

    return "arrow_schema" in inspect.signature(pl.DataFrame.write_parquet).parameters


def file_schema(schema: pa.Schema) -> pa.Schema:
    """The schema as a file has it: of the metadata only field ids stay."""
    return pa.schema([_with_types(f, wide=False) for f in schema])


def _polars_keeps(kind: pa.DataType) -> bool:
    """Whether polars writes this type exactly: no maps, and no required members of nested types."""
    if pat.is_map(kind) or pat.is_null(kind) or pat.is_dictionary(kind):
        return False
    if pat.is_struct(kind):
        return kind.num_fields > 0 and all(f.nullable and _polars_keeps(f.type) for f in kind)
    if pat.is_list(kind):
        return bool(kind.value_field.nullable) and _polars_keeps(kind.value_type)
    return not pat.is_nested(kind)


@lru_cache(maxsize=16)
def _polars_schema(serialized: bytes) -> tuple[pa.Schema, dict[str, str]]:
    """What polars has to know of a file's schema, which comes as bytes: schemas are equal whatever their field ids."""
    schema = pa.ipc.read_schema(pa.py_buffer(serialized))
    # Polars would record its own 64-bit strings, and Arrow would read them back as such.
    recorded = {"ARROW:schema": base64.b64encode(serialized).decode("ascii")}
    return pa.schema([_with_types(f, wide=True) for f in schema]), recorded


def _encode_polars(frame: pl.DataFrame, schema: pa.Schema, options: Options, target: str | io.BytesIO) -> None:
    spliced = _is_spliced(frame, options)
    apart = ascending(frame, schema) if spliced else []
    if len(apart) == len(schema):
        apart = apart[1:]  # polars writes no file without columns
    rest = _columns(frame, [name for name in schema.names if name not in apart]) if apart else frame
    dense = incompressible(rest, options) if spliced else []
    more: list[pa.Buffer] = []
    if not dense or len(dense) == rest.width:
        plain = bool(dense) or (not spliced and _is_dense(rest, options))
        _write_polars(rest, schema, options, "none" if plain else options.codec, target)
    else:
        # What is larger goes to the file, and only the other columns are in memory until they follow.
        _write_polars(_columns(rest, dense), schema, options, "none", target)
        packed = io.BytesIO()
        kept = [name for name in rest.columns if name not in dense]
        _write_polars(_columns(rest, kept), schema, options, options.codec, packed)
        more.append(pa.py_buffer(packed.getbuffer()))
    if apart:
        fields = [schema.field(name) for name in apart]
        values = [frame[f.name].to_arrow().cast(f.type) for f in fields]
        more.append(_encode_numbers(pa.table(values, schema=pa.schema(fields)), options, group_rows(target)))
    if more:
        splice(target, more, schema.names)


def _write_polars(
    frame: pl.DataFrame, schema: pa.Schema, options: Options, codec: str, target: str | io.BytesIO
) -> None:
    """Write columns of a file that has the schema, which the footer records as a whole."""
    wide, metadata = _polars_schema(schema.serialize().to_pybytes())
    frame.write_parquet(
        target,
        compression="uncompressed" if codec == "none" else codec,  # type: ignore[arg-type]
        compression_level=_LEVELS.get(codec),
        statistics="full",
        row_group_size=options.max_row_group_rows,
        arrow_schema=wide if frame.width == len(wide) else pa.schema([wide.field(name) for name in frame.columns]),
        metadata=metadata,
    )


def _columns(frame: pl.DataFrame, names: Sequence[str]) -> pl.DataFrame:
    """Some columns of a frame. Not by select or drop, to which some names are patterns."""
    return type(frame)([frame[name] for name in names])


def incompressible(rows: pl.DataFrame, options: Options) -> list[str]:
    """The columns that LZ4, if that is the codec, makes hardly smaller; judged by some of these rows.

    >>> import polars as pl
    >>> import random
    >>> rows = pl.DataFrame({"chance": [random.random() for _ in range(9000)], "same": [0.5] * 9000})
    >>> incompressible(rows, Options(compression="lz4"))
    ['chance']
    """
    sizes = _compressed(rows, 2 * _SAMPLE) if options.codec == _FAST else {}
    return [name for name, (raw, stored) in sizes.items() if stored > _COLUMN_LEFT * raw]


def _is_dense(rows: pl.DataFrame, options: Options) -> bool:
    """Whether LZ4, if that is the codec, makes the rows as a whole hardly smaller; of a few it is not asked."""
    if options.codec != _FAST or rows.height < _FEW_ROWS or rows.width > _SPLICED_COLUMNS:
        return False
    sizes = _compressed(rows, _FEW_ROWS).values()
    return sum(stored for _, stored in sizes) > _FILE_LEFT * sum(raw for raw, _ in sizes)


def _compressed(rows: pl.DataFrame, count: int) -> dict[str, tuple[int, int]]:
    """The bytes of each column in so many of these rows, fewer of large ones, before and after LZ4, encoded."""
    encoded = io.BytesIO()
    count = min(count, max(1, _SAMPLE_BYTES * rows.height // max(1, int(rows.estimated_size()))))
    middle = max(0, (rows.height - count) // 2)
    rows.slice(middle, count).write_parquet(encoded, compression=_FAST, statistics=False)
    return column_bytes(encoded)


def _is_spliced(frame: pl.DataFrame, options: Options) -> bool:
    """Whether Arrow should encode columns of the frame that ascend: where it pays, and it makes the same row groups."""
    return (
        frame.height >= SPLICED_ROWS
        and frame.width <= _SPLICED_COLUMNS
        and options.max_row_group_rows <= _LARGEST_GROUP
    )


def _encode_numbers(rows: pa.Table, options: Options, groups: Sequence[int]) -> pa.Buffer:
    """A Parquet file of ascending numbers in memory, with row groups of these lengths."""
    pool = pa.system_memory_pool()  # others keep what they had, for each thread
    sink = pa.BufferOutputStream(pool)
    with open_writer(sink, rows.schema, options, dictionary=[], ascending=rows.column_names, pool=pool) as writer:
        start = 0
        for length in groups:
            writer.write_table(rows.slice(start, length), row_group_size=length)
            start += length
    return sink.getvalue()


def ascending(rows: pa.Table | pl.DataFrame, schema: pa.Schema) -> list[str]:
    """The columns that should be stored as differences, judged by some of these rows: numbers that never descend.

    >>> rows = pa.table({"id": [3, 4, 9], "amount": [9, 4, 3]})
    >>> ascending(rows, rows.schema)
    ['id']
    """
    return [f.name for f in schema if _has_differences(f.type) and _ascends(rows[f.name])]


def _has_differences(kind: pa.DataType) -> bool:
    """Whether values of the type are numbers that Parquet can store as what each adds to the one before."""
    return bool(pat.is_int32(kind) or pat.is_int64(kind) or pat.is_date32(kind) or pat.is_timestamp(kind))


def _ascends(column: pa.ChunkedArray | pl.Series) -> bool:
    """Whether values of the column never descend, in the beginning, in the middle and in the end of it."""
    count = len(column)
    for start in (0, (count - _SAMPLE) // 2, count - _SAMPLE):
        sample = column.slice(max(0, start), _SAMPLE)
        values = sample.to_arrow() if not isinstance(sample, pa.ChunkedArray) else sample.combine_chunks()
        if values.null_count:
            return False
        numbers = values.to_numpy(zero_copy_only=False)
        if not bool((numbers[1:] >= numbers[:-1]).all()):
            return False
    return True


def _encode_arrow(rows: pa.Table, options: Options, target: str | io.BytesIO) -> None:
    with open_writer(target, rows.schema, options) as writer:
        writer.write_table(rows, row_group_size=options.max_row_group_rows)


def open_writer(
    target: Any,
    schema: pa.Schema,
    options: Options,
    *,
    dictionary: bool | list[str] = True,
    ascending: Sequence[str] = (),
    footer: list[pq.FileMetaData] | None = None,
    pool: pa.MemoryPool | None = None,
) -> pq.ParquetWriter:
    """Arrow's writer of a file with this ``file_schema``; when it is closed, the footer is added to ``footer``.

    ``dictionary`` names the columns to write as dictionaries where that is smaller; all by default. ``ascending`` names
    those to store as differences, if ``dictionary`` is a list: Arrow refuses an encoding for what may be a dictionary.
    """
    encodings = {}
    if not isinstance(dictionary, bool):
        encodings = dict.fromkeys(ascending, _DIFFERENCES)
        dictionary = [name for name in dictionary if name not in encodings]
    return pq.ParquetWriter(
        target,
        schema,
        compression=options.codec,
        compression_level=_LEVELS.get(options.codec),
        use_dictionary=dictionary,
        column_encoding=encodings or None,
        write_page_index=bool(encodings),
        store_schema=False,
        store_decimal_as_integer=True,
        metadata_collector=footer,
        memory_pool=pool,
    )


def repetitive(rows: pa.Table) -> bool | list[str]:
    """The columns for which ``open_writer`` should try a dictionary, judged by the first of these rows.

    Arrow finds out that a dictionary is of no use only when it has become large, which takes half of its time.

    >>> repetitive(pa.table({"id": range(100), "city": ["Graz", "Wien"] * 50}))
    ['city']
    """
    if any(pat.is_nested(kind) for kind in rows.schema.types):
        return True
    sample = rows.slice(0, _SAMPLE)
    return [name for name in sample.column_names if pc.count_distinct(sample.column(name)).as_py() * 2 < len(sample)]


def _with_types(field: pa.Field, *, wide: bool) -> pa.Field:
    identity = (field.metadata or {}).get(FIELD_ID.encode())
    metadata = None if identity is None else {FIELD_ID: identity}
    return pa.field(field.name, _retyped(field.type, wide), field.nullable, metadata)


def _retyped(kind: pa.DataType, wide: bool) -> pa.DataType:
    """The type without its fields' other metadata; ``wide`` gives the layout that polars insists on."""
    if pat.is_struct(kind):
        return pa.struct([_with_types(f, wide=wide) for f in kind])
    if pat.is_list(kind):
        element = _with_types(kind.value_field, wide=wide)
        return pa.large_list(element) if wide else pa.list_(element)
    if pat.is_map(kind):
        return pa.map_(_with_types(kind.key_field, wide=wide), _with_types(kind.item_field, wide=wide))
    if wide and pat.is_string(kind):
        return pa.large_string()
    if wide and pat.is_binary(kind):
        return pa.large_binary()
    return kind
