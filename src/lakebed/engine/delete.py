"""Deleting rows by predicate: whole files leave, others get a deletion vector."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64

from lakebed.core.actions import AddFile
from lakebed.core.commit import Claim, Kind
from lakebed.core.file_tags import tombstones_of
from lakebed.core.predicate import Node, evaluate, must_match_files, render
from lakebed.core.predicate import columns as columns_of
from lakebed.core.properties import DELETION_VECTORS
from lakebed.delta.features import grown
from lakebed.engine.draft import Draft
from lakebed.engine.scan import ScanOrder, dead_rows, positions
from lakebed.engine.settle import settle_for
from lakebed.engine.vectors import store_vectors, with_vector
from lakebed.engine.workforce import Workload
from lakebed.storage.deletion_vector import from_arrow

STRIKE_THREADS = 2


def delete(draft: Draft, predicate: Node) -> None:
    """Take out of the draft every row for which ``predicate`` is true."""
    draft.refuse_if_append_only("delete")
    buckets = settle_for(draft, predicate, deleting=True)
    draft.claims.append(Claim(Kind.DELETE, predicate=predicate, buckets=buckets, settles=bool(buckets)))
    draft.parameters["predicate"] = render(predicate)
    draft.count("numDeletedRows", remove_rows(draft, predicate))


def remove_rows(draft: Draft, predicate: Node, but: Collection[str] = ()) -> int:
    """The work of ``delete``, without claim and history; the files with the paths ``but`` keep their rows."""
    candidates = [add for add in draft.live(predicate) if add.path not in but]
    whole = {add.path for add in must_match_files(predicate, candidates, draft.metadata)}
    deleted = 0
    looked_into: list[AddFile] = []
    for add in candidates:
        if add.path in whole and add.num_records is not None and not tombstones_of(add):
            deleted += _live_count(add)
            draft.remove(add)
        else:
            looked_into.append(add)
    order = StrikeOrder.of(draft, predicate)
    workload = Workload[AddFile, Struck](lambda _: order.strike, lambda add: add.size, lambda _: (), STRIKE_THREADS)
    struck = workload.run(draft, looked_into)
    return deleted + strike_out(draft, [one.of(add) for add, one in zip(looked_into, struck, strict=True)])


def strike_out(draft: Draft, struck: Sequence[Struck]) -> int:
    """Take the struck rows out of the draft; returns how many were alive."""
    partial: list[Struck] = []
    for one in struck:
        if one.fresh == 0:
            continue
        if len(one.dead) == one.rows and not tombstones_of(one.add):  # deleted keys stay known
            draft.remove(one.add)
        else:
            partial.append(one)
    _write_vectors(draft, partial)
    return sum(one.fresh for one in struck)


@dataclass(frozen=True)
class Struck:
    """One file after the predicate went through it."""

    add: AddFile
    rows: int
    dead: BitMap64
    before: BitMap64
    """Those of the dead that were so already."""

    @property
    def hit(self) -> BitMap64:
        """The rows that were alive."""
        return self.dead - self.before

    @property
    def fresh(self) -> int:
        """How many of the dead were alive before."""
        return len(self.dead) - len(self.before)

    def of(self, add: AddFile) -> Struck:
        """The same of the draft's own object for the file: a cluster gives back a copy."""
        return replace(self, add=add)


def _live_count(add: AddFile) -> int:
    dead = add.deletion_vector.cardinality if add.deletion_vector else 0
    return (add.num_records or 0) - dead


@dataclass(frozen=True)
class StrikeOrder:
    """Which rows to look for; small and serialisable."""

    scan: ScanOrder
    predicate: Node

    @staticmethod
    def of(draft: Draft, predicate: Node) -> StrikeOrder:
        """The order for a draft's table."""
        names = tuple(f.name for f in draft.metadata.schema if f.name in columns_of(predicate))
        scan = ScanOrder(
            store=draft.handle.store,
            table_name=draft.handle.name,
            metadata=draft.metadata,
            options=draft.handle.options,
            columns=names or draft.metadata.schema.names[:1],
        )
        return StrikeOrder(scan, predicate)

    def strike(self, add: AddFile) -> Struck:
        """The rows of one file for which the predicate is true."""
        before = dead_rows(self.scan.store, add.deletion_vector) or BitMap64()
        hit = BitMap64()
        rows = 0
        for start, batch in positions(self.scan, add):
            rows += batch.num_rows
            hit |= _true_positions(evaluate(self.predicate, batch), start)
        return Struck(add, rows, before | hit, before)


def _true_positions(mask: pa.Array, start: int) -> BitMap64:
    return from_arrow(pc.add(pc.indices_nonzero(mask.fill_null(False)).cast(pa.int64()), start))


def _write_vectors(draft: Draft, struck: list[Struck]) -> None:
    if not struck:
        return
    _enable_vectors(draft)
    written = store_vectors(draft.handle.store, [s.dead for s in struck])
    if written.path is not None:
        draft.written.append(written.path)
    for one, vector in zip(struck, written.vectors, strict=True):
        draft.put(one.add, with_vector(one.add, vector, one.rows))


def _enable_vectors(draft: Draft) -> None:
    """A table of another writer may not have vectors yet; our own have them from the start."""
    configuration = draft.metadata.configuration
    if configuration.get(DELETION_VECTORS, "").lower() == "true":
        return
    draft.metadata = replace(draft.metadata, configuration={**configuration, DELETION_VECTORS: "true"})
    draft.protocol = grown(draft.protocol, draft.metadata)
