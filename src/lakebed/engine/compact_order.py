"""How one unit of a table is compacted: a serialisable order, and the work itself."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from lakebed.core.actions import AddFile
from lakebed.core.file_tags import bucket_of
from lakebed.core.keyed import KeySpec
from lakebed.engine.compact import choose, rewrite
from lakebed.engine.draft import Draft
from lakebed.engine.rewriter import Rewriter
from lakebed.engine.settlement import Matched, UnitFiles
from lakebed.engine.source import Source, plain
from lakebed.engine.unit import Unit
from lakebed.engine.write import WriteOrder


@dataclass(frozen=True)
class CompactOrder:
    """How the units of one table are compacted; small and serialisable."""

    order: WriteOrder
    rewriter: Rewriter | None
    """None for a table without a key."""
    full: bool

    @staticmethod
    def of(draft: Draft, key: KeySpec | None, *, full: bool, prefix: str = "") -> CompactOrder:
        """The order for a draft's table; the names of new files begin with ``prefix``."""
        rewriter = None if key is None else Rewriter.of(draft, key, prefix)
        return CompactOrder(replace(draft.order, prefix=prefix), rewriter, full)

    def worth_it(self, units: Mapping[Unit, Sequence[AddFile]]) -> dict[Unit, Sequence[AddFile]]:
        """The units of which anything would be rewritten."""
        return {unit: files for unit, files in units.items() if self._groups(unit, files)}

    def compact(self, item: UnitFiles) -> Matched:
        """Rewrite what is worth it of one unit."""
        unit, files = item
        matched = Matched(unit)
        for group in self._groups(unit, files):
            if self.rewriter is None:
                made = [(one.add, one.dead) for one in rewrite(self.order, group)]
            else:
                made = self.rewriter.rewrite(unit, group)
            matched.fresh.extend(made)
            matched.leaving.extend(source.add for source in group)
        return matched

    def _groups(self, unit: Unit, files: Sequence[AddFile]) -> list[list[Source]]:
        """Which files to rewrite together. Those of a bucket that was split go into its halves."""
        metadata, options = self.order.metadata, self.order.options
        if self.rewriter is None or (len(unit.numbers) <= 1 and not min(unit.numbers, default=0) < 0):
            return choose(plain(files), metadata, options, full=self.full)
        splits = self.rewriter.leaf_splits(unit, plain(files))
        by_number: dict[int | None, list[AddFile]] = defaultdict(list)
        inner: list[AddFile] = []
        for add in files:
            if bucket_of(add) in splits:
                inner.append(add)
            else:
                by_number[bucket_of(add)].append(add)
        groups = [
            group
            for members in by_number.values()
            for group in choose(plain(members), metadata, options, full=self.full, joined=bool(inner))
        ]
        # The rows of a bucket that was split are packed with the files that its halves have by now.
        return [[*plain(inner), *chain(*groups)]] if inner else groups
