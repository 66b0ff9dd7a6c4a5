"""Taking in a log: every version reads as the log tells it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from table_under_test import PROTOCOL, Written, add, metadata, vector

from lakebed.core.actions import (
    Action,
    AddFile,
    CommitInfo,
    DomainMetadata,
    SetTransaction,
    UnknownAction,
    from_lines,
)
from lakebed.core.commit import Kind
from lakebed.core.errors import AlreadyExistsError, CorruptFileError, InputError, NotFoundError
from lakebed.core.snapshot import Replay
from lakebed.metastore import LoggedVersion, Metastore


def logged(table: Written) -> list[LoggedVersion]:
    bodies = table.metastore.unpublished(table.table_id, 1000)
    stamps = {r.version: r.timestamp for r in table.metastore.history(table.table_id)}
    return [LoggedVersion(version, stamps[version], from_lines(body)) for version, body in bodies]


def worked_on(table: Written) -> list[LoggedVersion]:
    """A history with everything in it; the table is dropped."""
    table.commit(add("a", rows=3), add("b", dt=None), SetTransaction("app", 4), DomainMetadata("mine", "x"))
    first = table.live()["a"]
    marked = replace(first, deletion_vector=vector("one"), stats='{"numRecords":3,"tightBounds":false}')
    table.commit(first.remove(), marked, kind=Kind.DELETE)
    table.commit(marked.remove(), replace(marked, deletion_vector=vector("two", 2)), kind=Kind.UPDATE)
    table.commit(metadata(table.table_id, description="new"), UnknownAction("later", {}), kind=Kind.ALTER)
    table.commit(table.live()["b"].remove(), add("c"), kind=Kind.MERGE, claim={"reads_all": True})
    table.commit(replace(table.live(1)["b"], data_change=True), kind=Kind.RESTORE)
    history = logged(table)
    table.metastore.drop_table("default", "t")
    return history


def take_in(metastore: Metastore, table: Written, history: list[LoggedVersion]) -> None:
    record = metastore.import_table("default", "t", "file:///lake/t", table.table_id, history)
    assert record == metastore.table("default", "t")


def test_a_whole_history(metastore: Metastore, table: Written) -> None:
    history = worked_on(table)
    take_in(metastore, table, history)
    replay = Replay()
    for version in history:
        replay.add(version.actions)
        snapshot = replay.snapshot(version.version)
        assert table.live(version.version) == {a.path: a for a in snapshot.files.values()}
        state = metastore.state(table.table_id, version.version)
        assert (state.metadata, state.protocol) == (snapshot.metadata, snapshot.protocol)
        assert metastore.transactions(table.table_id, version.version) == snapshot.transactions
        assert metastore.domains(table.table_id, version.version) == [d for _, d in sorted(snapshot.domains.items())]
    kinds = [r.kind for r in metastore.history(table.table_id)][::-1]
    assert kinds == ["create", "append", "delete", "update", "alter", "merge", "restore"]
    assert metastore.published(table.table_id) == history[-1].version
    full = metastore.full_state(table.table_id, tombstones_after=0)
    assert {r.key for r in full.removes} == set(replay.snapshot(6).tombstones)
    assert list(metastore.changed_files(table.table_id, 3, 4)[0].other_actions) == [UnknownAction("later", {})]


def test_writing_goes_on_after_an_import(metastore: Metastore, table: Written) -> None:
    take_in(metastore, table, worked_on(table))
    before = metastore.state(table.table_id)
    done = table.commit(add("new", dt="new", rows=2), table.live()["c"].remove(), kind=Kind.DELETE)
    assert done.version == before.version + 1
    assert table.live()["new"].base_row_id == before.next_row_id
    assert table.commit(add("x"), SetTransaction("app", 4)).repeated
    assert [v for v, _ in metastore.unpublished(table.table_id)] == [7]


def test_a_log_that_begins_with_a_checkpoint(metastore: Metastore, table: Written) -> None:
    history = worked_on(table)
    replay = Replay()
    for version in history[:4]:
        replay.add(version.actions)
    base = replay.snapshot(3)
    state: tuple[Action, ...] = (
        base.protocol,
        base.metadata,
        *base.files.values(),
        *base.tombstones.values(),
        *base.transactions.values(),
        *base.domains.values(),
    )
    take_in(metastore, table, [LoggedVersion(3, history[3].timestamp, state), *history[4:]])
    assert table.versions() == [3, 4, 5, 6]
    assert table.live(3) == {a.path: a for a in base.files.values()}
    replay.add(history[4].actions)
    replay.add(history[5].actions)
    assert table.live(5) == {a.path: a for a in replay.snapshot(5).files.values()}
    full = metastore.full_state(table.table_id, 3, tombstones_after=0)
    assert {r.key for r in full.removes} == set(base.tombstones)
    with pytest.raises(NotFoundError, match="from 3 to 6"):
        metastore.state(table.table_id, 2)
    with pytest.raises(NotFoundError, match="from 3 to 6"):
        metastore.changed_files(table.table_id, 1, 4)
    assert metastore.state(table.table_id, 3).next_row_id == 13


def test_what_other_writers_do(metastore: Metastore, table: Written) -> None:
    """Removes of files that are not there, statistics given anew, commits without any information."""
    metastore.drop_table("default", "t")
    old, again = add("a"), add("a", data_change=False, stats='{"numRecords":1}')
    history: list[tuple[Action, ...]] = [
        (PROTOCOL, metadata(table.table_id)),
        (old, CommitInfo({"operation": "WRITE", "txnId": "same"})),
        (again, CommitInfo({"operation": "COMPUTE STATS", "txnId": "same"})),
        (add("ghost").remove(), replace(old, deletion_vector=vector("x")).remove()),
        (again.remove(data_change=False), add("b", data_change=False), CommitInfo({"operation": "OPTIMIZE"})),
    ]
    take_in(metastore, table, [LoggedVersion(v, 5, actions) for v, actions in enumerate(history)])
    assert [table.live(v) for v in range(5)] == [{}, {"a": old}, {"a": again}, {"a": again}, {"b": history[4][1]}]
    records = metastore.history(table.table_id)[::-1]
    assert [r.kind for r in records] == ["alter", "append", "append", "overwrite", "compact"]
    assert [r.timestamp for r in records] == [5, 6, 7, 8, 9]
    assert records[1].commit_id != records[2].commit_id
    assert isinstance(history[4][1], AddFile)


def test_imports_that_cannot_be(metastore: Metastore, table: Written) -> None:
    whole: tuple[Action, ...] = (PROTOCOL, metadata("x"))
    good = [LoggedVersion(0, 1, whole)]
    with pytest.raises(AlreadyExistsError):
        metastore.import_table("default", "t", "file:///x", "x", good)
    with pytest.raises(NotFoundError):
        metastore.import_table("nowhere", "u", "file:///x", "x", good)
    with pytest.raises(InputError):
        metastore.import_table("default", "a.b", "file:///x", "x", good)
    with pytest.raises(CorruptFileError, match="gap"):
        metastore.import_table("default", "u", "file:///x", "x", [*good, LoggedVersion(2, 3, ())])
    with pytest.raises(CorruptFileError, match="no version"):
        metastore.import_table("default", "u", "file:///x", "x", [])
    with pytest.raises(InputError, match="metadata and protocol"):
        metastore.import_table("default", "u", "file:///x", "x", [LoggedVersion(3, 1, ())])
    assert [r.name for r in metastore.tables("default")] == ["t"]


def test_a_large_import_streams(metastore: Metastore, table: Written) -> None:
    metastore.drop_table("default", "t")

    def history() -> Iterator[LoggedVersion]:
        yield LoggedVersion(0, 0, (PROTOCOL, metadata(table.table_id)))
        for version in range(1, 31):
            files = [add(f"{version}-{n}", dt=str(n % 5)) for n in range(1000)]
            gone = [add(f"{version - 1}-{n}", dt=str(n % 5)).remove() for n in range(900) if version > 1]
            yield LoggedVersion(version, version, (*gone, *files))

    metastore.import_table("default", "t", "file:///lake/t", table.table_id, history())
    assert [len(metastore.files(table.table_id, v, stats=False)) for v in (0, 1, 2, 30)] == [0, 1000, 1100, 3900]
