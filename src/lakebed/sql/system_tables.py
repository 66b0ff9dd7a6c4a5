"""System tables: what is known of a table, as rows, under names like ``orders$history``."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakebed.core.schema_ddl import to_ddl
from lakebed.engine.load_files import LOADED
from lakebed.sql.results import table_of
from lakebed.sql.rows import ChangeRows, FixedRows, Rows, TableRows
from lakebed.table import Table
from lakebed.view import Readable

Teller = Callable[[Table, Readable], Rows]


def split_system(parts: Sequence[str]) -> tuple[tuple[str, ...], str | None]:
    """The name of a table, and of the system table that is meant; None if it is the table itself.

    >>> split_system(("shop", "orders$files")), split_system(("a$b",))
    ((('shop', 'orders'), 'files'), (('a$b',), None))
    """
    name, _, system = parts[-1].rpartition("$")
    if not name or system.lower() not in SYSTEM_TABLES:
        return tuple(parts), None
    return (*parts[:-1], name), system.lower()


def system_rows(table: Table, view: Readable, system: str) -> Rows:
    """The rows of a system table; ``view`` is the version of the table that is asked about."""
    return SYSTEM_TABLES[system](table, view)


def history_rows(table: Table, limit: int | None = None) -> pa.Table:
    """The versions of a table, newest first."""
    return table_of(
        {
            "version": int,
            "timestamp": pa.timestamp("us", "UTC"),
            "operation": str,
            "parameters": str,
            "metrics": str,
            "commit_id": str,
            "published": bool,
        },
        [
            (c.version, c.timestamp, c.operation, _json(c.parameters), _json(c.metrics), c.commit_id, c.published)
            for c in table.history(limit)
        ],
    )


def tag_rows(table: Table) -> pa.Table:
    """The tags of a table."""
    return table_of(
        {"name": str, "version": int, "created": pa.timestamp("us", "UTC"), "retain_until": pa.timestamp("us", "UTC")},
        [(t.name, t.version, t.created, t.retain_until) for t in table.tags()],
    )


def partition_rows(view: Readable) -> pa.Table:
    """The partitions of a version that have rows, and how much is in each."""
    files = view.files()
    grouped = (
        _with_live(files)
        .group_by("partition", use_threads=False)
        .aggregate(
            [("path", "count"), ("live", "sum"), ("dead_rows", "sum"), ("size", "sum"), ("added_version", "max")]
        )
    )
    names = ["partition", "files", "rows", "dead_rows", "size", "last_version"]
    return grouped.rename_columns(names).sort_by("partition")


def _with_live(files: pa.Table) -> pa.Table:
    return files.append_column("live", pc.subtract(files["rows"], files["dead_rows"]))


def _buckets(_: Table, view: Readable) -> Rows:
    files = _with_live(view.files())
    files = files.append_column("waiting", files["unsettled"].cast(pa.int64()))
    grouped = files.group_by(["partition", "bucket"], use_threads=False).aggregate(
        [("path", "count"), ("live", "sum"), ("dead_rows", "sum"), ("waiting", "sum"), ("size", "sum")]
    )
    names = ["partition", "bucket", "files", "rows", "dead_rows", "unsettled_files", "size"]
    order = [("partition", "ascending"), ("bucket", "ascending")]
    return FixedRows(grouped.rename_columns(names).sort_by(order))


def _snapshots(table: Table, _: Readable) -> Rows:
    tags: dict[int, list[str]] = {}
    for tag in table.tags():
        tags.setdefault(tag.version, []).append(tag.name)
    return FixedRows(
        table_of(
            {
                "version": int,
                "timestamp": pa.timestamp("us", "UTC"),
                "operation": str,
                "tags": pa.list_(pa.string()),
                "published": bool,
            },
            [(c.version, c.timestamp, c.operation, tags.get(c.version, []), c.published) for c in table.history()],
        )
    )


def _schemas(table: Table, _: Readable) -> Rows:
    found = table._handle.metastore.schemas(table._handle.table_id)
    return FixedRows(
        table_of(
            {"version": int, "columns": str, "partition_by": pa.list_(pa.string())},
            [(version, to_ddl(made.schema), list(made.partition_columns)) for version, made in found],
        )
    )


def option_rows(view: Readable) -> pa.Table:
    """The properties of a table, those of its primary key included."""
    key = view.key
    found: dict[str, str] = {}
    if key is not None:
        found = {"primary-key": ",".join(key.key), "buckets": str(key.buckets), "merge-engine": key.engine.value}
        found["merge"] = key.merge.value
        if key.sequence:
            found["sequence"] = ",".join(key.sequence)
    found |= view.properties
    return table_of({"key": str, "value": str}, sorted(found.items()))


def _transactions(table: Table, _: Readable) -> Rows:
    known = table._handle.metastore.transactions(table._handle.table_id)
    return FixedRows(
        table_of(
            {"application": str, "version": int},
            sorted((app, txn.version) for app, txn in known.items() if not app.startswith(LOADED)),
        )
    )


def _consumers(table: Table, _: Readable) -> Rows:
    time = pa.timestamp("us", "UTC")
    return FixedRows(
        table_of(
            {"name": str, "version": int, "updated": time, "until": time, "whole": bool},
            [(c.name, c.version, c.updated, c.until, c.whole) for c in table.consumers()],
        )
    )


def _json(mapping: Any) -> str:
    return json.dumps(dict(mapping), ensure_ascii=False, default=str)


SYSTEM_TABLES: dict[str, Teller] = {
    "history": lambda table, _: FixedRows(history_rows(table)),
    "snapshots": _snapshots,
    "files": lambda _, view: FixedRows(view.files()),
    "partitions": lambda _, view: FixedRows(partition_rows(view)),
    "buckets": _buckets,
    "tags": lambda table, _: FixedRows(tag_rows(table)),
    "schemas": _schemas,
    "options": lambda _, view: FixedRows(option_rows(view)),
    "transactions": _transactions,
    "consumers": _consumers,
    "changes": lambda table, _: ChangeRows(table, "earliest"),
    "ro": lambda _, view: TableRows(view.read_optimised()),
}
