"""Arrays with a place for every possible key, which are used again.

New memory comes from the system page by page, which takes longer than all that a small upsert does with it.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from lakebed.core.options import MIB

NOBODY = 2**8 - 1
"""What stands in a place that nobody has taken."""
_KEPT = 4
"""So many arrays are kept: as many as there are units that are settled at a time."""
_LARGEST = 16 * MIB

Places = npt.NDArray[np.uint8]


class FreePlaces:
    """Arrays that nobody uses just now; in all their places stands ``NOBODY``. Threads share them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._arrays: list[Places] = []

    def take(self, size: int) -> Places:
        """An array of at least so many places, for whoever gives it back in the end or forgets it."""
        with self._lock:
            for number, array in enumerate(self._arrays):
                if len(array) >= size:
                    return self._arrays.pop(number)
        # A little more than is asked for: the highest key grows from upsert to upsert.
        return np.full(size + size // 8, NOBODY, np.uint8)

    def give_back(self, array: Places, taken: Iterable[npt.NDArray[np.int64]] | int) -> None:
        """``taken`` are the places in which something else may stand by now, or how many of the first there are."""
        if len(array) > _LARGEST:
            return
        if isinstance(taken, int):
            array[:taken] = NOBODY
        else:
            for places in taken:
                array[places] = NOBODY
        with self._lock:
            self._arrays.append(array)
            # The largest stay: any unit can use them.
            self._arrays.sort(key=len)
            del self._arrays[:-_KEPT]


free = FreePlaces()


def _after_fork() -> None:
    """A lock may have been held by a thread that the child does not have."""
    global free  # noqa: PLW0603 - it is the process's own
    free = FreePlaces()


os.register_at_fork(after_in_child=_after_fork)
