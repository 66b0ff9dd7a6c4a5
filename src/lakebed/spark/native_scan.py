"""The native scan: Spark's own Parquet reader on exactly the files of a version, minus their dead rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from pyroaring import BitMap64

from lakebed.core.schema import Field, Struct
from lakebed.core.schema_spark import to_spark
from lakebed.core.type_groups import FLOATS
from lakebed.engine.described_scan import FACTS
from lakebed.engine.distribution import FrameOrder
from lakebed.engine.source import Source
from lakebed.engine.tracked_scan import tracking_fields
from lakebed.spark.conditions import condition, quoted
from lakebed.spark.dead_blocks import BLOCK_BITS, BLOCK_KEY_BITS, BLOCK_WORDS, KEY, WORDS, dead_blocks
from lakebed.spark.dead_words import FEW_BYTES, MOST_BYTES, WORD_BITS, WORD_ROWS, DeadWords, HoledFile, numbers
from lakebed.spark.file_numbers import FILE_MASK, NumberedFiles, ordinal_of
from lakebed.spark.file_schema import has_floats, is_renamed, physical, spark_type
from lakebed.spark.manifest import write_manifest

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_ROW = "row"
_HIDDEN = "_metadata"
_READ_OPTIONS = {
    "recursiveFileLookup": "true",  # partition values come from the log, never from names of directories
    "ignoreMissingFiles": "false",  # whatever the session says: a file that is gone is an error, not fewer rows
    "ignoreCorruptFiles": "false",
    "mergeSchema": "false",
    "datetimeRebaseMode": "CORRECTED",
    "int96RebaseMode": "CORRECTED",
}
_FACT_TYPES = {"_file": "STRING", "_commit_version": "BIGINT", "_bucket": "BIGINT", "_partition": "STRING"}


class UnreadableError(Exception):
    """This Spark has no way to the files of a table: no connector, or no credentials."""


@dataclass(frozen=True)
class LiveFile:
    """A file of the scan, with all its dead rows."""

    source: Source
    dead: BitMap64 | None


def native_frame(session: SparkSession, order: FrameOrder, files: Sequence[LiveFile]) -> DataFrame:
    """The live rows of the files. They are one scan, because Spark computes semi and anti joins twice if it finds a
    union below them; but if dead rows are so many that they must be joined, files without any are a scan of their own.

    Raises StorageError if the list of files cannot be written, and what Spark raises if it cannot read it.
    """
    holed = [file for file in files if file.dead]
    whole = [file for file in files if not file.dead]
    one = _Scan.of(session, order, [*holed, *whole])
    if one.words or not (holed and whole):
        return one.frame()
    return _Scan.of(session, order, holed).frame().unionAll(_Scan.of(session, order, whole).frame())


@dataclass(frozen=True)
class _Hidden:
    """What Spark's reader tells of a row besides its columns. Made when it is asked for: it costs messages."""

    raw: DataFrame

    @cached_property
    def _column(self) -> Column:
        return self.raw.metadataColumn(_HIDDEN)

    @cached_property
    def row(self) -> Column:
        """The position in the file."""
        return self._column["row_index"]

    @cached_property
    def number(self) -> Column:
        """The number of the file."""
        from pyspark.sql import functions as F

        return F.unix_millis(self._column["file_modification_time"])


@dataclass(frozen=True)
class _Scan:
    """Spark's reader on some files, of which those with dead rows come first."""

    session: SparkSession
    order: FrameOrder
    numbered: NumberedFiles
    dead: tuple[BitMap64, ...]
    """Those of the first files; the others have none."""

    @classmethod
    def of(cls, session: SparkSession, order: FrameOrder, files: Sequence[LiveFile]) -> _Scan:
        adds = tuple(file.source.add for file in files)
        numbered = NumberedFiles(order.scan.store, order.scan.metadata, adds)
        return cls(session, order, numbered, tuple(file.dead for file in files if file.dead))

    def frame(self) -> DataFrame:
        from pyspark.sql import functions as F

        scan = self.order.scan
        raw = self._raw()
        hidden = _Hidden(raw)
        columns = [self._column(f, hidden) for f in scan.needed]
        facts = [self._fact(name, hidden).alias(name) for name in self.order.metadata_columns]
        words = self.words
        own = self._own_prefix()
        places = []
        if words is None and self.dead:
            block = F.shiftleft(ordinal_of(hidden.number), BLOCK_KEY_BITS) + F.shiftright(hidden.row, BLOCK_BITS)
            places = [block.alias(own + KEY), hidden.row.alias(own + _ROW)]
        live = raw if words is None else raw.filter(self._is_alive(words, hidden))
        texts = [column for column in columns if isinstance(column, str)]
        if len(texts) == len(columns) and not facts and not places:
            rows = live.selectExpr(*texts)
        else:
            named = [F.expr(column) if isinstance(column, str) else column for column in columns]
            rows = live.select(*named, *facts, *places)
        if scan.predicate is not None:
            rows = rows.filter(condition(scan.predicate))
        if places:
            rows = self._joined(rows, own)
        if not places and tuple(scan.needed.names) == tuple(scan.columns):
            return rows
        return rows.select(*map(quoted, (*scan.columns, *self.order.metadata_columns)))

    @cached_property
    def words(self) -> DeadWords | None:
        """The dead rows in the form that Spark looks them up in; None if there are none, or too many for it."""
        files = []
        for add, dead in zip(self.numbered.files, self.dead, strict=False):
            if add.num_records is None:
                return None
            files.append(HoledFile(dead, add.num_records))
        words = DeadWords(files)
        return words if 0 < words.num_bytes <= MOST_BYTES else None

    def _is_alive(self, words: DeadWords, hidden: _Hidden) -> Column | str:
        """Whether a row's bit is not set. As text where it can be."""
        from pyspark.sql import functions as F

        whole = len(self.dead) < len(self.numbered.files)
        if words.num_bytes <= FEW_BYTES and not any(name.lower() == _HIDDEN for name in self._stored_names):
            return _alive(words.text(), words.firsts, whole=whole)
        first, row = self.numbered.told(words.firsts, "BIGINT", hidden.number), hidden.row
        word = F.get(words.column(self.session), (first + F.shiftright(row, WORD_BITS)).cast("int"))
        # Not bit_get, which checks the position for each row and takes twice as long.
        shifted = F.call_function("shiftright", word, row.bitwiseAND(WORD_ROWS - 1).cast("int"))
        alive = shifted.bitwiseAND(1) == 0
        return (ordinal_of(hidden.number) >= len(self.dead)) | alive if whole else alive

    @property
    def _stored_names(self) -> list[str]:
        return [field.physical_name for field in self.order.scan.stored]

    def _raw(self) -> DataFrame:
        """The files' rows, dead ones too, under physical names."""
        from pyspark.sql.types import StructType

        stored = [*self.order.scan.stored]
        if "_commit_version" in self.order.metadata_columns:
            stored.append(tracking_fields(self.order.scan.metadata)[1])
        schema = to_spark(physical(Struct(tuple(stored))), StructType)
        store = self.order.scan.store
        path = write_manifest(store, self.numbered.listed())
        try:
            raw = self.session.read.schema(schema).options(**_READ_OPTIONS).parquet(path)
            if not store.location.is_local:
                raw.schema  # noqa: B018 - on Spark Connect only this makes the server look at the path
            return raw
        except Exception as error:  # of a class that only a classic session has, or only Spark Connect
            if store.location.is_local:
                raise
            raise UnreadableError(f"this Spark cannot read {store.location}: {_first_line(error)}") from error

    def _column(self, field: Field, hidden: _Hidden) -> Column | str:
        """A column of the frame. As text where it can be: every call on a Column is a message to the JVM."""
        from pyspark.sql import functions as F

        if field.name in self.order.scan.metadata.partition_columns:
            return self.numbered.partition_value(field, hidden.number).alias(field.name)
        stored = name = quoted(field.physical_name)
        if field.type in FLOATS:
            # Parquet's statistics pass over NaN, which Spark takes for the largest number: a filter that Spark hands
            # to the reader would lose rows. What looks like a computation is not handed down.
            stored = f"nanvl({name}, {name})"
        elif has_floats(field.type):
            stored = f"coalesce({name}, {name})"
        if is_renamed(field.type):
            return F.expr(stored).cast(spark_type(field.type)).alias(field.name)
        return name if stored == quoted(field.name) else f"{stored} AS {quoted(field.name)}"

    def _fact(self, name: str, hidden: _Hidden) -> Column:
        from pyspark.sql import functions as F

        if name == "_row_index":
            return hidden.row
        fact = self.numbered.fact(FACTS[name][1], _FACT_TYPES[name], hidden.number)
        if name == "_commit_version":
            version = tracking_fields(self.order.scan.metadata)[1].physical_name
            return F.coalesce(F.col(quoted(version)), fact)
        return fact

    def _own_prefix(self) -> str:
        """What no column's name begins with."""
        prefix = "__lakebed_"
        while any(name.lower().startswith(prefix) for name in self.order.scan.metadata.schema.names):
            prefix += "_"
        return prefix

    def _joined(self, rows: DataFrame, own: str) -> DataFrame:
        """The rows whose bit is not set, of those in a block that has any set."""
        blocks = dead_blocks(enumerate(self.dead))
        renamed = blocks.rename_columns([own + name for name in blocks.column_names])
        words, row = own + WORDS, own + _ROW
        word = f"get({words}, CAST(({row} >> 6) & {BLOCK_WORDS - 1} AS INT))"
        alive = f"{words} IS NULL OR (shiftright({word}, CAST({row} & 63 AS INT)) & 1) = 0"
        broadcast = self.session.createDataFrame(renamed).hint("broadcast")
        return rows.join(broadcast, on=own + KEY, how="left").filter(alive)


def _alive(words: str, firsts: Sequence[int], *, whole: bool) -> str:
    """Whether the bit of a row is not set in ``words``; those of its file begin where ``firsts`` says. If there are
    ``whole`` files, too, they come after these."""
    ordinal = f"(unix_millis({_HIDDEN}.file_modification_time) & {FILE_MASK})"
    row = f"{_HIDDEN}.row_index"
    first = f"get({numbers(firsts)}, CAST({ordinal} AS INT))"
    word = f"get({words}, CAST({first} + shiftright({row}, {WORD_BITS}) AS INT))"
    alive = f"shiftright({word}, CAST({row} & {WORD_ROWS - 1} AS INT)) & 1 = 0"
    return f"{ordinal} >= {len(firsts)} OR {alive}" if whole else alive


def _first_line(error: Exception) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
