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
    features = {"domainMetadata"}
    features.update(feature for key, feature in _BY_PROPERTY.items() if configuration.get(key, "").lower() == "true")
    if configuration.get("delta.columnMapping.mode", "none") != "none":
        features.add(COLUMN_MAPPING)
    if any(f.type == TIMESTAMP_NTZ for f in _all_fields(schema)):
        features.add(TIMESTAMP_NTZ_FEATURE)
    if any(TYPE_CHANGES in f.metadata for f in _all_fields(schema)):
        features.add(TYPE_WIDENING)
    if partition_columns:
        features.add("materializePartitionColumns")
    readers = features & SUPPORTED_READER_FEATURES
    return Protocol(READER_VERSION, WRITER_VERSION, tuple(sorted(readers)), tuple(sorted(features)))


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
