"""The memory of a process and of all that it has started; Linux only."""

from __future__ import annotations

import os
import threading
from pathlib import Path

INTERVAL = 0.2
_PAGE = os.sysconf("SC_PAGE_SIZE")


class Watch:
    """Looks every now and then how much memory a tree of processes has, until it is closed."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._peak = 0
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def reset(self) -> None:
        """Forget the peak so far."""
        self._peak = 0

    def peak(self) -> float:
        """The most since the last reset, in GiB; it looks once more."""
        return max(self._peak, resident(self._pid)) / 2**30

    def close(self) -> None:
        """Stop looking."""
        self._closed.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._closed.wait(INTERVAL):
            self._peak = max(self._peak, resident(self._pid))


def resident(pid: int) -> int:
    """Bytes in memory of a process and its descendants; pages that forked Python workers share count once."""
    return sum(_bytes(one) for one in tree(pid))


def tree(pid: int) -> list[int]:
    """The process and its descendants that are alive."""
    children: dict[int, list[int]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            # The name of a command is in parentheses and may hold anything.
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
        children.setdefault(parent, []).append(int(folder.name))
    found = [pid]
    for one in found:
        found += children.get(one, [])
    return found


def _bytes(pid: int) -> int:
    place = Path("/proc") / str(pid)
    try:
        if (place / "comm").read_text().strip() == "java":
            # Nobody shares its pages, and to add up those of a large heap would take long.
            return int((place / "statm").read_text().split()[1]) * _PAGE
        return int((place / "smaps_rollup").read_text().split("\nPss:")[1].split()[0]) * 1024
    except (OSError, IndexError):
        return 0
