"""Protocol versions and table features: what a table needs, and what this reader understands.

>>> from lakebed.core.schema import LONG, Field, Struct
>>> needed = table_protocol(Struct((Field("id", LONG),)), {"delta.enableDeletionVectors": "true"})
>>> needed.reader_features, needed.writer_features
(('deletionVectors',), ('deletionVectors', 'domainMetadata'))
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from lakebed.core.actions import Metadata, Protocol
from lakebed.core.errors import CorruptFileError, UnsupportedFeatureError
from lakebed.core.schema import TIMESTAMP_NTZ, TYPE_CHANGES, Array, Field, Map, Struct, Type

READER_VERSION = 3
WRITER_VERSION = 7

COLUMN_MAPPING = "columnMapping"
DELETION_VECTORS = "deletionVectors"
TIMESTAMP_NTZ_FEATURE = "timestampNtz"
TYPE_WIDENING = "typeWidening"

SUPPORTED_READER_FEATURES = frozenset(
    {
        COLUMN_MAPPING,
        DELETION_VECTORS,
        TIMESTAMP_NTZ_FEATURE,
        TYPE_WIDENING,
        "typeWidening-preview",  # the same files under the name that the feature had before its release
        "v2Checkpoint",
        "vacuumProtocolCheck",
    }
)

_VARIANT_FEATURES = frozenset({"variantType", "variantType-preview", "variantShredding", "variantShredding-preview"})
"""They only add a type. deltalake lists one for every table with vectors, whether a column has it or not."""

SUPPORTED_WRITER_FEATURES = SUPPORTED_READER_FEATURES | frozenset(
    {
        "appendOnly",
        "checkpointProtection",  # nothing of the log is ever cleaned up
        "clustering",  # only asks for statistics, which all our files have
        "domainMetadata",
        "inCommitTimestamp",
        "materializePartitionColumns",
        "rowTracking",
    }
)

_DEMANDING_PROPERTIES: Mapping[str, str] = {
    "delta.enableChangeDataFeed": "changeDataFeed",
    "delta.enableIcebergCompatV1": "icebergCompatV1",
    "delta.enableIcebergCompatV2": "icebergCompatV2",
    "delta.enableIcebergCompatV3": "icebergCompatV3",
    "delta.enableIcebergWriterCompatV1": "icebergWriterCompatV1",
    "delta.enableIcebergWriterCompatV3": "icebergWriterCompatV3",
}
"""Properties that, when true, ask of a writer what Lakebed does not do."""
_DEMANDING_FIELDS: Mapping[str, str] = {
    "delta.invariants": "invariants",
    "delta.generationExpression": "generatedColumns",
    "delta.identity.start": "identityColumns",
    "delta.identity.step": "identityColumns",
    "CURRENT_DEFAULT": "allowColumnDefaults",
}
"""Entries of a column's metadata that do so."""
_CONSTRAINT = "delta.constraints."
_ONLY_IF_USED = frozenset({*_DEMANDING_PROPERTIES.values(), *_DEMANDING_FIELDS.values(), "checkConstraints"})
"""Features that ask for nothing as long as no property, column or constraint uses them."""

_BY_PROPERTY: Mapping[str, str] = {
    "delta.enableDeletionVectors": DELETION_VECTORS,
    "delta.enableTypeWidening": TYPE_WIDENING,
    "delta.appendOnly": "appendOnly",
    "delta.enableRowTracking": "rowTracking",
    "delta.enableInCommitTimestamps": "inCommitTimestamp",
    "delta.enableChangeDataFeed": "changeDataFeed",
}
_LEGACY_READER: Mapping[int, tuple[str, ...]] = {2: (COLUMN_MAPPING,)}
_LEGACY_WRITER: Mapping[int, tuple[str, ...]] = {
    2: ("appendOnly", "invariants"),
    3: ("checkConstraints",),
    4: ("changeDataFeed", "generatedColumns"),
    5: (COLUMN_MAPPING,),
    6: ("identityColumns",),
}


def table_protocol(schema: Struct, configuration: Mapping[str, str], partition_columns: Sequence[str] = ()) -> Protocol:
    """The protocol of a table of ours: exactly the features that its schema and properties use.

    Partition columns are in our files too, so a partitioned table says so to foreign writers.
    """
    features = {"domainMetadata", *_used(schema, configuration)}
    if partition_columns:
        features.add("materializePartitionColumns")
    readers = features & SUPPORTED_READER_FEATURES
    return Protocol(READER_VERSION, WRITER_VERSION, tuple(sorted(readers)), tuple(sorted(features)))


def grown(protocol: Protocol, metadata: Metadata) -> Protocol:
    """The protocol with what ``metadata`` uses and it lacks; a table that needs nothing new keeps its own.

    >>> schema = '{"type":"struct","fields":[]}'
    >>> grown(Protocol(1, 2), Metadata("t", schema, configuration={"delta.appendOnly": "true"}))
    Protocol(min_reader_version=1, min_writer_version=2, reader_features=None, writer_features=None, extra={})
    >>> grown(Protocol(1, 2), Metadata("t", schema, configuration={"delta.enableDeletionVectors": "true"}))
    Protocol(min_reader_version=3, min_writer_version=7, reader_features=('deletionVectors',), \
writer_features=('appendOnly', 'deletionVectors', 'invariants'), extra={})
    """
    missing = _used(metadata.schema, metadata.configuration) - writer_features(protocol)
    if not missing:
        return protocol
    readers = missing & SUPPORTED_READER_FEATURES
    needed = Protocol(
        READER_VERSION if readers else protocol.min_reader_version,
        WRITER_VERSION,
        tuple(sorted(readers)) if readers else protocol.reader_features,
        tuple(sorted(missing)),
    )
    return upgrade(protocol, needed)


def _used(schema: Struct, configuration: Mapping[str, str]) -> frozenset[str]:
    """The features that a table's schema and properties use."""
    features = {feature for key, feature in _BY_PROPERTY.items() if _is_true(configuration, key)}
    if configuration.get("delta.columnMapping.mode", "none") != "none":
        features.add(COLUMN_MAPPING)
    if any(f.type == TIMESTAMP_NTZ for f in _all_fields(schema)):
        features.add(TIMESTAMP_NTZ_FEATURE)
    if any(TYPE_CHANGES in f.metadata for f in _all_fields(schema)):
        features.add(TYPE_WIDENING)
    return frozenset(features)


def _is_true(configuration: Mapping[str, str], key: str) -> bool:
    return configuration.get(key, "").lower() == "true"


def _all_fields(kind: Type) -> Iterator[Field]:
    """Every field at every depth; elements, keys and values count as fields without a name."""
    match kind:
        case Struct():
            for f in kind:
                yield f
                yield from _all_fields(f.type)
        case Array():
            yield Field("element", kind.element)
            yield from _all_fields(kind.element)
        case Map():
            for inner in (kind.key, kind.value):
                yield Field("entry", inner)
                yield from _all_fields(inner)
        case _:
            return


def reader_features(protocol: Protocol) -> frozenset[str]:
    """What a reader must understand, whether the protocol names it or its version implies it."""
    if protocol.min_reader_version >= READER_VERSION:
        return frozenset(protocol.reader_features or ())
    return _implied(_LEGACY_READER, protocol.min_reader_version)


def writer_features(protocol: Protocol) -> frozenset[str]:
    """What a writer must understand, whether the protocol names it or its version implies it."""
    if protocol.min_writer_version >= WRITER_VERSION:
        return frozenset(protocol.writer_features or ())
    return _implied(_LEGACY_WRITER, protocol.min_writer_version)


def _implied(by_version: Mapping[int, tuple[str, ...]], version: int) -> frozenset[str]:
    return frozenset(f for v, features in by_version.items() if v <= version for f in features)


def check_readable(protocol: Protocol, metadata: Metadata | None = None, *, table: str = "the table") -> None:
    """Raise UnsupportedFeatureError, naming all that this Lakebed cannot read, if it cannot read the table.

    >>> check_readable(Protocol(3, 7, ("variantType",), ("variantType",)), table="shop.orders")
    Traceback (most recent call last):
    lakebed.core.errors.UnsupportedFeatureError: shop.orders needs reader features that this Lakebed ...
    """
    fix = "read it with a newer Lakebed or another Delta reader"
    if protocol.min_reader_version > READER_VERSION or protocol.min_reader_version < 1:
        raise UnsupportedFeatureError(
            f"{table} has a reader version that this Lakebed does not know",
            expected=f"1 to {READER_VERSION}",
            found=str(protocol.min_reader_version),
            fix=fix,
        )
    if protocol.min_reader_version == READER_VERSION and protocol.reader_features is None:
        raise CorruptFileError(
            f"{table}: its protocol has reader version {READER_VERSION}",
            expected="readerFeatures, since that version names its features",
            found="none",
        )
    unknown = reader_features(protocol) - SUPPORTED_READER_FEATURES
    if unknown & _VARIANT_FEATURES and metadata is not None and _types_known(metadata):
        unknown -= _VARIANT_FEATURES
    if unknown:
        raise UnsupportedFeatureError(
            f"{table} needs reader features that this Lakebed does not know: {', '.join(sorted(unknown))}",
            expected=f"only {', '.join(sorted(SUPPORTED_READER_FEATURES))}",
            fix=fix,
        )
    if metadata is not None and metadata.format.provider != "parquet":
        raise UnsupportedFeatureError(
            f"{table} has data files in an unknown format", expected="parquet", found=metadata.format.provider
        )


def check_writable(protocol: Protocol, metadata: Metadata, *, table: str = "the table") -> None:
    """Raise UnsupportedFeatureError, naming all of them, if the table asks of a writer what this Lakebed cannot do.

    >>> checked = Metadata("t", '{"type":"struct","fields":[]}', configuration={"delta.constraints.c": "id > 0"})
    >>> check_writable(Protocol(1, 3), checked, table="shop.orders")
    Traceback (most recent call last):
    lakebed.core.errors.UnsupportedFeatureError: shop.orders can only be read: it uses checkConstraints, ...
    """
    if not 1 <= protocol.min_writer_version <= WRITER_VERSION:
        raise UnsupportedFeatureError(
            f"{table} can only be read: it has a writer version that this Lakebed does not know",
            expected=f"1 to {WRITER_VERSION}",
            found=str(protocol.min_writer_version),
            fix="write it with the engine that made it",
        )
    unknown = writer_features(protocol) - SUPPORTED_WRITER_FEATURES - _VARIANT_FEATURES - _ONLY_IF_USED
    found = sorted(unknown | _demands(metadata))
    if found:
        raise UnsupportedFeatureError(
            f"{table} can only be read: it uses {', '.join(found)}, which this Lakebed does not write",
            fix="write it with the engine that made it, or remove the feature there",
        )


def _demands(metadata: Metadata) -> frozenset[str]:
    """The features in use, whatever the protocol says, that ask for more than plain files."""
    found = {feature for key, feature in _DEMANDING_PROPERTIES.items() if _is_true(metadata.configuration, key)}
    for column in _all_fields(metadata.schema):
        found.update(feature for key, feature in _DEMANDING_FIELDS.items() if key in column.metadata)
    if any(key.startswith(_CONSTRAINT) for key in metadata.configuration):
        found.add("checkConstraints")
    return frozenset(found)


def _types_known(metadata: Metadata) -> bool:
    try:
        _ = metadata.schema
    except UnsupportedFeatureError:
        return False
    return True


def upgrade(protocol: Protocol, needed: Protocol) -> Protocol:
    """The protocol with everything that ``needed`` asks for; nothing is ever taken away.

    >>> upgrade(Protocol(1, 2), Protocol(3, 7, ("deletionVectors",), ("deletionVectors",)))
    Protocol(min_reader_version=3, min_writer_version=7, reader_features=('deletionVectors',), \
writer_features=('appendOnly', 'deletionVectors', 'invariants'), extra={})
    """
    reader = max(protocol.min_reader_version, needed.min_reader_version)
    writer = max(protocol.min_writer_version, needed.min_writer_version)
    if reader >= READER_VERSION:
        writer = max(writer, WRITER_VERSION)
    readers = reader_features(protocol) | reader_features(needed)
    writers = writer_features(protocol) | writer_features(needed) | readers
    upgraded = Protocol(
        reader,
        writer,
        tuple(sorted(readers)) if reader >= READER_VERSION else None,
        tuple(sorted(writers)) if writer >= WRITER_VERSION else None,
        {**protocol.extra, **needed.extra},
    )
    return protocol if _same(protocol, upgraded) else upgraded


def _same(one: Protocol, other: Protocol) -> bool:
    return (
        (one.min_reader_version, one.min_writer_version) == (other.min_reader_version, other.min_writer_version)
        and reader_features(one) == reader_features(other)
        and writer_features(one) == writer_features(other)
    )
