"""Frames that are nothing but Parquet files on a disk: this process reads those files itself.

Rows that go through the JVM are decoded by Spark, turned into Arrow, and sent to a Python worker, which takes longer
than to write them. Spark itself is asked whether a frame is just files. Wherever anything is in doubt the answer is
no, and Spark reads.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.types as pat

from lakebed.core.errors import SchemaError
from lakebed.core.location import Location
from lakebed.core.options import MIB, Options
from lakebed.spark.job import is_local, setting, slots
from lakebed.spark.schemas import arrow_schema
from lakebed.storage.parquet_reader import read_batches
from lakebed.storage.store import open_store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_MOST_FILES = 1000
_READ_SETTINGS = {
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
    "spark.sql.parquet.int96RebaseModeInRead": "CORRECTED",
    "spark.sql.parquet.int96TimestampConversion": "false",
    "spark.sql.parquet.fieldId.read.enabled": "false",
    "spark.sql.parquet.binaryAsString": "false",
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.files.ignoreMissingFiles": "false",
}
"""What a session must say for its reader to see in a file what Arrow sees."""
_SPLIT_SETTINGS = (
    "spark.sql.files.maxPartitionBytes",
    "spark.sql.files.openCostInBytes",
    "spark.sql.files.minPartitionNum",
    "spark.sql.leafNodeDefaultParallelism",
    "spark.default.parallelism",
)
"""What decides how Spark divides files among tasks. The order of rows is known for the defaults of these."""
_LARGEST_SPLIT, _OPENING = 128 * MIB, 4 * MIB
_TIME = pa.timestamp("us", "UTC")
_LAYOUTS = {pa.string_view(): pa.large_string(), pa.binary_view(): pa.large_binary()}
"""Texts as some writers ask Arrow to read them, and as they are given on: with offsets that hold any amount, because
Arrow makes wrong texts of views of more than 2 GiB otherwise."""
_SPARK_VERSION = b"org.apache.spark.version"
_LEGACY = (b"org.apache.spark.legacyDateTime", b"org.apache.spark.legacyINT96")


@dataclass(frozen=True)
class _File:
    path: str
    size: int


def parquet_rows(frame: DataFrame, options: Options, *, ordered: bool) -> pa.RecordBatchReader | None:
    """The rows of a frame that is nothing but Parquet files which this process can read, and should; else None.

    It should if the driver may write rows at all (``write_here``), and the tasks would run on this machine or have
    little to do. ``ordered``: the order of the rows counts.
    """
    if not options.write_here or not _is_of_this_machine(frame) or frame.isStreaming:
        return None
    session, files = frame.sparkSession, _files_of(frame)
    if not files or not _may_be_read(session):
        return None
    if not is_local(session) and sum(file.size for file in files) >= options.distribute_from:
        return None
    if ordered and (files := _in_order(files, session)) is None:
        return None
    if not _is_all(frame, files):
        return None
    try:
        wanted = arrow_schema(frame.schema)
    except SchemaError:
        return None
    schema = _schema_of(wanted, files)
    return None if schema is None else pa.RecordBatchReader.from_batches(schema, _batches(files, schema, options))


def _is_of_this_machine(frame: DataFrame) -> bool:
    """Whether a path of the driver is the same file here. On Spark Connect the driver may be anywhere."""
    return type(frame).__module__.startswith("pyspark.sql.classic.")


def _files_of(frame: DataFrame) -> list[_File] | None:
    """The files that the frame reads anything from; None if one of them is not on a disk of this machine."""
    found = []
    uris = frame.inputFiles()
    if len(uris) > _MOST_FILES:
        return None
    for uri in uris:
        if not uri.startswith("file:"):
            return None
        path = Location.parse(uri).path
        try:
            found.append(_File(path, os.stat(path).st_size))
        except OSError:
            return None  # of another machine; or Spark will say what is wrong
    return found


def _may_be_read(session: SparkSession) -> bool:
    return all(setting(session, name, value).upper() == value.upper() for name, value in _READ_SETTINGS.items())


def _in_order(files: Sequence[_File], session: SparkSession) -> list[_File] | None:
    """The files in the order of the frame's rows; None if it cannot be told.

    Spark cuts files into pieces, takes the largest first, and else leaves them in the order in which it found them. The
    pieces of one file therefore stay in order, and so do files of different sizes if none of them is cut.
    """
    if len(files) == 1:
        return list(files)
    if any(session.conf.get(name, None) is not None for name in _SPLIT_SETTINGS):
        return None
    ordered = sorted(files, key=lambda file: file.size, reverse=True)
    if ordered[0].size > _least_cut(files, session) or any(a.size == b.size for a, b in pairwise(ordered)):
        return None
    return ordered


def _least_cut(files: Sequence[_File], session: SparkSession) -> int:
    """No file up to this size is cut."""
    tasks = slots(session) if is_local(session) else None
    if tasks is None:
        return _OPENING
    return min(_LARGEST_SPLIT, max(_OPENING, sum(file.size + _OPENING for file in files) // tasks))


def _is_all(frame: DataFrame, files: Sequence[_File]) -> bool:
    """Whether the frame is those files and nothing else: no filter, no limit, no option of the reader, no cache."""
    level = frame.storageLevel
    if level.useMemory or level.useDisk or level.useOffHeap:
        return False
    return any(_is_files_at(frame, place) for place in _spellings(files))


def _is_files_at(frame: DataFrame, place: str) -> bool:
    try:
        return frame.sameSemantics(frame.sparkSession.read.schema(frame.schema).parquet(place))
    except Exception:  # of PySpark's classes, or of Py4J's
        return False  # to Spark it is a pattern, or it starts from another directory


def _spellings(files: Sequence[_File]) -> Iterator[str]:
    """How the caller may have named the files. Another way to name them only means that Spark reads them."""
    folders = {os.path.dirname(file.path) for file in files}
    if len(folders) != 1:
        return
    named = [*folders, files[0].path] if len(files) == 1 else [*folders]
    yield from named
    for path in named:
        yield f"file://{path}"
        if path in folders:
            yield f"{path}/"
        if not (relative := os.path.relpath(path)).startswith(".."):
            yield relative


def _schema_of(wanted: pa.Schema, files: Sequence[_File]) -> pa.Schema | None:
    """The frame's columns as the files have them; None unless Arrow sees the same types as Spark in each of them."""
    found: pa.Schema | None = None
    for file in files:
        try:
            with pq.ParquetFile(file.path, coerce_int96_timestamp_unit="us") as opened:
                about, stored = opened.metadata, opened.schema_arrow
        except (pa.ArrowException, OSError):
            return None  # Spark says what is wrong with it
        if _is_old(about.metadata or {}) or not set(wanted.names) <= set(stored.names):
            return None
        old = _old_times(about.schema)
        kinds = {field.name: _LAYOUTS.get(field.type, field.type) for field in stored}
        mine = pa.schema([pa.field(name, _TIME if name in old else kinds[name]) for name in wanted.names])
        if not all(map(_is_same, mine.types, wanted.types)) or (found is not None and found.types != mine.types):
            return None
        found = mine
    return found


def _old_times(columns: pq.ParquetSchema) -> set[str]:
    """The columns of times as Spark writes them unless it is told otherwise, which do not say that they are UTC. Those
    inside others stay times without a zone, which are not what Spark takes them for."""
    every = (columns.column(at) for at in range(len(columns)))
    return {column.path for column in every if column.physical_type == "INT96"}


def _is_old(facts: Mapping[bytes, bytes]) -> bool:
    """Whether dates of the file may be of the calendar that Spark had before version 3."""
    return facts.get(_SPARK_VERSION, b"3").split(b".")[0] in (b"1", b"2") or any(name in facts for name in _LEGACY)


def _is_same(found: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether a column of a file is, to Spark, what the frame says; ``wanted`` is as Lakebed writes a type in Arrow."""
    if pat.is_struct(wanted):
        return pat.is_struct(found) and _members(found, wanted)
    if pat.is_list(wanted):
        return (pat.is_list(found) or pat.is_large_list(found)) and _is_same(found.value_type, wanted.value_type)
    if pat.is_map(wanted):
        return (
            pat.is_map(found)
            and _is_same(found.key_type, wanted.key_type)
            and _is_same(found.item_type, wanted.item_type)
        )
    if pat.is_timestamp(wanted):
        return pat.is_timestamp(found) and found.tz == wanted.tz and found.unit in ("us", "ms")
    if pat.is_string(wanted):
        return bool(pat.is_string(found) or pat.is_large_string(found))
    if pat.is_binary(wanted):
        return bool(pat.is_binary(found) or pat.is_large_binary(found))
    return bool(found == wanted)


def _members(found: pa.StructType, wanted: pa.StructType) -> bool:
    pairs = list(zip(found, wanted, strict=False))
    return found.num_fields == wanted.num_fields and all(
        a.name == b.name and _is_same(a.type, b.type) for a, b in pairs
    )


def _batches(files: Sequence[_File], schema: pa.Schema, options: Options) -> Iterator[pa.RecordBatch]:
    for file in files:
        place = Location.parse(file.path)
        store = open_store(place.parent, options)
        for batch in read_batches(store, place.name, schema.names, options.max_row_group_rows):
            yield pa.record_batch(
                [column.cast(kind) for column, kind in zip(batch.columns, schema.types, strict=True)], schema=schema
            )
