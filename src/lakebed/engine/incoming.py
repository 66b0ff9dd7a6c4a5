"""Rows on their way into a table, whoever writes them: this process, or the tasks of a cluster."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa
import pyarrow.types as pat

from lakebed.core.actions import AddFile, Metadata
from lakebed.core.errors import DataError
from lakebed.core.schema import Array, Map, Struct, Type
from lakebed.core.schema_arrow import type_to_arrow
from lakebed.engine.keyed_write import write_upserts
from lakebed.engine.progress import Show, shown
from lakebed.engine.settle_order import Settling
from lakebed.engine.upsert_order import Upserted, UpsertOrder
from lakebed.engine.write import WriteOrder, write_rows

if TYPE_CHECKING:
    from lakebed.engine.merge_source import Staged, StageOrder

Settles = Callable[[], Settling | None]
"""What a writer of whole buckets asks to settle them itself; None where that is not wanted, or better done later."""


class Incoming(Protocol):
    """Rows that can be written once, as new files that belong to no version yet.

    Both methods raise DataError that lists what does not fit; on any error no file remains.
    """

    @property
    def schema(self) -> pa.Schema:
        """The columns of the rows."""

    @property
    def replaces_partitions(self) -> bool:
        """Whether an overwrite that says no more replaces only the partitions that the rows are in."""

    def cast(self, schema: Struct, names: Collection[str]) -> Incoming:
        """The rows with some columns in the table's types; values that those cannot hold are errors when written."""

    def read(self) -> pa.Table:
        """All rows, in the memory of this process."""

    def write(self, order: WriteOrder) -> list[AddFile]:
        """Write the rows into a table without a key."""

    def upsert(self, order: UpsertOrder, settles: Settles) -> Upserted:
        """Write the rows as upsert files."""


class Mergeable(Incoming, Protocol):
    """Rows that can also be the source of a merge."""

    def stage(self, order: StageOrder, metadata: Metadata) -> Staged | None:
        """Put the rows aside for a merge into a table with this metadata; None if they are in this process anyway."""


@dataclass(frozen=True)
class ArrowRows:
    """Rows that this process writes."""

    reader: pa.RecordBatchReader

    @property
    def schema(self) -> pa.Schema:
        """The columns of the rows."""
        return self.reader.schema

    @property
    def replaces_partitions(self) -> bool:
        """No: nothing says so."""
        return False

    def cast(self, schema: Struct, names: Collection[str]) -> ArrowRows:
        """The rows with some columns in the table's types. Raises DataError for values that those cannot hold."""
        fields = [_target(f, schema) if f.name in names else f for f in self.reader.schema]
        target = pa.schema(fields)
        return ArrowRows(pa.RecordBatchReader.from_batches(target, (_cast(batch, target) for batch in self.reader)))

    def read(self) -> pa.Table:
        """All rows."""
        return self.reader.read_all()

    def stage(self, order: StageOrder, metadata: Metadata) -> Staged | None:
        """They are here."""
        return None

    def write(self, order: WriteOrder) -> list[AddFile]:
        """Write the rows into a table without a key."""
        with shown(f"table {order.table_name}", order.options, "rows") as show:
            return write_rows(_counted(self.reader, show), order)[0]

    def upsert(self, order: UpsertOrder, settles: Settles) -> Upserted:
        """Write the rows as upsert files; they are settled when the commit lands."""
        with shown(f"table {order.table_name}", order.options, "rows") as show:
            return write_upserts(_counted(self.reader, show), order)


def _counted(reader: pa.RecordBatchReader, show: Show) -> pa.RecordBatchReader:
    def passing() -> Iterator[pa.RecordBatch]:
        for batch in reader:
            yield batch
            show({"rows": batch.num_rows})

    return pa.RecordBatchReader.from_batches(reader.schema, passing())


def _target(field: pa.Field, schema: Struct) -> pa.Field:
    known = schema.find(field.name)
    return field if known is None else field.with_type(_target_type(field.type, known.type))


def _target_type(found: pa.DataType, wanted: Type) -> pa.DataType:
    """The table's type with the members that the rows have, in their order: the write fills in the others."""
    if pat.is_struct(found) and isinstance(wanted, Struct):
        return pa.struct([_target(found.field(at), wanted) for at in range(found.num_fields)])
    if _is_list(found) and isinstance(wanted, Array):
        return pa.list_(found.value_field.with_type(_target_type(found.value_type, wanted.element)))
    if pat.is_map(found) and isinstance(wanted, Map):
        key = found.key_field.with_type(_target_type(found.key_type, wanted.key))
        return pa.map_(key, found.item_field.with_type(_target_type(found.item_type, wanted.value)))
    return found if pat.is_nested(found) else type_to_arrow(wanted)


def _is_list(kind: pa.DataType) -> bool:
    return bool(pat.is_list(kind) or pat.is_large_list(kind) or pat.is_fixed_size_list(kind))


def _cast(batch: pa.RecordBatch, target: pa.Schema) -> pa.RecordBatch:
    columns, problems = [], []
    for field, column in zip(target, batch.columns, strict=True):
        try:
            columns.append(column.cast(field.type))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            problems.append(f"column {field.name}: {error}")
    if problems:
        raise DataError("values cannot be cast to the table's types", tuple(problems), fix="nothing was written")
    return pa.record_batch(columns, schema=target)
