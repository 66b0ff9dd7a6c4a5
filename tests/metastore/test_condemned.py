"""Vacuum and commits: a file is either referenced or may be deleted, never both."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest
from sqlalchemy import event
from table_under_test import Written, add, vector

from lakebed.core.actions import DeletionVector
from lakebed.core.commit import Conflict, Kind, Landed
from lakebed.core.errors import NotFoundError
from lakebed.metastore import Condemned, Metastore


def test_what_rows_refer_to(metastore: Metastore, table: Written) -> None:
    table.commit(add("dt=1/a%20b"), add("c", deletion_vector=vector("one")))
    before = table.live()["c"]
    inline = replace(before, deletion_vector=DeletionVector("i", "inline", 4, 1))
    table.commit(before.remove(), inline, kind=Kind.DELETE)
    table.commit(table.live()["dt=1/a%20b"].remove(), kind=Kind.DELETE)
    table.commit(add("d", deletion_vector=vector("many", offset=1)), add("e", deletion_vector=vector("many", offset=9)))
    found = metastore.referenced_paths(table.table_id)
    assert found.version == 4
    assert sorted(found.paths.to_pylist()) == ["c", "d", "dt=1/a%20b", "e"]
    assert sorted(found.vectors.to_pylist()) == ["umany", "uone"]
    metastore.mark_published(table.table_id, 4)
    metastore.expire(table.table_id, 4)
    found = metastore.referenced_paths(table.table_id)
    assert sorted(found.paths.to_pylist()) == ["c", "d", "e"]
    assert found.vectors.to_pylist() == ["umany"]


def test_only_what_nobody_refers_to_is_condemned(metastore: Metastore, table: Written) -> None:
    table.commit(add("dt=1/a%20b"), add("c"))
    table.commit(table.live()["c"].remove(), add("d", deletion_vector=vector("one")), kind=Kind.DELETE)
    wanted = ["dt=1/a b", "c", "d", "orphan", "orphan"]
    done = metastore.condemn(table.table_id, wanted, 5, vectors=["uone", "utwo"])
    assert done == Condemned(("orphan",), ("utwo",))
    # A vacuum that died in between finds the same files again.
    assert metastore.condemn(table.table_id, wanted, 6, vectors=["uone", "utwo"]) == done
    assert metastore.condemn(table.table_id, [], 7) == Condemned()


def test_a_commit_that_came_first_is_seen(metastore: Metastore, table: Written) -> None:
    """The caller knows what version 1 refers to; only what came later is looked at."""
    table.commit(add("a"))
    known = metastore.referenced_paths(table.table_id)
    table.commit(add("b"), add("gone", deletion_vector=vector("one")))
    table.commit(table.live()["gone"].remove(), kind=Kind.DELETE)
    done = metastore.condemn(table.table_id, ["b", "gone", "x"], 5, vectors=["uone"], since=known.version)
    assert done == Condemned(("x",))


def test_a_commit_that_came_later_is_refused(metastore: Metastore, table: Written) -> None:
    table.commit(add("live"))
    metastore.condemn(table.table_id, ["dt=1/a b", "other"], 5, vectors=["uone"])
    refused = table.attempt(add("fine"), add("dt=1/a%20b"))
    assert isinstance(refused, Conflict)
    assert refused.reason == "vacuum has deleted file dt=1/a b that this commit adds; it was older than the retention"
    assert "longer retention" in refused.fix
    live = table.live()["live"]
    refused = table.attempt(live.remove(), replace(live, deletion_vector=vector("one")), kind=Kind.DELETE)
    assert isinstance(refused, Conflict)
    assert "uone" in refused.reason
    assert table.versions() == [0, 1]
    table.commit(add("fine"), live.remove(), replace(live, deletion_vector=vector("two")), kind=Kind.DELETE)


def test_condemned_files_are_forgotten(metastore: Metastore, table: Written) -> None:
    metastore.condemn(table.table_id, ["a"], 5)
    metastore.condemn(table.table_id, ["b"], 6)
    assert metastore.forget_condemned(table.table_id, 6) == 1
    table.commit(add("a"))
    assert isinstance(table.attempt(add("b")), Conflict)
    assert metastore.forget_condemned(table.table_id, 7) == 1
    assert metastore.forget_condemned(table.table_id, 7) == 0
    table.commit(add("b"))


def test_a_commit_asks_only_where_something_is_condemned(metastore: Metastore, table: Written) -> None:
    asked: list[str] = []

    @event.listens_for(metastore._database._engine, "before_cursor_execute")
    def note(_c: object, _cursor: object, statement: str, *_: object) -> None:
        asked.append(statement)

    def asks() -> bool:
        asked.clear()
        table.commit(add(f"f{metastore.head(table.table_id)}"))
        return any("lakebed_condemned" in statement for statement in asked)

    assert not asks()
    metastore.condemn(table.table_id, ["x"], 5)
    assert asks()
    metastore.forget_condemned(table.table_id, 6)
    assert not asks()


def test_tables_that_are_gone(metastore: Metastore) -> None:
    with pytest.raises(NotFoundError):
        metastore.condemn("gone", ["a"], 1)
    with pytest.raises(NotFoundError):
        metastore.referenced_paths("gone")
    with pytest.raises(NotFoundError):
        metastore.lease("gone", 0, "reader", 1)
    with pytest.raises(NotFoundError):
        metastore.expire("gone", 1)


def test_writers_and_vacuum_never_both_win(metastore: Metastore, table: Written) -> None:
    """Each name is committed or condemned, whichever comes first."""
    names = [f"f{i:02}" for i in range(24)]
    outcomes: dict[str, object] = {}
    condemned: list[str] = []

    def write() -> None:
        for name in names:
            outcomes[name] = table.attempt(add(name))

    def clean() -> None:
        for start in range(len(names) - 4, -1, -4):
            condemned.extend(metastore.condemn(table.table_id, names[start : start + 4], 5).paths)

    threads = [threading.Thread(target=write), threading.Thread(target=clean)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    landed = {name for name, outcome in outcomes.items() if isinstance(outcome, Landed)}
    assert landed.isdisjoint(condemned)
    assert landed.union(condemned) == set(names)
    assert set(table.live()) == landed
