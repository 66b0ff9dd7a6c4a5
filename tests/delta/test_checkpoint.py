"""Checkpoints that we write: outside readers open the table from the checkpoint alone."""

import datetime as dt
import decimal
import json

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from hypothesis import given, settings
from hypothesis import strategies as st

from lakebed.core.actions import (
    AddFile,
    DeletionVector,
    DomainMetadata,
    Metadata,
    Protocol,
    RemoveFile,
    SetTransaction,
)
from lakebed.core.errors import FileMissingError, StorageError
from lakebed.core.steps import Step, observe
from lakebed.delta import checkpoint as checkpoint_module
from lakebed.delta.checkpoint import write_checkpoint
from lakebed.delta.checkpoint_rows import read_rows
from lakebed.delta.checkpoint_schema import SCHEMA, add_rows
from lakebed.delta.log import read_log

ROWS = pa.table({"id": pa.array([1, 2, 3, 4], pa.int64()), "dt": ["a", "a", "a", "a"]})


def field(name, kind):
    return {"name": name, "type": kind, "nullable": True, "metadata": {}}


@pytest.fixture
def filled(table):
    """Three versions of a partitioned table with vectors, a tombstone, a transaction and domains."""
    configuration = {
        "delta.enableDeletionVectors": "true",
        "delta.enableRowTracking": "true",
        "team.owner": "shop",
    }
    table.commit(
        0,
        {"commitInfo": {"timestamp": 5, "inCommitTimestamp": 7, "operation": "CREATE TABLE"}},
        table.protocol("deletionVectors", writers=["rowTracking", "domainMetadata", "inCommitTimestamp"]),
        table.metadata(field("id", "long"), field("dt", "string"), partition_by=["dt"], configuration=configuration),
        {"domainMetadata": {"domain": "delta.rowTracking", "configuration": "{}", "removed": False}},
        {"domainMetadata": {"domain": "gone", "configuration": "", "removed": False}},
        {"txn": {"appId": "stream", "version": 3, "lastUpdated": 4}},
    )
    row_ids = {"baseRowId": 0, "defaultRowCommitVersion": 1}
    in_a, in_b = {"partitionValues": {"dt": "a"}}, {"partitionValues": {"dt": None}}
    table.commit(
        1,
        table.add("dt=a/1.parquet", ROWS, dead=[0, 3], **in_a, **row_ids),
        table.add("dt=a/2.parquet", ROWS, dead=[1], where="inline", **in_a),
        table.add("dt=__HIVE_DEFAULT_PARTITION__/3.parquet", ROWS.slice(0, 1), dead=[], tags={"k": "v"}, **in_b),
        table.add("old.parquet", ROWS, **in_a),
    )
    old = {
        "path": "old.parquet",
        "dataChange": True,
        "deletionTimestamp": 9,
        **in_a,
        "size": 1,
        "stats": "{}",
    }
    table.commit(2, {"remove": old}, {"domainMetadata": {"domain": "gone", "configuration": "", "removed": True}})
    return table


def checkpoint(table):
    snapshot = read_log(table.store)
    write_checkpoint(
        table.store,
        snapshot.version,
        protocol=snapshot.protocol,
        metadata=snapshot.metadata,
        transactions=snapshot.transactions.values(),
        domains=snapshot.domains.values(),
        adds=iter(snapshot.files.values()),
        removes=iter(snapshot.tombstones.values()),
    )
    return snapshot


def drop_commits(table):
    for path in table.log.glob("*.json"):
        path.unlink()


def test_the_snapshot_is_the_same_from_the_checkpoint_alone(filled):
    before = checkpoint(filled)
    drop_commits(filled)
    after = read_log(filled.store)
    assert (after.version, after.protocol, after.metadata) == (
        before.version,
        before.protocol,
        before.metadata,
    )
    assert (after.transactions, after.domains) == (before.transactions, before.domains)
    assert set(after.domains) == {"delta.rowTracking"}
    assert {key: (a.stats, a.tags, a.size, a.base_row_id, a.deletion_vector) for key, a in after.files.items()} == {
        key: (a.stats, a.tags, a.size, a.base_row_id, a.deletion_vector) for key, a in before.files.items()
    }
    assert not any(add.data_change for add in after.files.values())
    [tombstone] = after.tombstones.values()
    assert (tombstone.path, tombstone.deletion_timestamp, tombstone.stats) == ("old.parquet", 9, None)


def test_outside_readers_open_the_checkpoint_alone_with_its_vectors(filled, foreign_rows):
    expected = [(1, None), (1, "a"), (2, "a"), (3, "a"), (3, "a"), (4, "a")]
    checkpoint(filled)
    drop_commits(filled)
    rows = foreign_rows(filled.root, "id, dt nulls first")
    assert [(row["id"], row["dt"]) for row in rows] == expected
    frame = pl.scan_delta(str(filled.root)).collect().sort("id", "dt", nulls_last=False)
    assert frame.rows() == expected
    table = DeltaTable(filled.root)
    assert (table.version(), table.transaction_version("stream")) == (2, 3)
    assert table.metadata().configuration["team.owner"] == "shop"


def test_commits_after_the_checkpoint_are_seen_outside(filled, foreign_rows):
    checkpoint(filled)
    drop_commits(filled)
    path = "dt=a/2.parquet"
    vector = next(a for a in read_log(filled.store).files.values() if a.path == path).deletion_vector
    body = {"storageType": vector.storage_type, "pathOrInlineDv": vector.path_or_inline_dv,
            "sizeInBytes": vector.size_in_bytes, "cardinality": vector.cardinality}  # fmt: skip
    filled.commit(3, {"remove": {"path": path, "dataChange": True, "deletionVector": body}})
    assert [row["id"] for row in foreign_rows(filled.root)] == [1, 2, 3]


def test_the_pointer_describes_the_checkpoint(filled):
    checkpoint(filled)
    pointer = json.loads(filled.store.read("_delta_log/_last_checkpoint"))
    target = f"_delta_log/{2:020d}.checkpoint.parquet"
    assert pointer == {"version": 2, "size": 8, "sizeInBytes": filled.store.size(target), "numOfAddFiles": 3}
    assert pq.read_metadata(filled.root / target).num_rows == 8


@pytest.mark.parametrize("step", [Step.CHECKPOINT_WRITTEN, Step.CHECKPOINT_POINTED])
def test_a_death_at_any_step_leaves_a_readable_log(filled, step):
    before = read_log(filled.store)

    def die(reached):
        if reached is step:
            raise KeyboardInterrupt

    stop = observe(die)
    with pytest.raises(KeyboardInterrupt):
        checkpoint(filled)
    stop()
    assert read_log(filled.store).files.keys() == before.files.keys()
    checkpoint(filled)
    assert read_log(filled.store).files.keys() == before.files.keys()


def test_a_failing_source_of_files_leaves_no_checkpoint(filled):
    def broken():
        yield AddFile("a.parquet", {}, 1, 1, True)
        raise RuntimeError("the metastore is gone")

    snapshot = read_log(filled.store)
    with pytest.raises(RuntimeError, match="gone"):
        write_checkpoint(filled.store, 2, protocol=snapshot.protocol, metadata=snapshot.metadata, adds=broken())
    assert not list(filled.log.glob("*checkpoint*"))


def test_a_checkpoint_before_its_commit_is_refused(filled):
    with pytest.raises(FileMissingError, match="fix: publish first"):
        write_checkpoint(filled.store, 3, protocol=Protocol(1, 2), metadata=Metadata("t", "{}"))


def test_many_files_go_through_in_batches(filled, monkeypatch):
    monkeypatch.setattr(checkpoint_module, "BATCH_ROWS", 10)
    adds = [
        AddFile(
            f"dt={i % 3}/f{i}.parquet", {"dt": str(i % 3)}, i, 1, False, f'{{"numRecords":{i}}}',
            {"tag": None} if i % 2 else None,
            DeletionVector("u", f"x{i:020d}", 30, 2, offset=i) if i % 5 == 0 else None,
            i * 10, i,
        )
        for i in range(105)
    ]  # fmt: skip
    removes = [
        RemoveFile(f"r{i}.parquet", False, i, True, {"dt": "1"}, i, None, None, adds[0].deletion_vector, i, 1)
        for i in range(25)
    ]
    transactions = [SetTransaction(f"app{i}", i) for i in range(12)]
    snapshot = read_log(filled.store)
    domains = [DomainMetadata("kept", "{}"), DomainMetadata("removed", "", removed=True)]
    write_checkpoint(
        filled.store, 2, protocol=snapshot.protocol, metadata=snapshot.metadata,
        transactions=transactions, domains=domains, adds=iter(adds), removes=iter(removes),
    )  # fmt: skip
    drop_commits(filled)
    back = read_log(filled.store)
    assert list(back.files.values()) == adds
    assert list(back.tombstones.values()) == removes
    assert list(back.transactions.values()) == transactions
    assert set(back.domains) == {"kept"}
    assert DeltaTable(filled.root).transaction_version("app11") == 11


def read_back(directory, **arrays):
    """The actions of a checkpoint whose add column has only these members."""
    struct = pa.StructArray.from_arrays(list(arrays.values()), names=list(arrays))
    pq.write_table(pa.table({"add": struct}), directory / "c.parquet")
    return list(read_rows(str(directory / "c.parquet"), "c.parquet"))


def test_old_writers_leave_columns_out(tmp_path):
    [add] = read_back(tmp_path, path=pa.array(["a"]), size=pa.array([3]))
    assert add == AddFile("a", {}, 3, 0, False)


def test_statistics_in_columns_become_text(tmp_path):
    values = {
        "n": 1,
        "day": dt.date(2026, 11, 15),
        "at": dt.datetime(2026, 11, 15, 10, 0, 0, 5, dt.UTC),
        "local": dt.datetime(2026, 11, 15, 10),
        "price": decimal.Decimal("12345678901234567890.10"),
        "text": "ä",
        "flag": True,
        "nothing": None,
        "nested": {"x": 1.5, "odd": float("nan")},
    }
    parsed = pa.array([{"numRecords": 2, "minValues": values, "tightBounds": False}, None])
    first, second = read_back(tmp_path, path=pa.array(["a", "b"]), stats_parsed=parsed)
    assert json.loads(first.stats, parse_float=decimal.Decimal) == {
        "numRecords": 2,
        "minValues": {
            "n": 1,
            "day": "2026-11-15",
            "at": "2026-11-15T10:00:00.000005Z",
            "local": "2026-11-15T10:00:00.000000",
            "price": decimal.Decimal("12345678901234567890.10"),
            "text": "ä",
            "flag": True,
            "nested": {"x": decimal.Decimal("1.5")},
        },
        "tightBounds": False,
    }
    assert (first.num_records, second.stats) == (2, None)


@pytest.mark.parametrize("texts", [['{"numRecords":7}', None], [None, None]])
def test_text_statistics_win_over_columns(tmp_path, texts):
    parsed = pa.array([{"numRecords": 2}, {"numRecords": 3}])
    adds = read_back(
        tmp_path,
        path=pa.array(["a", "b"]),
        stats=pa.array(texts, pa.string()),
        stats_parsed=parsed,
    )
    assert [add.num_records for add in adds] == [7 if texts[0] else 2, 3]


def test_a_vector_struct_full_of_nulls_is_no_vector(tmp_path):
    kind = SCHEMA.field("add").type.field("deletionVector").type
    nulls = pa.array([dict.fromkeys(kind.names)], kind)
    [add] = read_back(tmp_path, path=pa.array(["a"]), deletionVector=nulls)
    assert add.deletion_vector is None


def test_a_checkpoint_that_cannot_be_written_says_why(filled):
    (filled.log / f"{2:020d}.checkpoint.parquet").mkdir()
    with pytest.raises(StorageError, match=r"0002\.checkpoint\.parquet: cannot write it"):
        checkpoint(filled)
    assert not (filled.log / "_last_checkpoint").exists()


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
TEXTS = st.dictionaries(TEXT, st.none() | TEXT, max_size=3)
NUMBER = st.integers(0, 2**63 - 1)
VECTOR = st.builds(DeletionVector, TEXT, TEXT, st.integers(0, 2**31 - 1), NUMBER, st.none() | st.just(1))
ADD = st.builds(
    AddFile, TEXT, TEXTS, NUMBER, NUMBER, st.just(False), st.none() | TEXT, st.none() | TEXTS,
    st.none() | VECTOR, st.none() | NUMBER, st.none() | NUMBER, st.none() | TEXT,
)  # fmt: skip


@given(st.lists(ADD, max_size=5))
@settings(max_examples=40, deadline=None)
def test_any_file_comes_back_as_it_went_in(adds):
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(sink, SCHEMA, store_schema=False) as writer:
        writer.write_batch(add_rows(adds))
    assert list(read_rows(pa.BufferReader(sink.getvalue()), "checkpoint")) == adds
