"""Expiry: what is kept reads as before, what is gone is refused with what is left."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import func, select
from table_under_test import Written, add, create, metadata, vector

from lakebed.core.actions import DomainMetadata, SetTransaction, now_ms
from lakebed.core.commit import Conflict, Kind, Landed, Recompute
from lakebed.core.errors import CommitUnknownError, NotFoundError
from lakebed.metastore import Expired, Metastore, expiry, open_metastore, schema

LATER = now_ms() + 3_600_000


def worked_on(table: Written) -> None:
    """Thirteen versions in which files, vectors, schemas, transactions, domains and partitions come and go."""
    table.commit(add("a", dt="1"), add("b", dt="2"), SetTransaction("app", 1), DomainMetadata("d", "one"))
    for i in range(1, 4):
        before = table.live()["a"]
        table.commit(before.remove(), replace(before, deletion_vector=vector(f"v{i}", i)), kind=Kind.DELETE)
    table.commit(metadata(table.table_id, description="new"), SetTransaction("app", 2), kind=Kind.ALTER)
    table.commit(table.live()["b"].remove(), add("c", dt="3"), DomainMetadata("d", "two"), kind=Kind.MERGE)
    table.commit(add("e", dt="4"))
    table.commit(table.live()["e"].remove(), SetTransaction("other", 5), kind=Kind.DELETE)
    table.commit(metadata(table.table_id, description="newer"), DomainMetadata("d", "", removed=True), kind=Kind.ALTER)
    table.commit(table.live()["c"].remove(), add("f"), SetTransaction("app", 3), kind=Kind.MERGE)
    table.commit(add("g"))
    table.commit(add("h"))
    table.metastore.mark_published(table.table_id, 12)


def contents(table: Written, version: int) -> Any:
    store, table_id = table.metastore, table.table_id
    return (
        table.live(version),
        store.state(table_id, version),
        store.transactions(table_id, version),
        store.domains(table_id, version),
    )


def rows(metastore: Metastore) -> dict[str, int]:
    return metastore._database.read(
        lambda c: {t.name: c.execute(select(func.count()).select_from(t)).scalar_one() for t in schema.OF_ONE_TABLE}
    )


@pytest.mark.parametrize(
    ("keep_from", "kept", "chunk"),
    [(99, [], 2000), (5, [], 1), (11, [0, 4], 2), (10, [1, 2, 7], 2000), (1, [0], 2000)],
)
def test_what_is_kept_reads_as_before(
    metastore: Metastore, table: Written, keep_from: int, kept: list[int], chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(expiry, "_CHUNK", chunk)
    worked_on(table)
    left = sorted({*kept, *range(min(keep_from, 12), 13)})
    before = {v: contents(table, v) for v in left}
    counts = rows(metastore)
    done = metastore.expire(table.table_id, keep_from, kept)
    assert table.versions() == left
    assert {v: contents(table, v) for v in left} == before
    assert done.versions == 13 - len(left)
    after = rows(metastore)
    found = {
        name: counts[f"lakebed_{name}"] - after[f"lakebed_{name}"] for name in vars(Expired()) if name != "vectors"
    }
    assert {**found, "vectors": counts["lakebed_deletion_vectors"] - after["lakebed_deletion_vectors"]} == vars(done)
    assert metastore.expire(table.table_id, keep_from, kept) == Expired()
    with open_metastore(metastore._database.address.url.render_as_string(hide_password=False)) as fresh:
        assert {v: contents(Written(fresh, table.table_id), v) for v in left} == before
    for version in set(range(13)).difference(left):
        with pytest.raises(NotFoundError, match=f"has no version {version} any more"):
            metastore.state(table.table_id, version)


def test_everything_that_no_version_needs_goes(metastore: Metastore, table: Written) -> None:
    worked_on(table)
    done = metastore.expire(table.table_id, 12)
    # Live are a (with its third vector), f, g, h; b, c and e have left, and with them partitions 2, 3 and 4.
    assert done == Expired(versions=12, files=3, vectors=2, schemas=2, transactions=2, domains=2, partitions=3)
    assert list(metastore.partitions(table.table_id).values()) == [{"dt": "1"}]


def test_reading_what_has_expired_tells_what_is_left(metastore: Metastore, table: Written) -> None:
    worked_on(table)
    metastore.create_tag(table.table_id, "first", 1)
    metastore.expire(table.table_id, 10, [4])
    left = "expected a version from 10 to 12, or one of 1, 4"
    with pytest.raises(NotFoundError, match=f"default.t has no version 5 any more: it has expired; {left}"):
        metastore.files(table.table_id, 5)
    with pytest.raises(NotFoundError, match=f"default.t has no version 99; {left}"):
        metastore.state(table.table_id, 99)
    with pytest.raises(NotFoundError, match=f"some of the versions from 1 to 11 have expired; {left}"):
        metastore.changed_files(table.table_id, 0, 11)
    with pytest.raises(NotFoundError, match="no version 2"):
        metastore.create_tag(table.table_id, "second", 2)
    assert [c.version for c in metastore.changed_files(table.table_id, 9, 12)] == [10, 11, 12]
    assert [c.version for c in metastore.changed_files(table.table_id, 0, 1)] == [1]


def test_times_in_a_gap_have_no_version(metastore: Metastore, table: Written) -> None:
    worked_on(table)
    stamps = {r.version: r.timestamp for r in metastore.history(table.table_id)}
    metastore.expire(table.table_id, 10, [4])
    assert metastore.version_at(table.table_id, stamps[4]) == 4
    assert metastore.version_at(table.table_id, stamps[10]) == 10
    assert metastore.version_at(table.table_id, LATER) == 12
    with pytest.raises(NotFoundError, match="has expired; expected a version from 10 to 12, or one of 4"):
        metastore.version_at(table.table_id, stamps[7])
    with pytest.raises(NotFoundError, match="when version 4 was committed, or later"):
        metastore.version_at(table.table_id, stamps[3])


def test_what_is_not_published_stays(metastore: Metastore, table: Written) -> None:
    worked_on(table)
    for name in "xyz":
        table.commit(add(name))
    assert metastore.expire(table.table_id, 99).versions == 12
    assert table.versions() == [12, 13, 14, 15]
    assert metastore.published(table.table_id) == 12
    assert [v for v, _ in metastore.unpublished(table.table_id)] == [13, 14, 15]


def test_a_table_that_was_never_published_keeps_all(metastore: Metastore, table: Written) -> None:
    table.commit(add("a"))
    assert metastore.expire(table.table_id, 99) == Expired()
    assert table.versions() == [0, 1]


def test_tags_keep_their_version(metastore: Metastore, table: Written) -> None:
    """Even one that was made after the caller looked; one whose time is over does not."""
    worked_on(table)
    metastore.create_tag(table.table_id, "kept", 3)
    metastore.create_tag(table.table_id, "for-a-while", 4, retain_until=LATER)
    metastore.create_tag(table.table_id, "over", 5, retain_until=1)
    metastore.expire(table.table_id, 12)
    assert table.versions() == [3, 4, 12]


def test_leases_keep_their_version(metastore: Metastore, table: Written) -> None:
    worked_on(table)
    table_id = table.table_id
    metastore.lease(table_id, 3, "reader", LATER)
    metastore.lease(table_id, 5, "reader", LATER)
    metastore.lease(table_id, 5, "other", LATER)
    metastore.lease(table_id, 6, "late", now_ms() - 1)
    assert metastore.leased_versions(table_id, now_ms()) == [3, 5]
    assert metastore.leased_versions(table_id, LATER) == []
    metastore.expire(table_id, 12)
    assert table.versions() == [3, 5, 12]
    assert not metastore.renew("late", LATER)
    with pytest.raises(NotFoundError):
        metastore.lease(table_id, 6, "late", LATER)
    assert metastore.renew("reader", LATER + 5)
    metastore.release("other")
    assert metastore.leased_versions(table_id, LATER) == [3, 5]
    metastore.release("reader")
    metastore.release("nobody")
    metastore.expire(table_id, 12)
    assert table.versions() == [12]


def test_leases_and_condemned_files_go_with_their_table(metastore: Metastore, table: Written) -> None:
    metastore.lease(table.table_id, 0, "reader", LATER)
    metastore.condemn(table.table_id, ["x"], 1)
    metastore.drop_table("default", "t")
    assert not metastore.renew("reader", LATER)
    assert set(rows(metastore).values()) == {0}


def test_transactions_stay_idempotent(metastore: Metastore, table: Written) -> None:
    worked_on(table)
    metastore.expire(table.table_id, 12)
    for version in (1, 2, 3):
        again = table.commit(add("twice"), SetTransaction("app", version))
        assert (again.repeated, again.version) == (True, 10)
    assert table.commit(add("twice"), SetTransaction("other", 5)).repeated
    assert not table.commit(add("once"), SetTransaction("app", 4)).repeated


def test_partitions_come_back_under_a_new_number(metastore: Metastore, table: Written, url: str) -> None:
    """Another process remembers the old number."""
    with open_metastore(url) as elsewhere:
        there = Written(elsewhere, table.table_id)
        there.commit(add("a", dt="old"))
        there.commit(there.live()["a"].remove(), kind=Kind.DELETE)
        metastore.mark_published(table.table_id, 2)
        assert metastore.expire(table.table_id, 2).partitions == 1
        there.commit(add("b", dt="old"))
        assert there.live()["b"].partition_values == {"dt": "old"}


class TestWritersThatBeganBefore:
    """Their versions have expired, so nobody can compare what they did with what landed meanwhile."""

    @pytest.fixture
    def gap(self, metastore: Metastore, table: Written) -> Written:
        table.commit(add("a"))
        table.commit(add("b"))
        table.commit(add("c"))
        metastore.mark_published(table.table_id, 3)
        metastore.expire(table.table_id, 3)
        return table

    def test_appends_land(self, gap: Written) -> None:
        assert gap.commit(add("mine"), read=1).version == 4

    def test_appends_that_do_not_fit_the_schema_do_not(self, metastore: Metastore, table: Written) -> None:
        before = metastore.state(table.table_id).metadata
        table.commit(replace(before, partition_columns=()), kind=Kind.ALTER)
        table.commit(add("x"))
        table.commit(add("y"))
        metastore.mark_published(table.table_id, 3)
        metastore.expire(table.table_id, 3)
        refused = table.attempt(add("mine"), read=0, made_for=before)
        assert isinstance(refused, Conflict)
        assert "partitioning" in refused.reason

    def test_deletes_conflict(self, gap: Written) -> None:
        refused = gap.attempt(gap.live()["a"].remove(), kind=Kind.DELETE, read=1, claim={"reads_all": True})
        assert isinstance(refused, Conflict)
        assert "versions from 1 on, which mine was made from, have expired" in refused.reason

    def test_upserts_settle_again(self, gap: Written) -> None:
        buckets = frozenset({("", 1)})
        outcome = gap.attempt(add("m"), kind=Kind.UPSERT, read=1, claim={"buckets": buckets, "settles": True})
        assert outcome == Recompute("default.t", 3, buckets=buckets)

    def test_compactions_leave_out_what_they_had(self, gap: Written) -> None:
        old = gap.live()["a"]
        outcome = gap.attempt(old.remove(), add("m"), kind=Kind.COMPACT, read=1)
        assert outcome == Recompute("default.t", 3, files=frozenset({old.key}))

    def test_the_version_that_they_began_with_matters_too(self, metastore: Metastore, table: Written) -> None:
        """Rows that only it needed tell what its successors, which are all there, have taken away."""
        table.commit(add("a"), add("b"))
        a, b = table.live()["a"], table.live()["b"]
        table.commit(a.remove(), replace(a, deletion_vector=vector("v", 1)), b.remove(), kind=Kind.DELETE)
        metastore.mark_published(table.table_id, 2)
        metastore.expire(table.table_id, 2)
        for old in (a, b):
            outcome = table.attempt(old.remove(), add("m"), kind=Kind.COMPACT, read=1)
            assert outcome == Recompute("default.t", 2, files=frozenset({old.key}))

    def test_an_interrupted_commit_is_unknown(self, metastore: Metastore, gap: Written) -> None:
        """It may have been one of the versions that expired, so its files must not be deleted."""
        with pytest.raises(CommitUnknownError, match="later versions have expired since"):
            metastore.has_landed([gap.prepare(add("m"), read=0)])
        assert not metastore.has_landed([gap.prepare(add("m"), read=2)])


@pytest.mark.parametrize("die_after", [1, 3, 5, 7])
def test_an_expiry_that_is_cut_off_is_finished_by_the_next(
    metastore: Metastore, table: Written, die_after: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    worked_on(table)
    before = {v: contents(table, v) for v in (4, 11, 12)}
    monkeypatch.setattr(expiry, "_CHUNK", 3)
    real, calls = metastore._database.write, iter(range(100))

    def dying(*args: Any, **options: Any) -> Any:
        if next(calls) >= die_after:
            raise ZeroDivisionError
        return real(*args, **options)

    monkeypatch.setattr(metastore._database, "write", dying)
    with pytest.raises(ZeroDivisionError):
        metastore.expire(table.table_id, 11, [4])
    monkeypatch.setattr(metastore._database, "write", real)
    assert {v: contents(table, v) for v in (4, 11, 12)} == before
    readable = table.versions()
    for version in readable:
        contents(table, version)
    metastore.expire(table.table_id, 11, [4])
    assert table.versions() == [4, 11, 12]
    counts = rows(metastore)
    twin = create(metastore, "twin")
    worked_on(twin)
    metastore.expire(twin.table_id, 11, [4])
    metastore.drop_table("default", "t")
    assert rows(metastore) == counts


def test_expiry_beside_writers_and_readers(metastore: Metastore, table: Written) -> None:
    """Writers land all they write, and a leased version reads the same until it is released."""
    worked_on(table)
    metastore.lease(table.table_id, 5, "reader", LATER)
    expected = contents(table, 5)
    failures: list[BaseException] = []

    def write(name: str) -> None:
        try:
            for i in range(8):
                file = add(f"{name}-{i}", dt=f"{name}-{i % 3}")
                assert isinstance(table.attempt(file, read=12), Landed)
                metastore.mark_published(table.table_id, metastore.head(table.table_id))
                live = table.live()[file.path]
                assert isinstance(table.attempt(live.remove(), kind=Kind.APPEND), Landed | Recompute)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=write, args=(name,)) for name in "xy"]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        metastore.expire(table.table_id, metastore.head(table.table_id))
        assert contents(table, 5) == expected
    for thread in threads:
        thread.join()
    assert failures == []
    assert set(metastore.files(table.table_id).data["partition_id"].to_pylist()) <= set(
        metastore.partitions(table.table_id)
    )
