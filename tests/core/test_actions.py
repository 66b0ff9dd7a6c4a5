"""Actions and their lines in the open log, both ways."""

import json
import pickle
from dataclasses import FrozenInstanceError, replace

import pytest

from lakebed.core.actions import (
    AddCDCFile,
    AddFile,
    CommitInfo,
    DeletionVector,
    DomainMetadata,
    Format,
    Metadata,
    Protocol,
    RemoveFile,
    SetTransaction,
    UnknownAction,
    from_line,
    from_lines,
    to_line,
    to_lines,
    unwrap,
    wrap,
)
from lakebed.core.errors import CorruptFileError
from lakebed.core.schema import LONG, STRING, Field

SCHEMA = (
    '{"type":"struct","fields":['
    '{"name":"id","type":"long","nullable":false,"metadata":{}},'
    '{"name":"dt","type":"string","nullable":true,"metadata":{}},'
    '{"name":"note","type":"string","nullable":true,"metadata":{"comment":"words"}}]}'
)
VECTOR = DeletionVector("u", "ab^-aqEH.-t@S}K{vb[*k^", 40, 6, offset=4)
VECTOR_JSON = {
    "storageType": "u",
    "pathOrInlineDv": "ab^-aqEH.-t@S}K{vb[*k^",
    "offset": 4,
    "sizeInBytes": 40,
    "cardinality": 6,
}

# Every action of the protocol with all of its fields, as an object and as JSON.
FULL = [
    (
        Protocol(3, 7, ("deletionVectors",), ("deletionVectors", "rowTracking")),
        {
            "protocol": {
                "minReaderVersion": 3,
                "minWriterVersion": 7,
                "readerFeatures": ["deletionVectors"],
                "writerFeatures": ["deletionVectors", "rowTracking"],
            }
        },
    ),
    (
        Metadata(
            "af23c9d7",
            SCHEMA,
            ("dt",),
            {"delta.appendOnly": "true"},
            Format("parquet", {"a": "b"}),
            "orders",
            "all orders",
            1_700_000_000_000,
        ),
        {
            "metaData": {
                "id": "af23c9d7",
                "name": "orders",
                "description": "all orders",
                "format": {"provider": "parquet", "options": {"a": "b"}},
                "schemaString": SCHEMA,
                "partitionColumns": ["dt"],
                "createdTime": 1_700_000_000_000,
                "configuration": {"delta.appendOnly": "true"},
            }
        },
    ),
    (
        AddFile(
            "dt=2026-11-15/a%20b.parquet",
            {"dt": "2026-11-15"},
            841,
            1_512_909_768_000,
            True,
            '{"numRecords":3}',
            {"who": "me", "none": None},
            VECTOR,
            10,
            4,
            "liquid",
        ),
        {
            "add": {
                "path": "dt=2026-11-15/a%20b.parquet",
                "partitionValues": {"dt": "2026-11-15"},
                "size": 841,
                "modificationTime": 1_512_909_768_000,
                "dataChange": True,
                "stats": '{"numRecords":3}',
                "tags": {"who": "me", "none": None},
                "deletionVector": VECTOR_JSON,
                "baseRowId": 10,
                "defaultRowCommitVersion": 4,
                "clusteringProvider": "liquid",
            }
        },
    ),
    (
        RemoveFile("a.parquet", False, 1_515_488_792_485, True, {"dt": None}, 9, "{}", {"t": "v"}, VECTOR, 0, 2),
        {
            "remove": {
                "path": "a.parquet",
                "deletionTimestamp": 1_515_488_792_485,
                "dataChange": False,
                "extendedFileMetadata": True,
                "partitionValues": {"dt": None},
                "size": 9,
                "stats": "{}",
                "tags": {"t": "v"},
                "deletionVector": VECTOR_JSON,
                "baseRowId": 0,
                "defaultRowCommitVersion": 2,
            }
        },
    ),
    (
        AddCDCFile("_change_data/c.parquet", {"dt": "x"}, 12, False, {"k": "v"}),
        {
            "cdc": {
                "path": "_change_data/c.parquet",
                "partitionValues": {"dt": "x"},
                "size": 12,
                "dataChange": False,
                "tags": {"k": "v"},
            }
        },
    ),
    (SetTransaction("stream-1", 7, 99), {"txn": {"appId": "stream-1", "version": 7, "lastUpdated": 99}}),
    (
        DomainMetadata("delta.rowTracking", '{"rowIdHighWaterMark":5}'),
        {
            "domainMetadata": {
                "domain": "delta.rowTracking",
                "configuration": '{"rowIdHighWaterMark":5}',
                "removed": False,
            }
        },
    ),
    (
        CommitInfo({"inCommitTimestamp": 5, "operation": "WRITE"}),
        {"commitInfo": {"inCommitTimestamp": 5, "operation": "WRITE"}},
    ),
    (UnknownAction("sidecar", {"path": "s.parquet"}), {"sidecar": {"path": "s.parquet"}}),
]
everything = pytest.mark.parametrize(("action", "entry"), FULL, ids=[next(iter(e)) for _, e in FULL])


@everything
def test_action_is_written_with_every_field(action, entry) -> None:
    assert wrap(action) == entry
    assert json.loads(to_line(action)) == entry


@everything
def test_action_is_read_with_every_field(action, entry) -> None:
    assert unwrap(entry) == action
    assert from_line(json.dumps(entry, indent=None)) == action


@everything
def test_action_is_one_line_and_hashable_and_frozen_and_can_be_pickled(action, entry) -> None:
    assert "\n" not in to_line(action)
    assert isinstance(hash(action), int)
    assert pickle.loads(pickle.dumps(action)) == action
    with pytest.raises(FrozenInstanceError):
        action.path = "other"


def test_absent_fields_are_left_out_and_false_and_zero_are_not() -> None:
    add = AddFile("a", {}, 0, 0, False)
    body = {"path": "a", "partitionValues": {}, "size": 0, "modificationTime": 0, "dataChange": False}
    assert wrap(add) == {"add": body}
    assert wrap(Protocol(1, 2)) == {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}
    assert wrap(Protocol(3, 7, (), ()))["protocol"]["readerFeatures"] == []


def test_null_fields_read_as_absent() -> None:
    entry = {name: body | {"stats": None, "tags": None, "deletionVector": None} for name, body in FULL[2][1].items()}
    assert unwrap(entry) == replace(FULL[2][0], stats=None, tags=None, deletion_vector=None)
    metadata = unwrap({"metaData": {"id": "t", "schemaString": SCHEMA, "configuration": None, "format": None}})
    assert metadata == Metadata("t", SCHEMA)


def test_required_fields_are_always_written() -> None:
    body = wrap(Metadata("t", SCHEMA))["metaData"]
    assert body == {
        "id": "t",
        "schemaString": SCHEMA,
        "partitionColumns": [],
        "configuration": {},
        "format": {"provider": "parquet", "options": {}},
    }


def test_a_checkpoint_row_has_one_action_among_nulls() -> None:
    row = {"txn": None, "add": None, "protocol": {"minReaderVersion": 1, "minWriterVersion": 2}, "remove": None}
    assert unwrap(row) == Protocol(1, 2)
    assert unwrap({"txn": None}) is None
    assert unwrap({}) is None


def test_unknown_fields_survive_at_every_level() -> None:
    line = (
        '{"add":{"path":"a","partitionValues":{},"size":1,"modificationTime":0,"dataChange":true,"later":{"x":[1,null]},'
        '"deletionVector":{"storageType":"i","pathOrInlineDv":"x","sizeInBytes":1,"cardinality":1,"maxRowIndex":8}}}'
    )
    add = from_line(line)
    assert add.extra == {"later": {"x": [1, None]}}
    assert add.deletion_vector.extra == {"maxRowIndex": 8}
    assert json.loads(to_line(add)) == json.loads(line)


def test_unknown_actions_survive() -> None:
    for line in ('{"checkpointMetadata":{"version":5,"tags":{"a":null}}}', '{"later":[1,2]}', '{"flag":true}'):
        action = from_line(line)
        assert isinstance(action, UnknownAction)
        assert to_line(action) == line


def test_lines_of_a_commit_and_blank_lines() -> None:
    actions = tuple(action for action, _ in FULL)
    text = to_lines(actions)
    assert text.count("\n") == len(actions)
    assert from_lines(text) == actions
    assert from_lines("\n  \n" + text.replace("\n", "\r\n\r\n")) == actions
    assert from_lines("") == ()


def test_line_separators_inside_text_do_not_end_a_line() -> None:
    """Python's splitlines would cut here; the log's lines end in a line feed only."""
    info = CommitInfo({"userMetadata": "a\u2028b\u0085c\x0bd\re\nf"})
    assert from_lines(to_lines([info, Protocol(1, 2)])) == (info, Protocol(1, 2))


def test_text_is_not_escaped_to_ascii() -> None:
    assert "größe=日本" in to_line(AddFile("größe=日本", {}, 1, 0, True))


@pytest.mark.parametrize(
    "line",
    [
        "{",
        "not json",
        "[]",
        "5",
        '"add"',
        "null",
        '{"add":5}',
        '{"add":[]}',
        '{"add":{}}',
        '{"add":{"path":null,"partitionValues":{},"size":1,"modificationTime":0,"dataChange":true}}',
        '{"remove":{"path":"a"}}',
        '{"protocol":{"minReaderVersion":1}}',
        '{"metaData":{"id":"t"}}',
        '{"txn":{"appId":"a"}}',
        '{"commitInfo":5}',
        '{"add":{"path":"a","partitionValues":{},"size":1,"modificationTime":0,"dataChange":true,"deletionVector":7}}',
        '{"protocol":{"minReaderVersion":3,"minWriterVersion":7,"readerFeatures":5}}',
    ],
)
def test_corrupt_lines_are_refused(line) -> None:
    with pytest.raises(CorruptFileError, match="not an action") as caught:
        from_line(line)
    assert caught.value.found == line[:120]
    assert caught.value.__cause__ is not None


def test_a_corrupt_line_refuses_the_whole_commit() -> None:
    with pytest.raises(CorruptFileError):
        from_lines(to_line(Protocol(1, 2)) + '\n{"add":')


def test_vector_ids() -> None:
    assert VECTOR.unique_id == "uab^-aqEH.-t@S}K{vb[*k^@4"
    assert DeletionVector("i", "inline", 1, 1).unique_id == "iinline"
    assert DeletionVector("p", "s3://b/x", 1, 1, offset=0).unique_id == "ps3://b/x@0"


def test_file_keys() -> None:
    add = FULL[2][0]
    assert add.key == (add.path, VECTOR.unique_id) == add.remove().key
    assert replace(add, deletion_vector=None).key == (add.path, None)


def test_remove_takes_over_what_the_file_is() -> None:
    add = replace(FULL[2][0], extra={"later": 1})
    assert add.remove(timestamp=5) == RemoveFile(
        path=add.path,
        data_change=True,
        deletion_timestamp=5,
        extended_file_metadata=True,
        partition_values={"dt": "2026-11-15"},
        size=841,
        tags={"who": "me", "none": None},
        deletion_vector=VECTOR,
        base_row_id=10,
        default_row_commit_version=4,
    )
    assert add.remove(data_change=False).data_change is False
    assert add.remove(timestamp=0).deletion_timestamp == 0
    assert add.remove().deletion_timestamp > 1_700_000_000_000


def test_file_path_is_decoded() -> None:
    assert AddFile("dt=a%2520b/x%20y.parquet", {}, 1, 0, True).file_path == "dt=a%20b/x y.parquet"


@pytest.mark.parametrize(
    ("stats", "count"),
    [
        ('{"numRecords":3}', 3),
        ('{"numRecords":0}', 0),
        (None, None),
        ("{}", None),
        ("[]", None),
        ("{", None),
        ('{"numRecords":"3"}', None),
    ],
)
def test_num_records(stats, count) -> None:
    assert AddFile("a", {}, 1, 0, True, stats).num_records == count


def test_metadata_schemas() -> None:
    metadata = Metadata("t", SCHEMA, ("dt",))
    assert metadata.schema.names == ("id", "dt", "note")
    assert metadata.partition_schema.fields == (Field("dt", STRING),)
    assert metadata.data_schema.names == ("id", "note")
    assert metadata.schema["id"] == Field("id", LONG, nullable=False)


def test_metadata_with_a_broken_schema_is_refused() -> None:
    with pytest.raises(CorruptFileError):
        _ = Metadata("t", "{").schema


@pytest.mark.parametrize(
    ("values", "timestamp"),
    [
        ({"inCommitTimestamp": 5, "timestamp": 9}, 5),
        ({"timestamp": 9}, 9),
        ({"inCommitTimestamp": None, "timestamp": 9}, 9),
        ({"inCommitTimestamp": 0, "timestamp": 9}, 0),
        ({"timestamp": "yesterday"}, None),
        ({}, None),
    ],
)
def test_commit_info_timestamp(values, timestamp) -> None:
    assert CommitInfo(values).timestamp == timestamp
