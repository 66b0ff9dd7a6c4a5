"""The dead rows of files, kept in the process: whoever upserts again needs what the upsert before has found.

A vector never changes, and its place is never used twice. Only upserts that settle themselves ask here: others read the
vectors where they are stored, and tell if one is missing or damaged.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Hashable

from pyroaring import BitMap64

from lakebed.core.actions import AddFile, DeletionVector
from lakebed.core.keyed import KeySpec, Merge
from lakebed.core.location import Location
from lakebed.core.options import MIB
from lakebed.engine.resolving.order import ResolveOrder
from lakebed.engine.scan import dead_rows, named
from lakebed.storage.deletion_vector import size_in_memory
from lakebed.storage.store import Store

LIMIT = 64 * MIB
_ENTRY_BYTES = 1024
"""What the objects of an entry take beside the positions: its name may be the text of a small vector."""


class DeadRows:
    """The positions that were used last, up to a number of bytes. Threads share it; nobody may change what is kept."""

    def __init__(self, limit: int = LIMIT) -> None:
        self._limit = limit
        self._lock = threading.Lock()
        self._kept: OrderedDict[Hashable, tuple[BitMap64, int]] = OrderedDict()
        self.num_bytes = 0

    def find(self, name: Hashable) -> BitMap64 | None:
        """The positions of that name, if they are kept."""
        with self._lock:
            if name not in self._kept:
                return None
            self._kept.move_to_end(name)
            return self._kept[name][0]

    def keep(self, name: Hashable, positions: BitMap64) -> None:
        """Keep them; what was not used for longest goes."""
        size = size_in_memory(positions) + _ENTRY_BYTES
        with self._lock:
            if name in self._kept:
                return
            self._kept[name] = positions, size
            self.num_bytes += size
            while self.num_bytes > self._limit:
                self.num_bytes -= self._kept.popitem(last=False)[1][1]


_shared = DeadRows()


def known_dead(order: ResolveOrder, add: AddFile) -> BitMap64:
    """The dead rows of a file, which the caller does not change.

    Raises FileMissingError and CorruptFileError.
    """
    vector = add.deletion_vector
    if vector is None:
        return BitMap64()
    name = _name(order.store.location, vector)
    found = _shared.find(name) if keeps_dead(order.key) else None
    if found is None:
        with named(order.scan):
            found = dead_rows(order.store, vector)
        assert found is not None
    return found


def keeps_dead(key: KeySpec) -> bool:
    """Whether upserts into such a table ask for what the one before has found."""
    return key.merge is Merge.ON_WRITE


def keep_dead(store: Store, vector: DeletionVector, positions: BitMap64) -> None:
    """Keep the positions of a vector that this process has just written."""
    _shared.keep(_name(store.location, vector), positions)


def _name(table: Location, vector: DeletionVector) -> Hashable:
    return table, vector.storage_type, vector.path_or_inline_dv, vector.offset


def _after_fork() -> None:
    """A lock may have been held by a thread that the child does not have."""
    global _shared  # noqa: PLW0603 - it is the process's own
    _shared = DeadRows()


os.register_at_fork(after_in_child=_after_fork)
