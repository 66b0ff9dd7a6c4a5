"""finalise: the version, the time and the row ids of a commit."""

import json
from dataclasses import FrozenInstanceError, replace

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
from lakebed.core.commit import (
    DELTA_OPERATION,
    ROW_TRACKING,
    Claim,
    FinalCommit,
    Kind,
    PreparedCommit,
    finalise,
    partition_key,
)
from lakebed.core.errors import InputError


def file(path: str = "a", rows: int | None = 3, **further) -> AddFile:
    stats = None if rows is None else json.dumps({"numRecords": rows})
    return AddFile(path, {}, 10, 0, True, stats, **further)


APPEND = (Claim(Kind.APPEND),)


def prepared(*actions, claims=APPEND, **further) -> PreparedCommit:
    return PreparedCommit("t", "shop.orders", "commit-1", 4, claims, actions, **further)


def final(commit: PreparedCommit, next_row_id: int = 100, **further) -> FinalCommit:
    return finalise(commit, version=5, timestamp=1_000, next_row_id=next_row_id, **further)


def of(kind: type, commit: FinalCommit) -> list:
    return [action for action in commit.actions if isinstance(action, kind)]


def test_row_ids_are_contiguous_and_carry_the_version() -> None:
    done = final(prepared(file("a", 3), file("b", 5), file("c", 1)))
    assert [(a.base_row_id, a.default_row_commit_version) for a in of(AddFile, done)] == [(100, 5), (103, 5), (108, 5)]
    assert done.next_row_id == 109
    assert (done.version, done.timestamp) == (5, 1_000)


def test_the_high_water_mark_is_the_last_id_used() -> None:
    done = final(prepared(file("a", 3)), next_row_id=0)
    assert of(DomainMetadata, done) == [DomainMetadata(ROW_TRACKING, '{"rowIdHighWaterMark":2}')]


@pytest.mark.parametrize("actions", [(), (file("a", 0),), (file("a", 3, base_row_id=7),), (RemoveFile("a", True),)])
def test_without_new_rows_the_mark_stays(actions) -> None:
    done = final(prepared(*actions))
    assert (of(DomainMetadata, done), done.next_row_id) == ([], 100)


def test_files_with_row_ids_keep_them() -> None:
    """A restored file, or an old file with a new vector: its rows are the same rows."""
    vector = DeletionVector("u", "v", 1, 1, offset=1)
    old = file("old", 4, base_row_id=20, default_row_commit_version=2, deletion_vector=vector)
    zero = file("zero", 4, base_row_id=0, default_row_commit_version=0)
    done = final(prepared(old, file("new", 2), zero))
    assert of(AddFile, done) == [old, file("new", 2, base_row_id=100, default_row_commit_version=5), zero]
    assert done.next_row_id == 102


@given(st.lists(st.lists(st.integers(0, 5) | st.none(), max_size=4), max_size=6))
def test_row_ids_are_never_used_twice(commits) -> None:
    """None stands for a file that has an id already."""
    following, used = 0, []
    for rows_of_files in commits:
        adds = [
            file(str(at), 9 if rows is None else rows, base_row_id=0 if rows is None else None)
            for at, rows in enumerate(rows_of_files)
        ]
        done = final(prepared(*adds), following)
        fresh = [a for a, rows in zip(of(AddFile, done), rows_of_files, strict=True) if rows is not None]
        used += [id for a in fresh for id in range(a.base_row_id, a.base_row_id + a.num_records)]
        for mark in of(DomainMetadata, done):
            assert json.loads(mark.configuration) == {"rowIdHighWaterMark": used[-1]}
        following = done.next_row_id
    assert used == list(range(following))


@pytest.mark.parametrize("stats", [None, "{}", "{"])
def test_a_file_without_a_row_count_is_refused(stats) -> None:
    with pytest.raises(InputError, match=r"shop\.orders: file a\.parquet has no row count") as caught:
        final(prepared(replace(file("a.parquet"), stats=stats)))
    assert caught.value.fix


def test_without_row_tracking_files_stay_as_they_are() -> None:
    done = final(prepared(file("a", None), file("b", 3)), row_tracking=False)
    assert of(AddFile, done) == [file("a", None), file("b", 3)]
    assert (of(DomainMetadata, done), done.next_row_id) == ([], 100)


def test_commit_info_comes_first_and_has_the_time() -> None:
    first = final(prepared(Protocol(3, 7, (), ()), file())).actions[0]
    assert first == CommitInfo(
        {
            "inCommitTimestamp": 1_000,
            "timestamp": 1_000,
            "operation": "WRITE",
            "operationParameters": {},
            "engineInfo": "Lakebed",
            "txnId": "commit-1",
            "lakebed": {"kind": "append"},
        }
    )


def test_info_is_added_and_cannot_change_time_and_id() -> None:
    info = {"operationParameters": {"mode": "Append"}, "userMetadata": "x", "lakebed": {"batch": 3}}
    values = final(prepared(info={**info, "inCommitTimestamp": 1, "timestamp": 1, "txnId": "other"})).actions[0].values
    assert (values["operationParameters"], values["userMetadata"]) == ({"mode": "Append"}, "x")
    assert values["lakebed"] == {"kind": "append", "batch": 3}
    assert (values["inCommitTimestamp"], values["timestamp"], values["txnId"]) == (1_000, 1_000, "commit-1")


@pytest.mark.parametrize("kind", list(Kind))
def test_every_kind_has_an_operation_of_the_open_log(kind) -> None:
    info = final(prepared(claims=(Claim(kind),))).actions[0].values
    assert (info["operation"], info["lakebed"]["kind"]) == (DELTA_OPERATION[kind], kind.value)


def test_the_last_claim_names_the_commit() -> None:
    commit = prepared(claims=(Claim(Kind.APPEND), Claim(Kind.DELETE)))
    assert commit.kind is Kind.DELETE
    assert final(commit).actions[0].values["operation"] == "DELETE"


def test_actions_are_in_the_order_of_the_log_and_otherwise_stable() -> None:
    schema = '{"type":"struct","fields":[]}'
    given_actions = (
        UnknownAction("later", {}),
        file("b", 1),
        RemoveFile("x", True, 1),
        SetTransaction("app", 1, 1),
        AddCDCFile("c", {}, 1),
        file("a", 1),
        Metadata("t", schema),
        DomainMetadata("own", "{}"),
        RemoveFile("w", True, 1),
        Protocol(1, 2),
    )
    actions = final(prepared(*given_actions)).actions
    kinds = [type(action) for action in actions]
    assert kinds == [
        CommitInfo,
        Protocol,
        Metadata,
        DomainMetadata,
        DomainMetadata,
        SetTransaction,
        RemoveFile,
        RemoveFile,
        AddFile,
        AddFile,
        UnknownAction,
        AddCDCFile,
    ]
    assert [a.path for a in actions if isinstance(a, AddFile | RemoveFile)] == ["x", "w", "b", "a"]
    assert [a.base_row_id for a in actions if isinstance(a, AddFile)] == [100, 101]


def test_missing_times_are_those_of_the_commit() -> None:
    done = final(
        prepared(SetTransaction("a", 1), SetTransaction("b", 1, 7), RemoveFile("x", True), RemoveFile("y", True, 7))
    )
    assert [t.last_updated for t in of(SetTransaction, done)] == [1_000, 7]
    assert [r.deletion_timestamp for r in of(RemoveFile, done)] == [1_000, 7]


def test_finalise_leaves_the_prepared_commit_as_it_was() -> None:
    """It may be finalised again after a lost race, with another version and other ids."""
    commit = prepared(file("a", 3), SetTransaction("a", 1), info={"lakebed": {"x": 1}})
    once = final(commit)
    again = finalise(commit, version=9, timestamp=2_000, next_row_id=500)
    assert once == final(commit)
    assert commit == prepared(file("a", 3), SetTransaction("a", 1), info={"lakebed": {"x": 1}})
    assert (of(AddFile, again)[0].base_row_id, of(AddFile, again)[0].default_row_commit_version) == (500, 9)
    with pytest.raises(FrozenInstanceError):
        commit.read_version = 8


def test_partition_key_is_canonical() -> None:
    assert partition_key({"b": "2", "a": None}) == partition_key({"a": None, "b": "2"}) == '{"a":null,"b":"2"}'
    assert partition_key({}) == "{}"
    assert partition_key({"stadt": "Köln"}) == '{"stadt":"Köln"}'


@given(*[st.dictionaries(st.text(max_size=3), st.none() | st.text(max_size=3), max_size=3)] * 2)
def test_partition_keys_are_equal_only_for_equal_values(one, other) -> None:
    """Above all, null, the empty text and the text 'null' are three partitions."""
    assert (partition_key(one) == partition_key(other)) == (one == other)
