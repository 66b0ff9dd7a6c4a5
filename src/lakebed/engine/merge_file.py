"""What a merge does to one file of a table: its rows are joined with the source, and change as the clauses say."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64

from lakebed.core.actions import AddFile
from lakebed.engine.change_rows import Changed, ChangeOrder, ChangeWriter
from lakebed.engine.combining.chosen_rows import chosen_rows
from lakebed.engine.delete import Struck
from lakebed.engine.merge_rules import Hits, MergeRules, SourceRows
from lakebed.engine.scan import ScanOrder, dead_rows, positions
from lakebed.storage.deletion_vector import from_arrow, keep_mask

# The part of the memory limit for rows that are read and wait to be written.
_READING = 4
# Rows of the file that are joined at a time: looking at the source is the same work for few of them.
_JOINED = 1 << 18


@dataclass(frozen=True)
class MergedFile:
    """One file of the table after the merge."""

    struck: Struck
    changed: Changed
    matched: BitMap64
    """The rows of the source that match a row of the file."""
    updated: int = 0
    deleted: int = 0

    def of(self, add: AddFile) -> MergedFile:
        """The same of the draft's own object for the file."""
        return replace(self, struck=self.struck.of(add))


@dataclass(frozen=True)
class MergeOrder:
    """All that the merge of one file needs to know; serialisable, with the source."""

    scan: ScanOrder
    rules: MergeRules
    change: ChangeOrder
    source: pa.Table = field(hash=False)

    @cached_property
    def _source(self) -> SourceRows:
        return SourceRows(self.rules, self.source)

    def run(self, add: AddFile) -> MergedFile:
        """Merge the source into one file. Raises DataError where several of its rows would change one of the file."""
        before = dead_rows(self.scan.store, add.deletion_vector) or BitMap64()
        parts: list[Hits] = []
        matched: BitMap64 = BitMap64()
        rows = 0
        for read, places, live in self._live(add, before):
            rows += read
            hits, theirs = self.rules.find(live, self._source)
            self.rules.refuse_several(hits, self._source)
            matched |= from_arrow(theirs)
            parts.append(replace(hits, rows=places.take(hits.rows)))
        hits = Hits.joined(parts)
        hit = hits.at
        changed = self._write(add, hits.once, hit) if hit else Changed([])
        deleted = self.rules.deleted(hits)
        return MergedFile(Struck(add, rows, before | hit, before), changed, matched, len(hit) - deleted, deleted)

    def _live(self, add: AddFile, before: BitMap64) -> Iterator[tuple[int, pa.Array, pa.Table]]:
        """How many rows were read, the positions of those that are alive, and what has to be known of them."""
        needed = self.rules.looked_at
        names = tuple(name for name in self.scan.columns if name in needed) or self.scan.columns[:1]
        scan = replace(self.scan, columns=names)
        read, places, tables = 0, [pa.array([], pa.int64())], [scan.output.empty_table()]
        for start, batch in positions(scan, add):
            alive = pc.indices_nonzero(keep_mask(before, start, batch.num_rows)).cast(pa.int64())
            read += batch.num_rows
            places.append(pc.add(alive, start))
            tables.append(batch.take(alive))
            if read >= _JOINED:
                yield read, pa.concat_arrays(places), pa.concat_tables(tables)
                read, places, tables = 0, places[:1], tables[:1]
        if read:
            yield read, pa.concat_arrays(places), pa.concat_tables(tables)

    def _write(self, add: AddFile, hits: Hits, hit: BitMap64) -> Changed:
        """Write the new form of the rows."""
        share = self.scan.options.writer_memory_limit // _READING
        done = 0
        with ChangeWriter(self.change) as writer:
            for rows in chosen_rows(self.scan, add, hit, share):
                self.rules.change(writer, rows, hits.slice(done, rows.num_rows), self._source)
                done += rows.num_rows
            return writer.close()
