"""Trimming the open log: what comes before its first readable version goes."""

from __future__ import annotations

import re

from lakebed.delta.checkpoint import pointed_version
from lakebed.delta.log import list_log
from lakebed.delta.paths import LOG
from lakebed.storage.store import Store

# Commits, checkpoints of every kind, and the checksums that other writers put beside commits.
_VERSIONED = re.compile(r"(\d{20})\.(?:json|crc|checkpoint\..+)", re.DOTALL)


def before(store: Store, version: int) -> list[str]:
    """The files of the log that tell only of versions before ``version``, the oldest first.

    >>> import tempfile
    >>> from lakebed.core.location import Location
    >>> from lakebed.storage.store import open_store
    >>> store = open_store(Location.parse(tempfile.mkdtemp()))
    >>> for name in ("00000000000000000001.json", "00000000000000000002.json", "notes.json"):
    ...     store.put(f"{LOG}/{name}", b"{}")
    >>> before(store, 2)
    ['_delta_log/00000000000000000001.json']
    """
    found = []
    for file in store.list(LOG, recursive=False):
        name = _VERSIONED.fullmatch(file.path.rpartition("/")[2])
        if name is not None and int(name[1]) < version:
            found.append((int(name[1]), file.path))
    return [path for _, path in sorted(found)]


def begins_well(store: Store, version: int) -> bool:
    """Whether every version from ``version`` on can be read without anything older, by readers of every kind."""
    checkpoints = {checkpoint.version for checkpoint in list_log(store).checkpoints}
    pointed = pointed_version(store)
    return version in checkpoints and pointed in checkpoints and pointed >= version


def trim(store: Store, version: int) -> int:
    """Delete what the log tells of versions before ``version`` alone; how many files that were.

    The log must begin well there. It may be cut off anywhere: later versions can be read at any time, and whoever
    trims next finds the rest. Raises StorageError.
    """
    old = before(store, version)
    store.delete_many(old)
    return len(old)
