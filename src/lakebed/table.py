"""The table object: every call reads or makes a version of it."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import date, datetime, timedelta
from itertools import count
from typing import Any, TypeVar

from lakebed.changes import ChangesReadable
from lakebed.core.actions import now_ms
from lakebed.core.commit import Claim, Committed, Kind, Recompute
from lakebed.core.errors import CommitUnknownError, ConflictError, FileMissingError, InputError, NotFoundError
from lakebed.core.instant import to_duration_ms, to_millis
from lakebed.core.predicate import Node, parse
from lakebed.engine.compact_after import look_after
from lakebed.engine.draft import Draft, Handle
from lakebed.engine.expire import expire
from lakebed.engine.land import cleaned_is_conflict, land
from lakebed.engine.lease import Lease
from lakebed.engine.load_files import LOADED
from lakebed.engine.maintain import Maintained, compact, settle, settled_on_read
from lakebed.engine.point import ReadPoint, StoredPoint
from lakebed.engine.publication import checkpoint, publish_versions
from lakebed.engine.restore import restore
from lakebed.engine.vacuum import vacuum
from lakebed.metastore import TableState, VersionRecord
from lakebed.records import Commit, Expired, Maintenance, Tag, Vacuumed, check_whole, moment, numbers
from lakebed.streaming import StreamWritable
from lakebed.view import TableView
from lakebed.writable import Writable

Moment = str | int | datetime | date
Result = TypeVar("Result")
_RACES = 12
"""How often work on the newest version is begun again when that version has expired meanwhile."""


class Table(Writable[Commit], ChangesReadable, StreamWritable):
    """A table of the warehouse; get one from ``lake.table(name)``. Reads see the newest version at the time."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle
        self._name = handle.name
        self._store = handle.store
        self._options = handle.options
        self._distribution = handle.distribution

    def __repr__(self) -> str:
        return f"<lakebed table {self.name}>"

    @property
    def location(self) -> str:
        """The URI of the table's directory."""
        return self._store.location.uri

    def _point(self) -> ReadPoint:
        return StoredPoint(self._handle, self._state())

    def _read_point(self) -> ReadPoint:
        return StoredPoint(self._handle, settled_on_read(self._handle, self._state()))

    def _leased(self) -> tuple[ReadPoint, Lease | None]:
        return self._newest(lambda point: (point, point.lease()))

    def _read(self, work: Callable[[ReadPoint], Result]) -> Result:
        """No lease: mostly nobody takes away the newest version's files. Where somebody has, a newer one is read."""
        point = self._read_point()
        try:
            return work(point)
        except (FileMissingError, NotFoundError) as error:
            if not self._overtaken(point.version, error):
                raise
        return super()._read(work)

    def _newest(self, work: Callable[[ReadPoint], Result]) -> Result:
        """What ``work`` makes of the newest version, whose successor may come, and which may expire, meanwhile."""
        for _ in range(_RACES):
            point = self._read_point()
            try:
                return work(point)
            except NotFoundError as error:
                if not self._overtaken(point.version, error):
                    raise
        return work(self._point())

    def _overtaken(self, version: int, error: BaseException) -> bool:
        """Whether something was not found since the version that it was looked for in is not the newest any more."""
        missing = isinstance(error, FileMissingError | NotFoundError)
        return missing and self._handle.metastore.head(self._handle.table_id) != version

    def _state(self, version: int | None = None) -> TableState:
        return self._handle.metastore.state(self._handle.table_id, version)

    def _change(self, operation: Callable[[Draft], object], *, repeatable: bool = True) -> Commit:
        attempts = self._options.commit_retries + 1 if repeatable else 1
        for attempt in range(attempts):
            draft = Draft(self._handle, self._state(), alone=True)
            try:
                draft.refuse_if_unwritable()
                with cleaned_is_conflict(draft):
                    operation(draft)
            except BaseException as error:
                draft.discard()
                if attempt + 1 == attempts or not self._overtaken(draft.base.version, error):
                    raise
                continue
            done = land([draft])
            if not isinstance(done, Recompute):
                return self._earlier(draft, done[0]) if done[0].repeated else self._landed(draft, done[0])
            time.sleep(random.uniform(0, min(1.0, 0.01 * 2**attempt)))
        raise ConflictError(
            f"table {self.name}: maintenance has replaced files that this change was prepared with",
            fix=f"nothing was changed after {attempts} attempt(s); run it again",
        )

    def _earlier(self, draft: Draft, done: Committed) -> Commit:
        """The commit that an application's transaction had landed as before; of an expired one little is known."""
        found = self._handle.metastore.history(self._handle.table_id, start=done.version, end=done.version)
        kind = draft.claims[-1].kind
        expired = VersionRecord(done.version, done.timestamp, kind, done.commit_id, {}, published=True)
        return self._as_commit(found[0] if found else expired, repeated=True)

    def _landed(self, draft: Draft, done: Committed) -> Commit:
        look_after(draft)
        kind = draft.claims[-1].kind
        return self._as_commit(
            VersionRecord(done.version, done.timestamp, kind, done.commit_id, draft.info, draft.published)
        )

    def _as_commit(self, record: Any, *, repeated: bool = False) -> Commit:
        return Commit(
            table=self.name,
            version=record.version,
            timestamp=moment(record.timestamp),
            operation=record.kind.value,
            commit_id=record.commit_id,
            parameters=record.info.get("operationParameters", {}),
            metrics=numbers(record.info.get("operationMetrics", {})),
            published=record.published,
            repeated=repeated,
        )

    def history(self, limit: int | None = None) -> list[Commit]:
        """The versions, newest first.

        >>> import lakebed, tempfile
        >>> lake = lakebed.connect(tempfile.mkdtemp())
        >>> t = lake.create_table("n", "n BIGINT")
        >>> _ = t.append([{"n": 1}])
        >>> [(c.version, c.operation) for c in t.history()]
        [(1, 'append'), (0, 'create')]
        """
        if limit is not None:
            check_whole(limit, "limit=")
        return [self._as_commit(r) for r in self._handle.metastore.history(self._handle.table_id, limit=limit)]

    def at(self, *, version: int | None = None, timestamp: Moment | None = None, tag: str | None = None) -> TableView:
        """The table as it was: at a version, at a time, or at a tag. Raises NotFoundError, naming what there is.

        >>> import lakebed, tempfile
        >>> lake = lakebed.connect(tempfile.mkdtemp())
        >>> t = lake.create_table("n", "n BIGINT")
        >>> _ = t.append([{"n": 1}])
        >>> _ = t.append([{"n": 2}])
        >>> t.at(version=1).to_arrow()["n"].to_pylist()
        [1]
        """
        state = self._state(self._resolve(version, timestamp, tag))
        point = StoredPoint(self._handle, state)
        return TableView(self.name, point, self._store, self._options, self._distribution)

    def _resolve(self, version: Any, timestamp: Moment | None, tag: str | None) -> int:
        given = {"version": version, "timestamp": timestamp, "tag": tag}
        named = [f"{name}=" for name, value in given.items() if value is not None]
        if len(named) != 1:
            raise InputError(
                f"table {self.name}: say which version",
                expected="one of version=, timestamp=, tag=",
                found=" and ".join(named) or "none of them",
            )
        if version is not None:
            return check_whole(version, "a version")
        if timestamp is not None:
            return self._handle.metastore.version_at(self._handle.table_id, to_millis(timestamp))
        return self._handle.metastore.tag(self._handle.table_id, str(tag)).version

    def restore(self, version: int | None = None, *, timestamp: Moment | None = None, tag: str | None = None) -> Commit:
        """Make the table what it was, as a new version: rows, schema and properties.

        >>> import lakebed, tempfile
        >>> lake = lakebed.connect(tempfile.mkdtemp())
        >>> t = lake.create_table("n", "n BIGINT")
        >>> _ = t.append([{"n": 1}])
        >>> _ = t.delete("true")
        >>> _ = t.restore(version=1)
        >>> t.to_arrow()["n"].to_pylist()
        [1]
        """
        target = self._state(self._resolve(version, timestamp, tag))
        return self._change(lambda draft: restore(draft, target), repeatable=False)

    def settle(self, where: Any = None) -> Maintenance:
        """Match the keys of all upserts that have not been matched yet, and keep the result: no reader needs to again.

        ``where``, a predicate on partition columns, limits it to some partitions. Writers go on meanwhile; what they
        change is left for the next time.

        >>> import lakebed, tempfile
        >>> lake = lakebed.connect(tempfile.mkdtemp())
        >>> t = lake.create_table("n", "n BIGINT", primary_key=["n"], buckets=2, merge="on-read")
        >>> _ = t.upsert([{"n": n} for n in range(10)])
        >>> t.settle().buckets, t.settle().version
        (2, None)
        """
        return self._maintain("settle", lambda draft: settle(draft, self._predicate(draft, where)))

    def compact(self, where: Any = None, *, full: bool = False) -> Maintenance:
        """Pack small files and drop dead rows; no row changes, and each keeps the version that last changed it.

        By default only where it pays (properties ``compaction-small-files`` and ``compaction-dead-ratio``); ``full``
        rewrites whatever is not one good file already. ``where``, a predicate on partition columns, limits it to some
        partitions. Upserts are settled first. Writers go on meanwhile; a bucket that they change is reported as
        skipped.

        >>> import lakebed, tempfile
        >>> lake = lakebed.connect(tempfile.mkdtemp())
        >>> t = lake.create_table("n", "n BIGINT")
        >>> for n in range(6):
        ...     _ = t.append([{"n": n}])
        >>> _ = t.compact()
        >>> t.files().num_rows, t.count()
        (1, 6)
        """
        settled = self.settle(where)
        packed = self._maintain("compact", lambda draft: compact(draft, self._predicate(draft, where), full=full))
        skipped = tuple(sorted({*settled.skipped, *packed.skipped}))
        version = settled.version if packed.version is None else packed.version
        return replace(packed, version=version, skipped=skipped)

    def _keep_up(self) -> None:
        """Settle and compact where it pays, beside a stream."""
        self.settle()
        self.compact()

    def _predicate(self, draft: Draft, where: Any) -> Node | None:
        return None if where is None else parse(where, draft.metadata.schema)

    def _maintain(self, operation: str, run: Callable[[Draft], Maintained]) -> Maintenance:
        draft, outcome = self._maintained(run)
        done = outcome.committed
        return Maintenance(
            table=self.name,
            operation=operation,
            version=None if done is None else done.version,
            buckets=len(outcome.done),
            skipped=tuple(sorted(str(unit) for unit in outcome.lost)),
            metrics=numbers(draft.info["operationMetrics"]) if done is not None else {},
        )

    def _maintained(self, run: Callable[[Draft], Maintained]) -> tuple[Draft, Maintained]:
        for attempt in count(1):
            draft = Draft(self._handle, self._state())
            try:
                draft.refuse_if_unwritable()
                with cleaned_is_conflict(draft):
                    return draft, run(draft)
            except CommitUnknownError:
                raise
            except BaseException as error:
                draft.discard()
                if attempt > _RACES or not self._overtaken(draft.base.version, error):
                    raise
        raise AssertionError("the loop above does not end")

    def tag(self, name: str, version: int | None = None, retain: str | int | timedelta | None = None) -> Tag:
        """Name a version (the newest by default), and keep it for ``retain`` (like ``"30 days"``) or for ever.

        >>> import lakebed, tempfile
        >>> lake = lakebed.connect(tempfile.mkdtemp())
        >>> t = lake.create_table("n", "n BIGINT")
        >>> t.tag("empty").version
        0
        >>> _ = t.append([{"n": 1}])
        >>> t.at(tag="empty").count()
        0
        """
        chosen = self._state(None if version is None else check_whole(version, "a version")).version
        until = None if retain is None else now_ms() + to_duration_ms(retain)
        self._handle.metastore.create_tag(self._handle.table_id, name, chosen, until)
        return next(tag for tag in self.tags() if tag.name == name)

    def tags(self) -> list[Tag]:
        """All tags of the table, by version.

        >>> import lakebed, tempfile
        >>> t = lakebed.connect(tempfile.mkdtemp()).create_table("n", "n BIGINT")
        >>> _ = t.tag("start")
        >>> [(tag.name, tag.version) for tag in t.tags()]
        [('start', 0)]
        """
        found = self._handle.metastore.tags(self._handle.table_id)
        return [
            Tag(t.name, t.version, moment(t.created), None if t.retain_until is None else moment(t.retain_until))
            for t in found
        ]

    def delete_tag(self, name: str) -> None:
        """Forget a tag; its version stays.

        >>> import lakebed, tempfile
        >>> t = lakebed.connect(tempfile.mkdtemp()).create_table("n", "n BIGINT")
        >>> _ = t.tag("start"); t.delete_tag("start"); t.tags()
        []
        """
        self._handle.metastore.delete_tag(self._handle.table_id, name)

    def expire(self, retain: str | int | timedelta) -> Expired:
        """Forget the versions that were replaced more than ``retain`` (like ``"7 days"``) ago.

        The table stays readable as of any instant since then. The newest version stays, and so do those that tags
        name and those that are being read; a tag whose own time has passed goes with its version. The open log then
        begins with the oldest version from which on all are left. Files stay until ``vacuum``.

        >>> import lakebed, tempfile
        >>> t = lakebed.connect(tempfile.mkdtemp()).create_table("n", "n BIGINT")
        >>> _ = t.append([{"n": 1}]); _ = t.append([{"n": 2}])
        >>> t.expire("7 days").versions, t.expire("0 days").versions
        (0, 2)
        >>> t.at(version=1)
        Traceback (most recent call last):
        lakebed.core.errors.NotFoundError: table default.n has no version 1 any more: it has expired; expected ...
        """
        versions = expire(self._handle, now_ms() - to_duration_ms(retain))
        return Expired(self.name, versions, self._handle.metastore.begins(self._handle.table_id))

    def vacuum(self, retain: str | int | timedelta = "7 days", dry_run: bool = False) -> Vacuumed:
        """``expire(retain)``, then delete the files that no version needs any more, and what killed writers left.

        With ``dry_run`` nothing is changed, and the result says what would be removed. A file that no version has is
        a running writer's if it is younger than ``retain``: a write that takes longer fails with a ConflictError.
        Nothing is deleted that a version, a tag or a running reader needs, nor what others keep in the table's
        directory: names that begin with ``_`` or ``.``, and files that are not a table's.

        >>> import lakebed, tempfile
        >>> t = lakebed.connect(tempfile.mkdtemp()).create_table("n", "n BIGINT")
        >>> _ = t.append([{"n": 1}]); _ = t.overwrite([{"n": 2}])
        >>> would = t.vacuum("0 days", dry_run=True)
        >>> would.versions, would.files["reason"].to_pylist()
        (2, ['no version needs it'])
        >>> t.vacuum("0 days").paths == would.paths, t.count()
        (True, 1)
        """
        done = vacuum(self._handle, to_duration_ms(retain), dry_run=dry_run)
        return Vacuumed(self.name, dry_run, done.versions, done.files, done.failed)

    def transactions(self) -> dict[str, int]:
        """The newest transaction of each application that has written with ``txn=``.

        >>> import lakebed, tempfile
        >>> t = lakebed.connect(tempfile.mkdtemp()).create_table("n", "n BIGINT")
        >>> _ = t.append([{"n": 1}], txn=("loader", 7))
        >>> t.append([{"n": 1}], txn=("loader", 7)).repeated
        True
        >>> t.transactions(), t.count()
        ({'loader': 7}, 1)
        """
        found = self._handle.metastore.transactions(self._handle.table_id)
        return {app: txn.version for app, txn in found.items() if not app.startswith(LOADED)}

    def _tell_name(self) -> None:
        """Put the table's present name into its metadata, so that the open log alone can tell it."""

        def run(draft: Draft) -> None:
            draft.metadata = replace(draft.metadata, name=self.name)
            draft.claims.append(Claim(Kind.ALTER))
            draft.parameters["name"] = self.name

        for attempt in range(self._options.commit_retries + 1):
            try:
                self._change(run)
                return
            except ConflictError:
                if attempt == self._options.commit_retries:
                    raise

    def publish(self) -> int:
        """Write every version that the open log does not have yet; returns the newest in the log.

        Commits do this by themselves; it is for repair after a crash.

        >>> import lakebed, tempfile
        >>> t = lakebed.connect(tempfile.mkdtemp()).create_table("n", "n BIGINT")
        >>> t.publish()
        0
        """
        return publish_versions(self._handle)

    def checkpoint(self) -> int:
        """Write a checkpoint of the open log now; returns its version.

        >>> import lakebed, tempfile
        >>> t = lakebed.connect(tempfile.mkdtemp()).create_table("n", "n BIGINT")
        >>> t.checkpoint()
        0
        """
        return checkpoint(self._handle)
