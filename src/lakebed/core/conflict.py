"""The conflict rules: may a prepared commit land after commits that it has not seen?

Pure functions on (my commit, the winners), one per row of the design's table. The answer is a value:
None (rebase), ``Recompute`` (match positions or buckets again, keep the data) or ``Conflict``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from lakebed.core.actions import AddFile, FileKey, Metadata, RemoveFile
from lakebed.core.bucketing import overlaps
from lakebed.core.commit import Bucket, Claim, Conflict, Kind, PreparedCommit, Recompute, Winner, partition_key
from lakebed.core.file_tags import bucket_of, is_unsettled
from lakebed.core.keyed import KeySpec, MergeEngine
from lakebed.core.predicate import may_match_files
from lakebed.core.properties import is_mapped
from lakebed.core.schema import Type
from lakebed.core.schema_path import Path, format_path, members
from lakebed.core.widening import can_widen

ROW_CHANGES = frozenset({Kind.DELETE, Kind.UPDATE, Kind.MERGE, Kind.OVERWRITE})
MAINTENANCE = frozenset({Kind.SETTLE, Kind.COMPACT})
BLIND = frozenset({Kind.APPEND, Kind.UPSERT})

Verdict = Conflict | Recompute | None


def check(mine: PreparedCommit, winners: Sequence[Winner], current: Metadata) -> Verdict:
    """Whether ``mine`` may land after ``winners``; ``current`` is the metadata that they left.

    A ``Conflict`` outweighs a ``Recompute``; several ``Recompute`` are united.
    """
    again: Recompute | None = None
    for claim in mine.claims:
        for winner in winners:
            verdict = _check_pair(mine, claim, winner, current)
            if isinstance(verdict, Conflict):
                return verdict
            if verdict is not None:
                again = _unite(again, verdict)
    return again


def _unite(first: Recompute | None, second: Recompute) -> Recompute:
    if first is None:
        return second
    return Recompute(
        second.table_name,
        max(first.version, second.version),
        first.files | second.files,
        first.buckets | second.buckets,
    )


def _check_pair(mine: PreparedCommit, claim: Claim, winner: Winner, current: Metadata) -> Verdict:
    if claim.kind in BLIND:
        return _check_blind(mine, claim, winner, current)
    if claim.kind in MAINTENANCE:
        return _check_maintenance(mine, claim, winner, current)
    if claim.kind in ROW_CHANGES:
        return _check_row_change(mine, claim, winner, current)
    if claim.kind is Kind.ALTER:
        return _check_alter(mine, claim, winner)
    return _conflict(
        mine, claim, winner, f"a {claim.kind} decides the whole table and cannot keep a commit that it has not seen"
    )


def _check_blind(mine: PreparedCommit, claim: Claim, winner: Winner, current: Metadata) -> Verdict:
    """append and upsert: rebase, and match again what was settled; a schema change only if my files still fit."""
    if winner.metadata is not None:
        problem = misfit(_adds(mine), winner.metadata, mine.made_for)
        if problem:
            return _conflict(mine, claim, winner, problem, fix="read the table's new schema and write again")
    # An on-write upsert has put vectors on files: one that has left the table would come back with them.
    lost = _my_keys(mine) & _their_keys(winner)
    touched = _touched_buckets(claim, winner, current) if claim.settles else frozenset()
    if lost or touched:
        return Recompute(mine.table_name, winner.version, files=lost, buckets=touched)
    return None


def _check_maintenance(mine: PreparedCommit, claim: Claim, winner: Winner, current: Metadata) -> Verdict:
    """settle and compact: leave out the buckets or files that somebody else has replaced."""
    lost = _my_keys(mine) & _their_keys(winner)
    if winner.metadata is not None and unreadable(winner.metadata, mine.made_for):
        lost = _my_keys(mine)
    buckets = _touched_buckets(claim, winner, current) if winner.kind not in BLIND else frozenset()
    if lost or buckets:
        return Recompute(mine.table_name, winner.version, files=lost, buckets=buckets)
    return None


def _check_row_change(mine: PreparedCommit, claim: Claim, winner: Winner, current: Metadata) -> Verdict:
    """delete, update, merge, overwrite: only what cannot touch my rows may have come between."""
    if winner.metadata is not None or winner.protocol is not None:
        return _conflict(mine, claim, winner, "it changed the schema or the properties of the table")
    touched = _touched_buckets(claim, winner, current) if claim.settles else frozenset()
    if winner.kind in MAINTENANCE:
        moved = _my_keys(mine) & _their_keys(winner)
        return Recompute(mine.table_name, winner.version, files=moved, buckets=touched) if moved or touched else None
    key = KeySpec.of(current)
    same_files = _my_keys(mine) & _their_keys(winner)
    if same_files and not (key and winner.kind is Kind.UPSERT):
        return _conflict(mine, claim, winner, "it changed rows of the same files")
    fresh = _matching(mine, claim, _fresh(winner), current)
    if fresh:
        return _conflict(mine, claim, winner, f"it added {len(fresh)} file(s) with rows that mine may concern")
    # An upsert has only killed other rows of these files, or its rows depend on those that mine took away.
    upset = key and _depends(key) and _meets(_buckets(key, _removed(mine)), _their_buckets(key, winner))
    if same_files or touched or upset:
        return Recompute(mine.table_name, winner.version, files=same_files, buckets=touched)
    return None


def _depends(key: KeySpec) -> bool:
    """Whether what becomes of an upserted row depends on the row that was there."""
    return bool(key.sequence) or key.engine is not MergeEngine.DEDUPLICATE


def _check_alter(mine: PreparedCommit, claim: Claim, winner: Winner) -> Verdict:
    """A schema change: rebase, except on another one, or on nulls in a column that I made non-null.

    One that changes how rows are merged has settled those that were written for the old rules.
    """
    if winner.metadata is not None or winner.protocol is not None:
        return _conflict(mine, claim, winner, "it changed the schema or the properties too")
    moved = _my_keys(mine) & _their_keys(winner)
    if moved or (claim.settles and any(is_unsettled(add) for add in winner.adds)):
        return Recompute(mine.table_name, winner.version, files=moved)
    for name in claim.not_null:
        if any(_may_hold_null(add, (name,)) for add in winner.adds if add.data_change):
            return _conflict(mine, claim, winner, f"it may have added nulls to column {name!r}")
    return None


def _conflict(mine: PreparedCommit, claim: Claim, winner: Winner, reason: str, fix: str = "") -> Conflict:
    return Conflict(
        table_name=mine.table_name,
        mine=claim.kind,
        version=winner.version,
        theirs=winner.kind,
        reason=reason,
        fix=fix or f"run the {claim.kind} again; it will then see version {winner.version}",
    )


def _adds(mine: PreparedCommit) -> list[AddFile]:
    return [a for a in mine.actions if isinstance(a, AddFile)]


def _removed(mine: PreparedCommit) -> list[RemoveFile]:
    return [a for a in mine.actions if isinstance(a, RemoveFile)]


def _my_keys(mine: PreparedCommit) -> frozenset[FileKey]:
    return frozenset(a.key for a in _removed(mine))


def _their_keys(winner: Winner) -> frozenset[FileKey]:
    return frozenset(a.key for a in winner.removes)


def _touched_buckets(claim: Claim, winner: Winner, current: Metadata) -> frozenset[Bucket]:
    """The buckets of mine in which the winner has changed anything."""
    theirs = _their_buckets(KeySpec.of(current), winner)
    return frozenset(bucket for bucket in claim.buckets if _meets([bucket], theirs))


def _their_buckets(key: KeySpec | None, winner: Winner) -> frozenset[Bucket]:
    if key is None:
        return winner.buckets
    return winner.buckets | _buckets(key, [*winner.adds, *winner.removes])


def _buckets(key: KeySpec, files: Sequence[AddFile | RemoveFile]) -> frozenset[Bucket]:
    return frozenset(key.bucket(file) for file in files if bucket_of(file) is not None)


def _meets(mine: Iterable[Bucket], theirs: Iterable[Bucket]) -> bool:
    return any(place == there and overlaps(a, b) for place, a in mine for there, b in theirs)


def _fresh(winner: Winner) -> list[AddFile]:
    """The files that may hold rows which were not in the table before.

    A file that only got another vector has none, or writers of disjoint keys would conflict; unless a
    restore brought back rows that were dead.
    """
    kept = frozenset() if winner.kind is Kind.RESTORE else frozenset(a.path for a in winner.removes)
    return [a for a in winner.adds if a.data_change and a.path not in kept]


def _matching(mine: PreparedCommit, claim: Claim, adds: Sequence[AddFile], current: Metadata) -> Sequence[AddFile]:
    """Those of ``adds`` that may hold a row which the claim's operation should have seen."""
    if claim.reads_all:
        return adds
    if claim.partitions:
        return [a for a in adds if partition_key(a.partition_values) in claim.partitions]
    if claim.predicate is None:
        return []
    if any(isinstance(a, Metadata) for a in mine.actions):
        return adds  # my own schema change: the predicate's names are not those of their files
    return may_match_files(claim.predicate, adds, mine.made_for or current)


def misfit(adds: Iterable[AddFile], metadata: Metadata, made_for: Metadata | None = None) -> str | None:
    """Why files written for an older schema cannot be read with ``metadata``; None if they can.

    Added, dropped, renamed and widened columns are fine: files are matched by physical names. What cannot be
    is another partitioning, a type that my values do not have, a column that became non-null while my
    file holds a null in it, or one that a restore took away without a column mapping: a later column
    of that name would have the same physical one.
    """
    partitioned = {f.physical_name for f in metadata.partition_schema}
    retyped = unreadable(metadata, made_for)
    taken = None if is_mapped(metadata.configuration) or made_for is None else _taken(made_for.schema, metadata.schema)
    required = list(_tightened(made_for.schema if made_for else None, metadata.schema))
    for add in adds:
        if set(add.partition_values) != partitioned:
            return "it changed the partitioning of the table"
        if retyped is not None:
            return f"it gave column {retyped!r} another type than that of my files"
        if taken is not None:
            return f"it took away column {taken!r}, whose values in my files a new column of that name would show"
        for name, place in required:
            if _may_hold_null(add, place):
                return f"it made column {name!r} non-null, and a file of mine may hold nulls in it"
    return None


def unreadable(metadata: Metadata, made_for: Metadata | None) -> str | None:
    """The first column whose values, as ``made_for`` has them, do not all fit the type it has now."""
    return None if made_for is None else _unreadable(made_for.schema, metadata.schema)


def _unreadable(before: Type, after: Type, path: Path = ()) -> str | None:
    if not members(before) or type(before) is not type(after):
        return None if before == after or can_widen(before, after) else format_path(path)
    old = {f.physical_name: f.type for f in members(before)}
    for f in members(after):
        if f.physical_name in old:
            found = _unreadable(old[f.physical_name], f.type, (*path, f.name))
            if found is not None:
                return found
    return None


def _taken(before: Type, after: Type, path: Path = ()) -> str | None:
    """The first column that is not there any more."""
    now = {f.physical_name: f.type for f in members(after)}
    for f in members(before):
        here = (*path, f.name)
        found = _taken(f.type, now[f.physical_name], here) if f.physical_name in now else format_path(here)
        if found is not None:
            return found
    return None


def _tightened(before: Type | None, after: Type, path: Path = (), place: Path = ()) -> Iterator[tuple[str, Path]]:
    """The name and the physical path of every column that must not be null now, but could be before."""
    old = {f.physical_name: f for f in members(before)} if before is not None else {}
    for f in members(after):
        was = old.get(f.physical_name)
        name, here = (*path, f.name), (*place, f.physical_name)
        if not f.nullable and (was is None or was.nullable):
            yield format_path(name), here
        if was is not None:
            yield from _tightened(was.type, f.type, name, here)


def _may_hold_null(add: AddFile, place: Path) -> bool:
    if place[0] in add.partition_values:
        return add.partition_values[place[0]] in (None, "")
    if add.num_records == 0:
        return False
    found: Any = json.loads(add.stats).get("nullCount") if add.stats else None
    for name in place:
        found = found.get(name) if isinstance(found, dict) else None
    return bool(found != 0)
