"""The source of a merge: what its keys are, and where its rows wait if they are not in this process."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from lakebed.core.conform import conform
from lakebed.core.options import Options
from lakebed.core.predicate import Node, conjunction
from lakebed.core.predicate.nodes import FALSE, Column, Compare, In, Literal
from lakebed.core.schema import Struct
from lakebed.core.schema_arrow import to_arrow
from lakebed.engine.merge_rules import MergeRules, whole
from lakebed.storage.parquet_reader import read_batches
from lakebed.storage.parquet_stream import ParquetStream
from lakebed.storage.store import Store

# So many values of a key are looked for one by one; of more, only the smallest and the largest.
_FEW_VALUES = 1000
# Rows up to so many bytes come back with the message of the task that had them.
_INLINE = 1 << 16
_GROUP = 8 << 20
NAME = "the source of the merge"


@dataclass(frozen=True)
class KeyValues:
    """Which values a key of the source has, as far as that is worth to be known."""

    few: frozenset[Any] | None = frozenset()
    """All of them; None if they are many."""
    low: Any = None
    high: Any = None

    @staticmethod
    def of(values: pa.Array) -> KeyValues | None:
        """What there is of a key; None if nothing can be said: of floats, NaN is neither small nor large."""
        if pat.is_floating(values.type):
            return None
        known = pc.unique(values).drop_null()
        if len(known) <= _FEW_VALUES:
            return KeyValues(frozenset(known.to_pylist()))
        bounds = pc.min_max(known)
        return KeyValues(None, bounds["min"].as_py(), bounds["max"].as_py())

    def plus(self, other: KeyValues) -> KeyValues:
        """What there is of both."""
        if self.few is not None and other.few is not None and len(self.few | other.few) <= _FEW_VALUES:
            return KeyValues(self.few | other.few)
        ends = [*self._ends, *other._ends]
        return KeyValues(None, min(ends), max(ends))

    @property
    def _ends(self) -> Iterable[Any]:
        return (self.low, self.high) if self.few is None else self.few

    def among(self, column: Column) -> Node:
        """That a column has one of the values, or at least lies between them."""
        if self.few is not None:
            literals = tuple(Literal(value, column.type) for value in sorted(self.few))
            return In(column, literals) if literals else FALSE
        low, high = (Literal(end, column.type) for end in (self.low, self.high))
        return conjunction(Compare(">=", column, low), Compare("<=", column, high))


def keys_of(rules: MergeRules, rows: pa.Table) -> tuple[KeyValues | None, ...]:
    """The values of each key of the merge."""
    values = rules.key_values(rows, 1)
    return tuple(KeyValues.of(whole(values.column(at))) for at in range(len(rules.join.keys)))


def plus(one: Sequence[KeyValues | None], other: Sequence[KeyValues | None]) -> tuple[KeyValues | None, ...]:
    """The values of each key in both."""
    return tuple(None if a is None or b is None else a.plus(b) for a, b in zip(one, other, strict=True))


@dataclass(frozen=True)
class StagedPart:
    """Rows of the source that one task had."""

    rows: int
    size: int
    """Bytes in memory."""
    keys: tuple[KeyValues | None, ...] = field(hash=False)
    path: str | None = None
    """Where they wait; None if they are here."""
    inline: bytes = b""


@dataclass(frozen=True)
class StageOrder:
    """How the rows of a source are put aside, so that they are computed once; small and serialisable."""

    store: Store
    rules: MergeRules
    source: Struct
    options: Options
    prefix: str = ""

    @property
    def schema(self) -> pa.Schema:
        """The columns of the source."""
        return to_arrow(self.source)

    def run(self, batches: Iterator[pa.RecordBatch]) -> StagedPart:
        """Put rows aside: in a file, or, if they are few, in what is told of them. Raises DataError."""
        rows = size = 0
        keys: tuple[KeyValues | None, ...] | None = None
        with _Waiting(self) as waiting:
            for batch in batches:
                fitting = conform(pa.Table.from_batches([batch]), self.source, table_name=NAME)
                found = keys_of(self.rules, fitting)
                keys = found if keys is None else plus(keys, found)
                rows += fitting.num_rows
                size += fitting.nbytes
                waiting.add(fitting)
            inline, path = waiting.close()
        nothing = tuple(KeyValues() for _ in self.rules.join.keys)
        return StagedPart(rows, size, nothing if keys is None else keys, path, inline)


class _Waiting:
    """Rows on their way aside. Leaving it by an exception removes the file."""

    def __init__(self, order: StageOrder) -> None:
        self._order = order
        self._tables: list[pa.Table] = []
        self._size = 0
        self._stream: ParquetStream | None = None

    def __enter__(self) -> _Waiting:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if kind is not None and self._stream is not None:
            self._stream.abort()

    def add(self, rows: pa.Table) -> None:
        self._tables.append(rows)
        self._size += rows.nbytes
        if self._size >= _GROUP:
            self._flush()

    def close(self) -> tuple[bytes, str | None]:
        """The rows themselves, or the path of their file."""
        rows = pa.concat_tables([self._order.schema.empty_table(), *self._tables])
        if self._stream is None and rows.nbytes <= _INLINE:
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, rows.schema) as writer:
                writer.write_table(rows)
            return sink.getvalue().to_pybytes(), None
        self._flush()
        assert self._stream is not None
        self._stream.close()
        return b"", self._stream.path

    def _flush(self) -> None:
        order = self._order
        if self._stream is None:
            path = f"{order.prefix}{uuid.uuid4()}.parquet"
            self._stream = ParquetStream(order.store, path, order.schema, order.options, ())
        if self._tables:
            self._stream.write(pa.concat_tables(self._tables).combine_chunks())
        self._tables, self._size = [], 0


@dataclass(frozen=True)
class Staged:
    """A source that tasks have put aside."""

    order: StageOrder
    parts: tuple[StagedPart, ...]
    """In the order of the rows."""

    @property
    def size(self) -> int:
        """Bytes in memory of all rows."""
        return sum(part.size for part in self.parts)

    @property
    def keys(self) -> tuple[KeyValues | None, ...]:
        """The values of each key of the merge."""
        found: tuple[KeyValues | None, ...] = tuple(KeyValues() for _ in self.order.rules.join.keys)
        for part in self.parts:
            found = plus(found, part.keys)
        return found

    def read(self) -> pa.Table:
        """All rows."""
        tables = [table for part in self.parts for table in read_part(self.order, part)]
        return pa.concat_tables([self.order.schema.empty_table(), *tables])

    def remove(self) -> None:
        """Delete the files."""
        self.order.store.delete_many([part.path for part in self.parts if part.path is not None])


def read_part(order: StageOrder, part: StagedPart) -> Iterator[pa.Table]:
    """The rows that one task had, some at a time."""
    if part.path is None:
        yield pa.ipc.open_stream(part.inline).read_all()
        return
    for batch in read_batches(order.store, part.path, order.schema.names, order.options.batch_size):
        yield conform(pa.Table.from_batches([batch]), order.source, table_name=NAME)
