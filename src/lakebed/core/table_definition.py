"""What a user says of a new table, as the metadata that it gets."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field

from lakebed.core.actions import Metadata, now_ms
from lakebed.core.column_mapping import map_new_fields, needs_mapping
from lakebed.core.key_definition import KeyDefinition
from lakebed.core.merging import check_spec
from lakebed.core.names import TableName
from lakebed.core.partition import check_partitionable
from lakebed.core.properties import COLUMN_MAPPING_MODE, MAX_COLUMN_ID, SYSTEM_CONFIGURATION, to_configuration
from lakebed.core.schema import Struct
from lakebed.core.schema_check import validate_schema
from lakebed.core.schema_delta import to_schema_string


@dataclass(frozen=True)
class TableDefinition:
    """A table as it is asked for."""

    name: TableName
    columns: Struct
    partitions: tuple[str, ...]
    key: KeyDefinition
    properties: Mapping[str, object] = field(hash=False)
    comment: str | None

    def metadata(self, mapped_after: int | None = None) -> Metadata:
        """The metadata of such a table. Raises SchemaError, InputError and OptionError for what is not possible.

        With ``mapped_after`` all columns get names of their own in files, and ids above that one.
        """
        validate_schema(self.columns, self.partitions)
        for name in self.partitions:
            check_partitionable(self.columns[name].type, f"table {self.name}, column {name!r}: ")
        key, columns = self.key.checked(str(self.name), self.columns)
        configuration = {**to_configuration(self.properties), **SYSTEM_CONFIGURATION}
        key.compare(str(self.name), configuration)
        if mapped_after is not None or needs_mapping(columns):
            columns, last = map_new_fields(columns, mapped_after or 0)
            configuration |= {COLUMN_MAPPING_MODE: "name", MAX_COLUMN_ID: str(last)}
        configuration |= key.configuration(columns)
        metadata = Metadata(
            id=str(uuid.uuid4()),
            name=str(self.name),
            description=self.comment,
            schema_string=to_schema_string(columns),
            partition_columns=self.partitions,
            configuration=configuration,
            created_time=now_ms(),
        )
        check_spec(metadata)
        return metadata
