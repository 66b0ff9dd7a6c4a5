"""Files, vectors and partitions: every version comes back exactly as it was committed."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from table_under_test import Written, add, vector

from lakebed.core.actions import AddFile, RemoveFile, from_lines
from lakebed.core.commit import Kind
from lakebed.core.errors import InputError
from lakebed.core.snapshot import Replay
from lakebed.metastore import Metastore


def without(file: AddFile) -> RemoveFile:
    return file.remove(timestamp=77)


def replayed(table: Written) -> dict[int, dict[str, AddFile]]:
    """Every version's files by replaying the log, which is the truth that rows must tell too."""
    replay, found = Replay(), {}
    for version, body in table.metastore.unpublished(table.table_id, 1000):
        replay.add(from_lines(body))
        found[version] = {a.path: a for a in replay.snapshot(version).files.values()}
    return found


def check_all_versions(table: Written) -> None:
    expected = replayed(table)
    assert {v: table.live(v) for v in expected} == expected


def test_adds_and_removes(table: Written) -> None:
    table.commit(add("a"), add("b", dt=None))
    table.commit(without(table.live()["a"]), kind=Kind.DELETE)
    table.commit(add("c", dt='ü, "2"\n'), add("d", dt=""))
    assert [sorted(table.live(v)) for v in range(4)] == [[], ["a", "b"], ["b"], ["b", "c", "d"]]
    check_all_versions(table)


def test_every_field_comes_back(table: Written) -> None:
    table.commit(
        add(
            "dt=1/a%20b.parquet",
            stats='{ "numRecords": 3,\n "x": "\\u00fc, \'quoted\' \\"twice\\"" }',
            tags={"bucket": "7", "none": None},
            clustering_provider="liquid",
            extra={"later": [1, {"x": None}]},
            data_change=False,
        ),
        add("b", tags={}, base_row_id=100, default_row_commit_version=0),
        add("c", deletion_vector=vector("xyz", 3, None)),
    )
    check_all_versions(table)
    assert table.live()["dt=1/a%20b.parquet"].tags == {"bucket": "7", "none": None}


def test_a_file_without_statistics_is_as_it_was(table: Written) -> None:
    table.commit(add("a", stats=None, base_row_id=0, default_row_commit_version=1))
    assert table.live()["a"].stats is None
    check_all_versions(table)


def test_vectors_come_and_go(metastore: Metastore, table: Written) -> None:
    table.commit(add("a", tags={"x": "1"}))
    first = table.live()["a"]
    loose = replace(first, deletion_vector=vector("one"), stats='{"numRecords":10,"tightBounds":false}')
    table.commit(without(first), loose, kind=Kind.DELETE)
    more = replace(loose, deletion_vector=vector("two", 2), tags={"x": "2"}, extra={"n": 1})
    table.commit(without(loose), more, kind=Kind.DELETE)
    table.commit(without(more), loose, kind=Kind.RESTORE)  # an older vector again
    table.commit(without(loose), first, kind=Kind.RESTORE)  # none again
    table.commit(without(first), kind=Kind.DELETE)
    table.commit(replace(loose, data_change=False), kind=Kind.RESTORE)
    check_all_versions(table)
    keys = [{a.key for a in table.live(v).values()} for v in range(8)]
    assert keys == [
        set(),
        {("a", None)},
        {("a", "uone@1")},
        {("a", "utwo@1")},
        {("a", "uone@1")},
        {("a", None)},
        set(),
        {("a", "uone@1")},
    ]


def test_a_vector_that_takes_statistics_away(table: Written) -> None:
    table.commit(add("a"))
    first = table.live()["a"]
    table.commit(without(first), replace(first, deletion_vector=vector("v"), stats=None), kind=Kind.DELETE)
    assert table.live()["a"].stats is None
    check_all_versions(table)


def test_a_new_vector_is_not_a_new_file_row(metastore: Metastore, table: Written) -> None:
    table.commit(add("a"))
    first = table.live()["a"]
    before = metastore.files(table.table_id).data["id"].to_pylist()
    table.commit(without(first), replace(first, deletion_vector=vector("v")), kind=Kind.DELETE)
    assert metastore.files(table.table_id).data["id"].to_pylist() == before


def test_changes_of_each_version(metastore: Metastore, table: Written) -> None:
    table.commit(add("a"), add("b"))
    a, b = table.live()["a"], table.live()["b"]
    a1 = replace(a, deletion_vector=vector("one"))
    a2 = replace(a, deletion_vector=vector("two"))
    table.commit(without(a), a1, kind=Kind.DELETE)
    table.commit(without(a1), a2, without(b), add("c"), kind=Kind.MERGE)
    table.commit(without(a2), kind=Kind.DELETE)
    table.commit(add("d", data_change=False), kind=Kind.COMPACT)
    changes = metastore.changed_files(table.table_id, 0, 5)
    assert [c.version for c in changes] == [1, 2, 3, 4, 5]
    assert [c.kind for c in changes] == [Kind.APPEND, Kind.DELETE, Kind.MERGE, Kind.DELETE, Kind.COMPACT]
    keys = [({x.key for x in c.adds}, {x.key for x in c.removes}) for c in changes]
    one, two = ("a", "uone@1"), ("a", "utwo@1")
    assert keys == [
        ({("a", None), ("b", None)}, set()),
        ({one}, {("a", None)}),
        ({two, ("c", None)}, {one, ("b", None)}),
        (set(), {two}),
        ({("d", None)}, set()),
    ]
    assert list(changes[1].adds) == [a1]
    removed = changes[3].removes[0]
    assert (removed.deletion_timestamp, removed.data_change, removed.partition_values) == (77, True, {"dt": "1"})
    assert changes[4].adds[0].data_change is False
    assert metastore.changed_files(table.table_id, 2, 2) == []
    assert [c.version for c in metastore.changed_files(table.table_id, 2, 3)] == [3]
    assert [c.version for c in metastore.changed_files(table.table_id, -1, 1)] == [0, 1]


def test_row_ids_follow_each_other(table: Written) -> None:
    table.commit(add("a", rows=7), add("b", rows=5))
    table.commit(add("c", rows=1))
    files = table.live()
    ids = {p: (f.base_row_id, f.default_row_commit_version) for p, f in files.items()}
    assert ids == {"a": (0, 1), "b": (7, 1), "c": (12, 2)}


def test_partitions_by_number(metastore: Metastore, table: Written) -> None:
    table.commit(add("a", dt="1"), add("b", dt="2"), add("c", dt=None))
    table.commit(add("d", dt="2"))
    numbers = {values["dt"]: number for number, values in metastore.partitions(table.table_id).items()}
    assert set(numbers) == {"1", "2", None}
    some = metastore.files(table.table_id, partitions=[numbers["2"], numbers[None]])
    assert sorted(a.path for a in some.adds()) == ["b", "c", "d"]
    assert set(some.partitions) == {numbers["2"], numbers[None]}
    assert sorted(a.path for a in metastore.files(table.table_id, 1, partitions={numbers["2"]}).adds()) == ["b"]
    assert len(metastore.files(table.table_id, partitions=[])) == 0
    assert len(metastore.files(table.table_id, partitions=range(1000))) == 4


def test_columns_for_planning(metastore: Metastore, table: Written) -> None:
    table.commit(add("a", rows=4), add("b", deletion_vector=vector("v", 3)))
    files = metastore.files(table.table_id, stats=False, details=False)
    assert len(files) == 2
    assert "stats" not in files.data.column_names
    rows = {row["path"]: row for row in files.data.to_pylist()}
    assert (rows["a"]["num_records"], rows["a"]["dv_cardinality"], rows["b"]["dv_cardinality"]) == (4, None, 3)
    with pytest.raises(InputError, match="details"):
        next(files.adds())
    assert next(metastore.files(table.table_id, stats=False).adds()).stats is None


def test_many_files_in_one_commit(metastore: Metastore, table: Written) -> None:
    files = [add(f"f{i:05}", dt=str(i % 7), stats=json.dumps({"numRecords": i})) for i in range(2500)]
    table.commit(*files)
    check_all_versions(table)
    table.commit(*(without(f) for path, f in table.live().items() if path < "f02000"), kind=Kind.DELETE)
    assert len(table.live()) == 500
    assert len(table.live(1)) == 2500


def test_full_state_has_tombstones(metastore: Metastore, table: Written) -> None:
    table.commit(add("a"), add("b"), add("c"))
    live = table.live()
    marked = replace(live["c"], deletion_vector=vector("one"))
    table.commit(without(live["a"]), without(live["b"]), without(live["c"]), marked, kind=Kind.DELETE)
    table.commit(live["b"], kind=Kind.RESTORE)
    full = metastore.full_state(table.table_id, tombstones_after=0)
    assert (full.version, full.protocol, full.metadata.id) == (
        3,
        metastore.state(table.table_id).protocol,
        table.table_id,
    )
    assert {a.key for a in full.adds()} == {("b", None), ("c", "uone@1")}
    assert {r.key for r in full.removes} == {("a", None), ("c", None)}
    assert [d.domain for d in full.domains] == ["delta.rowTracking"]
    later = metastore.full_state(table.table_id, tombstones_after=full.timestamp + 1)
    assert list(later.removes) == []
    older = metastore.full_state(table.table_id, 2, tombstones_after=0)
    assert {r.key for r in older.removes} == {("a", None), ("b", None), ("c", None)}


@pytest.mark.parametrize(
    "text",
    [
        'a "quoted", comma;\\backslash',
        "two\nlines\r\nand\ttab",
        "żółw 🐢",
        "\\N",
        "NULL",
        " ",
        "t",
        "x" * 5_000_000,
    ],
    ids=["quotes", "lines", "unicode", "copy's null", "null", "blank", "letter", "long"],
)
def test_any_text_comes_back(metastore: Metastore, table: Written, text: str) -> None:
    stats = json.dumps({"numRecords": 1, "minValues": {"name": text}}, indent=1, ensure_ascii=False)
    table.commit(add("a", stats=stats, tags={"note": text, "none": None}), read=0)
    table.commit(add("b", stats='{"numRecords":0}', tags={}), read=1)
    found = {file.path: file for file in metastore.files(table.table_id).adds()}
    assert found["a"].stats == stats
    assert found["a"].tags == {"note": text, "none": None}
    assert found["b"].tags == {}
    planned = metastore.files(table.table_id, stats=False, details=False).data
    assert sorted(planned["path"].to_pylist()) == ["a", "b"]
