"""How one unit of a table is settled: a serialisable order, and the work itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pyroaring import BitMap64

from lakebed.core.actions import AddFile
from lakebed.core.file_tags import is_unsettled, tombstones_of, without_tombstones
from lakebed.core.keyed import POSTPONE, KeySpec, Merge
from lakebed.core.predicate import Node
from lakebed.engine.combine import Doomed, combine
from lakebed.engine.draft import Draft
from lakebed.engine.resolve import BucketFiles, ResolveOrder, resolve
from lakebed.engine.rewriter import Rewriter
from lakebed.engine.scan import dead_rows
from lakebed.engine.settlement import Matched, UnitFiles
from lakebed.engine.source import Source, plain
from lakebed.engine.unit import Unit, fold_order
from lakebed.engine.vectors import with_replaced

Positions = Mapping[str, BitMap64]
"""Positions in files, by path."""


@dataclass(frozen=True)
class SettleOrder:
    """How the units of one table are settled; small and serialisable."""

    order: ResolveOrder
    rewriter: Rewriter
    distribute: bool
    """Whether rows that were written without a bucket get one now."""
    doomed: Node | None = None
    """The keys whose rows need not be merged, since they are deleted in the same commit."""

    @staticmethod
    def of(
        draft: Draft, key: KeySpec, *, distribute: bool = False, doomed: Node | None = None, prefix: str = ""
    ) -> SettleOrder:
        """The order for a draft's table."""
        handle = draft.handle
        order = ResolveOrder(
            store=handle.store, table_name=handle.name, metadata=draft.metadata, key=key, options=handle.options
        )
        return SettleOrder(order, Rewriter.of(draft, key, prefix), distribute and key.buckets == POSTPONE, doomed)

    def settle(self, item: UnitFiles) -> Matched:
        """Settle one unit."""
        return self.match(*item)

    def match(self, unit: Unit, members: Sequence[AddFile]) -> Matched:
        """Settle one unit."""
        old = tuple(add for add in members if not is_unsettled(add))
        files = BucketFiles(old, fold_order(members))
        matched = self._combined(unit, files) if self.order.key.combines else self._resolved(unit, files)
        if self.order.key.merge is Merge.COPY_ON_WRITE:
            self._rewrite(matched, [(add, dead) for add, dead in matched.staying if dead or is_unsettled(add)])
        elif self.distribute:
            self._rewrite(matched, [(add, dead) for add, dead in matched.staying if is_unsettled(add)])
        return matched

    def _resolved(self, unit: Unit, files: BucketFiles) -> Matched:
        resolution = resolve(self.order, files)
        matched = Matched(unit)
        self._keep_changed(matched, files.settled, resolution.dead, resolution.replaced_tombstones)
        for add in files.unsettled:
            dead = resolution.dead.get(add.path) or BitMap64()
            self._keep(matched, _marked(add, resolution.replaced_tombstones), dead)
        return matched

    def _combined(self, unit: Unit, files: BucketFiles) -> Matched:
        """Merged rows get new files; of the older ones only the dead rows change."""
        combined = combine(self.order, files)
        matched = Matched(unit, leaving=list(files.unsettled))
        self._keep_changed(matched, files.settled, combined.dead, combined.places.replaced_tombstones)
        doomed = None if self.doomed is None else Doomed(self.doomed)
        tables = combined.tables(tombstones=self.order.key.keeps_tombstones, doomed=doomed)
        sources = [Source(add, combined.dead.get(add.path)) for add in files.settled]
        matched.fresh.extend(self.rewriter.write(unit, tables, [*sources, *plain(files.unsettled)]))
        matched.deleted = 0 if doomed is None else doomed.rows
        return matched

    def _keep_changed(self, matched: Matched, files: Sequence[AddFile], dead: Positions, replaced: Positions) -> None:
        """The settled files in which rows have died, or tombstones have been replaced."""
        for add in files:
            if add.path in dead or add.path in replaced:
                rows = dead.get(add.path) or dead_rows(self.order.store, add.deletion_vector) or BitMap64()
                self._keep(matched, _marked(add, replaced), rows)

    def _keep(self, matched: Matched, add: AddFile, dead: BitMap64) -> None:
        """The file stays with its dead rows, unless nothing in it matters any more."""
        if not self.order.key.keeps_tombstones:
            add = without_tombstones(add)
        if len(dead) == add.num_records and not tombstones_of(add):
            matched.leaving.append(add)
        else:
            matched.staying.append((add, dead))

    def _rewrite(self, matched: Matched, files: Sequence[tuple[AddFile, BitMap64]]) -> None:
        """Put the live rows of these files into new ones."""
        if not files:
            return
        matched.fresh.extend(self.rewriter.rewrite(matched.unit, [Source(add, dead) for add, dead in files]))
        paths = {add.path for add, _ in files}
        matched.leaving.extend(add for add, _ in files)
        matched.staying = [(add, dead) for add, dead in matched.staying if add.path not in paths]


def _marked(add: AddFile, replaced: Positions) -> AddFile:
    return with_replaced(add, replaced[add.path]) if add.path in replaced else add


@dataclass(frozen=True)
class Settling:
    """What a writer of whole buckets needs to settle them itself."""

    order: SettleOrder
    files: tuple[AddFile, ...] = field(hash=False)
    """All files that the table has."""
