"""Units: the files of a key table that have to be settled together."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import chain
from operator import itemgetter

from lakebed.core.actions import AddFile
from lakebed.core.bucketing import groups
from lakebed.core.commit import Bucket, partition_key
from lakebed.core.file_tags import is_unsettled
from lakebed.core.keyed import KeySpec


@dataclass(frozen=True)
class Unit:
    """A bucket, or several whose hash ranges overlap, with its place: a partition, or everywhere."""

    place: str
    numbers: frozenset[int]

    def __str__(self) -> str:
        numbers = ", ".join(map(str, sorted(self.numbers)))
        place = "" if self.place == partition_key({}) else self.place
        return " ".join(filter(None, (place, numbers and f"bucket {numbers}"))) or "the table"

    @property
    def buckets(self) -> frozenset[Bucket]:
        """The buckets of the unit."""
        return frozenset((self.place, number) for number in self.numbers)


def units_of(files: Iterable[AddFile], key: KeySpec) -> dict[Unit, list[AddFile]]:
    """The files by unit, in the order in which they come: of files that wait nothing else tells it.

    >>> from lakebed.core.file_tags import file_tags
    >>> from lakebed.core.keyed import Merge, MergeEngine
    >>> spec = KeySpec(("id",), (), "dynamic", Merge.ON_READ, MergeEngine.DEDUPLICATE, spans_partitions=True)
    >>> files = [AddFile(f"{n}", {}, 1, 0, True, tags=file_tags(n, unsettled=True, tombstones=0)) for n in (-1, -3, -2)]
    >>> [[add.path for add in members] for members in units_of(files, spec).values()]
    [['-1', '-3', '-2']]
    """
    by_place: dict[str, dict[int, list[tuple[int, AddFile]]]] = defaultdict(lambda: defaultdict(list))
    for at, add in enumerate(files):
        place, number = key.bucket(add)
        by_place[place][number].append((at, add))
    return {
        Unit(place, numbers): [add for _, add in sorted(chain(*map(members.__getitem__, numbers)), key=itemgetter(0))]
        for place, members in by_place.items()
        for numbers in groups(members)
    }


def unsettled_units(files: Iterable[AddFile], key: KeySpec) -> dict[Unit, list[AddFile]]:
    """The units that have anything to settle."""
    units = units_of(files, key)
    return {unit: members for unit, members in units.items() if any(is_unsettled(add) for add in members)}


def fold_order(files: Iterable[AddFile]) -> tuple[AddFile, ...]:
    """The unsettled ones of ``files`` in the order in which they count: committed ones, then pending ones.

    Row ids grow with every commit and inside it, so they tell the order.
    """
    unsettled = [add for add in files if is_unsettled(add)]
    committed = sorted((add for add in unsettled if add.base_row_id is not None), key=lambda add: add.base_row_id or 0)
    return (*committed, *(add for add in unsettled if add.base_row_id is None))


def pending(adds: Mapping[str, AddFile]) -> list[AddFile]:
    """The upsert files that have been written, but neither settled nor committed."""
    return [add for add in adds.values() if is_unsettled(add) and add.base_row_id is None]
