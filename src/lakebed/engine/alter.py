"""Changing a table's schema, properties and comment."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace

from lakebed.core.actions import Metadata
from lakebed.core.commit import Claim, Kind
from lakebed.core.errors import DataError, SchemaError
from lakebed.core.evolve import Change, SetNullable, evolve
from lakebed.core.keyed import KeySpec
from lakebed.core.merging import MergeSpec, changes_rows, check_spec, field_options
from lakebed.core.predicate import parse
from lakebed.core.properties import (
    COLUMN_MAPPING_MODE,
    MAX_COLUMN_ID,
    TYPE_WIDENING,
    configuration_key,
    is_mapped,
    named,
    refuse_keyed,
    to_configuration,
)
from lakebed.core.schema import Struct
from lakebed.core.schema_delta import to_schema_string
from lakebed.core.schema_edit import resolve
from lakebed.core.schema_path import format_path
from lakebed.delta.features import grown
from lakebed.engine.draft import Draft
from lakebed.engine.point import DraftPoint
from lakebed.engine.scan import ScanOrder, scan
from lakebed.engine.settle import settle_for


def alter_schema(draft: Draft, changes: Sequence[Change]) -> None:
    """Apply schema changes to the draft. Raises SchemaError, or DataError for nulls in a column made non-null."""
    before = draft.metadata
    required = [
        resolve(before.schema, change.path)[0]
        for change in changes
        if isinstance(change, SetNullable) and not change.nullable
    ]
    for path in required:
        _refuse_nulls(draft, path)
    evolved = evolve(
        before.schema,
        changes,
        partition_columns=before.partition_columns,
        protected_columns=_protected(before),
        mapping=is_mapped(before.configuration),
        max_column_id=int(before.configuration.get(MAX_COLUMN_ID, "0")),
        nulls_checked=True,
    )
    configuration = field_options.renamed(before.configuration, evolved.renamed)
    if evolved.mapping:
        if not is_mapped(configuration):
            configuration[COLUMN_MAPPING_MODE] = "name"
        configuration[MAX_COLUMN_ID] = str(evolved.max_column_id)
    if evolved.widened:
        configuration[TYPE_WIDENING] = "true"
    draft.metadata = replace(
        before,
        schema_string=to_schema_string(evolved.schema),
        partition_columns=evolved.partition_columns,
        configuration=configuration,
    )
    not_null = tuple(before.schema[path[0]].physical_name for path in required)
    _finish(draft, Claim(Kind.ALTER, not_null=not_null), "schema", [str(c) for c in changes])


def _protected(metadata: Metadata) -> tuple[str, ...]:
    """The columns whose values decide where a row is and which one counts."""
    key = KeySpec.of(metadata)
    return () if key is None else (*key.key, *key.sequence)


def set_properties(draft: Draft, properties: Mapping[str, object | None]) -> None:
    """Set properties; a value of None removes one. Raises OptionError."""
    before = draft.metadata
    added = to_configuration({name: value for name, value in named(properties).items() if value is not None})
    if KeySpec.of(before) is None:
        refuse_keyed(draft.handle.name, added)
    removed = {configuration_key(name) for name, value in properties.items() if value is None}
    configuration = {**{key: text for key, text in before.configuration.items() if key not in removed}, **added}
    draft.metadata = replace(before, configuration=configuration)
    _finish(draft, Claim(Kind.ALTER), "properties", dict(properties))


def settle_before(draft: Draft, before: Metadata) -> None:
    """After the changes of one ``alter``: rows that wait to be merged were written for the rules of ``before``.

    Raises OptionError if the table cannot be merged by its new rules.
    """
    check_spec(draft.metadata)
    key, after = KeySpec.of(before), draft.metadata
    if key is None or not key.combines or not changes_rows(MergeSpec.of(before), MergeSpec.of(after)):
        return
    draft.metadata = before
    buckets = settle_for(draft)
    draft.metadata = after
    draft.claims[-1] = replace(draft.claims[-1], buckets=buckets, settles=True)


def set_comment(draft: Draft, comment: str | None) -> None:
    """Describe the table in words; None removes the description."""
    draft.metadata = replace(draft.metadata, description=comment)
    _finish(draft, Claim(Kind.ALTER), "comment", comment)


def _finish(draft: Draft, claim: Claim, what: str, value: object) -> None:
    draft.protocol = grown(draft.protocol, draft.metadata)
    draft.claims.append(claim)
    draft.parameters[what] = json.dumps(value, ensure_ascii=False, default=str)


def _refuse_nulls(draft: Draft, path: tuple[str, ...]) -> None:
    """Raise DataError if any live row has a null at ``path`` whose parent is not null."""
    if any(not isinstance(resolve(draft.metadata.schema, path[:n])[1].type, Struct) for n in range(1, len(path))):
        raise SchemaError(
            f"table {draft.handle.name}: {format_path(path)} cannot become non-null",
            expected="a column or a member of a struct; what is inside arrays and maps stays nullable",
        )
    condition = f"{_quoted(path)} IS NULL"
    if len(path) > 1:
        condition += f" AND {_quoted(path[:-1])} IS NOT NULL"
    predicate = parse(condition, draft.metadata.schema)
    order = ScanOrder(
        store=draft.handle.store,
        table_name=draft.handle.name,
        metadata=draft.metadata,
        options=draft.handle.options,
        columns=(path[0],),
        predicate=predicate,
    )
    nulls = sum(batch.num_rows for batch in scan(order, DraftPoint(draft).sources(predicate)))
    if nulls:
        raise DataError(
            f"table {draft.handle.name}: column {format_path(path)} cannot become non-null",
            (f"{nulls} row(s) have a null in it",),
            fix="delete or overwrite these rows first",
        )


def _quoted(path: tuple[str, ...]) -> str:
    return ".".join("`" + name.replace("`", "``") + "`" for name in path)
