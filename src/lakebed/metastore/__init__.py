"""SQLite and PostgreSQL: the only arbiter of commits."""

from typing import TYPE_CHECKING

from lakebed.core.lazy import lazily

if TYPE_CHECKING:
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
else:
    # Listing tables needs the database alone, and none of what plans and commits.
    __getattr__ = lazily(
        __name__,
        {
            "lakebed.metastore.buckets": ["BucketRows"],
            "lakebed.metastore.condemned": ["Condemned", "ReferencedPaths"],
            "lakebed.metastore.expiring": ["Expiring"],
            "lakebed.metastore.expiry": ["Expired"],
            "lakebed.metastore.files": ["FileSet"],
            "lakebed.metastore.full_state": ["FullState"],
            "lakebed.metastore.metastore": ["Metastore", "open_metastore"],
            "lakebed.metastore.namespaces": ["Namespace"],
            "lakebed.metastore.records": [
                "LoggedVersion",
                "TableRecord",
                "TableState",
                "Tag",
                "VersionChanges",
                "VersionRecord",
            ],
        },
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
