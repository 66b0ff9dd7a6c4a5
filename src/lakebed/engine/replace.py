"""Replacing a whole table: another definition and other rows, as one version of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from lakebed.core.actions import Metadata
from lakebed.core.commit import Claim, Kind
from lakebed.core.keyed import KeySpec
from lakebed.core.properties import MAX_COLUMN_ID, is_mapped
from lakebed.core.table_definition import TableDefinition
from lakebed.delta.features import grown
from lakebed.engine.draft import Draft
from lakebed.engine.incoming import Incoming
from lakebed.engine.settle import settle_own
from lakebed.engine.upsert import write_pending


def replace_table(draft: Draft, definition: TableDefinition, rows: Callable[[], Incoming | None]) -> None:
    """Give the draft another definition, and these rows only. Raises what making such a table would."""
    draft.refuse_if_append_only("replace")
    before = draft.live()
    draft.metadata = _metadata(draft.metadata, definition)
    draft.protocol = grown(draft.protocol, draft.metadata)
    for add in before:
        draft.remove(add)
    claim = Claim(Kind.OVERWRITE, reads_all=True)
    incoming = rows()
    if incoming is not None:
        key = KeySpec.of(draft.metadata)
        if key is None:
            draft.add_new(incoming.write(draft.order))
        else:
            write_pending(draft, key, incoming)
            buckets = settle_own(draft, key)
            claim = replace(claim, buckets=buckets, settles=bool(buckets))
    draft.claims.append(claim)
    draft.parameters["mode"] = "Replace"


def _metadata(now: Metadata, definition: TableDefinition) -> Metadata:
    """The new metadata of the same table. Columns that are not what they were are others in files, too."""
    mapped_after = int(now.configuration.get(MAX_COLUMN_ID, "0")) if is_mapped(now.configuration) else None
    if mapped_after is None and _clash(now, definition):
        mapped_after = 0
    made = definition.metadata(mapped_after)
    return replace(made, id=now.id, name=now.name, created_time=now.created_time)


def _clash(now: Metadata, definition: TableDefinition) -> bool:
    """Whether a name in files would stand for values of two types."""
    known = {f.physical_name: f.type for f in now.schema}
    return any(f.name in known and known[f.name] != f.type for f in definition.columns)
