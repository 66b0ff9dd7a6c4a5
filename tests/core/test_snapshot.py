"""apply(actions, snapshot) -> snapshot: pure, and reconciled as the protocol says."""

from copy import deepcopy
from dataclasses import FrozenInstanceError, replace
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.core.actions import (
    AddCDCFile,
    AddFile,
    CommitInfo,
    DeletionVector,
    DomainMetadata,
    Metadata,
    Protocol,
    RemoveFile,
    SetTransaction,
    UnknownAction,
)
from lakebed.core.errors import CorruptFileError
from lakebed.core.snapshot import Replay, apply

SCHEMA = '{"type":"struct","fields":[{"name":"id","type":"long","nullable":true,"metadata":{}}]}'
WIDER = SCHEMA.replace("]}", ',{"name":"note","type":"string","nullable":true,"metadata":{}}]}')
START = (Protocol(1, 2), Metadata("t", SCHEMA))


def file(path: str = "a", vector: str | None = None, **further) -> AddFile:
    dv = None if vector is None else DeletionVector("u", vector, 1, 1, offset=1)
    return AddFile(path, {}, 10, 0, True, deletion_vector=dv, **further)


@pytest.fixture
def first():
    return apply([*START, file("a"), SetTransaction("app", 1), DomainMetadata("d", "{}")], None)


def test_versions_count_from_zero(first) -> None:
    assert (first.version, apply([], first).version, apply([], apply([], first)).version) == (0, 1, 2)


def test_apply_leaves_its_input_unchanged(first) -> None:
    before = deepcopy({name: dict(getattr(first, name)) for name in ("files", "tombstones", "transactions", "domains")})
    actions = [
        file("a").remove(timestamp=1),
        file("b"),
        SetTransaction("app", 2),
        DomainMetadata("d", "", removed=True),
    ]
    second = apply(actions, first)
    assert {name: dict(getattr(first, name)) for name in before} == before
    assert {name: dict(getattr(second, name)) for name in before} != before
    assert first.metadata is second.metadata


@pytest.mark.parametrize("name", ["files", "tombstones", "transactions", "domains"])
def test_a_snapshot_cannot_be_changed(first, name) -> None:
    with pytest.raises(TypeError):
        getattr(first, name)["x"] = None
    with pytest.raises(AttributeError):
        getattr(first, name).clear()
    with pytest.raises(FrozenInstanceError):
        setattr(first, name, {})


def test_a_snapshot_does_not_see_later_actions_of_its_replay() -> None:
    replay = Replay()
    replay.add([*START, file("a")])
    first = replay.snapshot(0)
    replay.add([file("a").remove(), file("b")])
    assert [path for path, _ in first.files] == ["a"]
    assert [path for path, _ in replay.snapshot(1).files] == ["b"]


def test_add_and_remove(first) -> None:
    second = apply([file("b")], first)
    third = apply([file("a").remove(timestamp=5)], second)
    assert [path for path, _ in second.files] == ["a", "b"]
    assert [path for path, _ in third.files] == ["b"]
    assert third.tombstones[("a", None)].deletion_timestamp == 5


def test_a_file_that_comes_back_has_no_tombstone(first) -> None:
    gone = apply([file("a").remove()], first)
    back = apply([file("a")], gone)
    assert (dict(gone.files), list(gone.tombstones)) == ({}, [("a", None)])
    assert (list(back.files), dict(back.tombstones)) == ([("a", None)], {})


def test_a_later_add_of_the_same_file_replaces_it(first) -> None:
    again = replace(file("a"), stats='{"numRecords":1}', data_change=False)
    assert apply([again], first).files == {("a", None): again}


@pytest.mark.parametrize("removed_first", [True, False])
def test_a_new_vector_is_another_logical_file(first, removed_first) -> None:
    """The order of the two actions inside the commit does not matter."""
    actions = [file("a").remove(timestamp=1), file("a", "v1")]
    second = apply(actions if removed_first else actions[::-1], first)
    assert second.files == {("a", "uv1@1"): file("a", "v1")}
    assert list(second.tombstones) == [("a", None)]
    third = apply([file("a", "v1").remove(), file("a", "v2")], second)
    assert list(third.files) == [("a", "uv2@1")]
    assert list(third.tombstones) == [("a", None), ("a", "uv1@1")]


def test_remove_without_the_vector_leaves_the_file_with_it(first) -> None:
    second = apply([file("b", "v1")], first)
    assert ("b", "uv1@1") in apply([RemoveFile("b", True)], second).files


def test_the_latest_transaction_of_an_application_wins(first) -> None:
    """Latest by commit, as the protocol says, not by number."""
    second = apply([SetTransaction("app", 9), SetTransaction("other", 1)], first)
    third = apply([SetTransaction("app", 3, 77)], second)
    assert {app: txn.version for app, txn in second.transactions.items()} == {"app": 9, "other": 1}
    assert third.transactions["app"] == SetTransaction("app", 3, 77)


def test_a_removed_domain_is_gone_and_can_come_back(first) -> None:
    gone = apply([DomainMetadata("d", "", removed=True), DomainMetadata("e", "1")], first)
    assert list(gone.domains) == ["e"]
    assert apply([DomainMetadata("d", "2")], gone).domains["d"].configuration == "2"
    assert apply([DomainMetadata("never", "", removed=True)], first).domains == first.domains


def test_metadata_and_protocol_are_replaced_and_files_stay(first) -> None:
    second = apply([Protocol(3, 7, (), ()), Metadata("t", WIDER)], first)
    assert (second.protocol, second.schema.names) == (Protocol(3, 7, (), ()), ("id", "note"))
    assert (first.protocol, first.schema.names) == (Protocol(1, 2), ("id",))
    assert second.files == first.files


def test_timestamp_is_that_of_the_last_commit_that_has_one(first) -> None:
    assert first.timestamp is None
    second = apply([CommitInfo({"timestamp": 5})], first)
    assert (second.timestamp, apply([], second).timestamp) == (5, 5)
    assert apply([CommitInfo({"inCommitTimestamp": 0, "timestamp": 9})], second).timestamp == 0


def test_change_files_and_unknown_actions_are_no_state(first) -> None:
    second = apply([AddCDCFile("c", {}, 1), UnknownAction("later", {})], first)
    assert replace(second, version=0) == first


@pytest.mark.parametrize(
    ("actions", "missing"), [([Metadata("t", SCHEMA)], "protocol"), ([Protocol(1, 2)], "metaData"), ([], "protocol")]
)
def test_a_log_that_begins_nowhere_is_refused(actions, missing) -> None:
    with pytest.raises(CorruptFileError, match=f"no {missing}"):
        apply(actions, None)


adds = st.builds(file, st.sampled_from("abc"), st.sampled_from([None, "v1", "v2"]))
actions = st.one_of(
    adds,
    adds.map(lambda add: add.remove(timestamp=1)),
    st.builds(SetTransaction, st.sampled_from("xy"), st.integers(0, 3)),
    st.builds(DomainMetadata, st.sampled_from("pq"), st.just("{}"), st.booleans()),
    st.builds(Protocol, st.just(3), st.just(7), st.just(()), st.just(())),
    st.builds(Metadata, st.just("t"), st.sampled_from([SCHEMA, WIDER])),
    st.builds(CommitInfo, st.fixed_dictionaries({"timestamp": st.integers(0, 9)})),
    st.just(UnknownAction("later", {})),
)


@given(st.lists(st.lists(actions, max_size=5), max_size=8))
def test_a_replay_is_a_fold_of_apply(commits) -> None:
    *_, folded = accumulate(commits, lambda snapshot, commit: apply(commit, snapshot), initial=apply(START, None))
    replay = Replay()
    for commit in [list(START), *commits]:
        replay.add(commit)
    assert replay.snapshot(len(commits)) == folded


@given(st.lists(st.lists(actions, max_size=5), max_size=8), st.data())
def test_a_replay_can_begin_at_any_snapshot(commits, data) -> None:
    versions = list(accumulate(commits, lambda s, c: apply(c, s), initial=apply(START, None)))
    base = data.draw(st.sampled_from(versions))
    replay = Replay(base)
    for commit in commits[base.version :]:
        replay.add(commit)
    assert replay.snapshot(versions[-1].version) == versions[-1]


@given(st.lists(actions, max_size=20))
def test_a_logical_file_is_live_or_dead_and_the_last_action_says_which(commit) -> None:
    snapshot = apply([*START, *commit], None)
    assert not set(snapshot.files) & set(snapshot.tombstones)
    last = {a.key: a for a in commit if isinstance(a, AddFile | RemoveFile)}
    assert set(snapshot.files) == {key for key, action in last.items() if isinstance(action, AddFile)}
