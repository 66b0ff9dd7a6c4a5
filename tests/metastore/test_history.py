"""State, history, transactions, domains and publication."""

from __future__ import annotations

import pytest
from table_under_test import PROTOCOL, Written, add, create, metadata

from lakebed.core.actions import AddCDCFile, DomainMetadata, SetTransaction, UnknownAction, from_lines, now_ms
from lakebed.core.commit import ROW_TRACKING, Kind
from lakebed.core.errors import NotFoundError
from lakebed.core.instant import to_text
from lakebed.metastore import Metastore


def test_versions_have_growing_times(metastore: Metastore, table: Written) -> None:
    before = now_ms()
    for name in "abcdef":
        table.commit(add(name))
    records = metastore.history(table.table_id)
    assert [r.version for r in records] == [6, 5, 4, 3, 2, 1, 0]
    stamps = [r.timestamp for r in records]
    assert stamps == sorted(set(stamps), reverse=True)
    assert stamps[0] >= before
    assert records[0].info["inCommitTimestamp"] == stamps[0]


def test_history_in_parts(metastore: Metastore, table: Written) -> None:
    for name in "abc":
        table.commit(add(name))
    versions = lambda **where: [r.version for r in metastore.history(table.table_id, **where)]  # noqa: E731
    assert versions(limit=2) == [3, 2]
    assert versions(start=1, end=2) == [2, 1]
    assert versions(start=4) == []


def test_version_at_a_time(metastore: Metastore, table: Written) -> None:
    table.commit(add("a"))
    newest, oldest = metastore.history(table.table_id)
    at = lambda moment: metastore.version_at(table.table_id, moment)  # noqa: E731
    assert at(newest.timestamp + 10**9) == 1
    assert at(newest.timestamp) == 1
    assert at(newest.timestamp - 1) == 0
    assert at(oldest.timestamp) == 0
    with pytest.raises(NotFoundError, match=to_text(oldest.timestamp)):
        at(oldest.timestamp - 1)


def test_state_of_every_version(metastore: Metastore, table: Written) -> None:
    renamed = metadata(table.table_id, configuration={"a": "1"}, description="x")
    table.commit(add("a", rows=7))
    table.commit(renamed, kind=Kind.ALTER)
    table.commit(add("b", rows=5))
    states = [metastore.state(table.table_id, v) for v in range(4)]
    assert [s.next_row_id for s in states] == [0, 7, 7, 12]
    assert [s.schema_version for s in states] == [0, 0, 2, 2]
    assert [s.metadata.description for s in states] == [None, None, "x", "x"]
    assert states[2].metadata == renamed
    assert all(s.protocol == PROTOCOL for s in states)
    assert metastore.state(table.table_id) == states[3]
    for unknown in (-1, 4):
        with pytest.raises(NotFoundError, match="from 0 to 3"):
            metastore.state(table.table_id, unknown)
        with pytest.raises(NotFoundError, match="from 0 to 3"):
            metastore.files(table.table_id, unknown)


def test_heads_of_all_tables(metastore: Metastore, table: Written) -> None:
    other = create(metastore, "other")
    other.commit(add("a"))
    assert metastore.heads() == {table.table_id: 0, other.table_id: 1}
    assert metastore.head(other.table_id) == 1


def test_transactions_and_domains_of_a_version(metastore: Metastore, table: Written) -> None:
    table.commit(add("a", rows=3), SetTransaction("x", 1), DomainMetadata("app", "one"))
    table.commit(SetTransaction("x", 2, 5), SetTransaction("y", 9), DomainMetadata("app", "two"))
    table.commit(DomainMetadata("app", "", removed=True))
    read = lambda v: {k: t.version for k, t in metastore.transactions(table.table_id, v).items()}  # noqa: E731
    assert [read(v) for v in range(4)] == [{}, {"x": 1}, {"x": 2, "y": 9}, {"x": 2, "y": 9}]
    assert metastore.transactions(table.table_id)["x"] == SetTransaction("x", 2, 5)
    domains = [{d.domain: d for d in metastore.domains(table.table_id, v)} for v in range(4)]
    assert [d.get("app") for d in domains] == [None, DomainMetadata("app", "one"), DomainMetadata("app", "two"), None]
    assert domains[0].get(ROW_TRACKING) is None
    assert domains[3][ROW_TRACKING] == DomainMetadata(ROW_TRACKING, '{"rowIdHighWaterMark":2}')


def test_find_commit(metastore: Metastore, table: Written) -> None:
    done = table.commit(add("a"))
    assert metastore.find_commit(table.table_id, done.commit_id) == 1
    assert metastore.find_commit(table.table_id, "never") is None


def test_publication_goes_forward_only(metastore: Metastore, table: Written) -> None:
    for name in "abc":
        table.commit(add(name))
    assert metastore.published(table.table_id) == -1
    assert [v for v, _ in metastore.unpublished(table.table_id, 3)] == [0, 1, 2]
    metastore.mark_published(table.table_id, 2)
    metastore.mark_published(table.table_id, 1)
    assert metastore.published(table.table_id) == 2
    assert [v for v, _ in metastore.unpublished(table.table_id)] == [3]
    assert [r.published for r in metastore.history(table.table_id)] == [False, True, True, True]
    metastore.mark_published(table.table_id, 3)
    assert metastore.unpublished(table.table_id) == []
    with pytest.raises(NotFoundError, match="no version 4"):
        metastore.mark_published(table.table_id, 4)


def test_the_text_to_publish_is_the_commit(metastore: Metastore, table: Written) -> None:
    table.commit(add("a"), UnknownAction("later", {"x": 1}), AddCDCFile("c", {"dt": "1"}, 5), read=0)
    ((_, first), (_, second)) = metastore.unpublished(table.table_id)
    assert [type(a).__name__ for a in from_lines(first)] == ["CommitInfo", "Protocol", "Metadata"]
    names = [type(a).__name__ for a in from_lines(second)]
    assert sorted(names) == ["AddCDCFile", "AddFile", "CommitInfo", "DomainMetadata", "UnknownAction"]
    (changes,) = metastore.changed_files(table.table_id, 0, 1)
    assert list(changes.other_actions) == [UnknownAction("later", {"x": 1}), AddCDCFile("c", {"dt": "1"}, 5)]
