"""Tables of other writers: taken in, read at every version, and written without breaking them for their owners."""

from __future__ import annotations

import datetime as dt
import json
import uuid
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, QueryBuilder, write_deltalake
from hand_made import TableBuilder, field, struct
from model import bag

import lakebed
from lakebed import UnsupportedFeatureError
from lakebed.core.actions import CommitInfo, DomainMetadata, Metadata, Protocol
from lakebed.core.location import Location
from lakebed.delta.checkpoint_schema import SCHEMA
from lakebed.delta.foreign import FIELD_ID
from lakebed.delta.log import read_actions
from lakebed.engine.publication import PublicationWarning
from lakebed.storage.store import open_store


def foreign(path: Path, version: int | None = None, query: str = "select * from t") -> pa.Table:
    """The rows that deltalake's own engine sees."""
    return pa.table(QueryBuilder().register("t", DeltaTable(str(path), version=version)).execute(query))


def check_every_version(table: lakebed.Table, path: Path, first: int = 0) -> None:
    """Registered, read straight from the log, and read by deltalake: three times the same rows."""
    for version in range(first, table.version + 1):
        theirs = foreign(path, version)
        for ours in (table.at(version=version).to_arrow(), lakebed.read_delta(path, version).to_arrow()):
            assert ours.column_names == theirs.column_names, version
            assert bag(ours) == bag(theirs), version


def actions(path: Path, version: int) -> tuple[Any, ...]:
    return read_actions(open_store(Location.parse(path)), version)


def of_kind(path: Path, version: int, kind: type[Any]) -> list[Any]:
    return [action for action in actions(path, version) if isinstance(action, kind)]


INSTANT = dt.datetime(2026, 11, 15, 1, 2, 3, 456789)
PARTITION_VALUES = {
    "string": pa.array(["a b", "ü/x=1 %", None, "null"]),
    "integer": pa.array([1, -5, None, 2**31 - 1], pa.int32()),
    "long": pa.array([2**62, -1, None, 0]),
    "short": pa.array([1, -2, None, 3], pa.int16()),
    "byte": pa.array([1, -2, None, 3], pa.int8()),
    "date": pa.array([INSTANT.date(), dt.date(1, 1, 1), None, dt.date(9999, 12, 31)]),
    "timestamp": pa.array([INSTANT, dt.datetime(1969, 1, 1), None, dt.datetime(2100, 1, 1)], pa.timestamp("us", "UTC")),
    "timestamp_ntz": pa.array([INSTANT, dt.datetime(1969, 1, 1), None, dt.datetime(2100, 1, 1)], pa.timestamp("us")),
    "decimal": pa.array([Decimal("1.10"), Decimal("-3.00"), None, Decimal("0.00")], pa.decimal128(10, 2)),
    "boolean": pa.array([True, False, None, True]),
    "float": pa.array([1.5, float("inf"), None, -2.25], pa.float32()),
    "double": pa.array([1.5, 0.1, None, -1e10]),
}


@pytest.mark.parametrize("kind", PARTITION_VALUES)
def test_partitions_of_every_type(local_lake: lakebed.Warehouse, tmp_path: Path, kind: str) -> None:
    path = tmp_path / "t"
    rows = pa.table({"id": pa.array([1, 2, 3, 4]), "p": PARTITION_VALUES[kind]})
    write_deltalake(str(path), rows, partition_by=["p"])
    table = local_lake.register("t", str(path))
    assert bag(table.to_arrow()) == bag(rows)
    table.append(rows)
    check_every_version(table, path)
    if kind != "boolean":  # there the last row shares its partition with the first
        table.overwrite(rows.slice(0, 2), where="dynamic")
        assert sorted(table.to_arrow()["id"].to_pylist()) == [1, 2, 3, 3, 4, 4]
    table.delete("id = 3")
    check_every_version(table, path)
    for row in rows.slice(0, 2).to_pylist():
        assert row["id"] in table.to_arrow(where=pc.field("p") == row["p"])["id"].to_pylist()
    assert table.to_arrow(where="p is null").num_rows == 0


@pytest.fixture
def grown(tmp_path: Path) -> Path:
    """Eight versions: appends, overwrites, a delete, new columns, and a checkpoint in the middle."""
    path = tmp_path / "grown"

    def rows(*ids: int, **more: Any) -> pa.Table:
        return pa.table({"id": pa.array(ids, pa.int64()), "dt": [f"d{i % 2}" for i in ids], **more})

    write_deltalake(str(path), rows(1, 2, 3, 4), partition_by=["dt"])
    write_deltalake(str(path), rows(5, 6), mode="append")
    write_deltalake(str(path), rows(7, x=[0.5]), mode="append", schema_mode="merge")
    DeltaTable(str(path)).delete("id = 2")
    write_deltalake(str(path), rows(9, x=[1.5]), mode="overwrite", predicate="dt = 'd1'")
    DeltaTable(str(path)).create_checkpoint()
    write_deltalake(str(path), rows(11, x=[2.5]), mode="append")
    write_deltalake(str(path), rows(12, 13, x=[3.5, None]), mode="overwrite")
    write_deltalake(str(path), rows(14, x=[4.5]), mode="append")
    return path


def test_a_history_of_deltalake(local_lake: lakebed.Warehouse, grown: Path) -> None:
    table = local_lake.register("g", str(grown))
    assert table.version == 7
    assert [commit.operation for commit in table.history()][-1] in {"create", "append"}
    check_every_version(table, grown)
    stamps = [commit.timestamp for commit in table.history()]
    assert stamps == sorted(stamps, reverse=True)
    assert bag(table.at(timestamp=stamps[4]).to_arrow()) == bag(foreign(grown, 3))


def test_the_log_was_cleaned_up(local_lake: lakebed.Warehouse, grown: Path) -> None:
    for version in range(4):
        (grown / "_delta_log" / f"{version:020d}.json").unlink()
    table = local_lake.register("g", str(grown))
    check_every_version(table, grown, first=4)
    with pytest.raises(lakebed.NotFoundError, match="version 3"):
        table.at(version=3)
    table.append([{"id": 99, "dt": "d0"}])
    table.restore(version=4)
    check_every_version(table, grown, first=4)


def test_an_append_respects_the_protocol(local_lake: lakebed.Warehouse, grown: Path) -> None:
    before = DeltaTable(str(grown)).protocol()
    table = local_lake.register("g", str(grown))
    table.append([{"id": 20, "dt": "d0", "x": 1.0}, {"id": 21, "dt": None, "x": None}], txn=("loader", 1))
    table.alter(comment="taken in", properties={"team.owner": "ann"})
    check_every_version(table, grown)
    assert DeltaTable(str(grown)).protocol() == before
    assert DeltaTable(str(grown)).metadata().description == "taken in"
    for version in (8, 9):
        assert not of_kind(grown, version, Protocol)
        assert not of_kind(grown, version, DomainMetadata)
    assert all(add.base_row_id is None for add in table._point().files(None))
    write_deltalake(str(grown), pa.table({"id": [30], "dt": ["d1"], "x": [2.0]}), mode="append")  # its owner goes on
    assert sorted(foreign(grown)["id"].to_pylist()) == sorted([*table.to_arrow()["id"].to_pylist(), 30])


def test_a_delete_brings_vectors_in_the_same_commit(local_lake: lakebed.Warehouse, tmp_path: Path) -> None:
    path = tmp_path / "t"
    write_deltalake(str(path), pa.table({"id": [1, 2, 3, 4]}))
    table = local_lake.register("t", str(path))
    table.delete("id = 2")
    [protocol] = of_kind(path, 1, Protocol)
    assert (protocol.min_reader_version, protocol.min_writer_version) == (3, 7)
    assert protocol.reader_features == ("deletionVectors",)
    assert set(protocol.writer_features) == {"appendOnly", "deletionVectors", "invariants"}
    [metadata] = of_kind(path, 1, Metadata)
    assert metadata.configuration["delta.enableDeletionVectors"] == "true"
    table.delete("id = 3")
    assert not of_kind(path, 2, Protocol)
    assert not of_kind(path, 2, Metadata)
    check_every_version(table, path)
    table.restore(version=0)
    check_every_version(table, path)
    table.delete("id = 4")
    check_every_version(table, path)
    assert sorted(table.to_arrow()["id"].to_pylist()) == [1, 2, 3]


def test_a_whole_file_leaves_without_vectors(local_lake: lakebed.Warehouse, tmp_path: Path) -> None:
    path = tmp_path / "t"
    write_deltalake(str(path), pa.table({"id": [1, 2]}))
    write_deltalake(str(path), pa.table({"id": [3]}), mode="append")
    table = local_lake.register("t", str(path))
    table.delete("id < 3")
    assert not of_kind(path, 2, Protocol)
    check_every_version(table, path)


def test_changes_bring_only_the_features_they_use(local_lake: lakebed.Warehouse, tmp_path: Path) -> None:
    path = tmp_path / "t"
    write_deltalake(str(path), pa.table({"id": pa.array([1, 2], pa.int32()), "name": ["a", "b"]}))
    table = local_lake.register("t", str(path))
    table.alter(add={"note": "STRING"})
    assert not of_kind(path, 1, Protocol)
    table.alter(add={"at": "TIMESTAMP_NTZ"})
    [protocol] = of_kind(path, 2, Protocol)
    assert protocol.reader_features == ("timestampNtz",)
    table.alter(rename={"name": "title"})
    [protocol] = of_kind(path, 3, Protocol)
    assert protocol.reader_features == ("columnMapping", "timestampNtz")
    table.append([{"id": 3, "title": "c", "note": "n", "at": INSTANT}])
    check_every_version(table, path)
    table.alter(widen={"id": "BIGINT"})
    table.append([{"id": 2**40, "title": "d"}])
    assert sorted(table.to_arrow()["id"].to_pylist()) == [1, 2, 3, 2**40]
    assert bag(lakebed.read_delta(path).to_arrow()) == bag(table.to_arrow())


def test_a_table_with_its_own_features_keeps_them(local_lake: lakebed.Warehouse, tmp_path: Path) -> None:
    """A checkpoint of ours on a table of theirs: everything is still there for them."""
    path = tmp_path / "t"
    configuration = {"delta.enableChangeDataFeed": "false", "delta.appendOnly": "true", "delta.checkpointInterval": "2"}
    write_deltalake(str(path), pa.table({"id": [1]}), configuration=configuration, name="theirs", description="kept")
    table = local_lake.register("t", str(path))
    for number in range(2, 6):
        table.append([{"id": number}])
    assert list((path / "_delta_log").glob("*.checkpoint.parquet"))
    for version in range(4):
        (path / "_delta_log" / f"{version:020d}.json").unlink()
    theirs = DeltaTable(str(path))
    assert sorted(foreign(path)["id"].to_pylist()) == [1, 2, 3, 4, 5]
    assert (theirs.metadata().name, theirs.metadata().description) == ("theirs", "kept")
    assert theirs.metadata().configuration == configuration
    with pytest.raises(lakebed.InputError, match="append-only"):
        table.delete("id = 1")


def test_in_commit_timestamps_only_where_enabled_mean_anything(local_lake: lakebed.Warehouse, grown: Path) -> None:
    table = local_lake.register("g", str(grown))
    done = table.append([{"id": 20, "dt": "d0"}])
    [info] = of_kind(grown, 8, CommitInfo)
    assert info.values["timestamp"] == int(done.timestamp.timestamp() * 1000)
    assert "delta.enableInCommitTimestamps" not in DeltaTable(str(grown)).metadata().configuration
    assert DeltaTable(str(grown)).history(1)[0]["timestamp"] == info.values["timestamp"]


def test_another_writer_after_registration_is_noticed(local_lake: lakebed.Warehouse, tmp_path: Path) -> None:
    """Lakebed's metastore is the only arbiter; a foreign commit is never overwritten, and every write says so."""
    path = tmp_path / "t"
    write_deltalake(str(path), pa.table({"id": [1]}))
    table = local_lake.register("t", str(path))
    write_deltalake(str(path), pa.table({"id": [2]}), mode="append")
    with pytest.warns(PublicationWarning, match=r"0001\.json is not the commit that Lakebed made") as caught:
        done = table.append([{"id": 3}])
    assert "will write it" not in str(caught[0].message)
    assert (done.version, done.published) == (1, False)
    assert sorted(table.to_arrow()["id"].to_pylist()) == [1, 3]
    assert sorted(foreign(path)["id"].to_pylist()) == [1, 2]
    with pytest.warns(PublicationWarning, match="another writer's commit"):
        table.append([{"id": 4}])
    with pytest.raises(lakebed.CorruptFileError, match="stop the other writer"):
        table.publish()
    assert sorted(foreign(path)["id"].to_pylist()) == [1, 2]
    assert not list((path / "_delta_log").glob("*2.json"))  # nothing is published on top of it

    theirs = path / "_delta_log" / f"{1:020d}.json"
    theirs.rename(tmp_path / "theirs.json")  # as the error says: keep Lakebed's version
    assert table.publish() == 2
    check_every_version(table, path)
    assert sorted(foreign(path)["id"].to_pylist()) == [1, 3, 4]


def test_registering_again_takes_in_what_the_other_has_written(local_lake: lakebed.Warehouse, tmp_path: Path) -> None:
    path = tmp_path / "t"
    write_deltalake(str(path), pa.table({"id": [1]}))
    local_lake.register("t", str(path))
    write_deltalake(str(path), pa.table({"id": [2]}), mode="append")
    assert local_lake.table("t").count() == 1
    local_lake.drop_table("t")
    table = local_lake.register("t", str(path))
    assert sorted(table.to_arrow()["id"].to_pylist()) == [1, 2]
    table.append([{"id": 3}])
    check_every_version(table, path)


def test_registering_twice_is_refused(local_lake: lakebed.Warehouse, grown: Path) -> None:
    local_lake.register("g", str(grown))
    with pytest.raises(lakebed.AlreadyExistsError, match=r"default\.g"):
        local_lake.register("other", str(grown))
    with pytest.raises(lakebed.NotFoundError, match="nowhere"):
        local_lake.register("nowhere.g", str(grown))
    with pytest.raises(lakebed.NotFoundError, match="no Delta table"):
        local_lake.register("nothing", str(grown.parent / "nothing"))
    assert local_lake.tables() == ["default.g"]


@pytest.fixture
def hand(tmp_path: Path) -> TableBuilder:
    return TableBuilder(tmp_path / "hand-made")


def ids(*values: int) -> pa.Table:
    return pa.table({"id": pa.array(values, pa.int64())})


@pytest.mark.parametrize("where", ["inline", "file", "prefix", "absolute"])
def test_vectors_of_every_kind(local_lake: lakebed.Warehouse, hand: TableBuilder, where: str) -> None:
    configuration = {"delta.enableDeletionVectors": "true"}
    hand.commit(0, hand.protocol("deletionVectors"), hand.metadata(field("id", "long"), configuration=configuration))
    hand.commit(1, hand.add("a.parquet", ids(1, 2, 3, 4), dead=[0, 2], where=where))
    table = local_lake.register("t", str(hand.root))
    check_every_version(table, hand.root)
    table.delete("id = 4")
    table.append([{"id": 5}])
    check_every_version(table, hand.root)
    table.restore(version=1)
    check_every_version(table, hand.root)
    assert sorted(table.to_arrow()["id"].to_pylist()) == [2, 4]


def mapped_file(names: dict[int, str]) -> pa.Table:
    """Two rows whose columns carry field ids 1 to 3 under any name."""
    numbered = {i: {FIELD_ID: str(i).encode()} for i in names}
    who = pa.struct([pa.field(names[3], pa.string(), metadata=numbered[3])])
    fields = [pa.field(names[1], pa.int64(), metadata=numbered[1]), pa.field(names[2], who, metadata=numbered[2])]
    return pa.table([pa.array([1, 2]), pa.array([{names[3]: "ann"}, None], who)], schema=pa.schema(fields))


@pytest.mark.parametrize("mode", ["id", "name"])
def test_column_mapping(local_lake: lakebed.Warehouse, hand: TableBuilder, mode: str) -> None:
    """Files are matched by id where the table says so; ours carry both ids and physical names."""
    columns = (
        field("key", "long", (1, "col-1")),
        field("who", struct(field("n", "string", (3, "col-3"))), (2, "col-2")),
    )
    configuration = {"delta.columnMapping.mode": mode, "delta.columnMapping.maxColumnId": "3"}
    hand.commit(0, hand.protocol("columnMapping"), hand.metadata(*columns, configuration=configuration))
    names = {i: f"any {i}" if mode == "id" else f"col-{i}" for i in (1, 2, 3)}
    hand.commit(1, hand.add("a.parquet", mapped_file(names)))
    table = local_lake.register("t", str(hand.root))
    table.append([{"key": 3, "who": {"n": "bob"}}])
    expected = [(1, (("n", "ann"),)), (2, None), (3, (("n", "bob"),))]
    assert sorted(bag(table.to_arrow()), key=lambda row: row[0]) == expected
    assert bag(lakebed.read_delta(hand.root).to_arrow()) == bag(table.to_arrow())
    [new] = [add for add in table._point().files(None) if add.path != "a.parquet"]
    schema = pq.read_schema(hand.root / new.file_path)
    assert [(f.name, f.metadata[FIELD_ID]) for f in schema] == [("col-1", b"1"), ("col-2", b"2")]
    assert schema.field("col-2").type.field(0).metadata[FIELD_ID] == b"3"
    table.alter(rename={"key": "id"}, add={"note": "STRING"})
    table.append([{"id": 4, "note": "x"}])
    table.delete("id = 1")
    assert sorted(table.to_arrow()["id"].to_pylist()) == [2, 3, 4]
    assert table._point().metadata.configuration["delta.columnMapping.mode"] == mode
    assert table._point().metadata.configuration["delta.columnMapping.maxColumnId"] == "4"
    assert bag(lakebed.read_delta(hand.root).to_arrow()) == bag(table.to_arrow())
    if mode == "name":
        check_every_version(table, hand.root, first=1)


@pytest.mark.parametrize("form", ["multi-part", "v2"])
def test_other_forms_of_checkpoint(local_lake: lakebed.Warehouse, hand: TableBuilder, form: str) -> None:
    hand.start("v2Checkpoint")
    first = [json.loads(line) for line in (hand.log / f"{0:020d}.json").read_text().splitlines()]
    adds = [hand.add(f"f{number}.parquet", ids(number)) for number in (1, 2, 3)]
    for version, add in enumerate(adds, start=1):
        hand.commit(version, add)
    write_checkpoint(hand, form, first, adds)
    hand.commit(4, hand.add("f4.parquet", ids(4)))
    for version in range(4):
        (hand.log / f"{version:020d}.json").unlink()
    table = local_lake.register("t", str(hand.root))
    assert bag(table.at(version=3).to_arrow()) == bag(ids(1, 2, 3))
    table.append([{"id": 5}])
    assert bag(table.to_arrow()) == bag(ids(1, 2, 3, 4, 5))
    table.checkpoint()
    check_every_version(table, hand.root, first=3)


def write_checkpoint(hand: TableBuilder, form: str, first: list[Any], adds: list[Any]) -> None:
    if form == "multi-part":
        for part, some in enumerate((first, adds[:2], adds[2:]), start=1):
            hand.rows(hand.log / f"{3:020d}.checkpoint.{part:010d}.{3:010d}.parquet", some, SCHEMA)
        return
    name = f"{uuid.uuid4()}.parquet"
    size = hand.rows(hand.log / "_sidecars" / name, adds, pa.schema([SCHEMA.field("add"), SCHEMA.field("remove")]))
    sidecar = {"path": name, "sizeInBytes": size.stat().st_size, "modificationTime": 1}
    top = [{"checkpointMetadata": {"version": 3}}, *first, {"sidecar": sidecar}]
    body = "".join(json.dumps(action) + "\n" for action in top)
    (hand.log / f"{3:020d}.checkpoint.{uuid.uuid4()}.json").write_text(body)


def test_partition_columns_that_no_file_has(local_lake: lakebed.Warehouse, hand: TableBuilder) -> None:
    hand.commit(0, hand.protocol(), hand.metadata(field("id", "long"), field("dt", "date"), partition_by=["dt"]))
    hand.commit(
        1,
        hand.add("a.parquet", ids(1, 2), partitionValues={"dt": "2026-11-15"}),
        hand.add("b.parquet", ids(3), partitionValues={"dt": None}),
        hand.add("c.parquet", ids(4), partitionValues={"dt": ""}),
    )
    table = local_lake.register("t", str(hand.root))
    check_every_version(table, hand.root)
    assert table.to_arrow(["id"], "dt is null").sort_by("id")["id"].to_pylist() == [3, 4]
    assert table.count("dt = date '2026-11-15'") == 2
    table.overwrite([{"id": 9, "dt": dt.date(2026, 11, 15)}], where="dynamic")
    table.overwrite([{"id": 10, "dt": None}], where="dynamic")
    assert sorted(table.to_arrow()["id"].to_pylist()) == [9, 10]
    check_every_version(table, hand.root)


def test_files_of_before_a_type_was_widened(local_lake: lakebed.Warehouse, hand: TableBuilder) -> None:
    changes = [{"fromType": "integer", "toType": "long"}]
    hand.commit(0, hand.protocol("typeWidening"), hand.metadata(field("id", "integer")))
    hand.commit(1, hand.add("a.parquet", pa.table({"id": pa.array([1, 2], pa.int32())})))
    widened = hand.metadata(field("id", "long", **{"delta.typeChanges": changes}))
    hand.commit(2, widened, hand.add("b.parquet", ids(2**40)))
    table = local_lake.register("t", str(hand.root))
    assert table.at(version=1).schema.field("id").type == pa.int32()
    assert bag(table.to_arrow()) == bag(ids(1, 2, 2**40)) == bag(lakebed.read_delta(hand.root).to_arrow())
    table.append([{"id": 5}])
    assert sorted(table.to_arrow(where="id < 10")["id"].to_pylist()) == [1, 2, 5]


PLAIN = field("id", "long")
DEMANDING: dict[str, tuple[dict[str, Any], dict[str, str]]] = {
    "invariants": (field("id", "long", **{"delta.invariants": '{"expression":{"expression":"id > 0"}}'}), {}),
    "generatedColumns": (field("id", "long", **{"delta.generationExpression": "1 + 1"}), {}),
    "identityColumns": (field("id", "long", **{"delta.identity.start": 1, "delta.identity.step": 1}), {}),
    "allowColumnDefaults": (field("id", "long", CURRENT_DEFAULT="7"), {}),
    "checkConstraints": (PLAIN, {"delta.constraints.positive": "id > 0"}),
    "changeDataFeed": (PLAIN, {"delta.enableChangeDataFeed": "true"}),
    "icebergCompatV2": (PLAIN, {"delta.enableIcebergCompatV2": "true"}),
}
WRITES = {
    "append": lambda table: table.append([{"id": 1}]),
    "overwrite": lambda table: table.overwrite([{"id": 1}]),
    "delete": lambda table: table.delete("id = 1"),
    "alter": lambda table: table.alter(comment="x"),
    "restore": lambda table: table.restore(version=0),
}


def refused(lake: lakebed.Warehouse, hand: TableBuilder, feature: str) -> None:
    """The table can be read, at every version; every write is refused and leaves nothing behind."""
    table = lake.register("t", str(hand.root))
    assert table.to_arrow()["id"].to_pylist() == [1, 2]
    before = sorted(path.name for path in hand.root.rglob("*"))
    for write in WRITES.values():
        with pytest.raises(UnsupportedFeatureError, match=rf"default\.t can only be read: .*{feature}"):
            write(table)
    with pytest.raises(UnsupportedFeatureError, match=feature), lake.transaction() as tx:
        tx.table("t").append([{"id": 1}])
    with pytest.raises(UnsupportedFeatureError, match=feature):
        lake.rename_table("t", "other")
    assert lake.tables() == ["default.t"]
    assert table.version == 1
    assert sorted(path.name for path in hand.root.rglob("*")) == before


@pytest.mark.parametrize("feature", DEMANDING)
@pytest.mark.parametrize("legacy", [True, False])
def test_a_feature_in_use_is_refused_on_write(
    local_lake: lakebed.Warehouse, hand: TableBuilder, feature: str, legacy: bool
) -> None:
    column, configuration = DEMANDING[feature]
    protocol = {"protocol": {"minReaderVersion": 1, "minWriterVersion": 6}}
    if not legacy:
        protocol = {"protocol": {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": [feature]}}
    hand.commit(0, protocol, hand.metadata(column, configuration=configuration))
    hand.commit(1, hand.add("a.parquet", ids(1, 2)))
    refused(local_lake, hand, feature)


@pytest.mark.parametrize("feature", ["fromTheFuture", "icebergCompatV9", "collations-preview"])
def test_an_unknown_writer_feature_is_refused(local_lake: lakebed.Warehouse, hand: TableBuilder, feature: str) -> None:
    hand.commit(0, hand.protocol(writers=[feature]), hand.metadata(PLAIN))
    hand.commit(1, hand.add("a.parquet", ids(1, 2)))
    refused(local_lake, hand, feature)


def test_an_unknown_writer_version_is_refused(local_lake: lakebed.Warehouse, hand: TableBuilder) -> None:
    hand.commit(0, {"protocol": {"minReaderVersion": 1, "minWriterVersion": 8}}, hand.metadata(PLAIN))
    hand.commit(1, hand.add("a.parquet", ids(1, 2)))
    refused(local_lake, hand, "writer version")


@pytest.mark.parametrize("version", [1, 2, 3, 4, 5, 6, 7])
def test_features_that_nothing_uses_are_no_obstacle(
    local_lake: lakebed.Warehouse, hand: TableBuilder, version: int
) -> None:
    body: dict[str, Any] = {"minReaderVersion": 2 if version in (5, 6) else 1, "minWriterVersion": version}
    if version == 7:
        body["writerFeatures"] = [*DEMANDING, "appendOnly", "clustering", "domainMetadata", "checkpointProtection"]
    configuration = {"delta.enableChangeDataFeed": "false", "delta.enableIcebergCompatV2": "false"}
    hand.commit(0, {"protocol": body}, hand.metadata(PLAIN, configuration=configuration))
    hand.commit(1, hand.add("a.parquet", ids(1, 2)))
    table = local_lake.register("t", str(hand.root))
    table.append([{"id": 3}])
    assert not of_kind(hand.root, 2, Protocol)
    check_every_version(table, hand.root)


def test_row_tracking_of_another_writer_goes_on(local_lake: lakebed.Warehouse, hand: TableBuilder) -> None:
    configuration = {"delta.enableRowTracking": "true"}
    hand.commit(
        0,
        hand.protocol("deletionVectors", writers=["rowTracking", "domainMetadata"]),
        hand.metadata(PLAIN, configuration=configuration),
    )
    mark = {
        "domainMetadata": {
            "domain": "delta.rowTracking",
            "configuration": '{"rowIdHighWaterMark":41}',
            "removed": False,
        }
    }
    hand.commit(1, mark, hand.add("a.parquet", ids(1, 2), baseRowId=40, defaultRowCommitVersion=1))
    table = local_lake.register("t", str(hand.root))
    table.append([{"id": 3}, {"id": 4}])
    table.append([{"id": 5}])
    assert sorted(add.base_row_id for add in table._point().files(None)) == [40, 42, 44]
    [domain] = of_kind(hand.root, 3, DomainMetadata)
    assert json.loads(domain.configuration) == {"rowIdHighWaterMark": 44}


def test_a_foreign_domain_survives_our_checkpoint(local_lake: lakebed.Warehouse, hand: TableBuilder) -> None:
    hand.commit(0, hand.protocol(writers=["domainMetadata", "clustering"]), hand.metadata(PLAIN))
    body = {"domain": "delta.clustering", "configuration": '{"clusteringColumns":[["id"]]}', "removed": False}
    hand.commit(1, {"domainMetadata": body}, hand.add("a.parquet", ids(1)), {"txn": {"appId": "theirs", "version": 9}})
    table = local_lake.register("t", str(hand.root))
    table.append([{"id": 2}])
    table.checkpoint()
    for version in range(3):
        (hand.log / f"{version:020d}.json").unlink()
    local_lake.drop_table("t")
    again = local_lake.register("t", str(hand.root))
    full = again._handle.metastore.full_state(again._handle.table_id, again.version, tombstones_after=0)
    assert [(d.domain, d.configuration) for d in full.domains] == [(body["domain"], body["configuration"])]
    assert again.transactions() == {"theirs": 9}
    assert sorted(again.to_arrow()["id"].to_pylist()) == [1, 2]


def test_files_without_statistics(local_lake: lakebed.Warehouse, hand: TableBuilder) -> None:
    hand.start()
    for version, values in enumerate([(1, 2, 3), (4,)], start=1):
        add = hand.add(f"f{version}.parquet", ids(*values))
        del add["add"]["stats"]
        hand.commit(version, add)
    table = local_lake.register("t", str(hand.root))
    assert (table.count(), table.count("id > 2")) == (4, 2)
    assert table.delete("id in (2, 4)").metrics["numDeletedRows"] == 2
    table.overwrite([{"id": 3}, {"id": 3}], where="id = 3")
    assert (table.count(), sorted(table.to_arrow()["id"].to_pylist())) == (3, [1, 3, 3])
    check_every_version(table, hand.root)


def test_bounds_that_other_writers_cut_off(local_lake: lakebed.Warehouse, hand: TableBuilder) -> None:
    """Spark cuts times to milliseconds and long texts to a prefix; a file must not be passed over for that."""
    hand.start(fields=[field("at", "timestamp"), field("s", "string")])
    text = "x" * 40 + "z"
    rows = pa.table({"at": pa.array([INSTANT], pa.timestamp("us", "UTC")), "s": [text]})
    bounds = {"at": "2026-11-15T01:02:03.456Z", "s": "x" * 32}
    stats = {"numRecords": 1, "minValues": bounds, "maxValues": bounds | {"s": "x" * 32 + "\uffff"}}
    hand.commit(1, hand.add("a.parquet", rows, stats=json.dumps(stats)))
    table = local_lake.register("t", str(hand.root))
    for where in ("at > timestamp '2026-11-15 01:02:03.4565Z'", f"s = '{text}'", f"s > '{'x' * 40}'"):
        assert table.count(where) == 1, where
        assert lakebed.read_delta(hand.root).count(where) == 1, where
    assert table.delete("at <= timestamp '2026-11-15 01:02:03.456Z'").metrics.get("numDeletedRows", 0) == 0
    assert table.count() == 1


def test_partitions_of_a_table_with_column_mapping(local_lake: lakebed.Warehouse, hand: TableBuilder) -> None:
    columns = (field("id", "long", (1, "col-1")), field("day of sale", "date", (2, "col-2")))
    configuration = {"delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": "2"}
    metadata = hand.metadata(*columns, partition_by=["day of sale"], configuration=configuration)
    hand.commit(0, hand.protocol("columnMapping"), metadata)
    rows = pa.table({"col-1": pa.array([1, 2])})
    hand.commit(1, hand.add("Ab/a.parquet", rows, partitionValues={"col-2": "2026-11-15"}))
    table = local_lake.register("t", str(hand.root))
    table.append([{"id": 3, "day of sale": dt.date(2026, 11, 15)}, {"id": 4, "day of sale": None}])
    assert table.count("`day of sale` = date '2026-11-15'") == 3
    assert {frozenset(add.partition_values) for add in table._point().files(None)} == {frozenset({"col-2"})}
    table.overwrite([{"id": 5, "day of sale": dt.date(2026, 11, 15)}], where="dynamic")
    assert sorted(table.to_arrow()["id"].to_pylist()) == [4, 5]
    check_every_version(table, hand.root, first=1)


def test_a_shallow_clone_never_touches_its_source(
    local_lake: lakebed.Warehouse, hand: TableBuilder, tmp_path: Path
) -> None:
    source = tmp_path / "a source"
    write_deltalake(str(source), ids(1, 2, 3))
    [file] = source.glob("*.parquet")
    hand.start()
    body = hand.add(Location.parse(file).uri, size=file.stat().st_size, stats='{"numRecords":3}')
    hand.commit(1, body, hand.add("own.parquet", ids(4)))
    table = local_lake.register("t", str(hand.root))
    table.delete("id = 2")
    assert sorted(table.to_arrow()["id"].to_pylist()) == [1, 3, 4]
    assert bag(lakebed.read_delta(hand.root).to_arrow()) == bag(table.to_arrow())
    table.overwrite([{"id": 9}])
    table.restore(version=1)
    assert sorted(table.to_arrow()["id"].to_pylist()) == [1, 2, 3, 4]
    local_lake.drop_table("t", purge=True)
    assert sorted(foreign(source)["id"].to_pylist()) == [1, 2, 3]


def test_what_columns_carry_for_others_is_kept(local_lake: lakebed.Warehouse, hand: TableBuilder) -> None:
    column = field("s", "string", __CHAR_VARCHAR_TYPE_STRING="varchar(9)", comment="kept", theirs={"a": [1]})
    hand.start(fields=[column, field("n", "integer")])
    table = local_lake.register("t", str(hand.root))
    table.alter(add={"x": "INT"}, comments={"n": "a number"})
    table.alter(rename={"s": "text"})
    [metadata] = of_kind(hand.root, 2, Metadata)
    kept = json.loads(metadata.schema_string)["fields"][0]["metadata"]
    assert {key: kept[key] for key in column["metadata"]} == column["metadata"]


def test_commits_of_deltalake_with_constraints_and_change_data(local_lake: lakebed.Warehouse, tmp_path: Path) -> None:
    checked, fed = tmp_path / "checked", tmp_path / "fed"
    write_deltalake(str(checked), ids(1, 2, 3))
    DeltaTable(str(checked)).alter.add_constraint({"positive": "id > 0"})
    write_deltalake(str(fed), ids(1, 2, 3), configuration={"delta.enableChangeDataFeed": "true"})
    DeltaTable(str(fed)).delete("id = 2")
    DeltaTable(str(fed)).update(updates={"id": "id + 100"}, predicate="id = 3")
    for name, path, feature in (("checked", checked, "checkConstraints"), ("fed", fed, "changeDataFeed")):
        table = local_lake.register(name, str(path))
        check_every_version(table, path)
        with pytest.raises(UnsupportedFeatureError, match=feature):
            table.append([{"id": 7}])


def test_files_that_their_owner_vacuumed(local_lake: lakebed.Warehouse, tmp_path: Path) -> None:
    path = tmp_path / "t"
    for number in range(4):
        write_deltalake(str(path), ids(number), mode="append")
    DeltaTable(str(path)).optimize.compact()
    DeltaTable(str(path)).vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False)
    table = local_lake.register("t", str(path))
    assert sorted(table.to_arrow()["id"].to_pylist()) == [0, 1, 2, 3]
    with pytest.raises(lakebed.FileMissingError, match="missing"):
        table.at(version=2).to_arrow()
    with pytest.raises(lakebed.FileMissingError, match="version 2 cannot be restored"):
        table.restore(version=2)
    assert sorted(table.to_arrow()["id"].to_pylist()) == [0, 1, 2, 3]


MEANWHILE = {
    "alter": (lambda table: table.alter(add={"x": "INT"}), lakebed.ConflictError),
    "properties": (lambda table: table.alter(properties={"team.owner": "ann"}), lakebed.ConflictError),
    "delete": (lambda table: table.delete("id = 3"), lakebed.ConflictError),
}


@pytest.mark.parametrize("other", MEANWHILE)
def test_the_upgrade_of_a_delete_never_undoes_another_change(
    local_lake: lakebed.Warehouse, tmp_path: Path, other: str
) -> None:
    path = tmp_path / "t"
    write_deltalake(str(path), ids(1, 2, 3, 4))
    table = local_lake.register("t", str(path))
    change, refusal = MEANWHILE[other]
    tx = local_lake.transaction()
    tx.table("t").delete("id = 2")
    change(table)
    metadata, rows = table._point().metadata, bag(table.to_arrow())
    with pytest.raises(refusal):
        tx.commit()
    assert (table.version, table._point().metadata, bag(table.to_arrow())) == (1, metadata, rows)


def test_an_append_lands_beside_the_upgrade_of_a_delete(local_lake: lakebed.Warehouse, tmp_path: Path) -> None:
    path = tmp_path / "t"
    write_deltalake(str(path), ids(1, 2, 3, 4))
    table = local_lake.register("t", str(path))
    with local_lake.transaction() as tx:
        tx.table("t").append([{"id": 9}])
        table.delete("id = 2")
    assert sorted(table.to_arrow()["id"].to_pylist()) == [1, 3, 4, 9]
    check_every_version(table, path)
