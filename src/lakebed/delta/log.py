"""Reading the open log of any Delta table: a version's snapshot, one commit, or the whole history.

The directory's listing says which checkpoints and commits there are. ``_last_checkpoint``, a hint that may be
stale or torn, is not read: what it can tell the listing tells too.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import replace

from lakebed.core.actions import Action, CommitInfo, UnknownAction, from_line
from lakebed.core.errors import CorruptFileError, FileMissingError, NotFoundError
from lakebed.core.snapshot import Replay, Snapshot
from lakebed.delta.checkpoint_rows import SIDECAR, read_rows
from lakebed.delta.features import check_readable
from lakebed.delta.paths import LOG, commit_path, sidecar_path
from lakebed.delta.segment import CheckpointFiles, LogListing, LogSegment, listing, segments
from lakebed.storage.store import Store

_log = logging.getLogger(__name__)


def list_log(store: Store) -> LogListing:
    """The table's log directory as it is now; empty if there is none."""
    return listing((entry.path.rpartition("/")[2], entry.mtime_ms) for entry in store.list(LOG, recursive=False))


def read_log(store: Store, version: int | None = None) -> Snapshot:
    """The table at ``version`` (None: the newest), from a checkpoint and the commits after it.

    A checkpoint that cannot be read is passed over as long as the commits that it sums up are still there.
    Raises NotFoundError, FileMissingError, CorruptFileError or UnsupportedFeatureError.

    >>> import tempfile
    >>> from lakebed.core.actions import AddFile, Metadata, Protocol, to_lines
    >>> from lakebed.core.location import Location
    >>> from lakebed.storage.store import open_store
    >>> store = open_store(Location.parse(tempfile.mkdtemp()))
    >>> first = [Protocol(1, 2), Metadata("t", '{"type":"struct","fields":[]}')]
    >>> store.put(commit_path(0), to_lines(first).encode())
    >>> store.put(commit_path(1), to_lines([AddFile("a.parquet", {}, 10, 0, True)]).encode())
    >>> len(read_log(store).files), len(read_log(store, 0).files)
    (1, 0)
    """
    found = list_log(store)
    failure: CorruptFileError | FileMissingError | None = None
    for way in segments(found, version, str(store.location)):
        try:
            snapshot = _build(store, way, found)
        except (CorruptFileError, FileMissingError) as error:
            failure = failure or error
            continue
        if failure is not None:
            _log.warning("%s: version %d was read another way, since %s", store.location, way.version, failure)
        check_readable(snapshot.protocol, snapshot.metadata, table=str(store.location))
        return snapshot
    assert failure is not None
    raise failure


def read_actions(store: Store, version: int) -> tuple[Action, ...]:
    """The actions of one commit, in order. Raises NotFoundError if its file is not there (any more)."""
    path = commit_path(version)
    try:
        data = store.read(path)
    except FileMissingError as error:
        raise NotFoundError(f"{store.location} has no commit {version}", expected=path) from error
    return parse_commit(data, f"{store.location}/{path}")


def read_history(store: Store) -> Iterator[tuple[int, tuple[Action, ...]]]:
    """Every commit that is still in the log, the oldest first."""
    for version in sorted(list_log(store).commits):
        yield version, read_actions(store, version)


def parse_commit(data: bytes, name: str) -> tuple[Action, ...]:
    """The actions of a commit file. Raises CorruptFileError naming the file and the line.

    >>> parse_commit(b'{"txn":{"appId":"a","version":1}}\\r\\n', "0.json")
    (SetTransaction(app_id='a', version=1, last_updated=None, extra={}),)
    """
    actions: list[Action] = []
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise CorruptFileError(f"{name} is not UTF-8 text", found=str(error)) from error
    for number, line in enumerate(text.split("\n"), start=1):
        try:
            action = from_line(line)
        except CorruptFileError as error:
            raise CorruptFileError(f"{name}, line {number} is not an action", found=error.found) from error
        if action is not None:
            actions.append(action)
    if not actions:
        raise CorruptFileError(f"{name} is empty", expected="at least one action")
    return tuple(actions)


def _build(store: Store, way: LogSegment, found: LogListing) -> Snapshot:
    replay = Replay()
    if way.checkpoint is not None:
        replay.add(_checkpoint_actions(store, way.checkpoint))
    stamped = False
    for version in way.commits:
        path = commit_path(version)
        actions = parse_commit(store.read(path), f"{store.location}/{path}")
        replay.add(actions)
        stamped = any(isinstance(action, CommitInfo) and action.timestamp is not None for action in actions)
    snapshot = replay.snapshot(way.version)
    return snapshot if stamped else replace(snapshot, timestamp=_timestamp(store, way.version, found))


def _timestamp(store: Store, version: int, found: LogListing) -> int | None:
    """When the commit was made: what its first line says, else when its file was written."""
    if version not in found.commits:
        return None
    path = commit_path(version)
    first = store.read(path).partition(b"\n")[0]
    [info] = parse_commit(first, f"{store.location}/{path}")
    stamp = info.timestamp if isinstance(info, CommitInfo) else None
    return found.commits[version] if stamp is None else stamp


def _checkpoint_actions(store: Store, checkpoint: CheckpointFiles) -> Iterator[Action]:
    for path in checkpoint.paths:
        for action in _file_actions(store, path):
            if isinstance(action, UnknownAction) and action.name == SIDECAR:
                yield from _file_actions(store, _sidecar(action, path))
            else:
                yield action


def _sidecar(action: UnknownAction, checkpoint: str) -> str:
    path = action.body.get("path") if isinstance(action.body, dict) else None
    if not isinstance(path, str):
        raise CorruptFileError(f"{checkpoint} names a sidecar without a path", found=str(action.body))
    return sidecar_path(path)


def _file_actions(store: Store, path: str) -> Iterator[Action]:
    name = f"{store.location}/{path}"
    if path.endswith(".json"):
        yield from parse_commit(store.read(path), name)
        return
    with store.open_input(path) as source:
        yield from read_rows(source, name)
