"""Taking in a table from its open log alone: registering a foreign one, recovering one of ours."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass

from lakebed.core.actions import Action, CommitInfo, now_ms
from lakebed.core.errors import CorruptFileError, FileMissingError, InputError
from lakebed.core.names import TableName
from lakebed.core.snapshot import Snapshot
from lakebed.delta.log import list_log, read_actions, read_log
from lakebed.delta.segment import LogListing
from lakebed.metastore import LoggedVersion, Metastore
from lakebed.storage.store import Store

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Imported:
    """A table that the metastore knows now."""

    table_id: str
    name: TableName


def import_log(metastore: Metastore, store: Store, name: TableName | None, *, make_namespace: bool = False) -> Imported:
    """Load the whole history that the log still has; ``name`` is by default the one that the log gives.

    With ``make_namespace`` a namespace that is not there is made, as after the loss of a metastore. Raises
    NotFoundError, CorruptFileError or UnsupportedFeatureError of the log, AlreadyExistsError if the
    metastore knows the place or the name already.
    """
    newest = read_log(store)
    chosen = name or _logged_name(newest, store)
    listing = list_log(store)
    begin = _begin(store, listing, newest)
    if make_namespace:
        metastore.create_namespace(chosen.namespace, {}, if_not_exists=True)
    metastore.import_table(
        chosen.namespace, chosen.name, store.location.uri, newest.metadata.id, _versions(store, listing, begin, newest)
    )
    return Imported(newest.metadata.id, chosen)


def _logged_name(snapshot: Snapshot, store: Store) -> TableName:
    if not snapshot.metadata.name:
        raise InputError(f"the log of {store.location} does not name its table", fix="pass name='namespace.table'")
    return TableName.parse(snapshot.metadata.name)


def _begin(store: Store, listing: LogListing, newest: Snapshot) -> Snapshot | None:
    """The oldest state from which the log goes on without a gap; None if that is the empty one before version 0."""
    start = newest.version + 1
    while start - 1 in listing.commits:
        start -= 1
    if start == 0:
        return None
    for version in sorted({c.version for c in listing.checkpoints if start - 1 <= c.version < newest.version}):
        try:
            return read_log(store, version)
        except (CorruptFileError, FileMissingError) as error:
            _log.warning("%s: the history begins after version %d, since %s", store.location, version, error)
    return newest


def _versions(store: Store, listing: LogListing, begin: Snapshot | None, newest: Snapshot) -> Iterator[LoggedVersion]:
    previous = -1
    for version in range(begin.version if begin else 0, newest.version + 1):
        if begin is not None and version == begin.version:
            actions = _whole(store, listing, begin)
        else:
            actions = read_actions(store, version)
        stamp = _stamp(actions) or listing.commits.get(version) or _just_before(store, version + 1, newest)
        previous = max(stamp, previous + 1)
        yield LoggedVersion(version, previous, actions)


def _just_before(store: Store, following: int, newest: Snapshot) -> int:
    """A time for a version whose commit is gone; any later one would push the times of its followers."""
    if following > newest.version:
        return now_ms()
    stamp = _stamp(read_actions(store, following))
    return now_ms() if stamp is None else stamp - 1


def _stamp(actions: tuple[Action, ...]) -> int | None:
    return next((a.timestamp for a in actions if isinstance(a, CommitInfo) and a.timestamp is not None), None)


def _whole(store: Store, listing: LogListing, snapshot: Snapshot) -> tuple[Action, ...]:
    """A snapshot as the actions of one commit, told by what the commit's own file says if it is still there."""
    told: tuple[Action, ...] = ()
    if snapshot.version in listing.commits:
        told = tuple(a for a in read_actions(store, snapshot.version) if isinstance(a, CommitInfo))
    elif snapshot.timestamp is not None:
        told = (CommitInfo({"timestamp": snapshot.timestamp}),)
    return (
        *told,
        snapshot.protocol,
        snapshot.metadata,
        *snapshot.domains.values(),
        *snapshot.transactions.values(),
        *snapshot.tombstones.values(),
        *snapshot.files.values(),
    )
