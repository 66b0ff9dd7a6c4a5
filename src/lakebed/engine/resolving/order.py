"""What is asked of a resolution, and the columns that it looks at."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from lakebed.core.actions import AddFile, Metadata
from lakebed.core.file_tags import KIND_COLUMN
from lakebed.core.keyed import KeySpec
from lakebed.core.options import MIB, Options
from lakebed.core.predicate import Node
from lakebed.core.schema import BYTE, MAPPING_NAME, Field, Struct
from lakebed.engine.scan import ScanOrder
from lakebed.storage.store import Store

# The part of the memory limit for changed keys; sorting and matching make copies of them.
_KEYS = 8
_LEAST = MIB

POSITION = "position"
"""The column of a row's place in its file."""
KIND = "kind"
"""The column of row kinds, under its name in key frames."""


@dataclass(frozen=True)
class ResolveOrder:
    """All that one resolution needs to know; small and serialisable.

    ``limit`` bounds the bytes of changed keys in memory (None: as ``writer_memory_limit`` wants it); beyond it the work
    goes key range by key range.
    ``where``, a predicate on key columns only, leaves the other keys unresolved: their dead rows are not looked for.
    """

    store: Store
    table_name: str
    metadata: Metadata
    key: KeySpec
    options: Options
    limit: int | None = None
    where: Node | None = None

    @cached_property
    def key_bytes(self) -> int:
        """How many bytes of changed keys are in memory at a time."""
        return max(_LEAST, self.options.writer_memory_limit // _KEYS) if self.limit is None else self.limit

    @cached_property
    def layout(self) -> Layout:
        """The key and sequence columns."""
        schema = self.metadata.schema
        return Layout(schema.select(self.key.key), schema.select(self.key.sequence))

    @cached_property
    def scan(self) -> ScanOrder:
        """The same table for those who only want to know whose file it is."""
        return ScanOrder(self.store, self.table_name, self.metadata, self.options, self.key.key)


@dataclass(frozen=True)
class BucketFiles:
    """The files of one bucket (or of overlapping buckets): settled ones, and unsettled ones in fold order."""

    settled: tuple[AddFile, ...]
    unsettled: tuple[AddFile, ...]


@dataclass(frozen=True)
class Layout:
    """The key and sequence columns of a table, and their names in key frames, which no column's name can clash with."""

    key: Struct
    sequence: Struct

    @cached_property
    def keys(self) -> tuple[str, ...]:
        """The key columns' names in key frames."""
        return tuple(f"k{i}" for i in range(len(self.key)))

    @cached_property
    def sequences(self) -> tuple[str, ...]:
        """The sequence columns' names in key frames."""
        return tuple(f"s{i}" for i in range(len(self.sequence)))

    def stored(self, *, sequence: bool, kind: bool) -> Struct:
        """The columns to read, renamed for a key frame; a physical name stays what it is."""
        fields = [_renamed(f, name) for f, name in zip(self.key, self.keys, strict=True)]
        if sequence:
            fields += [_renamed(f, name) for f, name in zip(self.sequence, self.sequences, strict=True)]
        if kind:
            fields.append(_renamed(Field(KIND_COLUMN, BYTE), KIND))
        return Struct(tuple(fields))


def _renamed(field: Field, name: str) -> Field:
    """The field for a key frame; it may hold nulls, since tombstones need not have a value."""
    return Field(name, field.type, metadata={MAPPING_NAME: field.physical_name})
