"""The commit: one SQL transaction over all its tables, which either all move on or all stay."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from functools import partial

from sqlalchemy import Connection, bindparam, false, func, select
from sqlalchemy.exc import IntegrityError

from lakebed.core.actions import AddFile, Protocol, RemoveFile, SetTransaction, now_ms, to_lines
from lakebed.core.commit import (
    Bucket,
    CommitOutcome,
    Committed,
    Conflict,
    Kind,
    Landed,
    PreparedCommit,
    Recompute,
    Winner,
    finalise,
)
from lakebed.core.conflict import BLIND, MAINTENANCE, check
from lakebed.core.errors import CommitError, CommitUnknownError, InputError, NotFoundError
from lakebed.core.steps import Step, reach
from lakebed.core.unsettled import to_log
from lakebed.metastore import schema
from lakebed.metastore.cache import Cache
from lakebed.metastore.changes import load_winners
from lakebed.metastore.condemned import first_condemned
from lakebed.metastore.landing import AlreadyLiveError, Landing, NotLiveError, of_kind, store
from lakebed.metastore.lookup import one_of
from lakebed.metastore.part import Head, Part, head_of
from lakebed.metastore.states import version_of

_RACES = 20
_VERSIONS = schema.versions.c
# Whether the open log has the head. A head that was waited for may be too new to be seen here: then it has not.
_PUBLISHED = (
    select(_VERSIONS.body.is_(None))
    .where(_VERSIONS.table_num == schema.tables.c.num, _VERSIONS.version == schema.tables.c.version)
    .scalar_subquery()
)
_LOCKED = (
    select(schema.tables, func.coalesce(_PUBLISHED, false()).label("published"))
    .where(one_of(schema.tables.c.id, "ids"))
    .order_by(schema.tables.c.id)
    .with_for_update(of=schema.tables)
)
_APPLIED = schema.transactions.c


class _RefusedError(Exception):
    """Carries a verdict out of the transaction, which is thereby rolled back."""

    def __init__(self, outcome: Conflict | Recompute | Landed) -> None:
        super().__init__()
        self.outcome = outcome


class Commits(Part):
    """The part of the metastore that decides which commits land."""

    def commit(self, prepared: Sequence[PreparedCommit]) -> CommitOutcome:
        """Let all of ``prepared`` land together, each as the next version of its table, or none of them.

        Raises NotFoundError for a table that has been dropped, CommitUnknownError if the connection was lost
        for good while committing, and MetastoreError if the database cannot be used; only after
        CommitUnknownError may anything have landed.
        """
        _check_tables(prepared)
        what = ", ".join(f"{p.commit_id} of table {p.table_name}" for p in prepared)
        attempt = partial(self._attempt, prepared=prepared, careful=False)
        for race in range(_RACES):
            try:
                landed = self._database.write(
                    attempt, landed=lambda connection: _find(connection, prepared), what=f"commit {what}"
                )
            except _RefusedError as refused:
                return refused.outcome
            except IntegrityError:
                # The primary key gave the version to somebody else, or a file is there already: look closely now.
                attempt = partial(self._attempt, prepared=prepared, careful=True)
                time.sleep(random.uniform(0, min(0.5, 0.005 * 2**race)))
                continue
            reach(Step.COMMIT_DONE)
            return landed
        raise CommitError(
            f"commit {what} lost {_RACES} races for its version", fix="nothing was changed; try again later"
        )

    def has_landed(self, prepared: Sequence[PreparedCommit]) -> bool:
        """Whether a commit that was interrupted has landed; waits for one that is still under way.

        Raises CommitUnknownError if the table is gone and cannot tell, MetastoreError if nobody can be asked.
        """
        return self._database.write(lambda connection: _find(connection, prepared)) is not None

    def _attempt(self, connection: Connection, prepared: Sequence[PreparedCommit], *, careful: bool) -> Landed:
        heads = lock_heads(connection, [p.table_id for p in prepared])
        for mine in prepared:
            if mine.table_id not in heads:
                raise NotFoundError(
                    f"table {mine.table_name} is gone", fix="it was dropped meanwhile; nothing was changed"
                )
        reach(Step.COMMIT_BEGUN)
        if careful and (earlier := _landed(connection, heads, prepared)) is not None:
            raise _RefusedError(earlier)
        _refuse_repeated(connection, heads, prepared)
        for mine in prepared:
            _refuse_conflicting(connection, self._cache, heads[mine.table_id], mine)
        done = tuple(land(connection, self._cache, heads[mine.table_id], mine, careful=careful) for mine in prepared)
        reach(Step.COMMIT_INSERTED)
        return Landed(done)


def _check_tables(prepared: Sequence[PreparedCommit]) -> None:
    if not prepared:
        raise InputError("a commit needs at least one table")
    ids = [p.table_id for p in prepared]
    if len(set(ids)) != len(ids):
        raise InputError("a commit has one share per table", found=", ".join(p.table_name for p in prepared))


def lock_heads(connection: Connection, table_ids: Sequence[str]) -> dict[str, Head]:
    """The rows of these tables, locked one after the other in the order of their ids, so that no two commits
    wait for each other. SQLite's write transaction holds them anyway."""
    heads = (head_of(row) for row in connection.execute(_LOCKED, {"ids": table_ids}).mappings())
    return {head.table_id: head for head in heads}


def _find(connection: Connection, prepared: Sequence[PreparedCommit]) -> Landed | None:
    """Whether the commit has landed. The locks wait for a COMMIT that is still under way to end."""
    heads = lock_heads(connection, [p.table_id for p in prepared])
    found = _landed(connection, heads, prepared)
    if found is not None:
        return found
    for mine in prepared:
        head = heads.get(mine.table_id)
        if head is None or _has_expired(connection, head, mine.read_version):
            since = "the table dropped since" if head is None else "later versions have expired since"
            raise CommitUnknownError(
                f"commit {mine.commit_id} of table {mine.table_name} was interrupted, and {since};"
                " it may have landed before, so no file of it may be deleted",
                fix="look for this commit id in the table's log",
            )
    return None


def _has_expired(connection: Connection, head: Head, after: int) -> bool:
    """Whether a version after ``after`` is not known any more."""
    later = select(func.count()).where(_VERSIONS.table_num == head.num, _VERSIONS.version > after)
    return int(connection.execute(later).scalar_one()) < head.version - after


def _landed(connection: Connection, heads: dict[str, Head], prepared: Sequence[PreparedCommit]) -> Landed | None:
    found = [_committed(connection, heads.get(mine.table_id), mine) for mine in prepared]
    if not any(found):
        return None
    # A table that was dropped since cannot tell its version any more, but it landed with the others.
    return Landed(
        tuple(
            done or Committed(mine.table_id, mine.read_version + 1, 0, mine.commit_id)
            for done, mine in zip(found, prepared, strict=True)
        )
    )


def _committed(connection: Connection, head: Head | None, mine: PreparedCommit) -> Committed | None:
    version = None if head is None else version_of(connection, head.num, mine.commit_id)
    if head is None or version is None:
        return None
    return Committed(mine.table_id, version, _timestamp(connection, head, version), mine.commit_id)


def _timestamp(connection: Connection, head: Head, version: int) -> int:
    query = select(_VERSIONS.timestamp).where(_VERSIONS.table_num == head.num, _VERSIONS.version == version)
    return int(connection.execute(query).scalar_one())


_REACHED = (
    select(
        _APPLIED.app_id,
        _APPLIED.app_version,
        _APPLIED.committed_version,
        # The version itself may have expired.
        func.coalesce(_VERSIONS.timestamp, _APPLIED.last_updated, 0),
        func.coalesce(_VERSIONS.commit_id, ""),
    )
    .select_from(schema.transactions)
    .outerjoin(
        schema.versions,
        (_VERSIONS.table_num == _APPLIED.table_num) & (_VERSIONS.version == _APPLIED.committed_version),
    )
    .where(
        _APPLIED.table_num == bindparam("num"),
        one_of(_APPLIED.app_id, "app_ids"),
    )
    .order_by(_APPLIED.committed_version)
)


def _refuse_repeated(connection: Connection, heads: dict[str, Head], prepared: Sequence[PreparedCommit]) -> None:
    """An application's transaction that has been reached before adds nothing, to no table of the commit.

    Where others of the commit have not been reached, that would lose their rows: it is a conflict.
    """
    reached: dict[str, Committed] = {}
    fresh: list[tuple[PreparedCommit, SetTransaction]] = []
    for mine in prepared:
        wanted = {txn.app_id: txn for txn in of_kind(mine.actions, SetTransaction)}
        if not wanted:
            continue
        found = connection.execute(_REACHED, {"num": heads[mine.table_id].num, "app_ids": list(wanted)})
        rows = {row.app_id: row for row in reversed(found.all()) if row.app_version >= wanted[row.app_id].version}
        for app, txn in wanted.items():
            if app in rows:
                _, _, version, timestamp, commit_id = rows[app]
                reached[mine.table_id] = Committed(mine.table_id, version, timestamp, commit_id, repeated=True)
            else:
                fresh.append((mine, txn))
    if reached and fresh:
        mine, txn = fresh[0]
        reason = f"({txn.app_id!r}, {txn.version}) has not been written before, but another txn= of the commit has"
        raise _RefusedError(_conflict(connection, heads[mine.table_id], mine, reason, _TXN_FIX))
    if reached:
        raise _RefusedError(Landed(tuple(reached.get(p.table_id) or _unmoved(heads[p.table_id], p) for p in prepared)))


_TXN_FIX = "write what is new with a commit of its own"


def _unmoved(head: Head, mine: PreparedCommit) -> Committed:
    """A table of a repeated commit that keeps no transaction of its own: it simply stays where it is."""
    return Committed(mine.table_id, head.version, head.timestamp, mine.commit_id, repeated=True)


def _refuse_conflicting(connection: Connection, cache: Cache, head: Head, mine: PreparedCommit) -> None:
    if head.version == mine.read_version:
        return
    if head.version < mine.read_version:
        raise _RefusedError(
            _conflict(connection, head, mine, f"version {mine.read_version}, which mine was made from, is gone")
        )
    # append and upsert do not care for the files of others, so a hot table's writers need not load them; unless
    # they have put vectors on files that somebody else may have replaced.
    blind = all(claim.kind in BLIND and not claim.settles for claim in mine.claims)
    with_files = not blind or bool(of_kind(mine.actions, RemoveFile))
    winners = load_winners(connection, head.num, mine.read_version, head.version, with_files=with_files)
    current, _ = cache.schema(connection, head.num, head.schema_version)
    if with_files and _has_expired(connection, head, mine.read_version - 1):
        # With the version that mine was made from, what its successors took away from it is forgotten.
        raise _RefusedError(_unseen(connection, head, mine))
    if len(winners) < head.version - mine.read_version:
        # What expired versions wrote does not matter to mine; how they left the schema does.
        winners.append(Winner(head.version, Kind.ALTER, metadata=current))
    verdict = check(mine, winners, current)
    if verdict is not None:
        raise _RefusedError(verdict)


def _unseen(connection: Connection, head: Head, mine: PreparedCommit) -> Conflict | Recompute:
    """The verdict on a commit that cannot be compared with what landed meanwhile, since that has expired."""
    if all(claim.kind in BLIND | MAINTENANCE for claim in mine.claims):
        files = frozenset(remove.key for remove in of_kind(mine.actions, RemoveFile))
        return Recompute(mine.table_name, head.version, files, _buckets(mine))
    reason = f"versions from {mine.read_version} on, which mine was made from, have expired: nobody can compare them"
    return _conflict(connection, head, mine, reason)


def _buckets(mine: PreparedCommit) -> frozenset[Bucket]:
    return frozenset[Bucket]().union(*(claim.buckets for claim in mine.claims))


def land(connection: Connection, cache: Cache, head: Head, mine: PreparedCommit, *, careful: bool) -> Committed:
    """Store one table's share as the version after ``head``, whose row is locked."""
    final = finalise(
        mine,
        version=head.version + 1,
        timestamp=max(now_ms(), head.timestamp + 1),
        next_row_id=head.next_row_id,
        row_tracking=_tracks_rows(connection, cache, head, mine),
    )
    landing = Landing(
        final=final,
        commit_id=mine.commit_id,
        kind=mine.kind,
        buckets=_buckets(mine),
        body=to_lines(to_log(final.actions)),
    )
    if head.condemned and (gone := first_condemned(connection, head.num, of_kind(final.actions, AddFile))) is not None:
        reason = f"vacuum has deleted file {gone} that this commit adds; it was older than the retention"
        fix = f"run the {mine.kind} again; if it takes that long, vacuum with a longer retention"
        raise _RefusedError(_conflict(connection, head, mine, reason, fix))
    try:
        store(connection, cache, head, landing, careful=careful)
    except NotLiveError as error:
        reason = f"file {error.path}, which mine replaces or removes, is not part of the table any more"
        raise _RefusedError(_conflict(connection, head, mine, reason)) from error
    except AlreadyLiveError as error:
        reason = f"file {error.path}, which mine adds, is part of the table already"
        raise _RefusedError(_conflict(connection, head, mine, reason)) from error
    body = landing.body if head.published else None
    return Committed(mine.table_id, final.version, final.timestamp, mine.commit_id, body=body)


def _tracks_rows(connection: Connection, cache: Cache, head: Head, mine: PreparedCommit) -> bool:
    protocols: list[Protocol] = of_kind(mine.actions, Protocol)
    protocol = protocols[-1] if protocols else cache.schema(connection, head.num, head.schema_version)[1]
    return "rowTracking" in (protocol.writer_features or ())


def _conflict(connection: Connection, head: Head, mine: PreparedCommit, reason: str, fix: str = "") -> Conflict:
    query = select(_VERSIONS.kind).where(_VERSIONS.table_num == head.num, _VERSIONS.version == head.version)
    theirs = connection.execute(query).scalar() or Kind.CREATE
    return Conflict(
        table_name=mine.table_name,
        mine=mine.kind,
        version=head.version,
        theirs=Kind(theirs),
        reason=reason,
        fix=fix or f"run the {mine.kind} again; it will then see version {head.version}",
    )
