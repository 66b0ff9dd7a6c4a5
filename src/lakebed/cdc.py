"""Changes that other databases tell of, by Debezium, Maxwell or Canal, as rows that a table takes.

>>> import lakebed, tempfile
>>> from lakebed import cdc
>>> lake = lakebed.connect(tempfile.mkdtemp())
>>> users = lake.create_table("users", "id BIGINT, name STRING, _position STRING", primary_key=["id"],
...     sequence=["_position"])
>>> message = '{"op": "c", "before": null, "after": {"id": 1, "name": "ann"}, "source": {"lsn": 24023128}}'
>>> _ = users.upsert(cdc.parse([message], "debezium", users), row_kind="_row_kind")
>>> users.to_arrow(["id", "name"]).to_pylist()
[{'id': 1, 'name': 'ann'}]
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from lakebed.core.cdc.change import Wanted
from lakebed.core.cdc.new_columns import merged
from lakebed.core.cdc.parse import (
    ADD,
    DECIMALS,
    FAIL,
    FORMATS,
    MALFORMED,
    MESSAGE,
    NEW_COLUMNS,
    POSITION,
    REASON,
    REFUSE,
    ROW_KIND,
    TIMESTAMPS,
    Parsing,
)
from lakebed.core.errors import InputError
from lakebed.core.keyed import MergeEngine
from lakebed.core.schema import Field, Struct, Type
from lakebed.core.schema_delta import type_from_delta, type_to_delta
from lakebed.core.schema_of import schema_of
from lakebed.core.schema_spark import to_spark
from lakebed.core.suggest import did_you_mean
from lakebed.engine.distribution import is_frame
from lakebed.records import column_names
from lakebed.view import Readable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["MESSAGE", "POSITION", "REASON", "ROW_KIND", "Source", "parse"]

ORDERS = ("position", "time")
_BATCH = 10_000


@dataclass(frozen=True)
class Source:
    """What is known of the database that tells its changes, and of how it does.

    >>> Source("shop.orders", time_zone="Europe/Berlin").order
    'position'
    """

    table: str | None = None
    """The table whose changes are wanted, like ``"shop.orders"``; those of others are passed over."""
    order: str = "position"
    """What orders changes: their ``"position"`` in the source's log, or their ``"time"`` before it. A source whose log
    begins anew, as after a failover, needs the latter."""
    time_zone: str = "UTC"
    """Of timestamps that have no zone of their own, for columns of type TIMESTAMP."""
    timestamps: str | None = None
    """The unit of timestamps in Debezium's messages without a schema: ``"millis"``, ``"micros"`` or ``"nanos"``."""
    decimals: str | None = None
    """What decimals are in Debezium's messages without a schema: ``"text"`` or ``"base64"``."""

    def check(self) -> None:
        """Raise InputError if something of this cannot be."""
        _check("order", self.order, ORDERS)
        for name, given, allowed in (
            ("timestamps", self.timestamps, TIMESTAMPS),
            ("decimals", self.decimals, DECIMALS),
        ):
            if given is not None:
                _check(name, given, allowed)
        try:
            pc.assume_timezone(pa.array([0], pa.timestamp("us")), self.time_zone)
        except (pa.ArrowInvalid, TypeError) as error:
            raise InputError(
                "time_zone= is no time zone", expected="a name like 'Europe/Berlin'", found=repr(self.time_zone)
            ) from error


def parse(
    messages: Any,
    format: str,
    schema: Any,
    *,
    column: str = "value",
    primary_key: str | Iterable[str] | None = None,
    source: str | Source | None = None,
    new_columns: str = REFUSE,
    malformed: str = FAIL,
    before_images: bool = False,
) -> Any:
    """The rows that change messages tell of, with ``_row_kind`` and ``_position``, for ``upsert(…, row_kind=…)``.

    ``messages`` is a Spark DataFrame, streaming or not, whose ``column`` holds the JSON as text or bytes: the result
    is a DataFrame. Or it is an Arrow table with such a column, an Arrow array, or a list of texts: the result is an
    Arrow table. ``format`` is ``"debezium"``, ``"maxwell"`` or ``"canal"``. ``schema`` is the table that the rows are
    for, or a schema, with ``primary_key``: a row whose key has changed is deleted under its old one.

    ``_position`` orders changes as the source's log does; as a sequence column of the table it makes late and doubled
    messages harmless. Messages that are null, and those that tell of no row (statements, heartbeats), are passed over.
    ``source`` is the name of the source's table, if messages tell of several, or a ``Source`` that tells more.

    ``new_columns`` says what becomes of columns that the schema lacks: ``"refuse"`` takes the message for malformed,
    ``"ignore"`` leaves them out, ``"add"`` brings them, so that ``merge_schema=True`` adds them to the table; the
    messages are then read twice. A malformed message raises DataError; with ``malformed="aside"`` it becomes a row
    whose columns are null but ``_malformed``, the reason, and ``_message``. ``before_images`` tells of the row before
    an update, too, as ``-U``.

    Raises InputError for arguments that cannot be used.

    >>> message = '{"type": "update", "data": {"id": 2, "n": 5}, "old": {"id": 1}, "position": "m.000001:4"}'
    >>> rows = parse([message, None], "maxwell", "id BIGINT, n INT", primary_key=["id"])
    >>> [(row["id"], row["n"], row["_row_kind"]) for row in rows.to_pylist()]
    [(1, 5, '-D'), (2, 5, '+U')]
    """
    _check("format", format, FORMATS)
    _check("new_columns", new_columns, NEW_COLUMNS)
    _check("malformed", malformed, MALFORMED)
    known = source if isinstance(source, Source) else Source(source)
    known.check()
    columns = Parsing.columns_of(schema_of(schema))
    key = _key(schema, primary_key, columns)
    spec = schema.key if isinstance(schema, Readable) else None
    parsing = Parsing(
        format=format,
        columns=columns,
        wanted=Wanted(key, bool(before_images), known.table, known.order == "time"),
        new_columns=new_columns,
        malformed=malformed,
        timestamps=known.timestamps,
        decimals=known.decimals,
        time_zone=known.time_zone,
        keeps=spec is not None and spec.engine is MergeEngine.PARTIAL_UPDATE,
    )
    return _frame(messages, column, parsing) if is_frame(messages) else _table(_array(messages, column), parsing)


def _check(name: str, given: Any, allowed: Collection[str]) -> None:
    if given not in allowed:
        raise InputError(f"{name}= has a wrong value", expected=f"one of {', '.join(allowed)}", found=repr(given))


def _key(schema: Any, primary_key: str | Iterable[str] | None, columns: Struct) -> tuple[str, ...]:
    if primary_key is None:
        return schema.primary_key if isinstance(schema, Readable) else ()
    found = []
    for name in column_names(primary_key, "primary_key="):
        field = columns.find(name)
        if field is None:
            raise InputError(
                f"primary_key= names a column {name!r} that there is not",
                expected=f"one of {', '.join(columns.names)}",
                fix=did_you_mean(name, columns.names),
            )
        found.append(field.name)
    return tuple(found)


def _table(texts: pa.Array | pa.ChunkedArray, parsing: Parsing) -> pa.Table:
    parts = [texts.slice(at, _BATCH) for at in range(0, max(len(texts), 1), _BATCH)]
    arrays = [part.combine_chunks() if isinstance(part, pa.ChunkedArray) else part for part in parts]
    if parsing.new_columns == ADD:
        parsing = _with(parsing, merged(parsing.types(array) for array in arrays))
    return pa.concat_tables(parsing.rows(array) for array in arrays)


def _array(messages: Any, column: str) -> pa.Array | pa.ChunkedArray:
    if isinstance(messages, pa.Array | pa.ChunkedArray):
        return messages
    if hasattr(messages, "__arrow_c_stream__") and not isinstance(messages, pa.Table):
        messages = pa.table(messages)
    if isinstance(messages, pa.Table | pa.RecordBatch):
        if column not in messages.schema.names:
            raise InputError(
                f"there is no column {column!r} of messages",
                expected=f"one of {', '.join(messages.schema.names)}",
                fix="column= names it",
            )
        return messages.column(column)
    try:
        return pa.array(list(messages), None if messages else pa.string())
    except (pa.ArrowInvalid, pa.ArrowTypeError, TypeError) as error:
        raise InputError(
            "these are no change messages",
            expected="a DataFrame, an Arrow table or array, or a list of texts",
            found=type(messages).__qualname__,
        ) from error


def _with(parsing: Parsing, found: dict[str, Type]) -> Parsing:
    return replace(parsing, columns=Struct((*parsing.columns, *(Field(name, kind) for name, kind in found.items()))))


def _frame(messages: DataFrame, column: str, parsing: Parsing) -> DataFrame:
    from pyspark.sql.types import StructType

    if column not in messages.columns:
        raise InputError(
            f"there is no column {column!r} of messages",
            expected=f"one of {', '.join(messages.columns)}",
            fix="column= names it",
        )
    texts = messages.select(messages[column].alias("value"))
    if parsing.new_columns == ADD:
        if messages.isStreaming:
            raise InputError(
                "the columns of a streaming DataFrame are fixed",
                fix="parse with new_columns='add' in foreachBatch, where each micro-batch is a DataFrame of its own",
            )
        parsing = _with(parsing, _types(texts, parsing))
    return texts.mapInArrow(_Rows(parsing), to_spark(parsing.schema, StructType))


def _types(texts: DataFrame, parsing: Parsing) -> dict[str, Type]:
    found = texts.mapInArrow(_Types(parsing), "found STRING").collect()
    parts = (json.loads(row["found"]) for row in found)
    return merged({name: type_from_delta(kind) for name, kind in part.items()} for part in parts)


class _Rows:
    """What a task does to its messages."""

    def __init__(self, parsing: Parsing) -> None:
        self._parsing = parsing

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows of each batch of messages."""
        for batch in batches:
            yield from self._parsing.rows(batch.column(0)).combine_chunks().to_batches()


class _Types(_Rows):
    """What a task finds of new columns."""

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """One row: the types by name, as JSON."""
        found = merged(self._parsing.types(batch.column(0)) for batch in batches)
        text = json.dumps({name: type_to_delta(kind) for name, kind in found.items()})
        yield pa.RecordBatch.from_pydict({"found": [text]})
