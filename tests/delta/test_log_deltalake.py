"""Tables of deltalake's writer: the snapshot says what deltalake itself says."""

import datetime as dt
import decimal
import json

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from lakebed.core.errors import NotFoundError
from lakebed.core.location import Location
from lakebed.delta.log import read_actions, read_history, read_log
from lakebed.storage.store import open_store


@pytest.fixture
def root(tmp_path):
    return str(tmp_path / "table")


def store_of(root):
    return open_store(Location.parse(root))


def assert_same(root, version=None):
    """Our snapshot against deltalake's own, in everything that it shows."""
    table = DeltaTable(root, version=version)
    snapshot = read_log(store_of(root), version)
    ours = sorted((a.path, a.size, a.num_records, a.modification_time) for a in snapshot.files.values())
    theirs = pa.table(table.get_add_actions())
    names = ("path", "size_bytes", "num_records", "modification_time")
    columns = [theirs.column(name).to_pylist() for name in names]
    assert ours == sorted(zip(*columns, strict=True))
    assert snapshot.version == table.version()
    metadata, protocol = table.metadata(), table.protocol()
    assert snapshot.metadata.id == metadata.id
    assert snapshot.metadata.name == metadata.name
    assert list(snapshot.metadata.partition_columns) == metadata.partition_columns
    assert snapshot.metadata.configuration == metadata.configuration
    assert json.loads(snapshot.metadata.schema_string) == json.loads(table.schema().to_json())
    assert snapshot.protocol.min_reader_version == protocol.min_reader_version
    assert snapshot.protocol.min_writer_version == protocol.min_writer_version
    assert set(snapshot.protocol.reader_features or ()) == set(protocol.reader_features or ())
    assert set(snapshot.protocol.writer_features or ()) == set(protocol.writer_features or ())
    return snapshot


def rows(*ids):
    return pa.table({"id": pa.array(ids, pa.int64()), "s": [f"s{i}" for i in ids]})


def test_every_version_of_appends_overwrites_and_deletes(root):
    write_deltalake(root, rows(1, 2, 3), name="orders", description="all of them")
    write_deltalake(root, rows(4, 5), mode="append")
    DeltaTable(root).delete("id = 2")
    write_deltalake(root, rows(9), mode="overwrite")
    snapshots = [assert_same(root, version) for version in range(4)]
    newest = assert_same(root)
    assert newest.version == 3
    assert len(newest.tombstones) >= 3
    assert newest.timestamp == DeltaTable(root).history(1)[0]["timestamp"]
    assert [s.timestamp for s in snapshots] == sorted(s.timestamp for s in snapshots)


def test_partition_values_of_every_type_and_odd_names(root):
    moment = dt.datetime(2026, 11, 15, 10, 0, 0, 123456)
    columns = {
        "id": pa.array([1, 2], pa.int64()),
        "a string/ä": ["a/b c%3A:ü=+", None],
        "n": pa.array([-1, None], pa.int32()),
        "d": pa.array([dt.date(2026, 11, 15), None]),
        "t": pa.array([moment.replace(tzinfo=dt.UTC), None], pa.timestamp("us", "UTC")),
        "z": pa.array([moment, None], pa.timestamp("us")),
        "b": [True, None],
        "f": [1.5, None],
        "p": pa.array([decimal.Decimal("1.10"), None], pa.decimal128(5, 2)),
    }
    write_deltalake(root, pa.table(columns), partition_by=[name for name in columns if name != "id"])
    snapshot = assert_same(root)
    assert "timestampNtz" in snapshot.protocol.reader_features
    [full, empty] = sorted(snapshot.files.values(), key=lambda add: add.partition_values["n"] is None)
    assert full.partition_values["a string/ä"] == "a/b c%3A:ü=+"
    assert full.partition_values["d"] == "2026-11-15"
    assert set(empty.partition_values.values()) == {None}
    assert all(store_of(root).exists(add.file_path) for add in snapshot.files.values())


def test_schema_evolution_and_properties(root):
    write_deltalake(root, rows(1), configuration={"delta.appendOnly": "false"})
    write_deltalake(root, rows(2).append_column("x", pa.array([1.5])), mode="append", schema_mode="merge")
    assert assert_same(root).schema.names == ("id", "s", "x")
    assert assert_same(root, 0).schema.names == ("id", "s")


def test_a_checkpoint_and_commits_after_it(root):
    write_deltalake(root, rows(1), partition_by=["s"])
    for i in range(2, 6):
        write_deltalake(root, rows(i), mode="append")
    DeltaTable(root).delete("id = 3")
    DeltaTable(root).create_checkpoint()
    write_deltalake(root, rows(7), mode="append")
    with_checkpoint = assert_same(root)
    log = store_of(root)
    log.delete_many(f"_delta_log/{version:020d}.json" for version in range(6))
    assert read_log(log) == with_checkpoint
    assert assert_same(root, 5).version == 5
    with pytest.raises(NotFoundError, match="fix: read version 5, the earliest that is left"):
        read_log(log, 4)


def test_application_transactions_survive_a_checkpoint(root):
    properties = CommitProperties(app_transactions=[Transaction("stream", 7, 123)])
    write_deltalake(root, rows(1), commit_properties=properties)
    assert read_log(store_of(root)).transactions["stream"].version == 7
    DeltaTable(root).create_checkpoint()
    store_of(root).delete(f"_delta_log/{0:020d}.json")
    assert DeltaTable(root).transaction_version("stream") == 7
    [transaction] = read_log(store_of(root)).transactions.values()
    assert (transaction.app_id, transaction.version, transaction.last_updated) == ("stream", 7, 123)


def test_history_gives_every_commit_in_order(root):
    write_deltalake(root, rows(1))
    write_deltalake(root, rows(2), mode="append")
    history = list(read_history(store_of(root)))
    assert [version for version, _ in history] == [0, 1]
    assert history[1][1] == read_actions(store_of(root), 1)
    with pytest.raises(NotFoundError, match="has no commit 2"):
        read_actions(store_of(root), 2)


def test_a_table_with_vectors_switched_on(root):
    write_deltalake(root, rows(1, 2, 3), configuration={"delta.enableDeletionVectors": "true"})
    DeltaTable(root).delete("id = 2")
    snapshot = assert_same(root)
    assert "deletionVectors" in snapshot.protocol.reader_features


def test_compacted_log_files_change_nothing(root):
    for i in range(4):
        write_deltalake(root, rows(i), mode="append")
    before = read_log(store_of(root))
    DeltaTable(root).compact_logs(0, 2)
    assert any("compacted" in info.path for info in store_of(root).list("_delta_log"))
    assert read_log(store_of(root)) == before
