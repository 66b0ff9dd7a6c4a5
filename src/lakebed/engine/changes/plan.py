"""Planning a read of changes: which units have to be looked at, at which versions."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace

import polars as pl
import pyarrow as pa

from lakebed.core.actions import AddFile, Metadata
from lakebed.core.change_rows import ALL, INSERT, SKIP_MERGE, SNAPSHOT
from lakebed.core.commit import Kind
from lakebed.core.keyed import KeySpec
from lakebed.core.schema_delta import to_schema_string
from lakebed.core.widening import as_wide_as
from lakebed.engine.changes.difference import UnitState
from lakebed.engine.changes.members import Members
from lakebed.engine.changes.span import Span
from lakebed.engine.changes.step import ChangeOrder, Label, RawStep, Step
from lakebed.engine.changes.walk import Walk
from lakebed.engine.draft import Handle
from lakebed.metastore import FileSet, TableState, VersionRecord

_LONG = 1000
"""A range of more versions is worth a word."""
_STATE = ("path", "dv_storage_type", "dv_path_or_inline_dv", "dv_start", "unsettled")
"""The columns that tell one state of a file from another."""
_log = logging.getLogger(__name__)


def plan_changes(handle: Handle, span: Span, order: ChangeOrder) -> Sequence[Step | RawStep]:
    """The work that a read of changes is. Raises NotFoundError if versions of the range have expired."""
    net = span.expired or order.mode not in (ALL, SKIP_MERGE)
    found = list(_net(handle, span, order) if net else Walk(handle, span, order).steps())
    if len(span.versions) > _LONG:
        _log.warning(
            "table %s: the changes %s are a long history: %d versions, %d pieces of work, about %d bytes to look at",
            handle.name,
            span,
            len(span.versions),
            len(found),
            sum(step.size for step in found),
        )
    return found


def or_snapshot(handle: Handle, span: Span, mode: str) -> Span:
    """The range, or a whole snapshot of its end in its place if versions have expired that the mode looks at."""
    needed = needed_versions(span, mode)
    if not span.expired and len(needed) > 2 and min(needed) < handle.metastore.begins(handle.table_id):
        span = Span(None, span.end, span.end, expired=True)
    if span.expired:
        _log.warning(
            "table %s: changes that were asked for have expired; all rows of version %d come instead",
            handle.name,
            span.end,
        )
    return span


def needed_versions(span: Span, mode: str) -> Collection[int]:
    """The versions whose files are read."""
    begin = span.first if span.start is None else span.start
    if mode in (ALL, SKIP_MERGE):
        return range(begin, span.end + 1)
    return {span.end} if span.start is None else {begin, span.end}


def seen_by(handle: Handle, span: Span, mode: str, known: Iterable[VersionRecord]) -> Metadata:
    """What the range's rows are seen with: as its end is, but if a column was wider in the range, before a restore, it
    is so here. ``known``: the versions of the range.

    Raises NotFoundError if versions of the range have expired.
    """
    metastore, table_id = handle.metastore, handle.table_id
    metadata = metastore.state(table_id, span.end).metadata
    if span.expired:
        return metadata
    needed = needed_versions(span, mode)
    # Columns only become wider, but for restores.
    restored = [record.version for record in known if record.kind is Kind.RESTORE]
    before = {version - 1 for version in restored} | ({min(needed)} if restored else set())
    schema = metadata.schema
    for version in sorted(before.intersection(needed)):
        schema = as_wide_as(schema, metastore.state(table_id, version).metadata.schema)
    if schema == metadata.schema:
        return metadata
    return replace(metadata, schema_string=to_schema_string(schema))


def _net(handle: Handle, span: Span, order: ChangeOrder) -> Iterator[Step]:
    """From the first state to the last, whatever was between them."""
    metastore, table_id = handle.metastore, handle.table_id
    last = metastore.state(table_id, span.end)
    key = KeySpec.of(last.metadata)
    if span.start is None:
        # What is older than all that is left counts for the first that is.
        label = Label(span.first, own=not span.expired, oldest=span.first, newest=span.end)
        files = list(metastore.files(table_id, span.end).adds())
        yield from _whole(order, last, Members.of(files, key), label, SNAPSHOT if span.expired else INSERT)
        return
    first = metastore.state(table_id, span.start)
    before, after = _touched(metastore.files(table_id, span.start), metastore.files(table_id, span.end), key)
    members = Members.of([*before, *after], key)
    old, new = members.by_unit(before), members.by_unit(after)
    for unit in members.units:
        yield Step(
            order,
            unit,
            UnitState(first.metadata, tuple(old.get(unit, ())), first.next_row_id),
            UnitState(last.metadata, tuple(new.get(unit, ())), last.next_row_id),
            Label(span.end, own=True, oldest=span.first, newest=span.end),
        )


def _whole(order: ChangeOrder, state: TableState, members: Members, label: Label, name: str) -> Iterator[Step]:
    """All rows of a state, as if there had been none before."""
    for unit, files in members.by_unit(members.files).items():
        after = UnitState(state.metadata, tuple(files), state.next_row_id)
        yield Step(order, unit, UnitState(state.metadata, (), 0), after, label, name)


def _touched(old: FileSet, new: FileSet, key: KeySpec | None) -> tuple[list[AddFile], list[AddFile]]:
    """The files that differ; of a key table also those that may share a unit with one that does."""
    before, after = (_frame(files.data) for files in (old, new))
    gone, come = (
        one.join(other, on=_STATE, how="anti", nulls_equal=True) for one, other in ((before, after), (after, before))
    )
    if key is None:
        return _chosen(old, gone), _chosen(new, come)
    by = [] if key.spans_partitions else ["partition_id"]
    if isinstance(key.buckets, int):
        by.append("bucket")
    changed = pl.concat([gone, come])
    if not changed.height or not by:
        return (list(old.adds()), list(new.adds())) if changed.height else ([], [])
    found = (frame.join(changed, on=by, how="semi") for frame in (before, after))
    return _chosen(old, next(found)), _chosen(new, next(found))


def _frame(data: pa.Table) -> pl.DataFrame:
    frame = pl.from_arrow(data.select([*_STATE, "partition_id", "bucket"]))
    assert isinstance(frame, pl.DataFrame)
    return frame.with_row_index("at")


def _chosen(files: FileSet, rows: pl.DataFrame) -> list[AddFile]:
    chosen = FileSet(files.table_id, files.version, files.data.take(rows["at"].to_arrow()), files.partitions)
    return list(chosen.adds())
