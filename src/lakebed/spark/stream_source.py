"""``readStream.format("lakebed")``: changes of a table as micro-batches. An offset is a version.

Spark keeps the reader that plans in a process of its own for as long as the query runs; others are made anew to read
in tasks, and know nothing of the metastore.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from lakebed.config import Config
from lakebed.core.actions import Metadata, now_ms
from lakebed.core.change_rows import EARLIEST
from lakebed.core.errors import InputError, NotFoundError, OptionError
from lakebed.core.instant import to_duration_ms
from lakebed.engine.changes.plan import needed_versions, or_snapshot, plan_changes
from lakebed.engine.changes.span import Bound, Span, find_span
from lakebed.engine.changes.step import ChangeOrder, RawStep, Step
from lakebed.engine.lease import promise_all
from lakebed.spark.change_options import ChangeOptions
from lakebed.spark.change_scan import change_schema, change_slices
from lakebed.spark.envelope import seal, unseal
from lakebed.spark.file_schema import loose
from lakebed.spark.read_limits import ReadAllAvailable, ReadLimit, ReadMaxFiles, SupportsTriggerAvailableNow
from lakebed.spark.slices import SlicePartition, arrow_schema_of
from lakebed.table import Table

Offset = dict[str, Any]
_LOOKED_AT = 1000
"""Versions whose files are counted at a time."""
_EVERYTHING = slice(None)


def offset(version: int, *, whole: bool = False, pieces: int = 0) -> Offset:
    """All changes up to a version have been read; or, if ``whole``, nothing, and its whole snapshot comes first.

    ``pieces`` is how much of what comes next has been read, where that is too large for one micro-batch.
    """
    return {"version": version, "whole": whole, "pieces": pieces}


class _Changes:
    """What both kinds of readers share."""

    def __init__(
        self, config: Config | None, options: ChangeOptions, schema: StructType, version: int | None = None
    ) -> None:
        """``version`` is the one whose columns the rows have; by default the newest."""
        self._config = config
        self._options = options
        self._schema = schema
        self._version = version
        self._columns: Metadata | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Tasks need no connection."""
        return {**self.__dict__, "_config": None, "_options": None, "_columns": None, "_scope": None, "_opened": None}

    def _planned(self, table: Table, span: Span) -> tuple[ChangeOrder, list[Step | RawStep]]:
        """The work, in an order that is the same whoever asks."""
        order = change_order(table, self._options, span, self._seen(table))
        promise_all(table._handle, needed_versions(span, order.mode))
        steps = plan_changes(table._handle, span, order)
        return order, sorted(steps, key=lambda step: (step.unit.place, sorted(step.unit.numbers)))

    def _seen(self, table: Table) -> Metadata:
        """The table's, as it was when the query began; kept, since that version may expire while the query runs."""
        if self._columns is None:
            self._columns = table._state(self._version).metadata
        return self._columns

    def _slices(self, table: Table, span: Span, pieces: slice = _EVERYTHING) -> Sequence[InputPartition]:
        order, steps = self._planned(table, span)
        return [SlicePartition(seal(one)) for one in change_slices(order, steps[pieces])]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """In a task: the rows of a slice."""
        if not isinstance(partition, SlicePartition):
            return
        schema = arrow_schema_of(self._schema)
        for batch in unseal(partition.order).batches():
            yield batch if batch.schema.equals(schema) else batch.cast(schema)


class ChangeReader(_Changes, DataSourceReader):
    """The changes of one range."""

    def partitions(self) -> Sequence[InputPartition]:
        """A partition for each slice of the units that changed."""
        options = self._options
        with options.table(self._config) as table:
            return self._slices(table, left_span(table, options, options.start, options.end))


class StreamReader(_Changes, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The changes of a table, range after range."""

    def __init__(
        self, config: Config | None, options: ChangeOptions, schema: StructType, version: int | None = None
    ) -> None:
        super().__init__(config, options, schema, version)
        self._target: int | None = None
        self._reached: Offset | None = None
        self._scope: ExitStack | None = None
        self._opened: Table | None = None

    @property
    def _table(self) -> Table:
        """The table, by a connection that lasts as long as the query."""
        if self._opened is None:
            self._scope = ExitStack()
            self._opened = self._scope.enter_context(self._options.table(self._config))
            self._seen(self._opened)
        return self._opened

    def stop(self) -> None:
        """The query has ended."""
        if self._scope is not None:
            self._scope.close()
        self._scope = self._opened = None

    def initialOffset(self) -> Offset:
        """Where a new query begins."""
        table = self._table
        known = {consumer.name: consumer for consumer in table.consumers()}
        if (consumer := known.get(self._options.consumer or "")) is not None:
            return offset(consumer.version, whole=consumer.whole)
        span = find_span(table._handle, self._options.start, None, on_expired=self._options.on_expired)
        # Of what has expired the newest version stands for all: it is read as a whole.
        start = offset(span.first, whole=True) if span.start is None else offset(span.start)
        self._advance(table, start)
        return start

    def prepareForTriggerAvailableNow(self) -> None:
        """What comes later is for another run."""
        self._target = self._newest(self._table)

    def getDefaultReadLimit(self) -> ReadLimit:
        """Any but that of all tells that the limits of the options count."""
        limits = self._options.limits
        return ReadAllAvailable() if limits == (None, None, None) else ReadMaxFiles(limits[1] or 2**31 - 1)

    def latestOffset(self, start: Offset | None = None, limit: ReadLimit | None = None) -> Offset:
        """How far the next micro-batch goes. Spark 4.1 says neither where it starts nor how much it may be."""
        table = self._table
        newest = self._newest(table) if self._target is None else self._target
        if start is None:
            if self._options.limits != (None, None, None):
                raise OptionError(
                    "this Spark takes no limits of micro-batches from Python data sources",
                    expected="Spark 4.2 or newer",
                    fix="leave out the options that limit a micro-batch",
                )
            return offset(newest)
        if newest < start["version"] or (newest == start["version"] and not start["whole"]):
            self._reached = start
        elif isinstance(limit, ReadAllAvailable) or not self._goes_on(table, start):
            self._reached = offset(newest)
        else:
            self._reached = self._part_of_next(table, start) or offset(self._within_limits(table, start, newest))
        return self._reached

    def reportLatestOffset(self) -> Offset | None:
        """The newest version, and how much is left to read up to it."""
        table = self._table
        newest = self._newest(table)
        done = newest if self._reached is None else min(newest, self._reached["version"])
        left = {"versions": newest - done, "files": 0, "bytes": 0}
        for _, files, size in _changed(table, done, min(newest, done + _LOOKED_AT)):
            left["files"] += files
            left["bytes"] += size
        return {**offset(newest), "behind": left}

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """A partition for each slice of the units that changed; changes of a key are in one, in their order."""
        if start == end:
            return []
        table = self._table
        # What has expired is not read in pieces: a snapshot up to the end stands for it, and for all pieces.
        in_pieces = bool(start["pieces"] or end["pieces"]) and self._goes_on(table, start)
        span = self._next(table, start) if in_pieces else self._span(table, start, end)
        self._refuse_other_columns(table, span.end)
        return self._slices(table, span, slice(start["pieces"], end["pieces"] or None) if in_pieces else _EVERYTHING)

    def commit(self, end: Offset) -> None:
        """All changes up to the offset have been dealt with, and need not be kept any more."""
        self._advance(self._table, end)

    def _advance(self, table: Table, reached: Offset) -> None:
        """Note in the metastore how far the stream has come, if it has a name. Pieces of a version do not count."""
        if self._options.consumer is not None:
            until = now_ms() + to_duration_ms(self._options.consumer_retain)
            handle, name, version = table._handle, self._options.consumer, int(reached["version"])
            if not _is_left(table, version):  # a snapshot of a later one stood for it
                version = handle.metastore.begins(handle.table_id)
            handle.metastore.advance(handle.table_id, name, version, until, whole=bool(reached["whole"]))

    def _newest(self, table: Table) -> int:
        """The last version that is to be read, as far as it is there."""
        end = self._options.end
        newest = table._handle.metastore.head(table._handle.table_id)
        if end is None or isinstance(end, int):
            return newest if end is None else min(end, newest)
        return find_span(table._handle, EARLIEST, end, on_expired="error").end

    def _span(self, table: Table, start: Offset, end: Offset) -> Span:
        first, last = int(start["version"]), int(end["version"])
        if not start["whole"]:
            return left_span(table, self._options, first, last)
        if _is_left(table, first) and _is_left(table, last):
            return Span(None, last, first)
        later = max(last, table._handle.metastore.begins(table._handle.table_id))
        if not start["pieces"]:
            # Nothing of the table has been read: a later snapshot is as good a beginning.
            return Span(None, later, later)
        if self._options.on_expired != "snapshot":
            table._state(first)  # raises, and says which versions are left
        return or_snapshot(table._handle, Span(None, later, later, expired=True), self._options.mode)

    def _next(self, table: Table, start: Offset) -> Span:
        """What comes next by itself: one version, or a whole snapshot."""
        return self._span(table, start, offset(_following(start)))

    def _goes_on(self, table: Table, start: Offset) -> bool:
        """Whether what has been read, and what comes next, is still there."""
        return _is_left(table, start["version"]) and _is_left(table, _following(start))

    def _part_of_next(self, table: Table, start: Offset) -> Offset | None:
        """Some pieces of what comes next, or the last of them; None if it fits as a whole and has not been begun."""
        _, most_files, most_bytes = self._options.limits
        if most_files is None and most_bytes is None:
            return None
        span = self._next(table, start)
        _, steps = self._planned(table, span)
        files = size = 0
        for number, step in enumerate(steps[start["pieces"] :], start["pieces"]):
            files, size = files + step.num_files, size + step.size
            over = (most_files is not None and files > most_files) or (most_bytes is not None and size > most_bytes)
            if over and number > start["pieces"]:
                return {**start, "pieces": number}
        return offset(span.end) if start["pieces"] else None

    def _within_limits(self, table: Table, start: Offset, newest: int) -> int:
        """The last version of a micro-batch: at least one, and no more than the limits allow."""
        versions, most_files, most_bytes = self._options.limits
        reached = int(start["version"])
        if start["whole"]:
            return reached
        last = min(newest, reached + (versions or _LOOKED_AT))
        files = size = 0
        for version, more_files, more_bytes in _changed(table, reached, last):
            files, size = files + more_files, size + more_bytes
            over = (most_files is not None and files > most_files) or (most_bytes is not None and size > most_bytes)
            if over and version > int(start["version"]) + 1:
                return reached
            reached = version
        return max(reached, min(newest, int(start["version"]) + 1))

    def _refuse_other_columns(self, table: Table, version: int) -> None:
        """Raise InputError if the table's columns are not what they were when the query began."""
        began = self._seen(table)
        now = {f.physical_name: f for f in table._state(version).metadata.schema}
        wanted = table._columns(began, self._options.columns)
        for field in began.schema.select(wanted):
            later = now.get(field.physical_name)
            if version <= (self._version or 0) or (later is not None and loose(later.type) == loose(field.type)):
                continue
            what = "is gone" if later is None else "has another type"
            raise InputError(
                f"table {table.name}: column {field.name!r}, which this stream reads, {what} at version {version}",
                fix="restart the query, which then reads the table with its new columns",
            )


def left_span(table: Table, options: ChangeOptions, start: Bound, end: Bound | None) -> Span:
    """The range, or, if that is what the options say, a whole snapshot in the place of what has expired of it."""
    handle = table._handle
    if options.on_expired != "snapshot":
        return find_span(handle, start, end, on_expired="error")
    begins = handle.metastore.begins(handle.table_id)
    if isinstance(start, int) and isinstance(end, int) and start <= end < begins and not _is_left(table, end):
        return or_snapshot(handle, Span(None, begins, begins, expired=True), options.mode)
    return or_snapshot(handle, find_span(handle, start, end, on_expired="snapshot"), options.mode)


def _following(start: Offset) -> int:
    return int(start["version"]) if start["whole"] else int(start["version"]) + 1


def _is_left(table: Table, version: int) -> bool:
    try:
        table._state(version)
    except NotFoundError:
        return False
    return True


def _changed(table: Table, after: int, upto: int) -> Iterator[tuple[int, int, int]]:
    """Each version with the number and size of the files that brought rows; nothing of what has expired."""
    try:
        found = table._handle.metastore.changed_files(table._handle.table_id, after, upto) if upto > after else []
    except NotFoundError:
        return
    for change in found:
        new = [add for add in change.adds if add.data_change]
        yield change.version, len(new), sum(add.size for add in new)


def change_order(table: Table, options: ChangeOptions, span: Span, metadata: Metadata) -> ChangeOrder:
    """What tasks have to know to read changes with the columns of ``metadata``."""
    known = table._handle.metastore.history(table._handle.table_id, start=span.first, end=span.end)
    order = table._change_order(known, metadata, options.mode, options.columns, options.where)
    return replace(order, described=options.described)


def schema_of(table: Table, options: ChangeOptions, version: int) -> StructType:
    """The columns that the options ask for."""
    span = Span(version, version, version + 1)
    return change_schema(change_order(table, options, span, table._state(version).metadata))
