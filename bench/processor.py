"""Processor time of a process and all that it has started."""

from __future__ import annotations

import os
from pathlib import Path


def cpu_seconds() -> float:
    """What this process and its descendants, ended ones too, have used so far; Linux only."""
    parents: dict[int, int] = {}
    ticks: dict[int, int] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            # The name of a command is in parentheses and may hold anything.
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        parents[int(folder.name)] = int(fields[1])
        ticks[int(folder.name)] = sum(map(int, fields[11:15]))
    mine = [pid for pid in parents if _descends(pid, parents)]
    return sum(ticks[pid] for pid in mine) / os.sysconf("SC_CLK_TCK")


def _descends(pid: int, parents: dict[int, int]) -> bool:
    while pid not in (0, os.getpid()):
        pid = parents.get(pid, 0)
    return pid != 0
