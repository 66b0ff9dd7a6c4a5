"""Tiers of small files: which are packed together, and how much of it one upsert pays for."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from lakebed.core.actions import AddFile
from lakebed.core.file_tags import file_tags
from lakebed.engine.tiers import ALLOWANCE, ALMOST_FULL, FULL, LARGE, LEAST, cost, packs, tier_of
from lakebed.engine.unit import Unit

UNIT, OTHER = Unit("", frozenset({0})), Unit("", frozenset({1}))
TARGET = 1 << 30


def files(number: int, size: int, *, first: int = 0, bucket: int = 0, part: str | None = None) -> list[AddFile]:
    values = {} if part is None else {"part": part}
    return [
        AddFile(f"{bucket}-{part}-{size}-{n}", values, size, 0, True, tags=file_tags(bucket))
        for n in range(first, first + number)
    ]


def chosen(units: dict[Unit, Sequence[AddFile]], budget: int = ALLOWANCE, target: int = TARGET) -> list[str]:
    return [add.path for members in packs(units, target, budget).values() for add in members]


def paths(*members: AddFile) -> list[str]:
    return [add.path for add in members]


def test_a_tier_is_eight_times_the_one_below() -> None:
    bounds = [LEAST * 8**n for n in range(4)]
    assert [tier_of(bound - 1) for bound in bounds] == [0, 1, 2, 3]
    assert [tier_of(bound) for bound in bounds] == [1, 2, 3, 4]


def test_what_is_packed_is_of_a_higher_tier() -> None:
    for size in (LEAST, LEAST * 3, LEAST * 8, LEAST * 63):
        assert tier_of(FULL * size) == tier_of(size) + 1


@pytest.mark.parametrize("size", [0, LEAST - 1, LEAST, LEAST * 2, LARGE - 1])
def test_a_full_tier_is_packed(size: int) -> None:
    full = files(FULL, size)
    assert chosen({UNIT: full}) == paths(*full)
    assert chosen({UNIT: full[1:]}) == []
    assert chosen({UNIT: [*full[1:], *files(FULL - 1, size * 8 + LEAST)]}) == []


def test_large_files_never_are() -> None:
    assert chosen({UNIT: files(50, LARGE)}) == []
    assert chosen({UNIT: files(50, 500)}, target=1000) == []
    assert len(chosen({UNIT: files(50, 499)}, target=1000)) == 50


def test_only_what_can_become_one_file() -> None:
    spans = [*files(FULL - 1, 10, part="a"), *files(FULL - 1, 10, part="b")]
    assert chosen({UNIT: spans}) == []
    overlapping = [*files(FULL - 1, 10, bucket=-1), *files(FULL - 1, 10, bucket=-2)]
    assert chosen({Unit("", frozenset({-1, -2})): overlapping}) == []
    assert chosen({UNIT: files(FULL - 1, 10), OTHER: files(FULL - 1, 10, bucket=1)}) == []


def test_others_that_are_almost_full_come_along() -> None:
    full, almost = files(FULL, 10), files(ALMOST_FULL, 10, bucket=1)
    assert chosen({UNIT: full, OTHER: almost}) == paths(*full, *almost)
    assert chosen({UNIT: full, OTHER: almost[1:]}) == paths(*full)


def test_no_more_than_the_budget_pays_for() -> None:
    """Low tiers first, where a byte gets rid of most files; of a tier that is too much, a part."""
    low, high = files(FULL, LEAST - 1), files(FULL, LEAST * 4)
    units: dict[Unit, Sequence[AddFile]] = {UNIT: high, OTHER: low}
    assert chosen(units, cost([*low, *high])) == paths(*low, *high)
    assert chosen(units, cost(low)) == paths(*low)
    assert chosen(units, cost(low[1:]) - LEAST * 2) == []
    many = files(100, LEAST)
    assert chosen({UNIT: many}, cost(many[:20])) == paths(*many[:20])


def test_tiny_files_are_not_for_free() -> None:
    assert cost(files(3, 1)) == 3 * LEAST
    assert len(chosen({UNIT: files(100, 1)}, 10 * LEAST)) == 10


def test_the_usual_budget_pays_for_any_full_tier() -> None:
    assert FULL * LARGE <= ALLOWANCE
