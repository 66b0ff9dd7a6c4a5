"""Which commits land, together and against each other."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest
from sqlalchemy import select
from table_under_test import PROTOCOL, Written, add, create, metadata, prepare, vector

from lakebed.core.actions import SetTransaction
from lakebed.core.commit import Claim, Conflict, Kind, Landed, Recompute
from lakebed.core.errors import CommitError, InputError, NotFoundError
from lakebed.core.steps import Step, observe
from lakebed.metastore import Metastore, commits, open_metastore
from lakebed.metastore.schema import versions as version_rows


def test_a_commit_passes_its_steps(table: Written) -> None:
    seen: list[Step] = []
    stop = observe(seen.append)
    table.commit(add("a"))
    stop()
    assert seen == [Step.COMMIT_BEGUN, Step.COMMIT_INSERTED, Step.COMMIT_DONE]


def test_appends_rebase(table: Written) -> None:
    table.commit(add("a"))
    assert table.commit(add("b"), read=0).version == 2
    assert sorted(table.live()) == ["a", "b"]


def test_a_changed_file_conflicts(table: Written) -> None:
    table.commit(add("a"))
    file = table.live()["a"]
    table.commit(file.remove(), kind=Kind.DELETE)
    outcome = table.attempt(file.remove(), kind=Kind.UPDATE, read=1)
    assert isinstance(outcome, Conflict)
    assert (outcome.version, outcome.theirs, outcome.mine) == (2, Kind.DELETE, Kind.UPDATE)
    assert table.versions() == [0, 1, 2]


def test_maintenance_asks_to_recompute(table: Written) -> None:
    table.commit(add("a"))
    file = table.live()["a"]
    table.commit(file.remove(data_change=False), add("b", data_change=False), kind=Kind.COMPACT)
    outcome = table.attempt(file.remove(), replace(file, deletion_vector=vector("v")), kind=Kind.DELETE, read=1)
    assert outcome == Recompute("default.t", 2, files=frozenset({("a", None)}))


def test_schema_changes_exclude_each_other(table: Written) -> None:
    changed = metadata(table.table_id, description="new")
    table.commit(changed, kind=Kind.ALTER)
    outcome = table.attempt(metadata(table.table_id), kind=Kind.ALTER, read=0)
    assert isinstance(outcome, Conflict)
    assert table.commit(add("a"), read=0, made_for=metadata(table.table_id)).version == 2


def test_protocol_alone_may_change(metastore: Metastore, table: Written) -> None:
    wider = replace(PROTOCOL, writer_features=("rowTracking",))
    table.commit(wider, kind=Kind.ALTER)
    state = metastore.state(table.table_id)
    assert (state.protocol, state.metadata) == (wider, metadata(table.table_id))
    outcome = table.attempt(wider, kind=Kind.ALTER, read=0)
    assert isinstance(outcome, Conflict)


def test_buckets_are_told_to_later_commits(table: Written) -> None:
    mine = Claim(Kind.UPSERT, buckets=frozenset({("dt=1", 3)}), settles=True)
    table.commit(add("a"), claims=(mine,))
    outcome = table.attempt(add("b"), claims=(replace(mine, buckets=frozenset({("dt=1", 3), ("dt=1", 4)})),), read=0)
    assert outcome == Recompute("default.t", 1, buckets=frozenset({("dt=1", 3)}))


def test_removing_what_is_not_there_conflicts(table: Written) -> None:
    table.commit(add("a"))
    ghost = add("ghost")
    outcome = table.attempt(ghost.remove(), kind=Kind.DELETE)
    assert isinstance(outcome, Conflict)
    assert "ghost" in outcome.reason
    wrong = replace(table.live()["a"], deletion_vector=vector("never"))
    assert isinstance(table.attempt(wrong.remove(), kind=Kind.DELETE), Conflict)
    assert table.versions() == [0, 1]


def test_adding_what_is_there_conflicts(table: Written) -> None:
    table.commit(add("a"))
    outcome = table.attempt(add("a"))
    assert isinstance(outcome, Conflict)
    assert "part of the table already" in outcome.reason
    assert table.versions() == [0, 1]


def test_a_repeated_transaction_adds_nothing(metastore: Metastore, table: Written) -> None:
    first = table.commit(add("a"), SetTransaction("stream", 5))
    table.commit(add("b"), SetTransaction("stream", 7))
    again = table.commit(add("c"), SetTransaction("stream", 5))
    assert (again.version, again.repeated, again.timestamp) == (1, True, first.timestamp)
    skipped = table.commit(add("c"), SetTransaction("stream", 6))
    assert (skipped.version, skipped.repeated) == (2, True)
    assert not table.commit(add("c"), SetTransaction("stream", 8)).repeated
    assert not table.commit(add("d"), SetTransaction("other", 1)).repeated
    assert table.versions() == [0, 1, 2, 3, 4]


def test_the_same_commit_twice_lands_once(table: Written) -> None:
    mine = table.prepare(add("a"), read=0)
    first = table.metastore.commit([mine])
    assert table.metastore.commit([mine]) == first
    assert table.versions() == [0, 1]


def test_several_tables_move_together(metastore: Metastore, table: Written) -> None:
    other = create(metastore, "other")
    outcome = metastore.commit([other.prepare(add("o"), read=0), table.prepare(add("t"), read=0)])
    assert isinstance(outcome, Landed)
    assert [c.table_id for c in outcome.commits] == [other.table_id, table.table_id]
    assert (set(table.live()), set(other.live())) == ({"t"}, {"o"})


@pytest.mark.parametrize("order", [1, -1])
def test_one_conflict_keeps_all_tables_still(metastore: Metastore, table: Written, order: int) -> None:
    other = create(metastore, "other")
    table.commit(add("a"))
    file = table.live()["a"]
    table.commit(file.remove(), kind=Kind.DELETE)
    shares = [other.prepare(add("o"), read=0), table.prepare(file.remove(), kind=Kind.DELETE, read=1)]
    assert isinstance(metastore.commit(shares[::order]), Conflict)
    assert (other.versions(), table.versions()) == ([0], [0, 1, 2])
    assert other.live() == {}


def test_a_repeated_transaction_keeps_all_tables_still(metastore: Metastore, table: Written) -> None:
    other = create(metastore, "other")
    table.commit(add("a"), SetTransaction("app", 1))
    shares = [other.prepare(add("o"), read=0), table.prepare(add("b"), SetTransaction("app", 1), read=1)]
    outcome = metastore.commit(shares)
    assert isinstance(outcome, Landed)
    assert [(c.version, c.repeated) for c in outcome.commits] == [(0, True), (1, True)]
    assert (other.versions(), table.versions()) == ([0], [0, 1])


def test_dropped_and_wrong_tables(metastore: Metastore, table: Written) -> None:
    other = create(metastore, "other")
    shares = [other.prepare(add("o"), read=0), table.prepare(add("t"), read=0)]
    metastore.drop_table("default", "t")
    with pytest.raises(NotFoundError, match=r"default\.t is gone"):
        metastore.commit(shares)
    assert other.versions() == [0]
    with pytest.raises(InputError, match="one share per table"):
        metastore.commit([shares[0], shares[0]])
    with pytest.raises(InputError, match="at least one"):
        metastore.commit([])
    assert isinstance(other.attempt(add("x"), read=5), Conflict)


def test_a_failure_inside_leaves_nothing(table: Written) -> None:
    with pytest.raises(InputError, match="row count"):
        table.commit(add("a"), add("b", stats=None))
    assert (table.versions(), table.live()) == ([0], {})


@pytest.mark.parametrize("step", [Step.COMMIT_BEGUN, Step.COMMIT_INSERTED])
def test_dying_before_the_end_leaves_nothing(table: Written, step: Step) -> None:
    def die(reached: Step) -> None:
        if reached is step:
            raise KeyboardInterrupt

    stop = observe(die)
    try:
        with pytest.raises(KeyboardInterrupt):
            table.commit(add("a"))
    finally:
        stop()
    assert (table.versions(), table.live()) == ([0], {})
    assert table.commit(add("a")).version == 1


def test_the_primary_key_decides_a_race(table: Written, monkeypatch: pytest.MonkeyPatch) -> None:
    """Even if the lock did not hold: who sees an old head cannot take a version that is taken."""
    table.commit(add("a"))
    real, calls = commits.lock_heads, []

    def stale(connection, ids):  # type: ignore[no-untyped-def]
        heads = real(connection, ids)
        calls.append(ids)
        if len(calls) == 1:
            heads = {key: replace(head, version=0, next_file_id=head.next_file_id) for key, head in heads.items()}
        return heads

    monkeypatch.setattr(commits, "lock_heads", stale)
    assert table.commit(add("b"), read=0).version == 2
    assert len(calls) == 2
    assert sorted(table.live()) == ["a", "b"]


def test_losing_every_race_is_an_error(table: Written, monkeypatch: pytest.MonkeyPatch) -> None:
    table.commit(add("a"))
    real = commits.lock_heads
    monkeypatch.setattr(commits, "_RACES", 2)
    monkeypatch.setattr(
        commits, "lock_heads", lambda c, ids: {k: replace(h, version=0) for k, h in real(c, ids).items()}
    )
    with pytest.raises(CommitError, match="races"):
        table.commit(add("b"), read=0)


def test_threads_leave_no_gap(url: str, metastore: Metastore, table: Written) -> None:
    def work(number: int) -> None:
        # Two share a metastore, two have their own.
        own = metastore if number % 2 else open_metastore(url)
        for turn in range(25):
            mine = prepare(table.table_id, [add(f"{number}-{turn}")], 0, Kind.APPEND)
            outcome = own.commit([mine])
            assert isinstance(outcome, Landed)
            landed.append(outcome.commits[0].version)
        if own is not metastore:
            own.close()

    landed: list[int] = []
    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(landed) == list(range(1, 101))
    assert table.versions() == list(range(101))
    assert len(table.live()) == 100
    base = sorted(f.base_row_id or 0 for f in table.live().values())
    assert base == list(range(0, 1000, 10))


def test_versions_are_rows_with_their_kind(metastore: Metastore, table: Written) -> None:
    table.commit(add("a", data_change=False), kind=Kind.COMPACT)
    query = select(version_rows.c.kind, version_rows.c.data_change).order_by(version_rows.c.version)
    rows = metastore._database.read(lambda c: c.execute(query).all())
    assert [tuple(row) for row in rows] == [("create", False), ("compact", False)]
