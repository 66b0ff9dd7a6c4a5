"""Tiers: small files of a bucket by size. Those of a full tier are packed into one file, which is of a higher tier.

A tier's files are up to eight times as large as those of the tier below, so that a row is rewritten about once for each
tier, however many upserts there are, and what stays is a few files for each tier. Only in the lowest tier, whose files
cost the same whatever is in them, a row may be packed several times.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from lakebed.core.actions import AddFile
from lakebed.core.file_tags import bucket_of
from lakebed.engine.unit import Unit

FULL = 8
"""So many files of one tier are packed."""
ALMOST_FULL = 6
"""So many are, if others are packed anyway: one commit for buckets that fill up at about the same time."""
LEAST = 64 * 1024
"""Below this size files cost the same, and are of one tier."""
LARGE = 8 * LEAST
"""Files of this size are left to compact(): to open them costs little against reading them, and an upsert that packs
eight times two megabytes in each of four buckets takes six times as long as one that does not (bench upserts)."""
ALLOWANCE = 64 << 20
"""The bytes that one upsert may pack, beside as many as it has written itself."""

_STEP = 3
"""A tier is 2 ** 3 times the one below."""


def tier_of(size: int) -> int:
    """The tier of a file of ``size`` bytes.

    >>> [tier_of(kib * 1024) for kib in (0, 63, 64, 511, 512, 4095)]
    [0, 0, 1, 1, 2, 2]
    """
    return ((size // LEAST).bit_length() + _STEP - 1) // _STEP


def cost(files: Iterable[AddFile]) -> int:
    """What it takes to write these files, or to pack them, in bytes; a file that is smaller costs no less."""
    return sum(max(add.size, LEAST) for add in files)


def packs(units: Mapping[Unit, Sequence[AddFile]], target_size: int, budget: int) -> dict[Unit, list[AddFile]]:
    """The files of full tiers, as far as ``budget`` pays for them, lowest tiers first.

    ``target_size``: what compaction aims at.

    >>> unit = Unit("", frozenset({0}))
    >>> files = [AddFile(f"{n}", {}, 10, 0, True) for n in range(9)]
    >>> [add.path for add in packs({unit: files}, 1 << 30, ALLOWANCE)[unit]]
    ['0', '1', '2', '3', '4', '5', '6', '7', '8']
    >>> packs({unit: files[:7]}, 1 << 30, ALLOWANCE)
    {}
    """
    large = min(LARGE, target_size // 2)
    crowded = [
        (tier, unit, files)
        for unit, members in units.items()
        if len(members) >= ALMOST_FULL
        for tier, files in _tiers([add for add in members if add.size < large])
        if len(files) >= ALMOST_FULL
    ]
    if not any(len(files) >= FULL for _, _, files in crowded):
        return {}
    chosen: dict[Unit, list[AddFile]] = defaultdict(list)
    for _, unit, files in sorted(crowded, key=lambda one: one[0]):
        paid = _affordable(files, budget)
        if len(paid) >= ALMOST_FULL:
            budget -= cost(paid)
            chosen[unit].extend(paid)
    return dict(chosen)


def _tiers(files: Iterable[AddFile]) -> list[tuple[int, list[AddFile]]]:
    """Files that may become one: of one partition and bucket, and of one tier."""
    found: dict[tuple[int, int | None, frozenset[tuple[str, str | None]]], list[AddFile]] = defaultdict(list)
    for add in files:
        found[tier_of(add.size), bucket_of(add), frozenset(add.partition_values.items())].append(add)
    return [(tier, members) for (tier, _, _), members in found.items()]


def _affordable(files: Sequence[AddFile], budget: int) -> list[AddFile]:
    """All files if the budget pays for them, else as many as it does."""
    paid: list[AddFile] = []
    for add in files:
        budget -= cost([add])
        if budget < 0:
            break
        paid.append(add)
    return paid
