"""Incoming rows of an upsert: made to fit the table, in parts of a bounded size."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from lakebed.core.conform import FIX, check_schema, conform
from lakebed.core.errors import DataError, InputError
from lakebed.core.file_tags import KIND_COLUMN
from lakebed.core.merging import MergeSpec, check_rows
from lakebed.core.recast import NULLS, Findings
from lakebed.core.schema import Struct
from lakebed.core.schema_arrow import to_arrow
from lakebed.core.suggest import did_you_mean
from lakebed.engine import row_kinds
from lakebed.engine.refused_rows import RefusedKeys
from lakebed.engine.upsert_order import UpsertOrder
from lakebed.engine.write import refuse_outside, without_empty_partitions
from lakebed.storage.parquet_writer import reinterpreted

# Batches that have to be converted are taken in slices that are small against what is collected.
_SLICES = 4


@dataclass(frozen=True)
class KeyedPart:
    """Some rows that fit the table, and what is known of them beside their columns."""

    rows: pa.RecordBatch
    """Physical names; every column may have nulls, since a row that deletes needs no more than its key."""
    kinds: pa.Array | None
    """The codes of rows that delete, null for others; None if no row deletes."""
    helpers: tuple[pa.Array, ...]
    """The columns that only sort, in the order of ``sort_by``."""

    @classmethod
    def of(cls, batch: pa.RecordBatch, columns: int) -> KeyedPart:
        """The part that a batch describes: the table's ``columns``, the kind, and then what only sorts."""
        rows, (kinds, *helpers) = batch.select(range(columns)), batch.columns[columns:]
        return cls(rows, None if kinds.null_count == len(kinds) else kinds, tuple(helpers))

    @property
    def nbytes(self) -> int:
        """The memory of all columns."""
        beside = self.helpers if self.kinds is None else (*self.helpers, self.kinds)
        return int(self.rows.nbytes + sum(array.nbytes for array in beside))


def nullable(schema: Struct, but: tuple[str, ...] = ()) -> Struct:
    """The schema with columns that may all be null, except some.

    >>> from lakebed.core.schema_ddl import from_ddl
    >>> [f.nullable for f in nullable(from_ddl("id BIGINT NOT NULL, n BIGINT NOT NULL"), but=("id",))]
    [False, True]
    """
    return Struct(tuple(f if f.name in but else replace(f, nullable=True) for f in schema))


class IncomingRows:
    """Makes rows of one Arrow schema fit a table. Raises DataError if they cannot, whatever their values are."""

    def __init__(self, order: UpsertOrder, incoming: pa.Schema, block_bytes: int) -> None:
        self._order = order
        self._schema = order.metadata.schema
        self._loose = nullable(self._schema)
        self._physical = to_arrow(self._loose, physical=True)
        self._block_bytes = block_bytes
        named = None if order.deletes else order.row_kind
        self._kind = None if named is None else self._position(incoming, named, "row kinds")
        self._merging = MergeSpec.of(order.metadata)
        self._meanings = row_kinds.meanings(order.row_kinds)
        self._helpers = self._helper_positions(incoming)
        beside = {at for at in (self._kind, *self._helpers) if at is not None and not self._stored(incoming.names[at])}
        self._columns = [at for at in range(len(incoming)) if at not in beside]
        self._check(incoming)
        # Nothing is copied to make such rows fit, so that large slices cost no memory.
        self._slices = 1 if self._fits_as_it_is(incoming) else _SLICES

    def parts(self, batch: pa.RecordBatch, first_row: int, refused: RefusedKeys) -> Iterator[KeyedPart]:
        """The batch's rows that are not passed over, slice by slice; rows without a key are counted in ``refused``.

        ``first_row`` is the number of the first row in messages. Raises DataError that lists the problems.
        """
        kinds = self._kinds(batch, first_row)
        if kinds is not None and self._order.ignores_deletes:
            batch, kinds = batch.filter(kinds.is_null()), None
        step = max(1, self._block_bytes * batch.num_rows // max(1, batch.nbytes))
        if step < batch.num_rows or self._slices > 1:
            step = max(1, step // _SLICES)
        for start in range(0, batch.num_rows, step):
            some = kinds.slice(start, step) if kinds is not None else None
            yield self._part(batch.slice(start, step), some, first_row + start, refused)

    def _part(self, raw: pa.RecordBatch, kinds: pa.Array | None, first_row: int, refused: RefusedKeys) -> KeyedPart:
        fitting = conform(
            raw.select(self._columns), self._loose, table_name=self._order.table_name, first_row=first_row
        )
        rows = without_empty_partitions(fitting, self._order.metadata)
        refuse_outside(rows, self._order.within, self._order.table_name)
        refused.look(fitting, rows, first_row)
        self._check_required(rows, kinds, first_row)
        if kinds is not None:
            self._refuse_kinds(pa.table(rows.append_column(KIND_COLUMN, kinds)))
        helpers = tuple(_plain(raw.column(at)) for at in self._helpers)
        return KeyedPart(reinterpreted(rows, self._physical), kinds, helpers)

    def _refuse_kinds(self, rows: pa.Table) -> None:
        """Raise DataError for deletes that the table's merge engine cannot do."""
        try:
            check_rows(rows, self._merging)
        except DataError as error:
            raise DataError(f"table {self._order.table_name}: {error.title}", error.problems, fix=error.fix) from error

    def _kinds(self, batch: pa.RecordBatch, first_row: int) -> pa.Array | None:
        if self._order.deletes:
            return pa.repeat(pa.scalar(row_kinds.DELETE, pa.int8()), batch.num_rows)
        if self._kind is None:
            return None
        kinds = row_kinds.deletions(batch, self._kind, self._meanings, self._order.table_name, first_row)
        return None if kinds.null_count == len(kinds) else kinds

    def _check_required(self, rows: pa.RecordBatch, kinds: pa.Array | None, first_row: int) -> None:
        """Raise DataError for nulls in NOT NULL columns of rows that are put; keys are looked at elsewhere."""
        findings = Findings()
        for field in self._schema:
            column = None if field.nullable or field.name in self._order.key.key else rows.column(field.name)
            if column is not None and column.null_count:
                missing = column.is_null() if kinds is None else pc.and_(column.is_null(), kinds.is_null())
                findings.add((field.name,), NULLS, missing, int)
        problems = tuple(findings.problems(first_row))
        if problems:
            raise DataError(f"table {self._order.table_name}: the rows do not fit", problems, fix=FIX)

    def _check(self, incoming: pa.Schema) -> None:
        # Only a row that deletes may lack a column that cannot be null.
        some_delete = self._order.deletes or self._kind is not None
        needed = nullable(self._schema, but=self._order.key.key) if some_delete else self._schema
        problems = check_schema(pa.schema([incoming.field(at) for at in self._columns]), needed)
        if problems:
            raise DataError(f"table {self._order.table_name}: the rows do not fit", problems, fix=FIX)

    def _helper_positions(self, incoming: pa.Schema) -> list[int]:
        positions = [
            self._position(incoming, name, "sort_by") for name in self._order.sort_by if self._schema.find(name) is None
        ]
        for at in positions:
            if pat.is_nested(incoming.field(at).type):
                raise InputError(
                    f"table {self._order.table_name}: rows cannot be sorted by {incoming.names[at]!r}",
                    expected="a column of a plain type",
                    found=str(incoming.field(at).type),
                )
        return positions

    def _fits_as_it_is(self, incoming: pa.Schema) -> bool:
        kinds = {f.name: f.type for f in to_arrow(self._schema)}
        return all(kinds.get(field.name) == field.type for field in map(incoming.field, self._columns))

    def _stored(self, name: str) -> bool:
        return self._schema.find(name) is not None

    def _position(self, incoming: pa.Schema, name: str, purpose: str) -> int:
        names = incoming.names
        alike = [at for at, other in enumerate(names) if other == name]
        alike = alike or [at for at, other in enumerate(names) if other.casefold() == name.casefold()]
        if len(alike) != 1:
            raise InputError(
                f"table {self._order.table_name}: the rows have no column {name!r} for {purpose}",
                fix=did_you_mean(name, names) or f"the columns are {', '.join(names)}",
            )
        return alike[0]


def _plain(column: pa.Array) -> pa.Array:
    return column.cast(column.type.value_type) if pat.is_dictionary(column.type) else column
