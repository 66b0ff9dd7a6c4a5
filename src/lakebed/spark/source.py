"""``format("lakebed")``: the Arrow scan as a Python data source of Spark.

Spark makes the source, and plans its reads, in processes of their own; what they need to know of the warehouse is
part of the class that was registered. It reaches them as bytes, and no plan shows it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
    InputPartition,
)
from pyspark.sql.types import StructType

from lakebed.config import Config
from lakebed.core.change_rows import EARLIEST
from lakebed.core.errors import InputError
from lakebed.core.predicate import Node, conjunction, parse
from lakebed.core.schema import Struct
from lakebed.core.schema_spark import from_spark, to_spark
from lakebed.engine.changes.span import find_span
from lakebed.engine.scan import ScanOrder
from lakebed.spark.addressed import ROWS
from lakebed.spark.arrow_scan import slices
from lakebed.spark.catalogued import labelled, named_by, options_of
from lakebed.spark.change_options import ChangeOptions, of_changes
from lakebed.spark.envelope import seal, unseal
from lakebed.spark.file_schema import loose, outwardly
from lakebed.spark.pushed import taken
from lakebed.spark.read_options import ReadOptions
from lakebed.spark.slices import SlicePartition, arrow_schema_of
from lakebed.spark.source_writer import LakebedWriter
from lakebed.spark.stream_sink import StreamWriter
from lakebed.spark.stream_source import ChangeReader, StreamReader, schema_of
from lakebed.spark.write_options import WriteOptions
from lakebed.view import TableView

if TYPE_CHECKING:
    from pyspark.sql.datasource import Filter

NAME = "lakebed"
_PUSHING = "pyspark.sql.worker.data_source_pushdown_filters"


class LakebedSource(DataSource):
    """A table, read at one version: the one that was the newest when the frame was made, unless another is named."""

    config: ClassVar[Config | None] = None
    """The warehouse that the session knows."""

    def __init__(self, options: Mapping[str, str]) -> None:
        super().__init__(dict(options))
        self._version: int | None = None

    @classmethod
    def name(cls) -> str:
        """What the format is called."""
        return NAME

    def schema(self) -> StructType:
        """The columns that are asked for; from now on the source stays at the version that has them."""
        if of_changes(self.options):
            return self._change_schema()
        options = ReadOptions.parse(self.options)
        with options.view(self.config) as view:
            self._version = view.version
            _predicate(view, options)
            columns = to_spark(outwardly(_columns(view, options.columns)), StructType)
        return labelled(columns, self.options, ROWS)

    def _change_schema(self) -> StructType:
        options = ChangeOptions.parse(self.options)
        with options.table(self.config) as table:
            # A stream may end with a version that is still to come, and begin after it has gone.
            bounded = None if isinstance(options.end, int) and options.end > table.version else options.end
            self._version = find_span(table._handle, EARLIEST, bounded, on_expired="error").end
            return schema_of(table, options, self._version)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """A reader of changes, micro-batch by micro-batch."""
        return StreamReader(self.config, ChangeOptions.parse(self.options), schema, self._version)

    def reader(self, schema: StructType) -> DataSourceReader:
        """A reader; one that takes filters where Spark pushes any, since elsewhere it may not have the method.

        Up to Spark 4.3 what was planned for the filters of one query is used for others of the same frame: there
        filters are taken only from a caller who promises that there are no others.
        """
        if of_changes(self.options):
            return ChangeReader(self.config, ChangeOptions.parse(self.options), schema, self._version)
        options = ReadOptions.parse(options_of(schema, self.options))
        pinned = options if self._version is None else options.at(self._version)
        takes = options.push_filters or hasattr(DataSourceReader, "pushLimit")
        kind = PushingReader if takes and _PUSHING in sys.modules else Reader
        return kind(self.config, pinned, schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """A writer for rows of these columns; ``overwrite`` if they take the place of others."""
        return LakebedWriter(self.config, WriteOptions.parse(self.options, named_by(schema)), schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        """A writer for one micro-batch; ``overwrite`` in the output mode complete."""
        return StreamWriter(self.config, self.options, schema, complete=overwrite)


class Reader(DataSourceReader):
    """Plans a read as slices, and reads them."""

    def __init__(self, config: Config | None, options: ReadOptions, schema: StructType) -> None:
        self._config = config
        self._options = options
        self._schema = schema
        self._where: list[Node] = []

    @cached_property
    def _wanted(self) -> Struct:
        return from_spark(self._schema)

    def partitions(self) -> list[InputPartition]:
        """A partition for each slice of the files that may hold rows that are asked for."""
        with self._options.view(self._config) as view:
            point = view._point()
            point.promise()
            _check(view, self._wanted)
            terms = [*_predicate(view, self._options), *self._where]
            predicate = conjunction(*terms) if terms else None
            order = ScanOrder(view._store, view.name, point.metadata, view._options, self._wanted.names, predicate)
            found = slices(order, (), point.sources(predicate))
        return [SlicePartition(seal(one)) for one in found]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a slice; none where there is nothing to read."""
        if not isinstance(partition, SlicePartition):
            return
        schema = arrow_schema_of(self._schema)
        for batch in unseal(partition.order).batches():
            yield batch if batch.schema.equals(schema) else batch.cast(schema)


class PushingReader(Reader):
    """A reader that evaluates filters itself, and leaves away files, row groups and rows that do not qualify."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Take the filters that mean the same here; Spark evaluates the others."""
        self._where, left = taken(filters, self._wanted)
        return left


def _columns(view: TableView, names: tuple[str, ...] | None) -> Struct:
    metadata = view._point().metadata
    return metadata.schema.select(view._columns(metadata, names))


def _predicate(view: TableView, options: ReadOptions) -> list[Node]:
    """The predicate that was given as an option, if any."""
    return [] if options.where is None else [parse(options.where, view._point().metadata.schema)]


def _check(view: TableView, wanted: Struct) -> None:
    """Raise InputError if the columns that Spark expects are not the table's."""
    known = _columns(view, wanted.names)
    differing = [f.name for f, g in zip(known, wanted, strict=True) if loose(f.type) != loose(g.type)]
    if differing:
        raise InputError(
            f"table {view.name}: the columns have other types than the schema that was given",
            found=", ".join(differing),
            fix="leave out schema(…), and cast after the read",
        )
