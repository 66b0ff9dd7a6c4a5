"""Bucket numbers: the tree of a growing table, and what its splits look like in the log."""

import json
import re

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.core.bucketing import (
    MAX_DEPTH,
    ROOT,
    can_split,
    check_key_type,
    child,
    depth,
    fixed,
    groups,
    leaves,
    overlaps,
    parent,
    parse_split,
    split_action,
    split_domain,
)
from lakebed.core.errors import CorruptFileError, InputError
from lakebed.core.schema import (
    DOUBLE,
    FLOAT,
    PRIMITIVES,
    STRING,
    VOID,
    Array,
    Decimal,
    Field,
    Map,
    Struct,
)

HASHES = st.integers(-(2**31), 2**31 - 1)
FIXED = st.integers(0, 40)
SHALLOW = st.integers(1, 63).map(lambda node: -node)
NODES = SHALLOW | st.integers(1, 2**33 - 1).map(lambda node: -node)
NUMBERS = FIXED | NODES
SPLITS = st.frozensets(SHALLOW, max_size=40)


def int32(values: list[int]) -> pa.Array:
    return pa.array(values, pa.int32())


def walk(value: int, splits: frozenset[int]) -> int:
    """The leaf of one hash, bit by bit."""
    at = ROOT
    while at in splits and depth(at) < MAX_DEPTH:
        at = child(at, value % 2**32 >> (31 - depth(at)) & 1)
    return at


def path_to(value: int, length: int) -> frozenset[int]:
    """The nodes above the one that stands for the first ``length`` bits of a hash."""
    return frozenset(-(1 << n | value % 2**32 >> (32 - n)) for n in range(length))


# --- fixed


@given(st.lists(HASHES), st.integers(1, 2**31 - 1))
def test_fixed_is_the_positive_remainder(hashes: list[int], n: int) -> None:
    buckets = fixed(int32(hashes), n)
    assert buckets.type == pa.int32()
    assert buckets.to_pylist() == [value % n for value in hashes]


@pytest.mark.parametrize("n", [0, -1, 2**31])
def test_fixed_refuses_a_count_that_no_table_has(n: int) -> None:
    with pytest.raises(InputError, match="expected 1 to 2147483647"):
        fixed(int32([1]), n)


# --- the tree


@given(NODES.filter(can_split), st.integers(0, 1))
def test_a_child_is_one_deeper_below_its_parent(number: int, bit: int) -> None:
    below = child(number, bit)
    assert parent(below) == number
    assert depth(below) == depth(number) + 1
    assert overlaps(number, below)
    assert not overlaps(below, child(number, 1 - bit))


def test_the_tree_ends_where_the_hash_ends() -> None:
    deepest = -(1 << MAX_DEPTH)
    assert depth(deepest) == MAX_DEPTH
    assert not can_split(deepest)
    with pytest.raises(InputError, match="cannot be split; expected a depth below 32"):
        child(deepest, 0)
    with pytest.raises(InputError, match="cannot be split"):
        split_action("", deepest)


def test_the_root_has_no_parent() -> None:
    assert parent(ROOT) is None
    assert depth(ROOT) == 0


@pytest.mark.parametrize("function", [depth, parent, lambda number: split_domain("", number)])
def test_a_fixed_bucket_is_no_node(function) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(InputError, match="bucket 3 is one of a fixed number"):
        function(3)


def ancestors(number: int) -> set[int]:
    above = parent(number)
    return set() if above is None else {above, *ancestors(above)}


@given(NUMBERS, NUMBERS)
def test_overlap_is_being_one_or_above_the_other(a: int, b: int) -> None:
    related = a < 0 and b < 0 and (a in ancestors(b) or b in ancestors(a))
    assert overlaps(a, b) == (a == b or related)
    assert overlaps(a, b) == overlaps(b, a)


@given(NODES)
def test_a_node_overlaps_itself_and_all_above(number: int) -> None:
    assert all(overlaps(number, above) for above in {number, *ancestors(number)})


# --- groups


def connected(numbers: set[int]) -> set[frozenset[int]]:
    """Sets merged for as long as two of them overlap."""
    sets = [frozenset({number}) for number in numbers]
    for number in numbers:
        touching = [group for group in sets if any(overlaps(number, other) for other in group)]
        sets = [group for group in sets if group not in touching] + [frozenset().union(*touching)]
    return set(sets)


@given(st.lists(FIXED | SHALLOW))
def test_groups_are_the_connected_sets(numbers: list[int]) -> None:
    found = groups(numbers)
    assert sorted(number for group in found for number in group) == sorted(set(numbers))
    assert set(found) == connected(set(numbers))
    assert groups(reversed(numbers)) == found


@given(st.lists(NUMBERS))
def test_no_two_groups_overlap(numbers: list[int]) -> None:
    found = groups(numbers)
    for group in found:
        assert not any(overlaps(a, b) for other in found if other is not group for a in group for b in other)


def test_siblings_are_apart_until_a_file_lies_above_them() -> None:
    assert set(groups([-4, -5, -3])) == {frozenset({-4}), frozenset({-5}), frozenset({-3})}
    assert set(groups([-4, -5, -3, -2])) == {frozenset({-4, -5, -2}), frozenset({-3})}
    assert groups([-4, -5, -3, -2, -1]) == [frozenset({-4, -5, -3, -2, -1})]
    assert groups([]) == []


# --- leaves


@given(st.lists(HASHES), SPLITS)
def test_leaves_are_reached_bit_by_bit(hashes: list[int], splits: frozenset[int]) -> None:
    found = leaves(int32(hashes), splits)
    assert found.type == pa.int64()
    assert found.to_pylist() == [walk(value, splits) for value in hashes]


@given(st.lists(HASHES, min_size=1), st.lists(st.integers(0, 33), min_size=1, max_size=4), st.data())
def test_leaves_of_a_deep_tree(hashes: list[int], lengths: list[int], data: st.DataObject) -> None:
    splits = frozenset[int]().union(*(path_to(data.draw(st.sampled_from(hashes)), min(n, 32)) for n in lengths))
    near = [value ^ 1 for value in hashes]
    found = leaves(int32([*hashes, *near]), splits).to_pylist()
    assert found == [walk(value, splits) for value in [*hashes, *near]]


@given(st.lists(HASHES), SPLITS, SPLITS)
def test_more_splits_only_lead_further_down(hashes: list[int], known: frozenset[int], more: frozenset[int]) -> None:
    before = leaves(int32(hashes), known).to_pylist()
    after = leaves(int32(hashes), known | more).to_pylist()
    assert all(new == old or old in ancestors(new) for old, new in zip(before, after, strict=True))
    assert all(overlaps(old, new) for old, new in zip(before, after, strict=True))


@given(st.lists(HASHES), SPLITS)
def test_leaves_never_overlap_each_other(hashes: list[int], splits: frozenset[int]) -> None:
    found = set(leaves(int32(hashes), splits).to_pylist())
    assert all(len(group) == 1 for group in groups(found))


def test_equal_hashes_end_at_the_greatest_depth() -> None:
    value = -123456789
    splits = path_to(value, 32) | {-(1 << 32 | value % 2**32)}
    found = leaves(int32([value] * 5 + [0]), splits).to_pylist()
    assert found[:5] == [-(1 << 32 | value % 2**32)] * 5
    assert depth(found[0]) == MAX_DEPTH
    assert depth(found[5]) == 1


def test_without_splits_all_rows_are_in_the_root() -> None:
    assert leaves(int32([1, -1]), frozenset()).to_pylist() == [ROOT, ROOT]
    assert leaves(int32([1, -1]), {-2, -3}).to_pylist() == [ROOT, ROOT]
    assert leaves(int32([]), {-1}).to_pylist() == []


# --- splits in the log


@given(st.text(), NODES.filter(can_split))
def test_a_split_is_read_back(place: str, number: int) -> None:
    action = split_action(place, number)
    assert action.domain == split_domain(place, number)
    assert parse_split(action.domain, action.configuration) == (place, number)
    assert len(action.domain) <= 64
    assert not action.removed


@given(st.lists(st.tuples(st.sampled_from(["", "{}", '{"a":"1"}', '{"a":"11"}']), NODES), unique=True))
def test_every_split_has_its_own_domain(splits: list[tuple[str, int]]) -> None:
    assert len({split_domain(*split) for split in splits}) == len(splits)


def test_other_domains_are_no_splits() -> None:
    assert parse_split("delta.rowTracking", "{}") is None
    assert parse_split("lakebed.unsettled:a.parquet", "{}") is None


@pytest.mark.parametrize(
    "configuration",
    [
        "",
        "[]",
        "7",
        "{}",
        '{"place":"","bucket":"x"}',
        '{"place":7,"bucket":-2}',
        '{"place":"elsewhere","bucket":-2}',
        '{"place":"","bucket":-3}',
        '{"place":"","bucket":2}',
        json.dumps({"place": "", "bucket": -(1 << 32)}),
    ],
)
def test_a_split_that_makes_no_sense_is_corrupt(configuration: str) -> None:
    with pytest.raises(CorruptFileError, match=r"domain lakebed\.split\.2 cannot be understood"):
        parse_split("lakebed.split.2", configuration)


# --- key types


@pytest.mark.parametrize("name", sorted(set(PRIMITIVES) - {"float", "double"}))
def test_plain_types_can_be_keys(name: str) -> None:
    assert check_key_type(PRIMITIVES[name]) is None


def test_decimals_can_be_keys() -> None:
    assert check_key_type(Decimal(38, 10)) is None


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        (FLOAT, "float"),
        (DOUBLE, "float"),
        (VOID, "without a type"),
        (Array(STRING), "nested value .array."),
        (Map(STRING, STRING), "nested value .map."),
        (Struct((Field("a", STRING),)), "nested value .struct."),
    ],
)
def test_other_types_are_refused_with_the_reason(kind: object, reason: str) -> None:
    found = check_key_type(kind)  # type: ignore[arg-type]
    assert found is not None
    assert re.search(reason, found)
