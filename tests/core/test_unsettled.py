"""Unsettled files in the open log: the translation loses nothing."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.core.actions import (
    Action,
    AddFile,
    CommitInfo,
    DeletionVector,
    DomainMetadata,
    RemoveFile,
    SetTransaction,
    from_lines,
    to_lines,
)
from lakebed.core.errors import CorruptFileError
from lakebed.core.file_tags import UNSETTLED, file_tags, settled
from lakebed.core.unsettled import DOMAIN_PREFIX, from_log, is_unsettled_domain, to_log

text = st.text(st.characters(codec="utf-8"), max_size=12)
longs = st.integers(0, 2**63 - 1)
values = st.dictionaries(text, st.none() | text, max_size=2)
extra = st.dictionaries(text.map(lambda name: f"x-{name}"), st.none() | longs | text, max_size=2)
tags = st.builds(file_tags, st.integers(-100, 100), unsettled=st.booleans(), tombstones=st.integers(0, 3))
shared = {
    "size": longs,
    "data_change": st.booleans(),
    "tags": st.none() | tags,
    "stats": st.none() | text,
    "base_row_id": st.none() | longs,
    "default_row_commit_version": st.none() | longs,
    "extra": extra,
}
adds = st.builds(AddFile, path=text, partition_values=values, modification_time=longs, **shared)
removes = st.builds(
    RemoveFile,
    path=text,
    partition_values=st.none() | values,
    deletion_timestamp=st.none() | longs,
    extended_file_metadata=st.none() | st.booleans(),
    **shared,
)
others = st.sampled_from(
    [
        CommitInfo({"timestamp": 1}),
        SetTransaction("a", 1),
        DomainMetadata("lakebed.split.2", "{}"),
        DomainMetadata("x", ""),
    ]
)


def unsettled(path: str, **changes: object) -> AddFile:
    add = AddFile(path, {"dt": "1"}, 10, 5, True, '{"numRecords":3}', file_tags(3, unsettled=True), base_row_id=7)
    return replace(add, **changes)  # type: ignore[arg-type]


@given(st.lists(adds | others, max_size=4), st.lists(removes, max_size=4))
def test_round_trip_through_the_text_of_the_log(entering: list[Action], leaving: list[RemoveFile]) -> None:
    paths = {a.path for a in entering if isinstance(a, AddFile)}
    actions = (*(r for r in leaving if r.path not in paths), *entering)
    logged = from_lines(to_lines(to_log(actions)))
    assert from_log(logged) == actions
    assert to_log(from_log(logged)) == logged
    assert not [a for a in logged if isinstance(a, AddFile | RemoveFile) and (a.tags or {}).get(UNSETTLED)]


def test_a_file_that_settles() -> None:
    before = unsettled("a")
    after = replace(settled(before), deletion_vector=DeletionVector("u", "x", 1, 1, 1))
    actions = (before.remove(timestamp=9), after)
    domain, add = to_log(actions)
    assert isinstance(domain, DomainMetadata)
    assert (domain.domain, domain.removed, add) == ("lakebed.unsettled:a", True, after)
    assert from_log((domain, add)) == actions


def test_a_settled_file_that_a_restore_makes_unsettled_again() -> None:
    actions = (settled(unsettled("a")).remove(timestamp=9), unsettled("a"))
    logged = to_log(actions)
    assert logged[0] == actions[0]
    assert is_unsettled_domain(logged[1])
    assert from_log(logged) == actions


def test_a_commit_names_a_domain_only_once() -> None:
    again = unsettled("a", stats=None)
    logged = to_log((unsettled("a").remove(timestamp=9), again))
    assert [a.domain for a in logged if isinstance(a, DomainMetadata)] == ["lakebed.unsettled:a"]
    assert from_log(logged) == (again,)


@pytest.mark.parametrize("configuration", ["", "{}", "[]", "null", '{"path":"b"}'])
def test_what_other_writers_may_leave_of_a_removed_domain(configuration: str) -> None:
    bare = RemoveFile("a", data_change=True, tags={UNSETTLED: "true"})
    assert from_log([DomainMetadata(DOMAIN_PREFIX + "a", configuration, removed=True)]) == (bare,)


@pytest.mark.parametrize("configuration", ["", "{}", "[]", "null", json.dumps({"path": "b", "size": 1})])
def test_a_domain_that_does_not_tell_of_its_file(configuration: str) -> None:
    with pytest.raises(CorruptFileError, match="does not tell of that file"):
        from_log([DomainMetadata(DOMAIN_PREFIX + "a", configuration)])
