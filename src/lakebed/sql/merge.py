"""MERGE INTO: an upsert where that is all, the table API's merge where it computes the same, else a join."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakebed.core.commit import Kind
from lakebed.core.errors import InputError
from lakebed.core.keyed import MergeEngine
from lakebed.core.merge_plan import When
from lakebed.core.predicate import Node
from lakebed.core.predicate.nodes import And, Cast, Column, Compare
from lakebed.core.schema import Field, Struct
from lakebed.core.schema_arrow import from_arrow
from lakebed.core.schema_ddl import type_ddl
from lakebed.core.schema_spark import from_spark
from lakebed.records import Commit
from lakebed.sql.applying import CLAUSE, Plan, apply
from lakebed.sql.change import (
    TARGET,
    add_value,
    refuse_fixed,
    target_of,
)
from lakebed.sql.compose import Composition
from lakebed.sql.context import Context
from lakebed.sql.cursor import Cursor
from lakebed.sql.expressions import Scope, Side
from lakebed.sql.merge_grammar import Clause, Merging, read_merge
from lakebed.sql.queries import Known, run_query
from lakebed.sql.results import row_of
from lakebed.sql.rows import FixedRows, TableRows
from lakebed.sql.spark_engine import quoted

SOURCE = "lakebed source"
_SEEN = "_lakebed_source"
"""Tells rows of the source from those that a join made up."""


def merge(context: Context, cursor: Cursor) -> pa.Table | None:
    """MERGE INTO table [AS t] USING source [AS s] ON condition WHEN …"""
    cursor.take("INTO")
    target = target_of(context, cursor)
    if target is None:
        return None
    merging = read_merge(context, cursor, target)
    done = _Merge(context, merging).run()
    counts = {name: done.metrics.get(f"num{name.title()}Rows", 0) for name in ("updated", "deleted", "inserted")}
    return row_of(version=done.version, **counts)


@dataclass
class _Merge:
    """One MERGE while it runs."""

    context: Context
    merging: Merging

    def run(self) -> Commit:
        """The cheapest way that gives what the statement says."""
        self._check()
        rows = self._source_rows()
        columns = from_arrow(rows.schema) if isinstance(rows, pa.Table) else from_spark(rows.schema)
        native = self._native(columns)
        if native is not None:
            on, clauses = native
            if self._is_upsert(on, columns) and not self._has_twins(rows):
                return self.merging.target.table.upsert(self._own_columns(rows), explicit_cast=True)
            return self._by_api(rows, on, clauses)
        return self._by_engine(rows, columns)

    def _check(self) -> None:
        for when in When:
            clauses = [clause for clause in self.merging.clauses if clause.when is when]
            for at, clause in enumerate(clauses[:-1]):
                if clause.condition is None:
                    raise self.context.cursor().error(
                        clauses[at + 1].place,
                        "no row reaches this clause",
                        fix="only the last clause of its kind may have no condition",
                    )
        for clause in self.merging.clauses:
            if clause.action == "UPDATE":
                refuse_fixed(self.context, self.merging.target, clause.assignments)

    @property
    def _called(self) -> str:
        if self.merging.called is not None:
            return self.merging.called
        return self.merging.names[0][-1] if self.merging.names else "lakebed source row"

    def _source_rows(self) -> Any:
        text = Composition(self.context.source)
        source, span = text.add("SELECT * FROM ", self.merging.source).source()
        return run_query(self.context.on(source), span)

    def _sides(self, columns: Struct) -> dict[When, tuple[Side, ...]]:
        target = Side(self.merging.target.called, self.merging.target.schema, self.merging.target.names)
        source = Side(self._called, columns, self.merging.names)
        both = (target, source)
        return {When.MATCHED: both, When.NOT_MATCHED: (source,), When.NOT_MATCHED_BY_SOURCE: (target,)}

    def _native(self, columns: Struct) -> tuple[Node, list[tuple[Node | None, dict[str, Node] | None]]] | None:
        """The condition and the clauses as the table API takes them; None if it would not compute the same."""
        if self._called.casefold() == self.merging.target.called.casefold():
            return None
        sides = self._sides(columns)
        on = Scope(self.context, sides[When.MATCHED]).read(self.merging.on)
        if on is None:
            return None
        clauses: list[tuple[Node | None, dict[str, Node] | None]] = []
        for clause in self.merging.clauses:
            scope = Scope(self.context, sides[clause.when])
            condition = None if clause.condition is None else scope.read(clause.condition)
            values = {one.column.name: scope.read(one.value, condition=False) for one in clause.assignments}
            members = any(one.members for one in clause.assignments)
            if (condition is None) != (clause.condition is None) or None in values.values() or members:
                return None
            known = {name: node for name, node in values.items() if node is not None}
            clauses.append((condition, None if clause.star else known))
        return on, clauses

    def _by_api(self, rows: Any, on: Node, clauses: list[tuple[Node | None, dict[str, Node] | None]]) -> Commit:
        target = self.merging.target
        made = target.table.merge(rows, on, target_alias=target.called, source_alias=self._called)
        for clause, (condition, values) in zip(self.merging.clauses, clauses, strict=True):
            if clause.when is When.NOT_MATCHED:
                made = made.when_not_matched_insert(values, condition)
            elif clause.when is When.MATCHED:
                update = clause.action == "UPDATE"
                made = made.when_matched_update(values, condition) if update else made.when_matched_delete(condition)
            elif clause.action == "UPDATE":
                made = made.when_not_matched_by_source_update(values or {}, condition)
            else:
                made = made.when_not_matched_by_source_delete(condition)
        try:
            return made.execute()
        except InputError as error:
            if type(error).__name__ == "DataError":
                raise
            raise self.context.tried(self.merging.on, error) from error

    def _is_upsert(self, on: Node, columns: Struct) -> bool:
        """Whether rows are matched by the whole key, and the source's row takes the place of the table's."""
        table = self.merging.target.table
        key = table.key
        shape = [(clause.when, clause.action, clause.star, clause.condition) for clause in self.merging.clauses]
        plain = [(When.MATCHED, "UPDATE", True, None), (When.NOT_MATCHED, "INSERT", True, None)]
        if key is None or key.engine is not MergeEngine.DEDUPLICATE or sorted(shape, key=str) != sorted(plain, key=str):
            return False
        pairs = set()
        for term in on.terms if isinstance(on, And) else (on,):
            if not isinstance(term, Compare) or term.op != "=":
                return False
            ends = [side.operand if isinstance(side, Cast) else side for side in (term.left, term.right)]
            pairs.add(frozenset(side.path for side in ends if isinstance(side, Column)))
        target, source = self.merging.target.called, self._called
        wanted = {
            frozenset({(target, name), (source, found.name)}) for name in key.key if (found := columns.find(name))
        }
        return pairs == wanted and all(columns.find(name) is not None for name in table.schema.names)

    def _has_twins(self, rows: Any) -> bool:
        """Whether the source has several rows of one key: whether that matters depends on the table."""
        key = list(self.merging.target.table.primary_key)
        if isinstance(rows, pa.Table):
            names = [next(n for n in rows.schema.names if n.casefold() == name.casefold()) for name in key]
            counted = rows.select(names).append_column("n", pa.repeat(pa.scalar(1), rows.num_rows)).group_by(names)
            return bool(pc.any(pc.greater(counted.aggregate([("n", "sum")])["n_sum"], 1)).as_py())
        return bool(rows.groupBy(*map(quoted, key)).count().filter("count > 1").limit(1).count())

    def _own_columns(self, rows: Any) -> Any:
        """Only the columns that the table has: MERGE … * passes over others."""
        names = self.merging.target.table.schema.names
        folded = {name.casefold(): name for name in names}
        if isinstance(rows, pa.Table):
            return rows.select([name for name in rows.schema.names if name.casefold() in folded])
        return rows.select(*[quoted(name) for name in rows.columns if name.casefold() in folded])

    def _by_engine(self, source: Any, columns: Struct) -> Commit:
        """A join by the engine that runs queries: it knows all functions, and subqueries."""
        clauses = list(enumerate(self.merging.clauses))
        plan = Plan(
            Kind.MERGE,
            tuple(number for number, clause in clauses if clause.action == "UPDATE"),
            tuple(number for number, clause in clauses if clause.action == "DELETE"),
            tuple(number for number, clause in clauses if clause.action == "INSERT"),
        )

        def compute(rows: TableRows) -> Any:
            text, span = self._joined(rows, columns).source()
            known = {
                TARGET: self.merging.target.known(rows),
                SOURCE: Known(_given(source), self.merging.names[0] if self.merging.names else ()),
            }
            return run_query(self.context.on(text), span, extra=known)

        return apply(self.context, self.merging.target.table, plan, compute, self.context.source.text)

    def _joined(self, rows: TableRows, columns: Struct) -> Composition:
        target, key = quoted(self.merging.target.called), self.merging.target.table.primary_key
        present = f"{target}.{quoted(key[0]) if key else rows.facts[0]} IS NOT NULL"
        seen = f"{quoted(self._called)}.`{_SEEN}` IS NOT NULL"
        text = Composition(self.context.source).add(f"SELECT * FROM (SELECT CASE WHEN {present} AND {seen} THEN ")
        self._add_choice(text, When.MATCHED)
        text.add(f" WHEN {seen} THEN ")
        self._add_choice(text, When.NOT_MATCHED)
        text.add(" ELSE ")
        self._add_choice(text, When.NOT_MATCHED_BY_SOURCE)
        text.add(f" END AS `{CLAUSE}`")
        for column in self.merging.target.schema:
            text.add(", ")
            self._add_column(text, column, columns)
            text.add(" AS ", quoted(column.name))
        for fact in rows.facts:
            text.add(f", {target}.{fact} AS {fact}")
        text.add(f" FROM `{TARGET}` AS {target} {self._join()} ")
        text.add(f"(SELECT *, TRUE AS `{_SEEN}` FROM `{SOURCE}`) AS {quoted(self._called)} ON (", self.merging.on)
        return text.add(f")) WHERE `{CLAUSE}` IS NOT NULL")

    def _join(self) -> str:
        kinds = {clause.when for clause in self.merging.clauses}
        left, right = When.NOT_MATCHED_BY_SOURCE in kinds, When.NOT_MATCHED in kinds
        if left and right:
            return "FULL OUTER JOIN"
        return "LEFT JOIN" if left else "RIGHT JOIN" if right else "INNER JOIN"

    def _add_choice(self, text: Composition, when: When) -> None:
        """Add the number of the first clause whose condition is true."""
        mine = [(number, one) for number, one in enumerate(self.merging.clauses) if one.when is when]
        if not mine:
            text.add("NULL")
            return
        text.add("CASE")
        for number, clause in mine:
            text.add(" WHEN ")
            text.add("TRUE") if clause.condition is None else text.add("(", clause.condition, ")")
            text.add(f" THEN {number}")
        text.add(" END")

    def _add_column(self, text: Composition, column: Field, columns: Struct) -> None:
        target = self.merging.target
        if all(clause.action == "DELETE" for clause in self.merging.clauses):
            text.add(f"{quoted(target.called)}.{quoted(column.name)}")
            return
        text.add(f"CASE `{CLAUSE}`")
        for number, clause in enumerate(self.merging.clauses):
            if clause.action == "DELETE":
                continue
            text.add(f" WHEN {number} THEN ")
            if clause.star:
                self._add_star(text, clause, column, columns)
            elif clause.action == "INSERT" and column.name not in {one.column.name for one in clause.assignments}:
                text.add(f"CAST(NULL AS {type_ddl(column.type, portable=True)})")
            else:
                add_value(text, target, column, clause.assignments)
        text.add(f" ELSE {quoted(target.called)}.{quoted(column.name)} END")

    def _add_star(self, text: Composition, clause: Clause, column: Field, columns: Struct) -> None:
        kind = type_ddl(column.type, portable=True)
        found = columns.find(column.name)
        if found is not None:
            text.add(f"CAST({quoted(self._called)}.{quoted(found.name)} AS {kind})")
        elif clause.action == "INSERT":
            text.add(f"CAST(NULL AS {kind})")
        else:
            text.add(f"{quoted(self.merging.target.called)}.{quoted(column.name)}")


@dataclass(frozen=True)
class _FrameRows:
    """Rows of a query that has been run."""

    rows: Any

    @property
    def schema(self) -> Any:
        """The columns."""
        return self.rows.schema

    def arrow(self, columns: Any, where: Any) -> pa.Table:
        """Not asked for: frames stay in Spark."""
        return self.rows.toArrow()

    def frame(self, session: Any, columns: Any, where: Any) -> Any:
        """The frame itself."""
        return self.rows


def _given(rows: Any) -> FixedRows | _FrameRows:
    return FixedRows(rows) if isinstance(rows, pa.Table) else _FrameRows(rows)
