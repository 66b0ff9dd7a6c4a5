"""Rows that an update or a merge changes: their new form in new files, whatever kind of table it is.

In a table without a key a changed row dies in its file and is written anew, with its row id. In a table with a key it
is upserted, or deleted by a tombstone; matching the keys does the rest.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import pyarrow as pa

from lakebed.core.actions import AddFile
from lakebed.core.commit import Bucket
from lakebed.core.conform import conform
from lakebed.core.errors import InputError
from lakebed.core.file_tags import ROW_ID_COLUMN, ROW_VERSION_COLUMN
from lakebed.core.keyed import KeySpec, MergeEngine
from lakebed.core.partition import encode_value
from lakebed.core.schema_arrow import to_arrow
from lakebed.engine.draft import Draft
from lakebed.engine.keyed_write import KeyedWriter
from lakebed.engine.partitioning import split
from lakebed.engine.rewritten import RewriteWriter
from lakebed.engine.upsert import upsert_order
from lakebed.engine.upsert_order import UpsertOrder
from lakebed.engine.write import WriteOrder, without_empty_partitions

OPERATION = "_lakebed_operation"
"""The column that tells a table with a key what becomes of a row."""
PUT, DELETE = "+U", "-D"
_ROW_SIZE = 64.0


@dataclass(frozen=True)
class ChangeOrder:
    """How changed rows are written; small and serialisable."""

    write: WriteOrder
    upsert: UpsertOrder | None
    """None for a table without a key."""

    @staticmethod
    def of(draft: Draft, operation: str, prefix: str = "") -> ChangeOrder:
        """The order for a draft's table. Raises InputError where rows of one key are not simply replaced."""
        key = KeySpec.of(draft.metadata)
        if key is not None and key.engine is not MergeEngine.DEDUPLICATE:
            raise InputError(
                f"table {draft.handle.name}: no {operation} of rows that the merge engine {key.engine.value!r} makes",
                expected="a table without a primary key, or with the merge engine 'deduplicate'",
                fix="use upsert(), or overwrite() with a predicate",
            )
        write = replace(draft.order, prefix=prefix)
        upsert = None if key is None else upsert_order(draft, key, row_kind=OPERATION, prefix=prefix)
        return ChangeOrder(write, upsert)


@dataclass(frozen=True)
class Changed:
    """What was written."""

    files: list[AddFile] = field(hash=False)
    splits: list[Bucket] = field(default_factory=list, hash=False)


class ChangeWriter:
    """Takes changed rows. Use it as a context manager: leaving it by an exception removes what it has written."""

    def __init__(self, order: ChangeOrder) -> None:
        self._order = order
        self._schema = order.write.metadata.schema
        self._writer = (
            RewriteWriter(order.write, key=(), tombstones=False, row_size=_ROW_SIZE)
            if order.upsert is None
            else KeyedWriter(order.upsert)
        )

    def __enter__(self) -> ChangeWriter:
        self._writer.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        self._writer.__exit__(kind, error, trace)

    def put(self, rows: pa.Table) -> None:
        """Take the new form of rows; their row ids, if they have one, stay. Raises DataError for what does not fit."""
        if isinstance(self._writer, KeyedWriter):
            self._upsert(rows, PUT)
            return
        fitting = self._fitting(rows.select(self._schema.names))
        ids = _column(rows, ROW_ID_COLUMN)
        fitting = fitting.append_column(ROW_ID_COLUMN, ids)
        fitting = fitting.append_column(ROW_VERSION_COLUMN, pa.nulls(rows.num_rows, pa.int64()))
        for values, part in self._by_partition(fitting):
            self._writer.write(values, None, part)

    def delete(self, rows: pa.Table) -> None:
        """Delete the keys of these rows; without keys it is enough that they die in their files."""
        if isinstance(self._writer, KeyedWriter):
            self._upsert(rows, DELETE)

    def close(self) -> Changed:
        """Write what is left, and tell what was written."""
        if isinstance(self._writer, KeyedWriter):
            done = self._writer.close()
            return Changed(done.files, done.splits)
        return Changed([replace(one.add, data_change=True) for one in self._writer.close()])

    def _upsert(self, rows: pa.Table, operation: str) -> None:
        assert isinstance(self._writer, KeyedWriter)
        kinds = pa.repeat(pa.scalar(operation), rows.num_rows)
        for batch in rows.select(self._schema.names).append_column(OPERATION, kinds).combine_chunks().to_batches():
            self._writer.write(batch)

    def _fitting(self, rows: pa.Table) -> pa.Table:
        order = self._order.write
        parts = []
        for batch in conform(rows, self._schema, table_name=order.table_name).combine_chunks().to_batches():
            spelled = without_empty_partitions(batch, order.metadata)
            parts.append(conform(spelled, self._schema, table_name=order.table_name))
        return pa.Table.from_batches(parts, to_arrow(self._schema))

    def _by_partition(self, rows: pa.Table) -> Iterator[tuple[dict[str, str | None], pa.Table]]:
        fields = self._order.write.metadata.partition_schema
        if not len(fields):
            yield {}, rows
            return
        for batch in rows.combine_chunks().to_batches():
            for values, part in split(batch, fields.names):
                encoded = {f.physical_name: encode_value(v, f.type) for v, f in zip(values, fields, strict=True)}
                yield encoded, pa.Table.from_batches([part])


def _column(rows: pa.Table, name: str) -> pa.ChunkedArray | pa.Array:
    return rows.column(name) if name in rows.schema.names else pa.nulls(rows.num_rows, pa.int64())
