"""Condemned files: vacuum says here what it deletes, and a commit that still counts on such a file is refused.

Vacuum reads which files are referenced, lists the storage, and condemns what is neither referenced nor young.
Whoever commits meanwhile either comes first, and condemning finds the file referenced; or comes later, and finds
it condemned. The table's row lock decides. Only then are files deleted.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
from sqlalchemy import (
    ColumnElement,
    Connection,
    Select,
    Table,
    bindparam,
    delete,
    exists,
    select,
    union_all,
    update,
)

from lakebed.core.actions import AddFile, DeletionVector
from lakebed.metastore import schema
from lakebed.metastore.bulk import fetch_arrow, insert_rows
from lakebed.metastore.expiring import Expiring, ends_with, outlives
from lakebed.metastore.lookup import one_of
from lakebed.metastore.part import Head, Part, find_head

_INLINE = "i"
_FILES = schema.files.c
_VECTORS = schema.vectors.c
_CONDEMNED = schema.condemned.c
_TEXT = pa.large_string()
_OF_TABLE = _CONDEMNED.table_num == bindparam("num")
_FOUND = select(_CONDEMNED.path).where(
    _OF_TABLE, _CONDEMNED.is_vector == bindparam("is_vector"), one_of(_CONDEMNED.path, "paths")
)
_UNDO = delete(schema.condemned).where(
    _OF_TABLE, _CONDEMNED.is_vector == bindparam("is_vector"), one_of(_CONDEMNED.path, "paths")
)
_FORGET = delete(schema.condemned).where(_OF_TABLE, _CONDEMNED.at < bindparam("before"))
_FLAG = (
    update(schema.tables)
    .where(schema.tables.c.num == bindparam("of_table"))
    .values(condemned=exists().where(_CONDEMNED.table_num == schema.tables.c.num))
)


@dataclass(frozen=True)
class ReferencedPaths:
    """The files that rows of a table refer to, removed ones included that some version still needs."""

    version: int
    """The head when they were read."""
    paths: pa.ChunkedArray = field(hash=False)
    """Paths of data files, URI-encoded as in the log."""
    vectors: pa.ChunkedArray = field(hash=False)
    """Keys of files of vectors, as ``vector_file`` gives them."""


@dataclass(frozen=True)
class Condemned:
    """The files that may be deleted now."""

    paths: tuple[str, ...] = ()
    vectors: tuple[str, ...] = ()


def vector_file(vector: DeletionVector) -> str | None:
    """What names the file that a vector is in, whatever its place there; None for an inline one.

    >>> vector_file(DeletionVector("u", "ab^-aqEH.-t@S}K{vb[*k^", 40, 1, offset=4))
    'uab^-aqEH.-t@S}K{vb[*k^'
    """
    return None if vector.storage_type == _INLINE else vector.storage_type + vector.path_or_inline_dv


class CondemnedFiles(Part):
    """The part of the metastore that vacuum talks to."""

    def referenced_paths(self, table_id: str, after: Expiring | None = None) -> ReferencedPaths:
        """All files that any version needs which has not expired, in columns; some may come twice.

        ``after``: as it would be after this expiry. Raises NotFoundError for the table.
        """
        return self._referenced(table_id, lambda table: None if after is None else outlives(table, after))

    def freed_paths(self, table_id: str, by: Expiring) -> ReferencedPaths:
        """The files that rows refer to which an expiry would forget; some other row may refer to them too."""
        return self._referenced(table_id, lambda table: ends_with(table, by))

    def _referenced(self, table_id: str, which: Callable[[Table], ColumnElement[bool] | None]) -> ReferencedPaths:
        def work(connection: Connection) -> ReferencedPaths:
            head = find_head(connection, table_id)
            return ReferencedPaths(
                head.version,
                _paths(connection, head, which=which(schema.files)),
                _vector_files(connection, head, which=which(schema.vectors)),
            )

        return self._database.read(work)

    def condemn(
        self, table_id: str, paths: Collection[str], at: int, *, vectors: Collection[str] = (), since: int = -1
    ) -> Condemned:
        """Condemn files at a time (ms), except those that are referenced; returns those that may be deleted.

        ``paths`` are data files as the file system knows them, ``vectors`` keys as ``vector_file`` gives them.
        ``since``: the caller knows what was referenced at that version (``ReferencedPaths.version``), so that
        only what later commits added is looked at. Raises NotFoundError for the table.
        """

        def work(connection: Connection) -> Condemned:
            head = find_head(connection, table_id, lock=True)
            free = Condemned(
                _without(paths, decoded(_paths(connection, head, since))) if paths else (),
                _without(vectors, _vector_files(connection, head, since)) if vectors else (),
            )
            _put(connection, head, free.paths, at, is_vector=False)
            _put(connection, head, free.vectors, at, is_vector=True)
            connection.execute(_FLAG, {"of_table": head.num})
            return free

        return self._database.write(work, landed=lambda _connection: None)

    def forget_condemned(self, table_id: str, before: int) -> int:
        """Forget the files that were condemned before a time (ms); returns how many.

        A writer that began before it may bring them back: it must be certain that none runs any more.
        """

        def work(connection: Connection) -> int:
            head = find_head(connection, table_id, lock=True)
            gone = connection.execute(_FORGET, {"num": head.num, "before": before}).rowcount
            connection.execute(_FLAG, {"of_table": head.num})
            return gone

        return self._database.write(work, landed=lambda _connection: None)


def first_condemned(connection: Connection, num: int, adds: Iterable[AddFile]) -> str | None:
    """The first file that the adds need and vacuum has condemned; None if all are there."""
    paths, vectors = [], []
    for add in adds:
        paths.append(add.file_path)
        key = vector_file(add.deletion_vector) if add.deletion_vector else None
        if key is not None:
            vectors.append(key)
    for is_vector, wanted in ((False, paths), (True, vectors)):
        if wanted:
            where = {"num": num, "is_vector": is_vector, "paths": wanted}
            found: str | None = connection.execute(_FOUND, where).scalars().first()
            if found is not None:
                return found
    return None


def _put(connection: Connection, head: Head, paths: Sequence[str], at: int, *, is_vector: bool) -> None:
    """Note condemned files; what an earlier vacuum condemned and did not get to delete, with the new time."""
    if not paths:
        return
    connection.execute(_UNDO, {"num": head.num, "is_vector": is_vector, "paths": paths})
    rows = [{"table_num": head.num, "path": path, "is_vector": is_vector, "at": at} for path in paths]
    insert_rows(connection, schema.condemned, rows)


def _paths(
    connection: Connection, head: Head, since: int = -1, which: ColumnElement[bool] | None = None
) -> pa.ChunkedArray:
    """The paths of all file rows that were added after a version, or of ``which``."""
    of_table: Select[Any] = select(_FILES.path).where(_FILES.table_num == head.num)
    if which is not None:
        of_table = of_table.where(which)
    # Live and removed rows have an index each.
    query = union_all(
        of_table.where(_FILES.added_version > since, _FILES.removed_version.is_(None)),
        of_table.where(_FILES.added_version > since, _FILES.removed_version.is_not(None)),
    )
    return fetch_arrow(connection, query, pa.schema([("path", _TEXT)]))["path"]


def _vector_files(
    connection: Connection, head: Head, since: int = -1, which: ColumnElement[bool] | None = None
) -> pa.ChunkedArray:
    """The files of all vector rows that were added after a version, or of ``which``, each once."""
    query = (
        select(_VECTORS.storage_type + _VECTORS.path_or_inline_dv)
        .where(_VECTORS.table_num == head.num, _VECTORS.added_version > since, _VECTORS.storage_type != _INLINE)
        .distinct()
    )
    if which is not None:
        query = query.where(which)
    return fetch_arrow(connection, query, pa.schema([("key", _TEXT)]))["key"]


def decoded(paths: pa.ChunkedArray) -> pa.ChunkedArray:
    """URI-encoded paths as the file system knows them; only those with an escape cost anything."""
    escaped = pc.match_substring(paths, "%")
    if not pc.any(escaped).as_py():
        return paths
    plain = pa.array([unquote(path) for path in paths.filter(escaped).to_pylist()], _TEXT)
    return pa.chunked_array([*paths.filter(pc.invert(escaped)).chunks, plain], _TEXT)


def _without(names: Collection[str], used: pa.ChunkedArray) -> tuple[str, ...]:
    """Those of ``names`` that are not in use, each once."""
    wanted = pa.array(dict.fromkeys(names), _TEXT)
    return tuple(wanted.filter(pc.invert(pc.is_in(wanted, used.combine_chunks()))).to_pylist())
