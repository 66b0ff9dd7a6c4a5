"""The words of reading changes: what a change row says besides the table's own columns."""

from __future__ import annotations

from lakebed.core.schema import LONG, STRING, TIMESTAMP, Field

CHANGE_TYPE = "_change_type"
COMMIT_VERSION = "_commit_version"
COMMIT_TIMESTAMP = "_commit_timestamp"

INSERT = "insert"
BEFORE = "update_preimage"
AFTER = "update_postimage"
DELETE = "delete"
SNAPSHOT = "snapshot"
"""A row of a whole snapshot that stands for changes that have expired."""

COMBINE, ALL, APPEND, SKIP_MERGE = MODES = ("combine", "all", "append", "skip-merge")
ON_EXPIRED = ("error", "snapshot")
EARLIEST, LATEST = "earliest", "latest"

CHANGE_FIELDS = (Field(CHANGE_TYPE, STRING), Field(COMMIT_VERSION, LONG), Field(COMMIT_TIMESTAMP, TIMESTAMP))
"""They come after the table's columns."""

KIND_CHANGES = (INSERT, BEFORE, AFTER, DELETE)
"""By the code of a row's kind: +I, -U, +U, -D."""
