"""Vacuum: files that no version needs any more are deleted, and so are those that dead writers left.

Versions expire first. Then all files that rows still refer to are read, and the storage is listed after that: what
neither is referred to nor young is condemned in the metastore, which knows what was committed in between, and only
then deleted. A commit that counts on a condemned file is refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice

import pyarrow as pa
import pyarrow.compute as pc

from lakebed.core.actions import now_ms
from lakebed.core.errors import InputError
from lakebed.core.location import Location
from lakebed.core.steps import Step, reach
from lakebed.delta.paths import decode
from lakebed.engine.draft import Handle
from lakebed.engine.expire import expire, foresee
from lakebed.engine.leftovers import Directory, parts, vector_key
from lakebed.engine.progress import Show, shown
from lakebed.engine.scan_lists import stale
from lakebed.metastore import ReferencedPaths
from lakebed.metastore.condemned import decoded
from lakebed.storage.deletion_vector import vector_path
from lakebed.storage.durable import is_temporary
from lakebed.storage.store import FileInfo, Store

UNNEEDED = "no version needs it"
ORPHAN = "orphan"
SCAN_LIST = "list of a scan"
FILES_SCHEMA = pa.schema([("path", pa.string()), ("size", pa.int64()), ("reason", pa.string())])
TEMPORARY_MS = 60 * 60 * 1000
"""A temporary file that has not been touched for so long is dead, however short the retention: it is the only kind
of file whose writer would not be told by the metastore that it is gone."""
CONDEMNED_MS = 30 * 24 * 60 * 60 * 1000
"""For how long a writer may bring back a file that was deleted, and is refused."""
_LISTED = 1 << 18
_DELETED = 2_000
# So many times as many files are condemned at once where tasks of a cluster delete them.
_TASKS = 16
_SHOWN = 1_000
_ABSOLUTE = r"^([A-Za-z][A-Za-z0-9+.-]*:|/)"


@dataclass(frozen=True)
class Cleaned:
    """What vacuum has removed, or would remove."""

    versions: int
    files: pa.Table = field(hash=False)
    """Path, size and reason of each file, by path."""
    failed: dict[str, str] = field(hash=False, default_factory=dict)
    """The files that could not be deleted, and why."""


def vacuum(handle: Handle, retain_ms: int, *, dry_run: bool) -> Cleaned:
    """Forget the versions that are older than the retention, and delete what only they needed, and orphans.

    With ``dry_run`` nothing is changed. Raises StorageError if the storage cannot be listed, MetastoreError.
    """
    now = now_ms()
    foreseen = foresee(handle, now - retain_ms)
    freed = handle.metastore.freed_paths(handle.table_id, foreseen)
    if dry_run:
        versions = len(foreseen.versions)
        known = handle.metastore.referenced_paths(handle.table_id, foreseen)
    else:
        versions = expire(handle, now - retain_ms)
        known = handle.metastore.referenced_paths(handle.table_id)
    directory = Directory.of(handle.store, handle.metastore.state(handle.table_id).metadata)
    search = _Search.of(handle.store, known, freed, now, retain_ms)
    lists = _lists(list(stale(handle.store, now, retain_ms)))
    empty: list[str] = []
    with shown(f"table {handle.name}: vacuum", handle.options, "files seen") as show:
        listed = parts(_seen(directory.files(empty), show), _LISTED)
        found = chain.from_iterable(map(search.among, listed))
        if dry_run:
            return Cleaned(versions, _report([*found, lists]))
        removal = _Removal(handle, known.version, now, show)
        removal.run(found)
        removal.delete(lists, lists["path"].to_pylist())
    for path in empty:
        handle.store.remove_empty_dir(path, unchanged_since=search.oldest_temporary)
    handle.metastore.forget_condemned(handle.table_id, now - CONDEMNED_MS)
    return Cleaned(versions, _report(removal.done), removal.failed)


def _seen(files: Iterator[FileInfo], show: Show) -> Iterator[FileInfo]:
    for number, file in enumerate(files, 1):
        yield file
        if number % _SHOWN == 0:
            show({"files seen": _SHOWN})


def _lists(files: Sequence[FileInfo]) -> pa.Table:
    """Lists of scans are no version's, and no commit can need them."""
    columns = [[file.path for file in files], [file.size for file in files], [SCAN_LIST] * len(files)]
    return pa.table(columns, schema=FILES_SCHEMA)


def _report(found: Sequence[pa.Table]) -> pa.Table:
    return pa.concat_tables([FILES_SCHEMA.empty_table(), *found]).sort_by("path")


@dataclass(frozen=True)
class _Search:
    """What tells files that may go from others."""

    referenced: frozenset[str]
    freed: frozenset[str]
    oldest: int
    """A file that nobody refers to, and that is younger, may be a running writer's."""
    oldest_temporary: int

    @classmethod
    def of(cls, store: Store, known: ReferencedPaths, freed: ReferencedPaths, now: int, retain_ms: int) -> _Search:
        return cls(
            referenced=paths_below(store, known),
            freed=paths_below(store, freed),
            oldest=now - retain_ms,
            oldest_temporary=now - max(retain_ms, TEMPORARY_MS),
        )

    def among(self, files: Sequence[FileInfo]) -> Iterator[pa.Table]:
        """Those of ``files`` that may go, in tables of a bounded number of rows."""
        free = [file for file in files if file.path not in self.referenced]
        gone = [file for file in free if file.path in self.freed or file.mtime_ms <= self._limit(file.path)]
        for start in range(0, len(gone), _DELETED):
            some = gone[start : start + _DELETED]
            columns: list[list[object]] = [
                [file.path for file in some],
                [file.size for file in some],
                [UNNEEDED if file.path in self.freed else ORPHAN for file in some],
            ]
            yield pa.Table.from_arrays(list(map(pa.array, columns, FILES_SCHEMA.types)), schema=FILES_SCHEMA)

    def _limit(self, path: str) -> int:
        return self.oldest_temporary if is_temporary(path.rpartition("/")[2]) else self.oldest


def paths_below(store: Store, known: ReferencedPaths) -> frozenset[str]:
    """All files of ``known`` that are below the store, as the store names them."""
    absolute = pc.match_substring_regex(known.paths, _ABSOLUTE)
    elsewhere = known.paths.filter(absolute).to_pylist()
    vectors = known.vectors.to_pylist()
    elsewhere += [key[1:] for key in vectors if key.startswith("p")]
    few = [path for uri in elsewhere if (path := _below(store, uri)) is not None]
    few += [vector_path(key[1:]) for key in vectors if key.startswith("u")]
    own = decoded(known.paths.filter(pc.invert(absolute)))
    # A set is made once for all parts of the listing; Arrow would make one for each.
    return frozenset(chain(few, *(chunk.to_pylist() for chunk in own.chunks)))


def _below(store: Store, uri: str) -> str | None:
    """The path below the store of a file that the log names by a whole path or URI; None if it is elsewhere."""
    if uri.startswith("/"):
        place = Location(store.location.scheme, store.location.authority, decode(uri))
    else:
        try:
            place = Location.parse(uri)
        except InputError:
            return None
    root = store.location
    inside = (place.scheme, place.authority) == (root.scheme, root.authority) and place.path.startswith(root.path + "/")
    return place.path[len(root.path) + 1 :] if inside else None


def _delete(order: tuple[Store, Sequence[str]]) -> dict[str, str]:
    """Delete files; the failures by file."""
    store, paths = order
    return {path: str(error) for path, error in store.delete_each(paths).items()}


@dataclass
class _Removal:
    """Condemns and deletes, a part at a time."""

    handle: Handle
    since: int
    """The version of which the caller knew what is referred to."""
    now: int
    show: Show
    done: list[pa.Table] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)

    def run(self, found: Iterator[pa.Table]) -> None:
        """Delete the files of all tables, except those that a commit refers to by now."""
        for part in self._groups(found):
            reach(Step.VACUUM_FOUND)
            paths = self._condemned(part["path"].to_pylist())
            reach(Step.VACUUM_CONDEMNED)
            self.delete(part, paths)
            reach(Step.VACUUM_DELETED)

    def delete(self, part: pa.Table, paths: Sequence[str]) -> None:
        """Delete those files of ``part`` now."""
        failures = self._deleted(paths, pc.sum(part["size"]).as_py() or 0)
        for path in {path.rpartition("/")[0]: path for path in paths}.values():
            self.handle.store.remove_empty_parents(path)
        self.failed.update(failures)
        gone = pa.array([path for path in paths if path not in failures], pa.string())
        self.done.append(part.filter(pc.is_in(part["path"], gone)))
        self.show({"files deleted": len(gone)})

    def _groups(self, found: Iterator[pa.Table]) -> Iterator[pa.Table]:
        """The tables as they come, or, where a cluster deletes files, several of them as one."""
        together = 1 if self.handle.distribution is None else _TASKS
        while some := list(islice(found, together)):
            yield pa.concat_tables(some)

    def _deleted(self, paths: Sequence[str], size: int) -> dict[str, str]:
        """Delete the files, in tasks of the cluster if they are large and many; the failures by file."""
        cluster, store = self.handle.distribution, self.handle.store
        if cluster is None or not paths or size < self.handle.options.distribute_from:
            return _delete((store, paths))
        share = max(1, min(_DELETED, -(-len(paths) // cluster.tasks_at_once)))
        orders = [(store, paths[start : start + share]) for start in range(0, len(paths), share)]
        return {path: why for failed in cluster.run(_delete, orders, self.handle.name) for path, why in failed.items()}

    def _condemned(self, paths: Sequence[str]) -> list[str]:
        """Those of ``paths`` that may be deleted now."""
        temporary = [path for path in paths if is_temporary(path.rpartition("/")[2])]
        keys = {key: path for path in paths if (key := vector_key(path)) is not None}
        others = set(paths).difference(temporary, keys.values())
        free = self.handle.metastore.condemn(
            self.handle.table_id, others, self.now, vectors=keys.keys(), since=self.since
        )
        return [*temporary, *free.paths, *(keys[key] for key in free.vectors)]
