"""How much a run does."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Sizes:
    """Rows and repetitions of the workloads."""

    rows: int
    """Rows of a table before anything is changed."""
    batch: int
    """Rows of a large upsert."""
    upserts: int
    """Large upserts."""
    trickle: int
    """Rows of a small upsert."""
    trickles: int
    """Small upserts."""
    lookups: int
    """Keys that are looked up one by one."""
    writers: int
    """Threads that write at the same time."""
    writes: int
    """Upserts of each of them."""
    partitions: int
    """Partitions of the table that has many."""
    tpch: float
    """Scale factor of TPC-H."""
    refreshes: int
    """Refreshes of TPC-H."""

    @classmethod
    def at(cls, scale: float) -> Sizes:
        """The amounts for a part of the whole benchmark. Rows shrink with it, repetitions more slowly.

        >>> Sizes.at(1).rows, Sizes.at(1).trickles
        (10000000, 100)
        >>> Sizes.at(0.01).rows, Sizes.at(0.01).trickles
        (100000, 10)
        """
        return cls(
            rows=max(1_000, round(10_000_000 * scale)),
            batch=max(200, round(2_000_000 * scale)),
            upserts=_times(10, scale, least=3),
            trickle=max(100, round(10_000 * min(1.0, scale * 10))),
            trickles=_times(100, scale, least=10),
            lookups=_times(20, scale, least=3),
            writers=4,
            writes=_times(5, scale, least=1),
            partitions=max(20, round(10_000 * scale**1.35)),
            tpch=max(0.01, scale),
            refreshes=_times(10, scale, least=1),
        )

    @classmethod
    def warm(cls) -> Sizes:
        """Just enough that everything is loaded and compiled once."""
        return cls(
            rows=1_000,
            batch=200,
            upserts=1,
            trickle=100,
            trickles=1,
            lookups=1,
            writers=1,
            writes=1,
            partitions=3,
            tpch=0.01,  # with less, keys of partsupp are not distinct
            refreshes=1,
        )

    @property
    def read_every(self) -> int:
        """After so many small upserts the table is read; after the last one too.

        >>> Sizes.at(1).read_every, Sizes.at(0.01).read_every
        (10, 2)
        """
        return max(2, self.trickles // 10)

    def to_json(self) -> dict[str, Any]:
        """All of it; ``Sizes(**value)`` is the way back."""
        return asdict(self)


def _times(full: int, scale: float, *, least: int, power: float = 0.6) -> int:
    return max(least, min(full, round(full * math.pow(scale, power))))
