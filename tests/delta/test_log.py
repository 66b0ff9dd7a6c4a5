"""Logs that no writer here produces: other checkpoint forms, later protocols, damage."""

import json
import uuid

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakebed.core.actions import UnknownAction
from lakebed.core.errors import CorruptFileError, FileMissingError, NotFoundError, UnsupportedFeatureError
from lakebed.core.location import Location
from lakebed.delta.checkpoint_schema import SCHEMA
from lakebed.delta.log import list_log, read_actions, read_log
from lakebed.storage.store import open_store

SIDECAR = pa.field(
    "sidecar",
    pa.struct([("path", pa.string()), ("sizeInBytes", pa.int64()), ("modificationTime", pa.int64())]),
)
CHECKPOINT_METADATA = pa.field("checkpointMetadata", pa.struct([("version", pa.int64())]))


def paths(snapshot):
    return sorted(path for path, _ in snapshot.files)


@pytest.fixture
def long_log(table):
    """Versions 0 to 4: four files, the first of them removed."""
    table.start("v2Checkpoint")
    for version in range(1, 4):
        table.commit(version, table.add(f"f{version}.parquet"))
    table.commit(4, {"remove": {"path": "f1.parquet", "dataChange": True, "deletionTimestamp": 5}})
    return table


def state_rows(table):
    """What a checkpoint of ``long_log`` at version 4 holds."""
    first = [json.loads(line) for line in (table.log / f"{0:020d}.json").read_text().splitlines()]
    removed = {"remove": {"path": "f1.parquet", "dataChange": False, "deletionTimestamp": 5}}
    return [*first, removed], [table.add("f2.parquet"), table.add("f3.parquet")]


def drop_commits(table, upto):
    for version in range(upto + 1):
        (table.log / f"{version:020d}.json").unlink()


def assert_long_log(table):
    snapshot = read_log(table.store)
    assert snapshot.version == 4
    assert paths(snapshot) == ["f2.parquet", "f3.parquet"]
    assert [tombstone.deletion_timestamp for tombstone in snapshot.tombstones.values()] == [5]
    return snapshot


def write_multi_part(table):
    small, files = state_rows(table)
    for part, actions in ((1, small), (2, files[:1]), (3, files[1:])):
        table.rows(table.log / f"{4:020d}.checkpoint.{part:010d}.{3:010d}.parquet", actions, SCHEMA)


def write_v2(table, suffix):
    """A V2 checkpoint with two sidecars, one named by its file name and one by its path."""
    small, files = state_rows(table)
    top = [{"checkpointMetadata": {"version": 4}}, *small]
    for number, actions in enumerate((files[:1], files[1:])):
        name = f"{uuid.uuid4()}.parquet"
        table.rows(table.log / "_sidecars" / name, actions, pa.schema([SCHEMA.field("add"), SCHEMA.field("remove")]))
        path = name if number else f"_delta_log/_sidecars/{name}"
        top.append({"sidecar": {"path": path, "sizeInBytes": 1, "modificationTime": 1}})
    target = table.log / f"{4:020d}.checkpoint.{uuid.uuid4()}.{suffix}"
    if suffix == "json":
        target.write_text("".join(json.dumps(action) + "\n" for action in top))
    else:
        table.rows(target, top, pa.schema([*SCHEMA, SIDECAR, CHECKPOINT_METADATA]))


WRITERS = {
    "multi-part": write_multi_part,
    "v2-json": lambda table: write_v2(table, "json"),
    "v2-parquet": lambda table: write_v2(table, "parquet"),
}


@pytest.mark.parametrize("form", WRITERS)
def test_every_form_of_checkpoint_reads_the_same(long_log, form):
    assert_long_log(long_log)
    WRITERS[form](long_log)
    drop_commits(long_log, 4)
    assert_long_log(long_log)
    long_log.commit(5, long_log.add("f5.parquet"))
    assert paths(read_log(long_log.store)) == ["f2.parquet", "f3.parquet", "f5.parquet"]


def test_a_part_that_is_missing_is_named(long_log):
    WRITERS["multi-part"](long_log)
    [part] = long_log.log.glob("*.checkpoint.0000000002.*")
    part.unlink()
    assert_long_log(long_log)
    drop_commits(long_log, 4)
    long_log.commit(5, long_log.add("f5.parquet"))
    with pytest.raises(FileMissingError, match=r"checkpoint\.0000000002\.0000000003\.parquet is missing"):
        read_log(long_log.store)


@pytest.mark.parametrize("form", ["v2-json", "v2-parquet"])
def test_a_sidecar_that_is_missing_is_named(long_log, form):
    WRITERS[form](long_log)
    sidecar = next((long_log.log / "_sidecars").iterdir())
    sidecar.unlink()
    assert_long_log(long_log)
    drop_commits(long_log, 4)
    with pytest.raises(FileMissingError, match=sidecar.name):
        read_log(long_log.store)


@pytest.mark.parametrize("damage", ["truncated", "empty", "garbage", "not-a-checkpoint"])
def test_a_damaged_checkpoint_is_passed_over_or_named(long_log, damage):
    target = long_log.log / f"{4:020d}.checkpoint.parquet"
    small, files = state_rows(long_log)
    long_log.rows(target, small + files, SCHEMA)
    whole = target.read_bytes()
    if damage == "not-a-checkpoint":
        pq.write_table(pa.table({"id": [1]}), target)
    else:
        target.write_bytes({"truncated": whole[: len(whole) // 2], "empty": b"", "garbage": b"PAR1"}[damage])
    assert_long_log(long_log)
    drop_commits(long_log, 3)
    with pytest.raises(CorruptFileError, match=target.name):
        read_log(long_log.store)


@pytest.mark.parametrize("pointer", ['{"version":99,"size":1}', "{", "", '{"version":4,"size":9,"parts":7}'])
def test_the_pointer_is_only_a_hint(long_log, pointer):
    (long_log.log / "_last_checkpoint").write_text(pointer)
    assert_long_log(long_log)


def test_time_travel_uses_the_checkpoint_below(long_log):
    small, files = state_rows(long_log)
    long_log.rows(long_log.log / f"{4:020d}.checkpoint.parquet", small + files, SCHEMA)
    assert paths(read_log(long_log.store, 2)) == ["f1.parquet", "f2.parquet"]
    assert read_log(long_log.store, 4).version == 4
    assert (list_log(long_log.store).earliest, list_log(long_log.store).latest) == (0, 4)


@pytest.mark.parametrize("version", [5, -1])
def test_a_version_that_never_was(long_log, version):
    with pytest.raises(NotFoundError, match=f"no version {version}; expected 0 to 4"):
        read_log(long_log.store, version)


def test_a_commit_missing_in_the_middle_is_named(long_log):
    (long_log.log / f"{2:020d}.json").unlink()
    with pytest.raises(FileMissingError, match=r"0002\.json is missing.*read version 1 or earlier"):
        read_log(long_log.store)
    assert read_log(long_log.store, 1).version == 1


def test_a_first_commit_missing_without_checkpoint_is_named(long_log):
    (long_log.log / f"{0:020d}.json").unlink()
    with pytest.raises(FileMissingError, match=r"0000\.json is missing"):
        read_log(long_log.store)


def test_a_directory_that_is_no_table(tmp_path, table):
    with pytest.raises(NotFoundError, match="is no Delta table"):
        read_log(open_store(Location.parse(tmp_path / "nothing")))
    (table.log / "notes.txt").write_text("hello")
    with pytest.raises(NotFoundError, match="is no Delta table"):
        read_log(table.store)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"add":{"path":"a"', r"0001\.json, line 1 is not an action"),
        (b'{"commitInfo":{}}\n[1]\n', "line 2 is not an action"),
        (b'{"commitInfo":{}}\n\n{"add":{"path":"a"}}\n', "line 3 is not an action"),
        (b"\xff\xfe", "is not UTF-8 text"),
        (b"", "is empty"),
    ],
)
def test_a_damaged_commit_is_named_with_its_line(table, content, message):
    table.start()
    (table.log / f"{1:020d}.json").write_bytes(content)
    with pytest.raises(CorruptFileError, match=message):
        read_log(table.store)


def test_a_byte_order_mark_blank_lines_and_windows_line_ends_are_fine(table):
    table.start()
    line = json.dumps(table.add("a.parquet"))
    content = b"\xef\xbb\xbf" + f'{{"commitInfo":{{"timestamp":5}}}}\r\n\r\n{line}\r\n\n'.encode()
    (table.log / f"{1:020d}.json").write_bytes(content)
    snapshot = read_log(table.store)
    assert (paths(snapshot), snapshot.timestamp) == (["a.parquet"], 5)


def test_a_log_without_metadata_is_refused(table):
    table.commit(0, table.protocol(), table.add("a.parquet"))
    with pytest.raises(CorruptFileError, match="version 0 has no metaData"):
        read_log(table.store)


def test_actions_and_fields_of_later_protocols_are_kept(table):
    table.start()
    table.commit(1, table.add("a.parquet", color="red"), {"fromTheFuture": {"x": [1]}})
    [add] = read_log(table.store).files.values()
    assert add.extra == {"color": "red"}
    assert read_actions(table.store, 1)[1] == UnknownAction("fromTheFuture", {"x": [1]})


def test_an_unknown_feature_is_refused_with_the_tables_name(table):
    table.start("variantType", fields=[{"name": "v", "type": "variant", "nullable": True, "metadata": {}}])
    with pytest.raises(UnsupportedFeatureError, match=r"table needs reader features .*: variantType"):
        read_log(table.store)


def test_a_feature_for_a_type_that_no_column_has_is_no_obstacle(table):
    table.start("variantType", "deletionVectors")
    assert read_log(table.store).schema.names == ("id",)


def test_a_file_with_a_new_vector_replaces_the_one_with_the_old(table):
    table.start("deletionVectors")
    first, second = (table.add("a.parquet", dead=[position], where="inline") for position in (1, 2))
    table.commit(1, first)
    table.commit(2, {"remove": {"path": "a.parquet", "dataChange": True, **_vector(first)}}, second)
    [add] = read_log(table.store).files.values()
    assert add.deletion_vector.path_or_inline_dv == second["add"]["deletionVector"]["pathOrInlineDv"]


def _vector(add):
    return {"deletionVector": add["add"]["deletionVector"]}


def test_a_commit_without_information_is_dated_by_its_file(table):
    table.start()
    info = table.store.info(f"_delta_log/{0:020d}.json")
    assert read_log(table.store).timestamp == info.mtime_ms
