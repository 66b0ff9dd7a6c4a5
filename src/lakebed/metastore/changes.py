"""What versions added and removed: for the conflict rules, and for reading changes.

A vector that a file got later is told as Delta tells it: the file leaves with its old vector, or without one,
and enters with the new one.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, RowMapping, Select, and_, bindparam, func, select

from lakebed.core.actions import AddFile, RemoveFile, from_lines
from lakebed.core.commit import Kind, Winner
from lakebed.core.errors import NotFoundError
from lakebed.metastore import schema
from lakebed.metastore.lookup import one_of
from lakebed.metastore.part import Part, find_head, known_version, versions_left
from lakebed.metastore.records import VersionChanges
from lakebed.metastore.rows import OWN, add_of, load_buckets, load_metadata, load_protocol, remove_of

Partitions = Mapping[int, Mapping[str, str | None]]

_FILES = schema.files.c
_VECTORS = schema.vectors.c
_VERSIONS = schema.versions.c
_OLD = schema.vectors.alias("old")
_PLACE = ("storage_type", "path_or_inline_dv", "start", "size_in_bytes", "cardinality")
_PLAIN = (_FILES.path, _FILES.partition_id, _FILES.size, _FILES.modification_time)
_OWN = [func.coalesce(_VECTORS[name], _FILES[name]).label(name) for name in OWN]
_SAME_FILE = and_(_VECTORS.table_num == _FILES.table_num, _VECTORS.file_id == _FILES.id)


def _between(column: Any) -> Any:
    return and_(column > bindparam("after"), column <= bindparam("upto"))


_NEW_FILES: Select[Any] = (
    select(
        _FILES.id,
        _FILES.added_version.label("version"),
        *_PLAIN,
        func.coalesce(_VECTORS.data_change, _FILES.data_change).label("data_change"),
        *_OWN,
        *(_VECTORS[name] for name in _PLACE),
    )
    .outerjoin(schema.vectors, and_(_SAME_FILE, _VECTORS.added_version == _FILES.added_version))
    .where(_FILES.table_num == bindparam("num"), _between(_FILES.added_version))
)
# Live and removed rows have an index each.
_NEW_LIVE_FILES = _NEW_FILES.where(_FILES.removed_version.is_(None))
_NEW_GONE_FILES = _NEW_FILES.where(_FILES.removed_version.is_not(None))
_NEW_VECTORS: Select[Any] = (
    select(
        _VECTORS.added_version.label("version"),
        *_PLAIN,
        _VECTORS.data_change,
        _VECTORS.data_change.label("removed_data_change"),
        _VERSIONS.timestamp.label("removed_at"),
        *_OWN,
        *(_VECTORS[name] for name in _PLACE),
        *(_OLD.c[name].label(f"old_{name}") for name in _PLACE),
    )
    .select_from(schema.vectors)
    .join(schema.files, _SAME_FILE)
    .join(
        schema.versions,
        and_(_VERSIONS.table_num == _VECTORS.table_num, _VERSIONS.version == _VECTORS.added_version),
    )
    .outerjoin(
        _OLD,
        and_(
            _OLD.c.table_num == _VECTORS.table_num,
            _OLD.c.file_id == _VECTORS.file_id,
            _OLD.c.removed_version == _VECTORS.added_version,
        ),
    )
    .where(
        _VECTORS.table_num == bindparam("num"),
        _between(_VECTORS.added_version),
        _VECTORS.added_version > _FILES.added_version,
    )
    .order_by(_VECTORS.file_id)
)
_GONE_FILES: Select[Any] = (
    select(
        _FILES.removed_version.label("version"),
        *_PLAIN,
        _FILES.removed_at,
        _FILES.removed_data_change,
        *_OWN,
        *(_VECTORS[name] for name in _PLACE),
    )
    .outerjoin(schema.vectors, and_(_SAME_FILE, _VECTORS.removed_version == _FILES.removed_version))
    .where(_FILES.table_num == bindparam("num"), _between(_FILES.removed_version))
    .order_by(_FILES.id)
)
_SOME_VERSIONS: Select[Any] = (
    select(*(c for c in schema.versions.c if c.name not in ("body", "info")))
    .where(_VERSIONS.table_num == bindparam("num"), _between(_VERSIONS.version))
    .order_by(_VERSIONS.version)
)
_COUNT = select(func.count()).where(_VERSIONS.table_num == bindparam("num"), _between(_VERSIONS.version))
_SOME_SCHEMAS: Select[Any] = select(schema.schemas).where(
    schema.schemas.c.table_num == bindparam("num"), _between(schema.schemas.c.version)
)
_ALL_PARTITIONS = select(schema.partitions.c.id, schema.partitions.c.key).where(
    schema.partitions.c.table_num == bindparam("num")
)
_SOME_PARTITIONS = _ALL_PARTITIONS.where(one_of(schema.partitions.c.id, "ids"))


class Changes(Part):
    """The part of the metastore that tells what changed between two versions."""

    def changed_files(self, table_id: str, after: int, upto: int) -> list[VersionChanges]:
        """What each version from ``after + 1`` to ``upto`` added and removed, oldest first.

        Raises NotFoundError for versions that are not known.
        """

        def work(connection: Connection) -> list[VersionChanges]:
            head = find_head(connection, table_id)
            known_version(connection, head, upto)
            known_version(connection, head, after + 1 if after < upto else upto)
            where = {"num": head.num, "after": after, "upto": upto}
            if connection.execute(_COUNT, where).scalar_one() < upto - after:
                raise NotFoundError(
                    f"table {head}: some of the versions from {after + 1} to {upto} have expired",
                    expected=versions_left(connection, head),
                )
            adds, removes = _file_actions(connection, where)
            return [
                VersionChanges(
                    row.version,
                    row.timestamp,
                    Kind(row.kind),
                    adds[row.version],
                    removes[row.version],
                    from_lines(row.other_actions or ""),
                )
                for row in connection.execute(_SOME_VERSIONS, where)
            ]

        return self._database.read(work)


def load_winners(connection: Connection, num: int, after: int, upto: int, *, with_files: bool) -> list[Winner]:
    """The commits after version ``after`` that have not expired; without their files if the rules will not look
    at them."""
    where = {"num": num, "after": after, "upto": upto}
    adds: Mapping[int, list[AddFile]] = defaultdict(list)
    removes: Mapping[int, list[RemoveFile]] = defaultdict(list)
    if with_files:
        adds, removes = _file_actions(connection, where)
    changed = {row.version: row for row in connection.execute(_SOME_SCHEMAS, where)}
    winners = []
    for row in connection.execute(_SOME_VERSIONS, where):
        altered = changed.get(row.version)
        winners.append(
            Winner(
                version=row.version,
                kind=Kind(row.kind),
                adds=adds[row.version],
                removes=removes[row.version],
                metadata=load_metadata(altered.metadata) if altered and altered.metadata_changed else None,
                protocol=load_protocol(altered.protocol) if altered and altered.protocol_changed else None,
                buckets=load_buckets(row.buckets),
                data_change=row.data_change,
            )
        )
    return winners


def _file_actions(
    connection: Connection, where: Mapping[str, int]
) -> tuple[Mapping[int, list[AddFile]], Mapping[int, list[RemoveFile]]]:
    """Adds and removes by version."""
    new_files = [
        *connection.execute(_NEW_LIVE_FILES, where).mappings(),
        *connection.execute(_NEW_GONE_FILES, where).mappings(),
    ]
    new_files.sort(key=lambda row: int(row["id"]))
    new_vectors = connection.execute(_NEW_VECTORS, where).mappings().all()
    values = _partitions_of(connection, where["num"], (*new_files, *new_vectors))
    adds: Mapping[int, list[AddFile]] = defaultdict(list)
    for row in (*new_files, *new_vectors):
        adds[row["version"]].append(add_of(row, values[row["partition_id"]]))
    return adds, load_removes(connection, where)


def load_removes(connection: Connection, where: Mapping[str, int]) -> Mapping[int, list[RemoveFile]]:
    """What each version after ``after`` and up to ``upto`` of table ``num`` removed."""
    gone_files = connection.execute(_GONE_FILES, where).mappings().all()
    new_vectors = connection.execute(_NEW_VECTORS, where).mappings().all()
    values = _partitions_of(connection, where["num"], (*gone_files, *new_vectors))
    removes: Mapping[int, list[RemoveFile]] = defaultdict(list)
    for row in gone_files:
        removes[row["version"]].append(remove_of(row, values[row["partition_id"]]))
    for row in new_vectors:
        before = {**row, **{name: row[f"old_{name}"] for name in _PLACE}}
        removes[row["version"]].append(remove_of(before, values[row["partition_id"]]))
    return removes


def _partitions_of(connection: Connection, num: int, rows: Iterable[RowMapping]) -> Partitions:
    """The values of the partitions that these rows are in."""
    return load_partitions(connection, num, sorted({row["partition_id"] for row in rows}))


def load_partitions(connection: Connection, num: int, ids: Sequence[int] | None) -> Partitions:
    """The values of partitions by number; of all partitions of the table if ``ids`` is None."""
    if ids is None:
        rows = connection.execute(_ALL_PARTITIONS, {"num": num})
    else:
        rows = connection.execute(_SOME_PARTITIONS, {"num": num, "ids": ids})
    return {row.id: json.loads(row.key) for row in rows}
