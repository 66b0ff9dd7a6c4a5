"""Merging a source into a table: rows of both are joined, and clauses say what becomes of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64

from lakebed.core.actions import AddFile, Metadata
from lakebed.core.commit import Claim, Kind
from lakebed.core.conform import conform
from lakebed.core.keyed import KeySpec
from lakebed.core.merge_plan import (
    Action,
    Clause,
    Join,
    MergeText,
    When,
    check_clauses,
    key_column,
    named_columns,
    parse_join,
    scope_of,
    shown,
)
from lakebed.core.predicate import Node, conjunction, evaluate, parse
from lakebed.core.predicate.nodes import FALSE, Column, Compare, In, Literal
from lakebed.core.schema import Struct
from lakebed.core.schema_arrow import from_arrow
from lakebed.engine.change_rows import Changed, ChangeOrder, ChangeWriter
from lakebed.engine.delete import Struck, strike_out
from lakebed.engine.draft import Draft
from lakebed.engine.incoming import Incoming
from lakebed.engine.merge_file import MergeClause, MergedFile, MergeOrder
from lakebed.engine.scan import ScanOrder
from lakebed.engine.settle import settle_for, settle_own
from lakebed.engine.update import enter, parse_values, refuse_fixed
from lakebed.engine.workforce import Workload
from lakebed.storage.deletion_vector import keep_mask

MERGE_THREADS = 2
# So many values of a key are looked for one by one; of more, only the smallest and the largest.
_FEW_VALUES = 1000


@dataclass(frozen=True)
class MergeCounts:
    """How many rows a merge has touched."""

    updated: int
    deleted: int
    inserted: int


def merge(draft: Draft, text: MergeText, rows: Incoming) -> MergeCounts:
    """Merge the rows into the draft.

    Raises InputError, PredicateError, and DataError where several rows of the source would change one of the target.
    """
    draft.refuse_if_append_only("merge")
    check_clauses(text, draft.handle.name)
    ChangeOrder.of(draft, "merge")
    source = _source(rows)
    plan = _Plan.of(draft.metadata, text, from_arrow(source.schema), draft.handle.name)
    narrow = plan.narrow(source)
    before = settle_for(draft, narrow)
    files = [] if narrow == FALSE else draft.live(narrow)
    done = _merge_files(draft, plan, source, files)
    inserted, new = _insert(draft, plan, source, done)
    counts = MergeCounts(sum(one.updated for one in done), sum(one.deleted for one in done), inserted)
    finish(draft, [one.struck for one in done], [*(one.changed for one in done), new], counts)
    key = KeySpec.of(draft.metadata)
    buckets = before if key is None else before | settle_own(draft, key)
    claim = Claim(Kind.MERGE, predicate=narrow, reads_all=narrow is None, buckets=buckets, settles=bool(buckets))
    conclude(draft, text, claim)
    return counts


def finish(draft: Draft, struck: Sequence[Struck], changed: Sequence[Changed], counts: MergeCounts) -> None:
    """The outcome becomes part of the draft: rows that changed die in their files, and come in new ones."""
    if KeySpec.of(draft.metadata) is None:
        strike_out(draft, struck)
    enter(draft, changed)
    draft.count("numUpdatedRows", counts.updated)
    draft.count("numDeletedRows", counts.deleted)
    draft.count("numInsertedRows", counts.inserted)


def conclude(draft: Draft, text: MergeText, claim: Claim) -> None:
    """What history says of the merge, and what it relied on."""
    draft.claims.append(claim)
    draft.parameters.update(on=shown(text.on), clauses=[str(clause) for clause in text.clauses])


def _source(rows: Incoming) -> pa.Table:
    """The rows of the source with the types that expressions know."""
    table = rows.read()
    return conform(table, from_arrow(table.schema), table_name="the source of the merge").combine_chunks()


@dataclass(frozen=True)
class _Plan:
    """A merge that has been parsed for one table and one source."""

    text: MergeText
    join: Join
    matched: tuple[MergeClause, ...]
    missing: tuple[MergeClause, ...]
    """For rows of the table that the source does not have."""
    inserts: tuple[MergeClause, ...]
    schema: Struct

    @staticmethod
    def of(metadata: Metadata, text: MergeText, source: Struct, table_name: str) -> _Plan:
        target = metadata.schema
        both, mine, theirs = (scope_of(text, *sides) for sides in ((target, source), (target, None), (None, source)))

        def parsed(when: When, scope: Struct) -> tuple[MergeClause, ...]:
            return tuple(_clause(c, metadata, text, source, scope, table_name) for c in text.clauses_for(when))

        return _Plan(
            text,
            parse_join(text, target, source),
            parsed(When.MATCHED, both),
            parsed(When.NOT_MATCHED_BY_SOURCE, mine),
            parsed(When.NOT_MATCHED, theirs),
            target,
        )

    def narrow(self, source: pa.Table) -> Node | None:
        """What is true of every row of the table that can be touched; None if that may be any."""
        if self.missing:
            return None
        terms = [] if self.join.target_only is None else [self.join.target_only]
        for mine, theirs in self.join.keys:
            column = key_column(mine)
            if column is not None:
                values = evaluate(theirs, _side(self.text.source, source))
                terms.append(_among(column, values))
        if FALSE in terms:
            return FALSE
        return conjunction(*terms) if terms else None


def _clause(
    clause: Clause, metadata: Metadata, text: MergeText, source: Struct, scope: Struct, table_name: str
) -> MergeClause:
    condition = None if clause.condition is None else parse(clause.condition, scope)
    values = {}
    if clause.action is not Action.DELETE:
        given = clause.values
        if given is None:
            given = {
                name: f"{_quoted(text.source)}.{_quoted(found)}"
                for name, found in named_columns(metadata.schema, source).items()
                if clause.action is Action.INSERT or name not in _fixed(metadata)
            }
        values = parse_values(metadata, given, scope, table_name)
        if clause.action is Action.UPDATE:
            refuse_fixed(metadata, values, table_name)
    return MergeClause(clause.action, condition, values)


def _fixed(metadata: Metadata) -> tuple[str, ...]:
    key = KeySpec.of(metadata)
    return () if key is None else key.key


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _side(name: str, rows: pa.Table) -> pa.Table:
    return pa.table({name: pa.StructArray.from_arrays(_arrays(rows), names=rows.schema.names)})


def _arrays(rows: pa.Table) -> list[pa.Array]:
    return [pa.concat_arrays(c.chunks) if c.num_chunks else pa.array([], c.type) for c in rows.columns]


def _among(column: Column, values: pa.Array) -> Node:
    """That a column has one of the values, or at least lies between them."""
    known = pc.unique(values).drop_null()
    if not len(known):
        return FALSE
    if len(known) <= _FEW_VALUES:
        return In(column, tuple(Literal(value, column.type) for value in known.to_pylist()))
    bounds = pc.min_max(known)
    low, high = (Literal(bounds[end].as_py(), column.type) for end in ("min", "max"))
    return conjunction(Compare(">=", column, low), Compare("<=", column, high))


def _merge_files(draft: Draft, plan: _Plan, source: pa.Table, files: Sequence[AddFile]) -> list[MergedFile]:
    handle = draft.handle

    def work(prefix: str) -> MergeOrder:
        return MergeOrder(
            scan=ScanOrder(handle.store, handle.name, draft.metadata, handle.options, tuple(plan.schema.names)),
            text=plan.text,
            join=plan.join,
            matched=plan.matched,
            missing=plan.missing,
            change=ChangeOrder.of(draft, "merge", prefix),
            source=source,
        )

    workload = Workload[AddFile, MergedFile](
        work=lambda prefix: work(prefix).run,
        size=lambda add: add.size,
        made=lambda one: [add.file_path for add in one.changed.files],
        threads=MERGE_THREADS,
    )
    done = workload.run(draft, files)
    return [one.of(add) for add, one in zip(files, done, strict=True)]


def _insert(draft: Draft, plan: _Plan, source: pa.Table, done: Sequence[MergedFile]) -> tuple[int, Changed]:
    """Insert the rows of the source that the table does not have."""
    if not plan.inserts:
        return 0, Changed([])
    seen: BitMap64 = BitMap64()
    for one in done:
        seen |= one.matched
    left = source.filter(keep_mask(seen, 0, source.num_rows))
    inserted = 0
    with ChangeWriter(ChangeOrder.of(draft, "merge")) as writer:
        for clause in plan.inserts:
            if not left.num_rows:
                break
            chosen = clause.applies(_side(plan.text.source, left), left.num_rows)
            some = left.filter(chosen)
            left = left.filter(pc.invert(chosen))
            if some.num_rows:
                writer.put(clause.made(plan.schema, _side(plan.text.source, some), some.num_rows))
                inserted += some.num_rows
        return inserted, writer.close()
