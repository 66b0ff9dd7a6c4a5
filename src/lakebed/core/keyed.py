"""What makes a table a primary-key table: its key, its buckets, and how rows of one key become one."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from lakebed.core.actions import AddFile, Metadata, RemoveFile
from lakebed.core.commit import Bucket, partition_key
from lakebed.core.errors import CorruptFileError
from lakebed.core.file_tags import bucket_of
from lakebed.core.schema import Struct

PRIMARY_KEY = "lakebed.primary-key"
BUCKETS = "lakebed.buckets"
MERGE = "lakebed.merge"
MERGE_ENGINE = "lakebed.merge-engine"
SEQUENCE = "lakebed.sequence"

DYNAMIC = "dynamic"
POSTPONE = "postpone"
UNAWARE = "unaware"
BucketMode = int | Literal["dynamic", "postpone"]


class Merge(StrEnum):
    """When an upsert is settled."""

    ON_WRITE = "on-write"
    ON_READ = "on-read"
    COPY_ON_WRITE = "copy-on-write"


class MergeEngine(StrEnum):
    """How the rows of one key become one."""

    DEDUPLICATE = "deduplicate"
    FIRST_ROW = "first-row"
    PARTIAL_UPDATE = "partial-update"
    AGGREGATION = "aggregation"


@dataclass(frozen=True)
class KeySpec:
    """The key of a table and what goes with it; columns by their present names."""

    key: tuple[str, ...]
    sequence: tuple[str, ...]
    buckets: BucketMode
    merge: Merge
    engine: MergeEngine
    spans_partitions: bool
    """The key lacks a partition column: a bucket has files in many partitions, and an upsert may move a row."""

    @staticmethod
    def of(metadata: Metadata) -> KeySpec | None:
        """The key of a table; None if it has none. Raises CorruptFileError for one that cannot be understood.

        >>> schema = '{"type":"struct","fields":[{"name":"id","type":"long","nullable":false,"metadata":{}}]}'
        >>> spec = KeySpec.of(Metadata("t", schema, configuration={PRIMARY_KEY: '["id"]', BUCKETS: "8"}))
        >>> spec.key, spec.buckets, spec.merge.value, spec.combines
        (('id',), 8, 'on-write', False)
        """
        configuration = metadata.configuration
        if PRIMARY_KEY not in configuration:
            return None
        try:
            buckets = configuration.get(BUCKETS, DYNAMIC)
            key = _names(configuration[PRIMARY_KEY], metadata.schema)
            return KeySpec(
                key=key,
                sequence=_names(configuration.get(SEQUENCE, "[]"), metadata.schema),
                buckets=buckets if buckets in (DYNAMIC, POSTPONE) else int(buckets),  # type: ignore[arg-type]
                merge=Merge(configuration.get(MERGE, Merge.ON_WRITE)),
                engine=MergeEngine(configuration.get(MERGE_ENGINE, MergeEngine.DEDUPLICATE)),
                spans_partitions=not set(metadata.partition_columns) <= set(key),
            )
        except (ValueError, KeyError, TypeError) as error:
            found = {name: text for name, text in configuration.items() if name.startswith("lakebed.")}
            raise CorruptFileError("the table's primary key cannot be understood", found=str(found)) from error

    @property
    def combines(self) -> bool:
        """Whether a new row is merged with the old one, so that settling makes rows, not only vectors."""
        return self.engine in (MergeEngine.PARTIAL_UPDATE, MergeEngine.AGGREGATION)

    @property
    def keeps_tombstones(self) -> bool:
        """Whether a deleted key is remembered, since a late row with an older sequence must not bring it back."""
        return bool(self.sequence)

    def place(self, partition_values: Mapping[str, str | None]) -> str:
        """Where a bucket lives: its partition, or everywhere.

        >>> spec = KeySpec(("id",), (), 8, Merge.ON_READ, MergeEngine.DEDUPLICATE, spans_partitions=False)
        >>> spec.place({"dt": "mon"})
        '{"dt":"mon"}'
        """
        return "" if self.spans_partitions else partition_key(partition_values)

    def bucket(self, file: AddFile | RemoveFile) -> Bucket:
        """The bucket that a file belongs to. Raises CorruptFileError for a file that names none."""
        number = bucket_of(file)
        if number is None:
            raise CorruptFileError(
                f"file {file.path} of a primary-key table names no bucket", fix="only Lakebed may write to such a table"
            )
        return self.place(file.partition_values or {}), number


def _names(text: str, schema: Struct) -> tuple[str, ...]:
    """The present names of the columns with these physical names."""
    present = {f.physical_name: f.name for f in schema}
    return tuple(present[name] for name in json.loads(text))
