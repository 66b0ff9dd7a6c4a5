"""Unsettled files and buckets: rows know them, the open log carries them as domains."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from table_under_test import Written, add, vector

from lakebed.core.actions import AddFile, DomainMetadata, RemoveFile, from_lines
from lakebed.core.commit import ROW_TRACKING, Conflict, Kind
from lakebed.core.file_tags import file_tags, is_unsettled, settled
from lakebed.core.snapshot import Replay
from lakebed.core.unsettled import DOMAIN_PREFIX, from_log, to_log
from lakebed.metastore import LoggedVersion, Metastore


def upsert(path: str, bucket: int = 0, **values: Any) -> AddFile:
    return add(path, tags=file_tags(bucket, unsettled=True), **values)


def plain(path: str, bucket: int = 0, **values: Any) -> AddFile:
    return add(path, tags=file_tags(bucket), **values)


def settle(table: Written, path: str, **changes: Any) -> list[RemoveFile | AddFile]:
    before = table.live()[path]
    return [before.remove(timestamp=77), replace(settled(before), **changes)]


def worked_on(table: Written) -> None:
    """Files enter unsettled and settle, with and without a vector, one leaves, one is restored as unsettled."""
    table.commit(plain("a"), upsert("b"), kind=Kind.UPSERT)
    table.commit(upsert("c", 1, dt="2"), DomainMetadata("lakebed.split.2", "{}"), kind=Kind.UPSERT)
    marked = replace(table.live()["a"], deletion_vector=vector("a1", 4))
    table.commit(table.live()["a"].remove(), marked, *settle(table, "b"), kind=Kind.SETTLE)
    table.commit(*settle(table, "c", deletion_vector=vector("c1", 2)), upsert("d", 1, dt="2"), kind=Kind.SETTLE)
    table.commit(table.live()["d"].remove(timestamp=77), upsert("e"), kind=Kind.DELETE)
    back = replace(table.live(2)["c"], data_change=True)
    table.commit(table.live()["c"].remove(timestamp=77), back, kind=Kind.RESTORE)


UNSETTLED = [set(), {"b"}, {"b", "c"}, {"c"}, {"d"}, {"e"}, {"c", "e"}]


def test_every_version_reads_as_the_log_tells_it(metastore: Metastore, table: Written) -> None:
    worked_on(table)
    settled_files, all_files = Replay(), Replay()
    for version, body in metastore.unpublished(table.table_id, 100):
        logged = from_lines(body)
        assert to_log(from_log(logged)) == logged
        assert not any(is_unsettled(a) for a in logged if isinstance(a, AddFile | RemoveFile))
        settled_files.add(logged)
        all_files.add(from_log(logged))
        live = table.live(version)
        assert {p for p, a in live.items() if is_unsettled(a)} == UNSETTLED[version]
        assert live == {a.path: a for a in all_files.snapshot(version).files.values()}
        assert {p: a for p, a in live.items() if not is_unsettled(a)} == {
            a.path: a for a in settled_files.snapshot(version).files.values()
        }
        assert metastore.has_unsettled(table.table_id, version) is bool(UNSETTLED[version])
        data = metastore.files(table.table_id, version, stats=False, details=False).data
        assert set(data.filter(data["unsettled"])["path"].to_pylist()) == UNSETTLED[version]
        assert not [d for d in metastore.domains(table.table_id, version) if d.domain.startswith(DOMAIN_PREFIX)]


def test_a_checkpoint_has_unsettled_files_as_domains_only(metastore: Metastore, table: Written) -> None:
    worked_on(table)
    replay = Replay()
    for version, body in metastore.unpublished(table.table_id, 100):
        replay.add(from_lines(body))
        snapshot = replay.snapshot(version)
        full = metastore.full_state(table.table_id, version, tombstones_after=0)
        assert {a.key: a for a in full.adds()} == snapshot.files
        assert {r.key for r in full.removes} == set(snapshot.tombstones)
        domains = {d.domain: d for d in (*full.domains, *full.unsettled())}
        assert set(domains) == set(snapshot.domains)
        assert from_log(domains.values()) == from_log(snapshot.domains[name] for name in domains)


def log_of(table: Written) -> list[LoggedVersion]:
    bodies = table.metastore.unpublished(table.table_id, 100)
    stamps = {r.version: r.timestamp for r in table.metastore.history(table.table_id)}
    return [LoggedVersion(version, stamps[version], from_lines(body)) for version, body in bodies]


def contents(table: Written, version: int) -> Any:
    data = table.metastore.files(table.table_id, version).data.select(["path", "bucket", "unsettled"])
    return table.live(version), sorted(map(str, data.to_pylist())), table.metastore.domains(table.table_id, version)


def test_a_log_is_taken_in_with_its_unsettled_files(metastore: Metastore, table: Written) -> None:
    worked_on(table)
    history = log_of(table)
    before = [contents(table, v) for v in range(7)]
    kinds = [(r.kind, r.version) for r in metastore.history(table.table_id)]
    metastore.drop_table("default", "t")
    metastore.import_table("default", "t", "file:///lake/t", table.table_id, history)
    assert [contents(table, v) for v in range(7)] == before
    assert [(r.kind, r.version) for r in metastore.history(table.table_id)] == kinds
    table.commit(*settle(table, "e"), *settle(table, "c"), kind=Kind.SETTLE)
    assert not any(is_unsettled(a) for a in table.live().values())


def test_a_log_that_begins_with_a_checkpoint_is_taken_in(metastore: Metastore, table: Written) -> None:
    worked_on(table)
    history = log_of(table)
    before = [contents(table, v) for v in range(2, 7)]
    replay = Replay()
    for logged in history[:3]:
        replay.add(logged.actions)
    base = replay.snapshot(2)
    state = (base.protocol, base.metadata, *base.domains.values(), *base.tombstones.values(), *base.files.values())
    metastore.drop_table("default", "t")
    first = LoggedVersion(2, history[2].timestamp, state)
    metastore.import_table("default", "t", "file:///lake/t", table.table_id, [first, *history[3:]])
    assert [contents(table, v) for v in range(2, 7)] == before


def test_a_file_that_settles_is_a_new_row(metastore: Metastore, table: Written) -> None:
    """Even with a vector, which is otherwise a row of its own: the file's row says whether it is settled."""
    table.commit(upsert("a"), kind=Kind.UPSERT)
    number = metastore.files(table.table_id).data["id"].to_pylist()
    table.commit(*settle(table, "a", deletion_vector=vector("one")), kind=Kind.SETTLE)
    data = metastore.files(table.table_id).data
    assert (data["id"].to_pylist() == number, data["unsettled"].to_pylist()) == (False, [False])
    assert metastore.files(table.table_id, 1).data["unsettled"].to_pylist() == [True]
    assert [a.key for a in metastore.changed_files(table.table_id, 1, 2)[0].adds] == [("a", "uone@1")]


def test_a_file_settles_once(table: Written) -> None:
    """Without a vector the settled file has the key of the unsettled one, and is another file all the same."""
    table.commit(upsert("a"), kind=Kind.UPSERT)
    change = settle(table, "a")
    table.commit(*change, kind=Kind.SETTLE)
    refused = table.attempt(*change, kind=Kind.SETTLE)
    assert isinstance(refused, Conflict)
    assert "file a, which mine replaces or removes, is not part of the table any more" in refused.reason


def test_row_ids_cover_unsettled_files(metastore: Metastore, table: Written) -> None:
    table.commit(upsert("a", rows=7), plain("b", rows=5), kind=Kind.UPSERT)
    table.commit(*settle(table, "a"), upsert("c", rows=2), kind=Kind.UPSERT)
    assert {p: a.base_row_id for p, a in table.live().items()} == {"a": 0, "b": 7, "c": 12}
    marks = [json.loads(d.configuration) for d in metastore.domains(table.table_id, prefix=ROW_TRACKING)]
    assert marks == [{"rowIdHighWaterMark": 13}]


def test_files_of_some_buckets(metastore: Metastore, table: Written) -> None:
    table.commit(*(plain(f"{dt}-{b}", b, dt=dt) for dt in "12" for b in (-3, 0, 1)), add("none"))
    table.commit(
        table.live()["1-0"].remove(), replace(table.live()["1-0"], deletion_vector=vector("x")), kind=Kind.UPDATE
    )
    table.commit(table.live()["2-0"].remove(), kind=Kind.DELETE)
    names = {values["dt"]: number for number, values in metastore.partitions(table.table_id).items()}

    def found(version: int | None = None, **some: Any) -> list[tuple[str, int | None]]:
        data = metastore.files(table.table_id, version, **some).data
        rows = zip(data["path"].to_pylist(), data["dv_cardinality"].to_pylist(), strict=True)
        return sorted(rows)

    assert found(buckets=[0]) == [("1-0", 1)]
    assert found(1, buckets={0}) == [("1-0", None), ("2-0", None)]
    assert found(buckets=[0, -3], partitions=[names["1"]]) == [("1--3", None), ("1-0", 1)]
    assert found(buckets=range(-5, 1000), partitions=range(1000)) == [
        ("1--3", None), ("1-0", 1), ("1-1", None), ("2--3", None), ("2-1", None),
    ]  # fmt: skip
    assert found(buckets=[]) == []
    assert metastore.files(table.table_id).data["bucket"].null_count == 1


def test_counts_of_buckets(metastore: Metastore, table: Written) -> None:
    table.commit(plain("a", 0), plain("b", 0), plain("c", -2, dt="2"), add("none"))
    marked = replace(table.live()["a"], deletion_vector=vector("x", 4))
    table.commit(table.live()["a"].remove(), marked, upsert("d", 0, rows=3), kind=Kind.UPSERT)
    table.commit(table.live()["b"].remove(), kind=Kind.DELETE)

    def counts(version: int | None) -> list[tuple[str, int, int, int, int, int]]:
        rows = metastore.bucket_rows(table.table_id, version)
        return [(r.partition_key, r.bucket, r.rows, r.dead, r.files, r.unsettled) for r in rows]

    one, two = '{"dt":"1"}', '{"dt":"2"}'
    assert counts(1) == [(one, 0, 20, 0, 2, 0), (two, -2, 10, 0, 1, 0)]
    assert counts(2) == [(one, 0, 19, 4, 3, 1), (two, -2, 10, 0, 1, 0)]
    assert counts(None) == [(one, 0, 9, 4, 2, 1), (two, -2, 10, 0, 1, 0)]


def test_splits_are_domains(metastore: Metastore, table: Written) -> None:
    """Two writers that split the same node at once do not disturb each other."""
    split = DomainMetadata("lakebed.split.2", '{"depth":1}')
    table.commit(upsert("a"), split, kind=Kind.UPSERT, read=0)
    table.commit(upsert("b"), split, DomainMetadata("lakebed.split.3", "{}"), kind=Kind.UPSERT, read=0)
    found = metastore.domains(table.table_id, prefix="lakebed.split.")
    assert found == [split, DomainMetadata("lakebed.split.3", "{}")]
    assert metastore.domains(table.table_id, 1, prefix="lakebed.split.") == [split]
    assert [d.domain for d in metastore.domains(table.table_id)] == [ROW_TRACKING, "lakebed.split.2", "lakebed.split.3"]
