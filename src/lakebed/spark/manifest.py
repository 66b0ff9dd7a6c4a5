"""The list of a scan's files, where Spark reads it without listing a single directory.

Spark's streaming file sink keeps the files that it has written in ``_spark_metadata``; whoever reads such a
directory takes them from there. A scan's list has that form. It lies below the table, where every reader of the table
can read, and is named after its content: scans of the same files share one. Other Delta readers, and vacuum's search
for orphans, pass over names that begin with an underscore; old lists go with vacuum (``engine/scan_lists.py``).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence

from lakebed.core.actions import now_ms
from lakebed.core.errors import FileMissingError
from lakebed.engine.scan_lists import FRESH_MS, SCAN_LISTS
from lakebed.spark.file_numbers import NumberedFile
from lakebed.storage.store import Store

_LIST = "_spark_metadata/0"
# Only tells where blocks lie, which Spark asks the file system for anyway.
_BLOCK_SIZE = 128 * 1024 * 1024


def write_manifest(store: Store, files: Sequence[NumberedFile]) -> str:
    """Write the list of the files below the table, if it is not there; the path that Spark reads it by.

    Raises StorageError if the table's directory cannot be written.
    """
    content = "\n".join(["v1", *map(_line, files)]).encode()
    folder = f"{SCAN_LISTS}/{hashlib.sha256(content).hexdigest()[:32]}"
    if not _is_fresh(store, f"{folder}/{_LIST}"):
        store.put(f"{folder}/{_LIST}", content, sync=False)
    return store.location.child(folder).hadoop_path


def _is_fresh(store: Store, path: str) -> bool:
    """Whether the list is there and so young that no vacuum takes it away soon."""
    try:
        return store.info(path).mtime_ms > now_ms() - FRESH_MS
    except FileMissingError:
        return False


def _line(file: NumberedFile) -> str:
    """A file of the list. Its time of modification, which nobody needs, tells its number."""
    return (
        f'{{"path":{json.dumps(file.uri)},"size":{file.size},"isDir":false,"modificationTime":{file.number},'
        f'"blockReplication":1,"blockSize":{_BLOCK_SIZE},"action":"add"}}'
    )
