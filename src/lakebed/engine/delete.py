"""Deleting rows by predicate: whole files leave, others get a deletion vector."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64

from lakebed.core.actions import AddFile, DeletionVector
from lakebed.core.commit import Claim, Kind
from lakebed.core.predicate import Node, evaluate, must_match_files, render
from lakebed.core.predicate import columns as columns_of
from lakebed.core.properties import DELETION_VECTORS
from lakebed.core.steps import Step, reach
from lakebed.delta.features import grown
from lakebed.engine.draft import Draft
from lakebed.engine.scan import ScanOrder, dead_rows, positions
from lakebed.storage.deletion_vector import from_arrow, write_vectors


def delete(draft: Draft, predicate: Node) -> int:
    """Take out of the draft every row for which ``predicate`` is true; returns how many there were."""
    draft.refuse_if_append_only("delete")
    draft.claims.append(Claim(Kind.DELETE, predicate=predicate))
    draft.parameters["predicate"] = render(predicate)
    deleted = remove_rows(draft, predicate)
    draft.count("numDeletedRows", deleted)
    return deleted


def remove_rows(draft: Draft, predicate: Node) -> int:
    """The work of ``delete``, without claim and history."""
    candidates = draft.live(predicate)
    whole = {add.path for add in must_match_files(predicate, candidates, draft.metadata)}
    deleted = 0
    partial: list[_Struck] = []
    for add in candidates:
        if add.path in whole and add.num_records is not None:
            deleted += _live_count(add)
            draft.remove(add)
            continue
        struck = _strike(draft, add, predicate)
        deleted += struck.fresh
        if struck.fresh == 0:
            continue
        if len(struck.dead) == struck.rows:
            draft.remove(add)
        else:
            partial.append(struck)
    _write_vectors(draft, partial)
    return deleted


@dataclass(frozen=True)
class _Struck:
    """One file after the predicate went through it."""

    add: AddFile
    rows: int
    dead: BitMap64
    fresh: int
    """How many of the dead were alive before."""


def _live_count(add: AddFile) -> int:
    dead = add.deletion_vector.cardinality if add.deletion_vector else 0
    return (add.num_records or 0) - dead


def _strike(draft: Draft, add: AddFile, predicate: Node) -> _Struck:
    order = ScanOrder(
        store=draft.handle.store,
        table_name=draft.handle.name,
        metadata=draft.metadata,
        options=draft.handle.options,
        columns=tuple(f.name for f in draft.metadata.schema if f.name in columns_of(predicate))
        or draft.metadata.schema.names[:1],
    )
    before = dead_rows(draft.handle.store, add.deletion_vector) or BitMap64()
    hit = BitMap64()
    rows = 0
    for start, batch in positions(order, add):
        rows += batch.num_rows
        hit |= _true_positions(evaluate(predicate, batch), start)
    dead = before | hit
    return _Struck(add, rows, dead, len(dead) - len(before))


def _true_positions(mask: pa.Array, start: int) -> BitMap64:
    return from_arrow(pc.add(pc.indices_nonzero(mask.fill_null(False)).cast(pa.int64()), start))


def _write_vectors(draft: Draft, struck: list[_Struck]) -> None:
    if not struck:
        return
    _enable_vectors(draft)
    written = write_vectors(draft.handle.store, [s.dead for s in struck])
    if written.path is not None:
        draft.written.append(written.path)
    reach(Step.VECTOR_WRITTEN)
    for one, found in zip(struck, written.vectors, strict=True):
        vector = DeletionVector(
            storage_type=found.storage_type,
            path_or_inline_dv=found.path_or_inline,
            offset=found.offset,
            size_in_bytes=found.size_in_bytes,
            cardinality=found.cardinality,
        )
        draft.set_vector(one.add, vector, loosened(one.add.stats, one.rows))


def _enable_vectors(draft: Draft) -> None:
    """A table of another writer may not have vectors yet; our own have them from the start."""
    configuration = draft.metadata.configuration
    if configuration.get(DELETION_VECTORS, "").lower() == "true":
        return
    draft.metadata = replace(draft.metadata, configuration={**configuration, DELETION_VECTORS: "true"})
    draft.protocol = grown(draft.protocol, draft.metadata)


_RAW_NUMBER = re.compile(r'"\\u0000([^"]*)"')


def loosened(stats: str | None, rows: int) -> str:
    """Statistics of a file with dead rows: the bounds still hold, but are no longer exact.

    >>> loosened('{"numRecords":3,"minValues":{"a":1.50},"tightBounds":true}', 3)
    '{"numRecords":3,"minValues":{"a":1.50},"tightBounds":false}'
    """
    # Decimals pass through as text: as floats they would lose digits.
    parsed = json.loads(stats, parse_float=lambda digits: f"\0{digits}") if stats else {}
    parsed["numRecords"] = rows
    parsed["tightBounds"] = False
    return _RAW_NUMBER.sub(r"\1", json.dumps(parsed, separators=(",", ":")))
