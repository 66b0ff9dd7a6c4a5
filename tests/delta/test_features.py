import json

import pytest

from lakebed.core.actions import Format, Metadata, Protocol
from lakebed.core.errors import CorruptFileError, UnsupportedFeatureError
from lakebed.core.properties import SYSTEM_CONFIGURATION
from lakebed.core.schema import LONG, TIMESTAMP_NTZ, TYPE_CHANGES, Array, Field, Map, Struct
from lakebed.core.schema_delta import to_delta
from lakebed.delta.features import (
    check_readable,
    check_writable,
    grown,
    reader_features,
    table_protocol,
    upgrade,
    writer_features,
)

PLAIN = Struct((Field("id", LONG),))
SYSTEM_WRITERS = ("deletionVectors", "domainMetadata", "inCommitTimestamp", "rowTracking")


def test_a_plain_table_needs_only_what_every_table_has():
    protocol = table_protocol(PLAIN, SYSTEM_CONFIGURATION)
    assert protocol == Protocol(3, 7, ("deletionVectors",), SYSTEM_WRITERS)


@pytest.mark.parametrize(
    "nested", [TIMESTAMP_NTZ, Array(TIMESTAMP_NTZ), Map(LONG, Struct((Field("t", TIMESTAMP_NTZ),)))]
)
def test_a_timestamp_without_zone_is_a_feature_at_any_depth(nested):
    protocol = table_protocol(Struct((Field("a", nested),)), {})
    assert protocol.reader_features == ("timestampNtz",)


def test_features_follow_schema_and_properties():
    widened = Struct((Field("id", LONG, metadata={TYPE_CHANGES: [{"fromType": "integer", "toType": "long"}]}),))
    configuration = {
        "delta.columnMapping.mode": "name",
        "delta.appendOnly": "true",
        "delta.enableRowTracking": "false",
    }
    protocol = table_protocol(widened, configuration, ["id"])
    assert protocol.reader_features == ("columnMapping", "typeWidening")
    assert protocol.writer_features == (
        "appendOnly", "columnMapping", "domainMetadata", "materializePartitionColumns", "typeWidening",
    )  # fmt: skip


@pytest.mark.parametrize(
    "protocol",
    [
        Protocol(1, 2),
        Protocol(2, 5),
        Protocol(3, 7, (), ()),
        Protocol(
            3,
            7,
            ("deletionVectors", "v2Checkpoint", "typeWidening-preview"),
            ("changeDataFeed", "fromTheFuture"),
        ),
    ],
)
def test_what_can_be_read(protocol):
    check_readable(protocol)


def test_every_unknown_reader_feature_is_named():
    protocol = Protocol(3, 7, ("variantType", "deletionVectors", "catalogManaged"), ())
    with pytest.raises(UnsupportedFeatureError, match=r"t needs .*: catalogManaged, variantType;"):
        check_readable(protocol, table="t")


@pytest.mark.parametrize("version", [0, 4])
def test_an_unknown_reader_version_is_refused(version):
    with pytest.raises(UnsupportedFeatureError, match=f"expected 1 to 3; found {version}"):
        check_readable(Protocol(version, 7))


def test_version_3_without_a_feature_list_is_corrupt():
    with pytest.raises(CorruptFileError, match="readerFeatures"):
        check_readable(Protocol(3, 7))


def test_data_that_is_not_parquet_is_refused():
    with pytest.raises(UnsupportedFeatureError, match="found orc"):
        check_readable(Protocol(1, 2), Metadata("t", "{}", format=Format("orc")))


def test_upgrade_only_adds():
    old = Protocol(3, 7, ("columnMapping",), ("columnMapping", "fromTheFuture"))
    new = upgrade(old, Protocol(3, 7, ("timestampNtz",), ("timestampNtz", "domainMetadata")))
    assert new.reader_features == ("columnMapping", "timestampNtz")
    assert new.writer_features == ("columnMapping", "domainMetadata", "fromTheFuture", "timestampNtz")


def test_upgrade_to_what_is_there_changes_nothing():
    protocol = Protocol(3, 7, ("timestampNtz", "deletionVectors"), ("timestampNtz", "deletionVectors", "rowTracking"))
    assert upgrade(protocol, Protocol(3, 7, ("deletionVectors",), ("deletionVectors",))) is protocol
    assert upgrade(Protocol(1, 4), Protocol(1, 2)) == Protocol(1, 4)


def test_upgrade_names_what_a_legacy_version_implied():
    new = upgrade(Protocol(2, 5), Protocol(3, 7, ("deletionVectors",), ("deletionVectors",)))
    assert reader_features(new) == {"columnMapping", "deletionVectors"}
    assert writer_features(new) == {
        "appendOnly", "invariants", "checkConstraints", "changeDataFeed", "generatedColumns",
        "columnMapping", "deletionVectors",
    }  # fmt: skip


def _metadata(*fields, **configuration):
    return Metadata("t", json.dumps(to_delta(Struct(fields))), configuration=configuration)


def test_a_table_that_uses_nothing_new_keeps_its_protocol():
    for protocol in (Protocol(1, 1), Protocol(1, 2), Protocol(2, 5), Protocol(1, 7, None, ("appendOnly",))):
        assert grown(protocol, _metadata(Field("id", LONG))) is protocol


def test_a_writer_feature_leaves_the_reader_version_alone():
    new = grown(Protocol(1, 1), _metadata(Field("id", LONG), **{"delta.appendOnly": "true"}))
    assert new == Protocol(1, 7, None, ("appendOnly",))


def test_a_reader_feature_brings_what_the_old_versions_implied():
    new = grown(Protocol(2, 5), _metadata(Field("t", TIMESTAMP_NTZ)))
    assert new.reader_features == ("columnMapping", "timestampNtz")
    assert set(new.writer_features) >= {"columnMapping", "timestampNtz", "appendOnly", "checkConstraints"}


@pytest.mark.parametrize("at", ["column", "nested", "element"])
def test_an_invariant_at_any_depth_is_refused(at):
    inner = Field("x", LONG, metadata={"delta.invariants": "{}"})
    kinds = {"column": inner, "nested": Field("s", Struct((inner,))), "element": Field("a", Array(Struct((inner,))))}
    with pytest.raises(UnsupportedFeatureError, match=r"shop\.t can only be read: it uses invariants,"):
        check_writable(Protocol(1, 2), _metadata(kinds[at]), table="shop.t")


def test_all_that_cannot_be_written_is_named_at_once():
    protocol = Protocol(3, 7, (), ("fromTheFuture", "rowTracking", "identityColumns"))
    used = _metadata(Field("id", LONG), **{"delta.constraints.c": "id > 0", "delta.enableChangeDataFeed": "TRUE"})
    with pytest.raises(UnsupportedFeatureError, match="uses changeDataFeed, checkConstraints, fromTheFuture,"):
        check_writable(protocol, used)


def test_our_own_tables_can_be_written():
    metadata = _metadata(Field("t", TIMESTAMP_NTZ), **SYSTEM_CONFIGURATION)
    check_writable(table_protocol(metadata.schema, metadata.configuration, ["t"]), metadata)
