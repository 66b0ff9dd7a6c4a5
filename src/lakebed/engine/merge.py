"""Merging a source into a table: rows of both are joined, and clauses say what becomes of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyroaring import BitMap64

from lakebed.core.actions import AddFile, Metadata
from lakebed.core.commit import Bucket, Claim, Kind
from lakebed.core.conform import conform
from lakebed.core.keyed import KeySpec
from lakebed.core.merge_plan import (
    Action,
    Clause,
    MergeText,
    When,
    check_clauses,
    key_column,
    named_columns,
    parse_join,
    scope_of,
    shown,
)
from lakebed.core.predicate import Node, conjunction, parse
from lakebed.core.predicate.nodes import FALSE
from lakebed.core.schema import Struct
from lakebed.core.schema_arrow import from_arrow
from lakebed.delta.foreign import place
from lakebed.engine.change_rows import Changed, ChangeOrder, ChangeWriter
from lakebed.engine.delete import Struck, strike_out
from lakebed.engine.draft import Draft
from lakebed.engine.incoming import Mergeable
from lakebed.engine.merge_file import MergedFile, MergeOrder
from lakebed.engine.merge_parts import MOST_PARTS, Dealing, PartsJob
from lakebed.engine.merge_rules import MergeClause, MergeRules
from lakebed.engine.merge_source import NAME, KeyValues, Staged, StageOrder, keys_of
from lakebed.engine.scan import ScanOrder, dead_rows, named
from lakebed.engine.settle import settle_for, settle_own
from lakebed.engine.update import enter, parse_values, refuse_fixed
from lakebed.engine.workforce import NewFiles, Workload, new_prefix
from lakebed.storage.parquet_reader import ParquetFileReader

MERGE_THREADS = 2
# A source of a cluster that is larger than this is not sent to every task; it is dealt to parts with the table's rows.
_SENT = 32 << 20


@dataclass(frozen=True)
class MergeCounts:
    """How many rows a merge has touched."""

    updated: int
    deleted: int
    inserted: int


@dataclass(frozen=True)
class _Outcome:
    struck: list[Struck]
    changed: list[Changed]
    counts: MergeCounts
    narrow: Node | None
    buckets: frozenset[Bucket]
    """Those that were settled before."""


def merge(draft: Draft, text: MergeText, rows: Mergeable) -> MergeCounts:
    """Merge the rows into the draft.

    Raises InputError, PredicateError, and DataError where several rows of the source would change one of the target.
    """
    draft.refuse_if_append_only("merge")
    check_clauses(text, draft.handle.name)
    ChangeOrder.of(draft, "merge")
    handle = draft.handle
    source = from_arrow(rows.schema)
    rules = _rules_of(draft.metadata, text, source, handle.name)
    staged = rows.stage(StageOrder(handle.store, rules, source, handle.options, new_prefix()), draft.metadata)
    try:
        if staged is None or staged.size < min(handle.options.distribute_from, _SENT):
            table = conform(rows.read() if staged is None else staged.read(), source, table_name=NAME)
            done = _merge_whole(draft, rules, table.combine_chunks())
        else:
            done = _merge_in_parts(draft, rules, staged)
    finally:
        if staged is not None:
            staged.remove()
    finish(draft, done.struck, done.changed, done.counts)
    key = KeySpec.of(draft.metadata)
    buckets = done.buckets if key is None else done.buckets | settle_own(draft, key)
    narrow = done.narrow
    claim = Claim(Kind.MERGE, predicate=narrow, reads_all=narrow is None, buckets=buckets, settles=bool(buckets))
    conclude(draft, text, claim)
    return done.counts


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


def _rules_of(metadata: Metadata, text: MergeText, source: Struct, table_name: str) -> MergeRules:
    target = metadata.schema
    both, mine, theirs = (scope_of(text, *sides) for sides in ((target, source), (target, None), (None, source)))

    def parsed(when: When, scope: Struct) -> tuple[MergeClause, ...]:
        return tuple(_clause(c, metadata, text, source, scope, table_name) for c in text.clauses_for(when))

    return MergeRules(
        table_name,
        text,
        parse_join(text, target, source),
        parsed(When.MATCHED, both),
        parsed(When.NOT_MATCHED_BY_SOURCE, mine),
        parsed(When.NOT_MATCHED, theirs),
        target,
    )


def _narrow(rules: MergeRules, keys: Sequence[KeyValues | None]) -> Node | None:
    """What is true of every row of the table that can be touched; None if that may be any."""
    if rules.missing:
        return None
    terms = [] if rules.join.target_only is None else [rules.join.target_only]
    for (mine, _), values in zip(rules.join.keys, keys, strict=True):
        column = key_column(mine)
        if column is not None and values is not None:
            terms.append(values.among(column))
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
            kept = () if clause.action is Action.INSERT else _fixed(metadata)
            given = {
                name: f"{_quoted(text.source)}.{_quoted(found)}"
                for name, found in named_columns(metadata.schema, source).items()
                if name not in kept
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


def _scan_of(draft: Draft, predicate: Node | None = None) -> ScanOrder:
    handle, names = draft.handle, tuple(draft.metadata.schema.names)
    return ScanOrder(handle.store, handle.name, draft.metadata, handle.options, names, predicate)


def _touched(draft: Draft, narrow: Node | None) -> tuple[frozenset[Bucket], list[AddFile]]:
    """The buckets that were settled first, and the files that the merge looks into."""
    buckets = settle_for(draft, narrow)
    return buckets, [] if narrow == FALSE else list(draft.live(narrow))


def _merge_whole(draft: Draft, rules: MergeRules, source: pa.Table) -> _Outcome:
    """Merge a source that is in memory: every file is joined with all of it."""
    narrow = _narrow(rules, keys_of(rules, source))
    buckets, files = _touched(draft, narrow)
    workload = Workload[AddFile, MergedFile](
        work=lambda prefix: MergeOrder(_scan_of(draft), rules, ChangeOrder.of(draft, "merge", prefix), source).run,
        size=lambda add: add.size,
        made=lambda one: [add.file_path for add in one.changed.files],
        threads=MERGE_THREADS,
    )
    done = [one.of(add) for add, one in zip(files, workload.run(draft, files), strict=True)]
    seen: BitMap64 = BitMap64()
    for one in done:
        seen |= one.matched
    with ChangeWriter(ChangeOrder.of(draft, "merge")) as writer:
        inserted = rules.insert(writer, source, seen)
        new = writer.close()
    counts = MergeCounts(sum(one.updated for one in done), sum(one.deleted for one in done), inserted)
    return _Outcome([one.struck for one in done], [*(one.changed for one in done), new], counts, narrow, buckets)


def _merge_in_parts(draft: Draft, rules: MergeRules, staged: Staged) -> _Outcome:
    """Merge a source that waits in files: rows of both sides go to parts by their keys."""
    handle = draft.handle
    narrow = _narrow(rules, staged.keys)
    buckets, files = _touched(draft, narrow)
    new = NewFiles(handle.store, draft.metadata, handle.name, new_prefix())
    dealing = Dealing.of(draft.metadata, rules, _parts(draft, staged, files))
    change = ChangeOrder.of(draft, "merge", new.prefix)
    job = PartsJob.of(dealing, staged, _scan_of(draft, narrow), files, change)
    assert handle.distribution is not None  # it has staged the source
    done = handle.distribution.merge(job, new)
    hits: dict[int, BitMap64] = {}
    for one in done:
        for number, rows in one.hits.items():
            hits.setdefault(number, BitMap64()).update(rows)
    keyed = KeySpec.of(draft.metadata) is not None
    struck = [] if keyed else [_struck(draft, files[number], rows) for number, rows in sorted(hits.items())]
    totals = [sum(getattr(one, what) for one in done) for what in ("updated", "deleted", "inserted")]
    return _Outcome(struck, [one.changed for one in done], MergeCounts(*totals), narrow, buckets)


def _parts(draft: Draft, staged: Staged, files: Sequence[AddFile]) -> int:
    """So many parts that the source's rows of one fit into a task's memory, and each has not too much to do."""
    options = draft.handle.options
    by_source = staged.size // max(1, options.writer_memory_limit // 8)
    by_target = sum(add.size for add in files) // options.file_target_size
    cluster = draft.handle.distribution
    at_once = 1 if cluster is None else cluster.tasks_at_once
    return min(MOST_PARTS, max(by_source + 1, by_target + 1, at_once))


def _struck(draft: Draft, add: AddFile, hit: BitMap64) -> Struck:
    before = dead_rows(draft.handle.store, add.deletion_vector) or BitMap64()
    rows = add.num_records
    if rows is None:
        at = place(draft.handle.store, add)
        with named(_scan_of(draft)), ParquetFileReader(at.store, at.path) as file:
            rows = file.num_rows
    return Struck(add, rows, before | hit, before)
