"""SQLite and PostgreSQL: the only arbiter of commits."""

from lakebed.metastore.buckets import BucketRows
from lakebed.metastore.files import FileSet
from lakebed.metastore.full_state import FullState
from lakebed.metastore.metastore import Metastore, open_metastore
from lakebed.metastore.namespaces import Namespace
from lakebed.metastore.records import (
    LoggedVersion,
    TableRecord,
    TableState,
    Tag,
    VersionChanges,
    VersionRecord,
)

__all__ = [
    "BucketRows",
    "FileSet",
    "FullState",
    "LoggedVersion",
    "Metastore",
    "Namespace",
    "TableRecord",
    "TableState",
    "Tag",
    "VersionChanges",
    "VersionRecord",
    "open_metastore",
]
