"""Reading changes: ranges, modes, and what must not be told."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

import lakebed
from lakebed.core import steps
from lakebed.core.steps import Step, observe

AT_ONCE = timedelta(0)
MERGES = ["on-write", "on-read", "copy-on-write"]


def changed(changes: lakebed.Changes, *columns: str) -> list[tuple[Any, ...]]:
    """Change rows as tuples, sorted: the wanted columns, the type, the version."""
    names = [*(columns or ("id",)), "_change_type", "_commit_version"]
    rows = changes.to_arrow()
    streamed = pa.Table.from_batches(changes.to_batches(), changes.schema)
    assert _bag(streamed) == _bag(rows)
    return sorted((tuple(row[name] for name in names) for row in rows.to_pylist()), key=repr)


def _bag(rows: pa.Table) -> list[str]:
    return sorted(map(repr, rows.to_pylist()))


@pytest.fixture
def users(lake: lakebed.Warehouse) -> lakebed.Table:
    """Version 1: ann and bob; 2: bob is bert, eve comes; 3: ann goes."""
    table = lake.create_table("users", "id BIGINT, name STRING", primary_key=["id"], buckets=2)
    table.upsert([{"id": 1, "name": "ann"}, {"id": 2, "name": "bob"}])
    table.upsert([{"id": 2, "name": "bert"}, {"id": 3, "name": "eve"}])
    table.delete([{"id": 1}])
    return table


def test_a_range_begins_after_its_start_and_ends_with_its_end(users: lakebed.Table) -> None:
    first = [(1, "insert", 1), (2, "insert", 1)]
    second = [(2, "update_postimage", 2), (2, "update_preimage", 2), (3, "insert", 2)]
    assert changed(users.changes(0, 1)) == first
    assert changed(users.changes(1, 2)) == second
    assert changed(users.changes(1, 1)) == []
    assert changed(users.changes(1)) == changed(users.changes(1, 3)) == sorted([*second, (1, "delete", 3)])
    assert changed(users.changes("latest")) == []
    assert changed(users.changes(0)) == [(2, "insert", 2), (3, "insert", 2)]


def test_a_range_is_told_by_times_and_tags_too(users: lakebed.Table) -> None:
    times = {commit.version: commit.timestamp for commit in users.history()}
    users.tag("eod", 1)
    users.tag("2026-11-15", 2)
    expected = changed(users.changes(1, 2))
    assert expected == changed(users.changes(times[1], times[2]))
    assert expected == changed(users.changes(times[1] + timedelta(microseconds=500), str(times[2])))
    assert expected == changed(users.changes("eod", "2026-11-15"))
    assert users.changes("eod").start == 1
    assert users.changes("eod").end == 3


def test_earliest_begins_with_the_whole_snapshot(users: lakebed.Table) -> None:
    assert changed(users.changes("earliest", 2)) == [(1, "insert", 1), (2, "insert", 2), (3, "insert", 2)]
    assert changed(users.changes("earliest", 2, mode="all")) == changed(users.changes(0, 2, mode="all"))
    users.expire(AT_ONCE)
    users.upsert([{"id": 3, "name": "eva"}])
    assert changed(users.changes("earliest", mode="all")) == [
        (2, "insert", 3),
        (3, "insert", 3),
        (3, "update_postimage", 4),
        (3, "update_preimage", 4),
    ]
    assert changed(users.changes("earliest")) == [(2, "insert", 3), (3, "insert", 4)]


def test_modes(users: lakebed.Table) -> None:
    assert changed(users.changes(0, mode="all")) == [
        (1, "delete", 3),
        (1, "insert", 1),
        (2, "insert", 1),
        (2, "update_postimage", 2),
        (2, "update_preimage", 2),
        (3, "insert", 2),
    ]
    assert changed(users.changes(1, mode="append")) == [(2, "insert", 2), (3, "insert", 2)]


@pytest.mark.parametrize("merge", MERGES)
def test_skip_merge_tells_what_the_files_hold(local_lake: lakebed.Warehouse, merge: str) -> None:
    table = local_lake.create_table("t", "id BIGINT, n INT", primary_key=["id"], buckets=1, merge=merge)
    table.upsert([{"id": 1, "n": 1}, {"id": 2, "n": 2}])
    kinds = ["+I", "-U", "+U", "-D"]
    table.upsert([{"id": id, "n": 3, "op": op} for id, op in enumerate(kinds, 1)], row_kind="op")
    kept = [(1, "insert", 2), (3, "insert", 2)]
    # What is rewritten at once leaves no trace of a delete.
    gone = [(2, "update_preimage", 2), (4, "delete", 2)] if merge != "copy-on-write" else []
    told = changed(table.changes(1, mode="skip-merge"))
    assert told == sorted([*kept, *gone])
    table.settle()
    table.compact(full=True)
    assert changed(table.changes(1, mode="skip-merge")) == told
    assert changed(table.changes(2, mode="skip-merge")) == []


def test_the_changes_of_every_version_come_in_their_order(users: lakebed.Table) -> None:
    rows = users.changes(0, mode="all").to_arrow()
    assert rows["_commit_version"].to_pylist() == sorted(rows["_commit_version"].to_pylist())


def test_columns_and_conditions(users: lakebed.Table) -> None:
    assert users.changes(1, columns=["name"]).schema.names == [
        "name",
        "_change_type",
        "_commit_version",
        "_commit_timestamp",
    ]
    assert changed(users.changes(1, where="_change_type <> 'update_preimage' and _commit_version = 2")) == [
        (2, "update_postimage", 2),
        (3, "insert", 2),
    ]
    # Hudi PR #14197: a condition that only one image of a row satisfies.
    assert changed(users.changes(1, where="name = 'bob'"), "name") == [("bob", "update_preimage", 2)]
    assert changed(users.changes(1, where="name = 'bert'", columns=["name"]), "name") == [
        ("bert", "update_postimage", 2)
    ]


WRONG: dict[str, tuple[Callable[[lakebed.Table], Any], type[Exception], str]] = {
    "backwards": (lambda t: t.changes(2, 1), lakebed.InputError, "ends before it begins; .* found version 2 to"),
    "mode": (lambda t: t.changes(1, mode="upsert"), lakebed.InputError, "one of combine, all, append, skip-merge"),
    "on_expired": (lambda t: t.changes(1, on_expired="skip"), lakebed.InputError, "one of error, snapshot"),
    "bound": (lambda t: t.changes(1.5), lakebed.InputError, "expected a version, a time, a tag"),
    "flag": (lambda t: t.changes(True), lakebed.InputError, "expected a version, a time, a tag"),
    "negative": (lambda t: t.changes(-1), lakebed.NotFoundError, "a version from 0 to 3"),
    "future": (lambda t: t.changes(1, 9), lakebed.NotFoundError, "a version from 0 to 3"),
    "tag": (lambda t: t.changes("eot"), lakebed.NotFoundError, "has no tag 'eot'"),
    "tag, though expired": (
        lambda t: t.changes("eot", on_expired="snapshot"),
        lakebed.NotFoundError,
        "has no tag 'eot'",
    ),
    "column": (lambda t: t.changes(1, columns=["nam"]), lakebed.InputError, "did you mean 'name'"),
    "condition": (lambda t: t.changes(1, where="nam = 1"), lakebed.PredicateError, "nam"),
    "too early": (lambda t: t.changes("1999-01-01"), lakebed.NotFoundError, "has no version at 1999"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_cannot_be_asked(users: lakebed.Table, case: str) -> None:
    ask, error, message = WRONG[case]
    with pytest.raises(error, match=message):
        ask(users)


def test_a_table_with_such_a_column_of_its_own(local_lake: lakebed.Warehouse, tmp_path: Path) -> None:
    write_deltalake(tmp_path / "theirs", pa.table({"id": [1], "_change_type": ["x"]}))
    table = local_lake.register("t", str(tmp_path / "theirs"))
    with pytest.raises(lakebed.InputError, match="column '_change_type' of its own"):
        table.changes(0)


def test_a_table_of_another_writer(local_lake: lakebed.Warehouse, tmp_path: Path) -> None:
    """Its rows have no ids; that maintenance changed nothing is known from the log."""
    path = tmp_path / "theirs"
    for id in range(3):
        write_deltalake(path, pa.table({"id": [id, id]}), mode="append")
    DeltaTable(path).delete("id = 1")
    DeltaTable(path).optimize.compact()
    write_deltalake(path, pa.table({"id": [9]}), mode="append")
    table = local_lake.register("t", str(path))
    assert changed(table.changes(0, mode="all")) == [
        (1, "delete", 3),
        (1, "delete", 3),
        (1, "insert", 1),
        (1, "insert", 1),
        (2, "insert", 2),
        (2, "insert", 2),
        (9, "insert", 5),
    ]
    rows = Counter({(0,): 2})
    for id, change, _ in changed(table.changes(0)):
        rows[(id,)] += 1 if change == "insert" else -1
    assert +rows == Counter({(0,): 2, (2,): 2, (9,): 1})


def test_expired_versions_are_never_skipped_silently(users: lakebed.Table, caplog: pytest.LogCaptureFixture) -> None:
    """Hudi: an incremental reader whose files were cleaned silently skips them."""
    users.vacuum(AT_ONCE)
    users.upsert([{"id": 3, "name": "eva"}])
    for mode in ("combine", "all", "append", "skip-merge"):
        with pytest.raises(lakebed.NotFoundError, match=r"version 1 any more: it has expired; expected .* from 3 to 4"):
            users.changes(1, mode=mode)
        with caplog.at_level(logging.WARNING, "lakebed.changes"):
            found = changed(users.changes(1, mode=mode, on_expired="snapshot"))
        assert found == [(2, "snapshot", 4), (3, "snapshot", 4)]
        assert "have expired; all rows of version 4 come instead" in caplog.text
        caplog.clear()
        expected = [(3, "insert", 4)] if mode in ("append", "skip-merge") else [(3, "update_postimage", 4)]
        before = [(3, "update_preimage", 4)] if mode in ("combine", "all") else []
        assert changed(users.changes(3, mode=mode, on_expired="snapshot")) == [*expected, *before]
        assert not caplog.text


def test_a_range_with_a_gap(users: lakebed.Table) -> None:
    """Both ends are there, but not what was between them: the net change is known, each change is not."""
    users.tag("kept", 1)
    users.expire(AT_ONCE)
    assert changed(users.changes("kept")) == [
        (1, "delete", 3),
        (2, "update_postimage", 2),
        (2, "update_preimage", 2),
        (3, "insert", 2),
    ]
    unknown = users.changes("kept", where="_commit_version = 2").to_arrow()["_commit_timestamp"]
    assert unknown.null_count == 3
    with pytest.raises(lakebed.NotFoundError, match=r"no version 2 any more: .* a version from 3 to 3, or one of 1"):
        users.changes("kept", mode="all").to_arrow()
    assert changed(users.changes("kept", mode="all", on_expired="snapshot")) == [(2, "snapshot", 3), (3, "snapshot", 3)]


@pytest.mark.parametrize("mode", ["combine", "all"])
def test_a_reader_of_changes_keeps_its_files(users: lakebed.Table, mode: str) -> None:
    changes = users.changes(1, 3, mode=mode)
    expected = _bag(changes.to_arrow())
    stream = changes.to_batches()
    users.compact(full=True)
    users.upsert([{"id": 3, "name": "eva"}])
    users.vacuum(AT_ONCE)
    assert _bag(pa.Table.from_batches(stream)) == expected


@pytest.mark.parametrize("merge", MERGES)
def test_maintenance_changes_no_row(local_lake: lakebed.Warehouse, merge: str) -> None:
    """Hudi PR #9584, #18847: what maintenance has packed is neither told again nor hidden."""
    table = local_lake.create_table("t", "id BIGINT, n INT", primary_key=["id"], buckets=1, merge=merge)
    for n in range(3):
        table.upsert([{"id": id, "n": n} for id in range(n, n + 3)])
    before = table.version
    table.settle()
    table.compact(full=True)
    packed = table.version
    assert (packed > before) == (merge != "copy-on-write")
    for mode in ("combine", "all", "append", "skip-merge"):
        assert changed(table.changes(before, packed, mode=mode)) == []
    table.upsert([{"id": 9, "n": 9}])
    table.compact(full=True)
    for mode in ("combine", "all", "append", "skip-merge"):
        assert changed(table.changes(before, mode=mode)) == [(9, "insert", packed + 1)]
    assert changed(table.changes(2), "id", "n") == [
        (2, 1, "update_preimage", 3),
        (2, 2, "update_postimage", 3),
        (3, 1, "update_preimage", 3),
        (3, 2, "update_postimage", 3),
        (4, 2, "insert", 3),
        (9, 9, "insert", packed + 1),
    ]


def test_maintenance_of_a_table_without_key_changes_no_row(local_lake: lakebed.Warehouse) -> None:
    table = local_lake.create_table("t", "id BIGINT")
    for id in range(4):
        table.append([{"id": id}, {"id": id}])
    table.delete("id = 1")
    table.compact(full=True)
    table.append([{"id": 9}])
    for mode in ("combine", "all"):
        assert changed(table.changes(5, mode=mode)) == [(9, "insert", 7)]
    expected = [(1, "delete", 7), (1, "delete", 7), (2, "insert", 3), (2, "insert", 3)]
    assert changed(table.changes(2))[:4] == expected
    assert changed(table.changes(2, mode="all"))[:4] == [(1, "delete", 5), (1, "delete", 5), *expected[2:]]


@pytest.mark.parametrize("merge", MERGES)
def test_nothing_happened(local_lake: lakebed.Warehouse, merge: str) -> None:
    """Rows as they were, deletes of what is not there, late rows: none is a change; the files hold them."""
    table = local_lake.create_table(
        "t", "id BIGINT, n INT, s INT", primary_key=["id"], sequence=["s"], buckets=2, merge=merge
    )
    table.upsert([{"id": 1, "n": None, "s": 5}, {"id": 2, "n": 2, "s": 5}])
    table.upsert([{"id": 1, "n": None, "s": 5}])
    table.delete([{"id": 7, "s": 1}])
    table.upsert([{"id": 2, "n": 0, "s": 4}])
    for mode in ("combine", "all"):
        assert changed(table.changes(1, mode=mode)) == []
    assert changed(table.changes(1, mode="append")) == [(1, "insert", 2)]  # what was there is not looked at
    if merge == "on-read":
        raw = [(1, "insert", 2), (2, "insert", 4), (7, "delete", 3)]
        assert changed(table.changes(1, mode="skip-merge")) == raw


def test_empty_and_all_null(local_lake: lakebed.Warehouse) -> None:
    table = local_lake.create_table("t", "a BIGINT, b STRING")
    assert changed(table.changes("earliest"), "a") == changed(table.changes(0, 0), "a") == []
    table.append([{"a": None, "b": None}, {"a": None, "b": None}])
    assert changed(table.changes(0), "a", "b") == [(None, None, "insert", 1)] * 2
    table.overwrite([])
    assert changed(table.changes(0), "a") == []
    assert changed(table.changes(1), "a") == [(None, "delete", 2)] * 2


@pytest.mark.parametrize("merge", MERGES)
def test_a_row_that_moves_to_another_partition_is_one_update(local_lake: lakebed.Warehouse, merge: str) -> None:
    table = local_lake.create_table(
        "t", "id BIGINT, part STRING", primary_key=["id"], partition_by=["part"], buckets=1, merge=merge
    )
    table.upsert([{"id": 1, "part": "a"}, {"id": 2, "part": "a"}])
    table.upsert([{"id": 1, "part": "b"}])
    table.upsert([{"id": 2, "part": "b"}])
    table.upsert([{"id": 2, "part": "a"}])
    moved = [(1, "a", "update_preimage", 2), (1, "b", "update_postimage", 2)]
    assert changed(table.changes(1), "id", "part") == moved
    assert len(changed(table.changes(1, mode="all"))) == 6


@pytest.mark.parametrize("merge", MERGES)
def test_later_updates_do_not_hide_those_of_the_range(local_lake: lakebed.Warehouse, merge: str) -> None:
    """Hudi PR #19948; and #18943: a partial update is told as the whole row that it makes."""
    table = local_lake.create_table(
        "t", "id BIGINT, a INT, b INT", primary_key=["id"], merge_engine="partial-update", buckets=1, merge=merge
    )
    table.upsert([{"id": 1, "a": 1}])
    table.upsert([{"id": 1, "b": 2}])
    table.upsert([{"id": 1, "a": 3}])
    for mode in ("combine", "all"):
        for _ in range(2):
            assert changed(table.changes(1, 2, mode=mode), "a", "b") == [
                (1, 2, "update_postimage", 2),
                (1, None, "update_preimage", 2),
            ]
            table.compact(full=True)


def test_restore_and_overwrite(users: lakebed.Table) -> None:
    users.restore(1)
    assert changed(users.changes(1), "name") == []
    assert changed(users.changes(3), "name") == [
        ("ann", "insert", 4),
        ("bert", "update_preimage", 4),
        ("bob", "update_postimage", 4),
        ("eve", "delete", 4),
    ]
    users.overwrite([{"id": 2, "name": "bob"}, {"id": 4, "name": "kim"}])
    assert changed(users.changes(4), "name") == [("ann", "delete", 5), ("kim", "insert", 5)]


@pytest.mark.parametrize(("merge", "key"), [*((merge, ("id",)) for merge in MERGES), ("", ())])
def test_columns_that_were_wider_before_a_restore(
    local_lake: lakebed.Warehouse, merge: str, key: tuple[str, ...]
) -> None:
    """What they held then has to be told, and the end's types do not hold it."""
    ddl = "id BIGINT, n INT, x FLOAT, d DECIMAL(4,2), s STRUCT<y: INT>"
    keyed: dict[str, Any] = {"primary_key": key, "buckets": 1, "merge": merge} if key else {}
    table = local_lake.create_table("t", ddl, **keyed)
    table.append([{"id": 1, "n": 1, "x": 0.5, "d": None, "s": {"y": 1}}])
    table.alter(widen={"n": "BIGINT", "x": "DOUBLE", "d": "DECIMAL(6,3)", "s.y": "BIGINT"})
    table.append([{"id": 2, "n": 2**40, "x": 0.1, "d": Decimal("123.456"), "s": {"y": 2**41}}])
    wide = table.version
    table.restore(1)
    small, large = (1, 1, 0.5, None, {"y": 1}), (2, 2**40, 0.1, Decimal("123.456"), {"y": 2**41})
    names = ["id", "n", "x", "d", "s"]
    came, went = (*large, "insert", wide), (*large, "delete", wide + 1)
    assert changed(table.changes(1, mode="all"), *names) == sorted([came, went], key=repr)
    assert changed(table.changes(wide), *names) == [went]
    assert changed(table.changes(wide, where="n > 5 AND x < 0.2", columns=["n"]), "n") == [(2**40, "delete", wide + 1)]
    assert changed(table.changes(0, mode="all"), *names) == sorted([(*small, "insert", 1), came, went], key=repr)
    assert changed(table.changes(1), *names) == []
    assert table.changes(1).schema.field("n").type == pa.int32(), "nothing that is told was wider"
    assert table.changes(0, 1, mode="all").schema.field("n").type == pa.int32()


@pytest.mark.parametrize("engine", ["deduplicate", "partial-update"])
@pytest.mark.parametrize("merge", MERGES)
def test_all_rows_are_seen_with_the_last_schema(local_lake: lakebed.Warehouse, merge: str, engine: str) -> None:
    ddl = "id BIGINT, n INT, gone STRING, s STRUCT<x: INT>"
    table = local_lake.create_table("t", ddl, primary_key=["id"], buckets=1, merge=merge, merge_engine=engine)
    table.upsert([{"id": 1, "n": 1, "gone": "a", "s": {"x": 1}}, {"id": 2, "n": 2, "gone": "b"}])
    table.upsert([{"id": 2, "gone": "c"}, {"id": 1, "n": 5}] if engine == "partial-update" else [{"id": 1, "n": 5}])
    table.alter(rename={"n": "m", "s.x": "y"}, widen={"n": "BIGINT"}, drop=["gone"], add={"new": "STRING"})
    table.upsert([{"id": 3, "m": 2**40, "new": "!"}])
    for mode in ("combine", "all"):
        found = changed(table.changes(1, mode=mode), "id", "m", "new", "s")
        s = {"y": 1} if engine == "partial-update" else None
        assert found[0] == (1, 1, None, {"y": 1}, "update_preimage", 2)
        assert found[1:] == [
            (1, 5, None, s, "update_postimage", 2),
            (3, 2**40, "!", None, "insert", 4),
        ]
    assert table.changes(1, 2).schema.names[:4] == ["id", "n", "gone", "s"]


@pytest.mark.parametrize("merge", MERGES[:2])  # the third leaves nothing to be compacted
def test_a_commit_during_a_compaction_is_neither_lost_nor_doubled(local_lake: lakebed.Warehouse, merge: str) -> None:
    """Hudi #18847, PR #8611: what lands while a compaction is about to, from whatever version on it is read."""
    table = local_lake.create_table("t", "id BIGINT, n INT", primary_key=["id"], buckets=1, merge=merge)
    for n in range(3):
        table.upsert([{"id": 1, "n": n}, {"id": 10 + n, "n": n}])
    before, again = table.version, []

    def interrupt(step: Step) -> None:
        if step is Step.COMMIT_PREPARED and not again:
            again.append(step)
            local_lake.table("t").upsert([{"id": 1, "n": 9}, {"id": 20, "n": 9}])

    observe(interrupt)
    try:
        table.compact(full=True)
    finally:
        steps._observers.clear()
    assert again
    assert table.version >= before + 1
    late = [(1, 2, "update_preimage"), (1, 9, "update_postimage"), (20, 9, "insert")]
    for mode in ("combine", "all"):
        told = [row[:3] for row in changed(table.changes(before, mode=mode), "id", "n")]
        assert told == late, mode
        per_version = []
        for version in range(before, table.version):
            per_version += changed(table.changes(version, version + 1, mode=mode), "id", "n")
        assert sorted((row[:3] for row in per_version), key=repr) == late


def test_only_files_of_the_range_are_opened(local_lake: lakebed.Warehouse) -> None:
    table = local_lake.create_table("t", "id BIGINT, part STRING", partition_by=["part"])
    keyed = local_lake.create_table("k", "id BIGINT", primary_key=["id"], buckets=8)
    table.append([{"id": 1, "part": "a"}, {"id": 2, "part": "b"}])
    keyed.upsert([{"id": id} for id in range(100)])
    table.append([{"id": 3, "part": "a"}])
    keyed.upsert([{"id": 200}])
    for one in (table, keyed):
        touched = {row["path"] for row in one.files().to_pylist() if row["added_version"] == 2}
        for path in {row["path"] for row in one.files().to_pylist()} - touched:
            (Path(one.location.removeprefix("file://")) / path).unlink()
        for mode in ("combine", "all", "append", "skip-merge"):
            assert len(changed(one.changes(1, mode=mode))) == 1


def test_append_does_not_look_at_what_was_replaced(local_lake: lakebed.Warehouse) -> None:
    table = local_lake.create_table("t", "id BIGINT, n INT", primary_key=["id"], buckets=2)
    table.upsert([{"id": id, "n": 0} for id in range(100)])
    table.upsert([{"id": id, "n": 1} for id in range(0, 120, 3)])
    for row in table.files().to_pylist():
        if row["added_version"] == 1:
            (Path(table.location.removeprefix("file://")) / row["path"]).unlink()
    found = changed(table.changes(1, mode="append"))
    assert found == sorted(((id, "insert", 2) for id in range(0, 120, 3)), key=repr)
    with pytest.raises(lakebed.FileMissingError):
        table.changes(1).to_arrow()


def test_a_long_range_says_how_much_it_is(
    local_lake: lakebed.Warehouse, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lakebed.engine.changes.plan._LONG", 2)
    table = local_lake.create_table("t", "id BIGINT")
    for id in range(3):
        table.append([{"id": id}])
    table.changes(1).to_arrow()
    assert not caplog.text
    table.changes(0).to_arrow()
    assert "after version 0 up to version 3 are a long history: 3 versions, 1 pieces of work" in caplog.text


@pytest.mark.parametrize("key", [[], ["id"]])
def test_update_and_merge(local_lake: lakebed.Warehouse, key: list[str]) -> None:
    table = local_lake.create_table("t", "id BIGINT, n INT", primary_key=key)
    table.append([{"id": id, "n": id} for id in range(4)])
    table.update({"n": "n + 10"}, where="id < 2")
    source = pa.table({"id": [1, 5], "n": pa.array([7, 5], pa.int32())})
    merge = table.merge(source, on="t.id = s.id").when_matched_update({"n": "s.n"})
    merge.when_not_matched_insert({"id": "s.id", "n": "s.n"}).execute()
    before, after = ("update_preimage", "update_postimage") if key else ("delete", "insert")
    assert [row[:3] for row in changed(table.changes(1), "id", "n")] == sorted(
        [(0, 0, before), (0, 10, after), (1, 1, before), (1, 7, after), (5, 5, "insert")], key=repr
    )
    second = [(0, 0, before, 2), (0, 10, after, 2), (1, 1, before, 2), (1, 11, after, 2)]
    third = [(1, 11, before, 3), (1, 7, after, 3), (5, 5, "insert", 3)]
    assert changed(table.changes(1, mode="all"), "id", "n") == sorted([*second, *third], key=repr)
