"""Rows that a query has computed become a change of a table: a DataFrame stays in Spark, an Arrow table here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakebed.core.commit import Kind
from lakebed.core.errors import DataError, InputError
from lakebed.engine.change_rows import DELETE, OPERATION, PUT
from lakebed.engine.changed_rows import FILE, PLACE, ROW, change_keys, replace_rows
from lakebed.engine.draft import Draft
from lakebed.engine.fit import fitted
from lakebed.engine.point import StoredPoint
from lakebed.records import Commit
from lakebed.sql.context import Context
from lakebed.sql.rows import TableRows
from lakebed.sql.spark_engine import quoted
from lakebed.table import Table
from lakebed.view import TableView
from lakebed.writing import rows_of

CLAUSE = "_lakebed_clause"
"""The column that tells which clause a row is for."""


@dataclass(frozen=True)
class Plan:
    """What becomes of the rows of each clause, by its number."""

    kind: Kind
    updates: tuple[int, ...] = ()
    deletes: tuple[int, ...] = ()
    inserts: tuple[int, ...] = ()

    @property
    def writes(self) -> tuple[int, ...]:
        """The clauses whose rows are written."""
        return self.updates + self.inserts

    @property
    def matches(self) -> tuple[int, ...]:
        """The clauses for rows that the table has."""
        return self.updates + self.deletes


def apply(context: Context, table: Table, plan: Plan, compute: Callable[[TableRows], Any], text: str) -> Commit:
    """Change the table by rows that ``compute`` makes of it, as one commit; it may be called again after a lost race.

    The rows have all columns of the table, a number of a clause, and their places in files if there is no key.
    Raises DataError where one row would be changed more than once.
    """

    def run(draft: Draft) -> None:
        key = table.key
        context.begin_at(table, draft.base.version)
        point = StoredPoint(draft.handle, draft.base)
        view = TableView(table.name, point, table._store, table._options, table._distribution)
        rows = _Computed.of(compute(TableRows(view, () if key is not None else PLACE)))
        try:
            if key is None:
                _by_place(draft, table, plan, rows)
            else:
                _by_key(draft, table, plan, rows, key.key)
        finally:
            rows.forget()
        draft.parameters["statement"] = text

    return table._change(run)


def _by_place(draft: Draft, table: Table, plan: Plan, rows: _Computed) -> None:
    found = rows.columns((CLAUSE, *PLACE))
    changed = found.filter(pc.is_in(found[CLAUSE], pa.array(plan.matches, pa.int32())))
    if plan.matches:
        _refuse_several(table, plan, changed, PLACE, rows)
    written = rows.chosen(plan.writes, draft.metadata.schema.names) if plan.writes else None
    fitting = None
    if written is not None:
        fitting = fitted(draft, rows_of(written, draft), merge_schema=False, explicit_cast=True)
    replace_rows(draft, changed, fitting, plan.kind)
    _count(draft, plan, found[CLAUSE], changed)


def _by_key(draft: Draft, table: Table, plan: Plan, rows: _Computed, key: Sequence[str]) -> None:
    found = rows.columns((CLAUSE, *key))
    changed = found.filter(pc.is_in(found[CLAUSE], pa.array(plan.matches, pa.int32())))
    if plan.matches:
        _refuse_several(table, plan, changed, key, rows)
    names = draft.metadata.schema.names
    if OPERATION in names:
        raise InputError(f"table {table.name} has a column {OPERATION!r}, which Lakebed needs", fix="rename it")
    written = rows.with_operations(plan, names)
    incoming = fitted(draft, rows_of(written, draft), merge_schema=False, explicit_cast=True, beside=(OPERATION,))
    change_keys(draft, incoming, plan.kind)
    _count(draft, plan, found[CLAUSE], changed)


def _count(draft: Draft, plan: Plan, clauses: pa.ChunkedArray, changed: pa.Table) -> None:
    counts = {count["values"].as_py(): count["counts"].as_py() for count in pc.value_counts(clauses)}
    identity = [name for name in changed.schema.names if name != CLAUSE]
    deleted = changed.filter(pc.is_in(changed[CLAUSE], pa.array(plan.deletes, pa.int32())))
    draft.count("numUpdatedRows", sum(counts.get(number, 0) for number in plan.updates))
    draft.count("numDeletedRows", deleted.group_by(identity).aggregate([]).num_rows)
    draft.count("numInsertedRows", sum(counts.get(number, 0) for number in plan.inserts))


def _refuse_several(table: Table, plan: Plan, changed: pa.Table, identity: Sequence[str], rows: _Computed) -> None:
    """Raise DataError if a row is changed more than once, unless all that becomes of it is that it goes."""
    updating = pc.is_in(changed[CLAUSE], pa.array(plan.updates, pa.int32())).cast(pa.int32())
    counted = (
        changed.append_column("updates", updating)
        .group_by(list(identity))
        .aggregate([(CLAUSE, "count"), ("updates", "sum")])
    )
    twice = pc.and_(pc.greater(counted[f"{CLAUSE}_count"], 1), pc.greater(counted["updates_sum"], 0))
    several = counted.filter(twice)
    if not several.num_rows:
        return
    first = several.select(list(identity)).slice(0, 1).to_pylist()[0]
    shown = first if table.primary_key else rows.example(first, table.schema.names)
    raise DataError(
        f"table {table.name}: several rows of the source match one row of the table",
        (f"{several.num_rows} row(s) would be changed more than once, one of them is {shown}",),
        fix="nothing was changed; make the source have one row for each, or say more in ON",
    )


class _Computed:
    """The rows of a query that are used more than once."""

    def __init__(self, rows: Any, is_frame: bool) -> None:
        self._rows = rows
        self._is_frame = is_frame

    @classmethod
    def of(cls, rows: Any) -> _Computed:
        """Rows of either kind; a frame is kept, so that what is random in it stays what it was."""
        return cls(rows, False) if isinstance(rows, pa.Table) else cls(rows.persist(), True)

    def forget(self) -> None:
        """They are not needed any more."""
        if self._is_frame:
            self._rows.unpersist()

    def columns(self, names: Sequence[str]) -> pa.Table:
        """Some columns of all rows, here."""
        if self._is_frame:
            found: pa.Table = self._rows.select(*map(quoted, names)).toArrow()
        else:
            found = self._rows.select(list(names))
        at = found.schema.get_field_index(CLAUSE)
        return found.set_column(at, CLAUSE, found[CLAUSE].cast(pa.int32()))

    def chosen(self, clauses: Sequence[int], names: Sequence[str]) -> Any:
        """Some columns of the rows of some clauses."""
        if self._is_frame:
            from pyspark.sql import functions as F

            rows = self._rows.filter(F.col(CLAUSE).isin(list(clauses)))
            return rows.select(*map(quoted, names))
        wanted = pc.is_in(self._rows[CLAUSE].cast(pa.int32()), pa.array(clauses, pa.int32()))
        return self._rows.filter(wanted).select(list(names))

    def with_operations(self, plan: Plan, names: Sequence[str]) -> Any:
        """All rows, each with what becomes of it."""
        if self._is_frame:
            from pyspark.sql import functions as F

            gone = F.col(CLAUSE).isin(list(plan.deletes)) if plan.deletes else F.lit(False)
            operation = F.when(gone, DELETE).otherwise(PUT).alias(OPERATION)
            return self._rows.select(*map(quoted, names), operation)
        gone = pc.is_in(self._rows[CLAUSE].cast(pa.int32()), pa.array(plan.deletes, pa.int32()))
        operation = pc.if_else(gone, DELETE, PUT)
        return self._rows.select(list(names)).append_column(OPERATION, operation)

    def example(self, place: dict[str, Any], names: Sequence[str]) -> Any:
        """A row of the table, for people."""
        if self._is_frame:
            from pyspark.sql import functions as F

            here = (F.col(FILE) == place[FILE]) & (F.col(ROW) == place[ROW])
            return self._rows.filter(here).select(*map(quoted, names)).limit(1).toArrow().to_pylist()[0]
        here = pc.and_(pc.equal(self._rows[FILE], place[FILE]), pc.equal(self._rows[ROW], place[ROW]))
        return self._rows.filter(here).select(list(names)).slice(0, 1).to_pylist()[0]
