"""Reading a key table: what is not settled is resolved now, then files minus dead rows are read as ever.

A predicate may only keep files away from the matching of keys as far as it concerns key columns: a newer row that
does not satisfy the rest of it must still hide the older one that does.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from lakebed.core.actions import AddFile
from lakebed.core.file_tags import is_unsettled
from lakebed.core.keyed import KeySpec
from lakebed.core.predicate import Node, conjunction, may_match_files
from lakebed.core.predicate import columns as columns_of
from lakebed.core.predicate.nodes import And
from lakebed.engine.combine import combine
from lakebed.engine.combining.places import find_places
from lakebed.engine.distribution import Distribution
from lakebed.engine.resolution_cache import make_once
from lakebed.engine.resolve import BucketFiles, ResolveOrder, resolve
from lakebed.engine.source import MergedRows, Source, Sources, plain
from lakebed.engine.unit import fold_order, units_of


def about_keys(predicate: Node | None, key: KeySpec) -> Node | None:
    """The part of a predicate that only looks at key columns; None if there is none.

    >>> from lakebed.core.keyed import Merge, MergeEngine
    >>> from lakebed.core.predicate import parse, render
    >>> from lakebed.core.schema_ddl import from_ddl
    >>> key = KeySpec(("id",), (), 1, Merge.ON_READ, MergeEngine.DEDUPLICATE, spans_partitions=False)
    >>> render(about_keys(parse("id = 7 AND amount > 2", from_ddl("id INT, amount INT")), key))
    'id = 7'
    """
    if predicate is None:
        return None
    terms = predicate.terms if isinstance(predicate, And) else (predicate,)
    kept = [term for term in terms if columns_of(term) <= set(key.key)]
    return conjunction(*kept) if kept else None


@dataclass(frozen=True)
class KeyedRead:
    """How the files of a key table are read."""

    order: ResolveOrder
    distribution: Distribution | None = None

    def sources(self, files: Sequence[AddFile], predicate: Node | None) -> Sources:
        """What to read of ``files``, which must hold all files of a unit that the key part of the predicate leaves."""
        clean: list[AddFile] = []
        dirty: list[BucketFiles] = []
        for members in units_of(files, self.order.key).values():
            if any(is_unsettled(add) for add in members):
                old = tuple(add for add in members if not is_unsettled(add))
                dirty.append(BucketFiles(old, fold_order(members)))
            else:
                clean.extend(members)
        wanted = about_keys(predicate, self.order.key)
        resolved = self._combined(dirty, wanted) if self.order.key.combines else self._resolved(dirty)
        found = [*plain(clean), *resolved]
        return found if predicate is None else self._matching(found, predicate)

    def _resolved(self, dirty: Sequence[BucketFiles]) -> Iterator[Source]:
        resolutions = make_once(resolve, self.order, dirty, self.distribution)
        for files, resolution in zip(dirty, resolutions, strict=True):
            for add in (*files.settled, *files.unsettled):
                source = Source(add, resolution.dead.get(add.path))
                if source.live_rows != 0:
                    yield source

    def _combined(self, dirty: Sequence[BucketFiles], wanted: Node | None) -> Iterator[Source | MergedRows]:
        """Merging makes rows, which costs more than finding dead ones: keys that are not wanted are left out."""
        order = replace(self.order, where=wanted)
        for files, places in zip(dirty, make_once(find_places, order, dirty, self.distribution), strict=True):
            combined = combine(order, files, places)
            for add in files.settled:
                source = Source(add, combined.dead.get(add.path))
                if source.live_rows != 0:
                    yield source
            yield MergedRows(combined.tables)

    def _matching(self, sources: Sources, predicate: Node) -> Sources:
        """The sources that may hold a qualifying row, now that every dead row is known."""
        files = [source.add for source in sources if isinstance(source, Source)]
        kept = {add.path for add in may_match_files(predicate, files, self.order.metadata)}
        return [source for source in sources if isinstance(source, MergedRows) or source.add.path in kept]
