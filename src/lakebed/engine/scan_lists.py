"""What scans and jobs leave below a table beside its files: how long that stays."""

from __future__ import annotations

from collections.abc import Iterator

from lakebed.storage.store import FileInfo, Store

BESIDE = "_lakebed"
"""The directory, below a table, of what is no part of it."""
SCAN_LISTS = f"{BESIDE}/scans"
"""The directory, below a table, in which a scan leaves the list of its files."""
FRESH_MS = 12 * 60 * 60 * 1000
"""A list that is older is written again before it is used."""
KEPT_MS = 2 * FRESH_MS
"""For how long a list stays at least, however short the retention: a lazy reader may still come for it."""


def stale(store: Store, now: int, retain_ms: int) -> Iterator[FileInfo]:
    """The lists that no reader comes for any more, and what tasks have told of their progress to a dead driver."""
    oldest = now - max(retain_ms, KEPT_MS)
    return (file for file in store.list(BESIDE) if file.mtime_ms <= oldest)
