"""All tables at a glance, counted by the database.

The query is text, since a SQLite file can answer it without SQLAlchemy, whose import takes longer than all the rest of
``lakebed ls``.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SCHEMA_VERSION = 4
"""The schema that the query below is written for: the number of migrations."""

QUERY = """
SELECT t.id, t.namespace, t.name, t.location, t.version, t.timestamp,
       COALESCE(f.files, 0), COALESCE(f.bytes, 0), COALESCE(f.stored, 0), COALESCE(f.counted, 0),
       COALESCE(d.dead, 0), COALESCE(f.unsettled, 0), COALESCE(v.unpublished, 0)
FROM lakebed_tables AS t
LEFT JOIN (
    SELECT table_num, COUNT(*) AS files, SUM(size) AS bytes, SUM(num_records) AS stored,
           COUNT(num_records) AS counted, SUM(CASE WHEN unsettled THEN 1 ELSE 0 END) AS unsettled
    FROM lakebed_files WHERE removed_version IS NULL GROUP BY table_num
) AS f ON f.table_num = t.num
LEFT JOIN (
    SELECT table_num, SUM(cardinality) AS dead
    FROM lakebed_deletion_vectors WHERE removed_version IS NULL GROUP BY table_num
) AS d ON d.table_num = t.num
LEFT JOIN (
    SELECT table_num, COUNT(*) AS unpublished FROM lakebed_versions WHERE body IS NOT NULL GROUP BY table_num
) AS v ON v.table_num = t.num
WHERE CAST(:namespace AS VARCHAR) IS NULL OR t.namespace = CAST(:namespace AS VARCHAR)
"""

_SQLITE = "sqlite:///"


@dataclass(frozen=True)
class Overview:
    """A table's newest version in a few numbers."""

    table_id: str
    namespace: str
    name: str
    location: str
    version: int
    timestamp: int
    """When the newest version landed, in milliseconds."""
    files: int
    bytes: int
    rows: int | None
    """Rows that no vector has marked as dead, all rows of unsettled files included; None where a file has no count."""
    dead: int
    unsettled: int
    """How many of the files are unsettled."""
    unpublished: int
    """How many versions the open log does not have yet."""

    def __str__(self) -> str:
        return f"{self.namespace}.{self.name}"


def overviews_of(rows: Iterable[Any]) -> list[Overview]:
    """What the rows of the query say, by name."""
    return sorted(map(_overview, rows), key=str)


def _overview(row: Any) -> Overview:
    table_id, namespace, name, location, version, timestamp, *counts = row
    files, size, stored, counted, dead, unsettled, unpublished = map(int, counts)
    return Overview(
        table_id=table_id,
        namespace=namespace,
        name=name,
        location=location,
        version=version,
        timestamp=timestamp,
        files=files,
        bytes=size,
        rows=stored - dead if counted == files else None,
        dead=dead,
        unsettled=unsettled,
        unpublished=unpublished,
    )


def overviews_in_file(url: str, namespace: str | None = None) -> list[Overview] | None:
    """The tables of a SQLite metastore, read by the standard library alone.

    None where that cannot be trusted: another database, another schema, a failure, or no table at all. Opening the
    metastore then does what is missing, or says what is wrong.
    """
    path = Path(url.removeprefix(_SQLITE))
    if not url.startswith(_SQLITE) or not path.is_file():
        return None
    try:
        with closing(sqlite3.connect(path)) as connection:
            # One transaction: the version and the tables are of the same moment.
            connection.execute("BEGIN")
            if connection.execute("SELECT schema_version FROM lakebed_meta").fetchone() != (SCHEMA_VERSION,):
                return None
            return overviews_of(connection.execute(QUERY, {"namespace": namespace})) or None
    except sqlite3.Error:
        return None
