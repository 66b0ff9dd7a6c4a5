"""SQLite and PostgreSQL: the only arbiter of commits."""

from lakebed.metastore.buckets import BucketRows
from lakebed.metastore.condemned import Condemned, ReferencedPaths
from lakebed.metastore.expiring import Expiring
from lakebed.metastore.expiry import Expired
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
    "Condemned",
    "Expired",
    "Expiring",
    "FileSet",
    "FullState",
    "LoggedVersion",
    "Metastore",
    "Namespace",
    "ReferencedPaths",
    "TableRecord",
    "TableState",
    "Tag",
    "VersionChanges",
    "VersionRecord",
    "open_metastore",
]
