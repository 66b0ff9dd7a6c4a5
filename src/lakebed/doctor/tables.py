"""One table: its open log, its files, and what upkeep it needs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from lakebed.core.actions import AddFile, now_ms
from lakebed.core.errors import LakebedError
from lakebed.core.file_tags import bucket_of
from lakebed.core.properties import value_of
from lakebed.delta.log import list_log
from lakebed.delta.paths import commit_path
from lakebed.doctor.finding import Finding, Repair, error, fine, warning
from lakebed.engine.compact import choose
from lakebed.engine.draft import Handle
from lakebed.engine.leftovers import Directory
from lakebed.engine.source import Source
from lakebed.engine.vacuum import TEMPORARY_MS, paths_below
from lakebed.storage.parquet_reader import ParquetFileReader
from lakebed.storage.store import FileInfo
from lakebed.table import Table

_NAMED = 3
"""So many files are named, and the others counted."""
SAMPLED = 50
"""So many files are opened, the newest ones, unless all are wanted."""


def examine_table(table: Table, *, deep: bool = False) -> Iterator[Finding]:
    """Everything that can be told of a table without reading its rows; ``deep`` opens every file."""
    handle = table._handle
    adds = list(handle.metastore.files(handle.table_id).adds())
    found = [*_log(handle), *_files(handle, adds, deep=deep), *_upkeep(handle, adds)]
    yield from found or [fine("table", table.name, f"version {table.version}")]


def _log(handle: Handle) -> Iterator[Finding]:
    """Versions that other engines cannot see yet, or any more."""
    metastore, name = handle.metastore, handle.name
    waiting = [version for version, _ in metastore.unpublished(handle.table_id, limit=1_000)]
    if waiting:
        yield error(
            "log", name, f"{_span(waiting)} in the metastore, but not in the open log: other engines do not see it",
            f"lakebed doctor --fix, or: CALL lakebed.publish('{name}')", Repair.PUBLISH,
        )  # fmt: skip
    listed = list_log(handle.store)
    last, first = metastore.published(handle.table_id), metastore.begins(handle.table_id)
    checkpoints = {checkpoint.version for checkpoint in listed.checkpoints}
    missing = [
        version
        for version in range(first, last + 1)
        if version not in listed.commits and not (version == first and version in checkpoints)
    ]
    if not missing:
        return
    told = f"{len(missing)} log file(s) missing: {_some([commit_path(version) for version in missing])}"
    if any(version >= missing[-1] for version in checkpoints):
        fix = f"put them back from a backup, or forget those versions: lakebed expire {name}"
        yield warning("log", name, f"{told}; other engines cannot read the versions up to there", fix)
    else:
        fix = "put them back from a backup; or lakebed doctor --fix, which writes a checkpoint of the newest version"
        yield error("log", name, f"{told}; other engines cannot read the table", fix, Repair.CHECKPOINT)


def _files(handle: Handle, adds: Sequence[AddFile], *, deep: bool) -> Iterator[Finding]:
    """Files that are missing, damaged, or nobody's."""
    store, name = handle.store, handle.name
    known = paths_below(store, handle.metastore.referenced_paths(handle.table_id))
    directory = Directory.of(store, handle.metastore.state(handle.table_id).metadata)
    listed = {file.path: file for file in directory.files([])}
    # What the listing passes over, since others may own it, is asked for by name.
    missing = sorted(path for path in known.difference(listed) if not store.exists(path))
    if missing:
        yield error(
            "files", name, f"{len(missing)} file(s) missing: {_some(missing)}",
            f"put them back from a backup; or lakebed restore {name} --version … to a version without them",
        )  # fmt: skip
    yield from _damaged(handle, adds, listed, set(missing), deep=deep)
    limit = now_ms() - TEMPORARY_MS
    orphans = [file for path, file in sorted(listed.items()) if path not in known and file.mtime_ms < limit]
    if orphans:
        size = sum(file.size for file in orphans)
        yield warning(
            "files", name,
            f"{len(orphans)} file(s) that no version needs, {size:,} bytes: {_some([file.path for file in orphans])}",
            f"lakebed vacuum {name}",
        )  # fmt: skip


def _damaged(
    handle: Handle, adds: Sequence[AddFile], listed: dict[str, FileInfo], missing: set[str], *, deep: bool
) -> Iterator[Finding]:
    wrong: list[str] = []
    opened = 0
    for add in sorted(adds, key=lambda add: -add.modification_time):
        path = add.file_path
        if path in missing:
            continue
        there = listed.get(path)
        if there is not None and there.size != add.size:
            wrong.append(f"{path} has {there.size:,} bytes instead of {add.size:,}")
        elif deep or opened < SAMPLED:
            opened += 1
            if (problem := _unreadable(handle, path, add.num_records)) is not None:
                wrong.append(f"{path}: {problem}")
    if wrong:
        yield error(
            "files", handle.name, f"{len(wrong)} damaged file(s): {_some(wrong)}",
            f"put them back from a backup; or lakebed restore {handle.name} --version … to a version without them",
        )  # fmt: skip


def _unreadable(handle: Handle, path: str, rows: int | None) -> str | None:
    """Why a Parquet file cannot be read, as far as its footer tells; None if it can."""
    try:
        with ParquetFileReader(handle.store, path) as file:
            found = file.num_rows
    except LakebedError as problem:
        return problem.found or problem.what
    return None if rows is None or found == rows else f"it has {found:,} rows instead of {rows:,}"


def _upkeep(handle: Handle, adds: Sequence[AddFile]) -> Iterator[Finding]:
    """Work that has been put off for too long."""
    state = handle.metastore.state(handle.table_id)
    name, configuration = handle.name, state.metadata.configuration
    many = int(value_of("compaction-small-files", configuration))
    waiting = [one for one in handle.metastore.bucket_rows(handle.table_id) if one.unsettled >= many]
    if waiting:
        total = sum(one.unsettled for one in waiting)
        yield warning(
            "settle", name, f"{total:,} unsettled files in {len(waiting)} bucket(s), which every reader has to match",
            f"lakebed settle {name}",
        )  # fmt: skip
    buckets: dict[int | None, list[Source]] = defaultdict(list)
    for add in adds:
        buckets[bucket_of(add)].append(Source(add))
    groups = [group for one in buckets.values() for group in choose(one, state.metadata, handle.options, full=False)]
    if groups:
        count = sum(map(len, groups))
        yield warning(
            "compact", name, f"{count:,} file(s) are small, or have many dead rows, in {len(groups)} place(s)",
            f"lakebed compact {name}",
        )  # fmt: skip


def _some(texts: Sequence[str]) -> str:
    left = len(texts) - _NAMED
    return ", ".join(texts[:_NAMED]) + (f" and {left:,} more" if left > 0 else "")


def _span(versions: Sequence[int]) -> str:
    return f"version {versions[0]} is" if len(versions) == 1 else f"versions {versions[0]} to {versions[-1]} are"
