"""Upserting: rows of a primary-key table are put or deleted by their key."""

from __future__ import annotations

from dataclasses import replace

from lakebed.core.actions import Metadata
from lakebed.core.bucketing import split_action
from lakebed.core.commit import Claim, Kind
from lakebed.core.errors import DataError, InputError
from lakebed.core.keyed import DYNAMIC, POSTPONE, KeySpec
from lakebed.core.predicate import Node
from lakebed.core.properties import value_of
from lakebed.engine.draft import Draft
from lakebed.engine.incoming import Incoming
from lakebed.engine.settle import keep_settlements, settlements, settling
from lakebed.engine.splits import known_splits, rows_in
from lakebed.engine.upsert_order import Upserted, UpsertOrder


def key_of(draft: Draft, operation: str) -> KeySpec:
    """The table's key. Raises InputError for a table without one."""
    key = KeySpec.of(draft.metadata)
    if key is None:
        raise InputError(
            f"table {draft.handle.name} has no primary key, which {operation} needs",
            fix="create the table with primary_key=[…], or use append()",
        )
    return key


def upsert(draft: Draft, rows: Incoming, *, row_kind: str | None = None, sort_by: tuple[str, ...] = ()) -> None:
    """Put the rows into the draft: each replaces, or is merged with, the row of the same key.

    ``row_kind`` names the column that says which rows delete; by default the table's property does.
    """
    key = key_of(draft, "upsert")
    draft.refuse_if_append_only("upsert")
    write_pending(draft, key, rows, row_kind=row_kind, sort_by=sort_by, settles=True)
    draft.claims.append(Claim(Kind.UPSERT))


def delete_keys(draft: Draft, rows: Incoming) -> None:
    """Delete the rows that have these keys. Raises DataError if a key or sequence column is missing."""
    key = key_of(draft, "delete by keys")
    draft.refuse_if_append_only("delete")
    wanted = (*key.key, *key.sequence)
    given = {name.casefold() for name in rows.schema.names}
    missing = [name for name in wanted if name.casefold() not in given]
    if missing:
        raise DataError(
            f"table {draft.handle.name}: delete needs the key and sequence columns",
            tuple(f"column {name!r} is missing" for name in missing),
            fix="pass them, or delete with a predicate",
        )
    write_pending(draft, key, rows, deletes=True, settles=True)
    draft.claims.append(Claim(Kind.UPSERT))


def write_pending(
    draft: Draft,
    key: KeySpec,
    rows: Incoming,
    *,
    row_kind: str | None = None,
    sort_by: tuple[str, ...] = (),
    deletes: bool = False,
    within: Node | None = None,
    settles: bool = False,
) -> Upserted:
    """Write the rows as upsert files, which wait in the draft to be settled. Returns what was written.

    With ``settles``, whoever writes them may settle them at once with what the table has.
    """
    configuration = draft.metadata.configuration
    order = replace(
        upsert_order(draft, key, row_kind=row_kind or value_of("row-kind", configuration) or None),
        row_kinds=row_kinds_of(draft.metadata),
        sort_by=sort_by,
        deletes=deletes,
        within=within,
    )
    written = rows.upsert(order, lambda: settling(draft, key) if settles else None)
    enter(draft, written)
    return written


def upsert_order(draft: Draft, key: KeySpec, *, row_kind: str | None = None, prefix: str = "") -> UpsertOrder:
    """What a writer of upsert files of the draft's table has to know."""
    if key.buckets == POSTPONE and draft.handle.options.shuffle == "always":
        # Buckets that are postponed are dynamic ones to which nobody has gone yet: this writer goes.
        key = replace(key, buckets="dynamic")
    return UpsertOrder(
        store=draft.handle.store,
        table_name=draft.handle.name,
        metadata=draft.metadata,
        options=draft.handle.options,
        key=key,
        splits=known_splits(draft) if key.buckets == DYNAMIC else {},
        rows_in=rows_in(draft, key) if key.buckets == DYNAMIC else {},
        row_kind=row_kind,
        prefix=prefix,
    )


def enter(draft: Draft, written: Upserted) -> None:
    """Upsert files wait in the draft to be settled, unless they are already."""
    draft.add_new(written.files)
    keep_settlements(draft, settlements(draft, written.matched))
    for place, number in written.splits:
        action = split_action(place, number)
        draft.domains[action.domain] = action
    if written.deletes:
        draft.count("numDeletedKeys", written.deletes)


def row_kinds_of(metadata: Metadata) -> dict[str, str]:
    """What further texts of the column of row kinds mean in this table."""
    text = value_of("row-kind-values", metadata.configuration)
    pairs = (pair.split("=") for pair in text.split(",") if pair)
    return {text: kind for text, kind in pairs}  # noqa: C416 - pairs are lists
