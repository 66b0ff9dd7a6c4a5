# ruff: noqa: E501
"""Random actions, and lines as other engines write them, survive a round trip."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
)

text = st.text(max_size=12)
longs = st.integers(0, 2**63 - 1)
json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=6,
)
# Names that no protocol field has.
extra = st.dictionaries(text.map(lambda name: f"x-{name}"), json_values, max_size=2)
maps = st.dictionaries(text, text, max_size=3)
maps_with_nulls = st.dictionaries(text, st.none() | text, max_size=3)
features = st.none() | st.lists(text, max_size=3).map(tuple)
vectors = st.builds(DeletionVector, st.sampled_from("uip"), text, longs, longs, offset=st.none() | longs, extra=extra)
files = {
    "path": text,
    "partition_values": maps_with_nulls,
    "size": longs,
    "data_change": st.booleans(),
    "tags": st.none() | maps_with_nulls,
    "extra": extra,
}
tracked = {
    "stats": st.none() | text,
    "deletion_vector": st.none() | vectors,
    "base_row_id": st.none() | longs,
    "default_row_commit_version": st.none() | longs,
}
actions = st.one_of(
    st.builds(Protocol, longs, longs, features, features, extra=extra),
    st.builds(
        Metadata,
        id=text,
        schema_string=text,
        partition_columns=st.lists(text, max_size=3).map(tuple),
        configuration=maps,
        format=st.builds(Format, text, maps, extra),
        name=st.none() | text,
        description=st.none() | text,
        created_time=st.none() | longs,
        extra=extra,
    ),
    st.builds(AddFile, **files, **tracked, modification_time=longs, clustering_provider=st.none() | text),
    st.builds(
        RemoveFile,
        **{**files, "partition_values": st.none() | maps_with_nulls, "size": st.none() | longs},
        **tracked,
        deletion_timestamp=st.none() | longs,
        extended_file_metadata=st.none() | st.booleans(),
    ),
    st.builds(AddCDCFile, **files),
    st.builds(SetTransaction, text, longs, st.none() | longs, extra),
    st.builds(DomainMetadata, text, text, st.booleans(), extra),
    st.builds(CommitInfo, st.dictionaries(text, json_values, max_size=4)),
    st.builds(UnknownAction, text.map(lambda name: f"x-{name}"), json_values.filter(lambda body: body is not None)),
)


@given(actions)
def test_any_action_survives_a_line(action) -> None:
    assert from_line(to_line(action)) == action


@given(st.lists(actions, max_size=5))
def test_any_commit_survives_a_file(commit) -> None:
    assert from_lines(to_lines(commit)) == tuple(commit)


SPARK = r"""
{"commitInfo":{"timestamp":1711446211712,"operation":"WRITE","operationParameters":{"mode":"Append","partitionBy":"[]"},"readVersion":2,"isolationLevel":"Serializable","isBlindAppend":true,"operationMetrics":{"numFiles":"1","numOutputRows":"3"},"engineInfo":"Apache-Spark/3.5.0 Delta-Lake/3.1.0","txnId":"4ee5b2f1-4b42-4e2a-a9c1-0f0f9d9c7b21"}}
{"metaData":{"id":"5fba94ed-9794-4965-ba6e-6ee3c0d22af9","format":{"provider":"parquet","options":{}},"schemaString":"{\"type\":\"struct\",\"fields\":[{\"name\":\"id\",\"type\":\"long\",\"nullable\":true,\"metadata\":{}}]}","partitionColumns":[],"configuration":{"delta.enableDeletionVectors":"true"},"createdTime":1711446211000}}
{"protocol":{"minReaderVersion":3,"minWriterVersion":7,"readerFeatures":["deletionVectors"],"writerFeatures":["deletionVectors","appendOnly","invariants"]}}
{"add":{"path":"part-00000-1dd63c0c-5c1b-4d3c-b5e8-5a1b2cb3d0b9-c000.snappy.parquet","partitionValues":{},"size":478,"modificationTime":1711446211700,"dataChange":true,"stats":"{\"numRecords\":3,\"minValues\":{\"id\":0},\"maxValues\":{\"id\":2},\"nullCount\":{\"id\":0},\"tightBounds\":true}","tags":{"INSERTION_TIME":"1711446211700000","MIN_INSERTION_TIME":"1711446211700000"}}}
{"remove":{"path":"part-00001-2.snappy.parquet","deletionTimestamp":1711446299000,"dataChange":true,"extendedFileMetadata":true,"partitionValues":{},"size":478,"tags":{},"deletionVector":{"storageType":"u","pathOrInlineDv":"vBn[lx{q8@P<9BNH/isA","offset":1,"sizeInBytes":36,"cardinality":2},"stats":"{\"numRecords\":3}"}}
{"cdc":{"path":"_change_data/cdc-00000-1.c000.snappy.parquet","partitionValues":{},"size":1033,"dataChange":false}}
{"txn":{"appId":"3ba13872-2d47-4e17-86a0-21afd2a22395","version":364475,"lastUpdated":1711446211712}}
{"domainMetadata":{"domain":"delta.clustering","configuration":"{\"clusteringColumns\":[[\"id\"]]}","removed":false}}
"""
DELTA_RS = r"""
{"protocol":{"minReaderVersion":1,"minWriterVersion":2}}
{"metaData":{"id":"c2e2ba8c-3b5a-4a4e-9a48-3c0b8d3d5b0c","name":null,"description":null,"format":{"provider":"parquet","options":{}},"schemaString":"{\"type\":\"struct\",\"fields\":[{\"name\":\"x\",\"type\":\"string\",\"nullable\":true,\"metadata\":{}}]}","partitionColumns":["x"],"createdTime":1686560374000,"configuration":{}}}
{"add":{"path":"x=__HIVE_DEFAULT_PARTITION__/part-00001-e8c3c2d0-c000.snappy.parquet","partitionValues":{"x":null},"size":538,"modificationTime":1686560374123,"dataChange":true,"stats":"{\"numRecords\":1,\"minValues\":{},\"maxValues\":{},\"nullCount\":{}}","tags":null,"deletionVector":null,"baseRowId":null,"defaultRowCommitVersion":null,"clusteringProvider":null}}
{"add":{"path":"x=A%2520B/part-00001-f.parquet","partitionValues":{"x":"A B"},"size":538,"modificationTime":1686560374124,"dataChange":true,"stats":null,"tags":null}}
{"remove":{"path":"x=a/part-1.parquet","dataChange":true,"deletionTimestamp":1686560399999,"extendedFileMetadata":true,"partitionValues":{"x":"a"},"size":538}}
{"commitInfo":{"timestamp":1686560374130,"operation":"WRITE","operationParameters":{"mode":"Append","partitionBy":"[\"x\"]"},"clientVersion":"delta-rs.py-1.0.0","operationMetrics":{"execution_time_ms":3}}}
"""


def _without_nulls(entry):
    (body,) = entry.values()
    return {name: {k: v for k, v in body.items() if v is not None} for name in entry}


@pytest.mark.parametrize("text", [SPARK, DELTA_RS], ids=["spark", "delta-rs"])
def test_lines_of_other_engines_survive(text) -> None:
    written = [json.loads(line) for line in text.split("\n") if line]
    found = from_lines(text)
    assert len(found) == len(written)
    assert not any(isinstance(action, UnknownAction) or getattr(action, "extra", None) for action in found)
    assert [json.loads(line) for line in to_lines(found).split("\n") if line] == [_without_nulls(e) for e in written]


def test_what_spark_wrote_is_understood() -> None:
    info, metadata, protocol, add, remove, cdc, txn, domain = from_lines(SPARK)
    assert info.timestamp == 1711446211712
    assert metadata.schema.names == ("id",)
    assert "deletionVectors" in protocol.reader_features
    assert (add.num_records, add.key) == (3, (add.path, None))
    assert remove.key == ("part-00001-2.snappy.parquet", "uvBn[lx{q8@P<9BNH/isA@1")
    assert cdc.data_change is False
    assert (txn.version, domain.domain) == (364475, "delta.clustering")


def test_what_delta_rs_wrote_is_understood() -> None:
    _, metadata, null_partition, encoded, remove, _ = from_lines(DELTA_RS)
    assert (metadata.name, metadata.partition_schema.names, metadata.data_schema.names) == (None, ("x",), ())
    assert null_partition.partition_values == {"x": None}
    assert encoded.file_path == "x=A%20B/part-00001-f.parquet"
    assert encoded.num_records is None
    assert remove.key == ("x=a/part-1.parquet", None)
