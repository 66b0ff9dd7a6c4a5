"""What a merge does to one file of a table: its rows are joined with the source, and change as the clauses say."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64

from lakebed.core.actions import AddFile
from lakebed.core.errors import DataError
from lakebed.core.merge_plan import Action, Join, MergeText, members_of
from lakebed.core.predicate import Node, evaluate
from lakebed.core.schema import Struct
from lakebed.core.schema_arrow import to_arrow
from lakebed.engine.change_rows import Changed, ChangeOrder, ChangeWriter
from lakebed.engine.combining.chosen_rows import chosen_rows
from lakebed.engine.delete import Struck
from lakebed.engine.scan import ScanOrder, dead_rows, positions
from lakebed.engine.update import assigned
from lakebed.storage.deletion_vector import from_arrow, keep_mask

# Pairs of rows that are looked at together where no key joins them.
_PAIRS = 1 << 20
# The part of the memory limit for rows that are read and wait to be written.
_READING = 4
_NONE = -1

Side = tuple[str, pa.Table]
"""The rows of one side of the merge, and what they are called."""


@dataclass(frozen=True)
class MergeClause:
    """A clause whose condition and values have been parsed."""

    action: Action
    condition: Node | None
    values: Mapping[str, Node] = field(default_factory=dict, hash=False)

    def applies(self, scope: pa.Table, rows: int) -> pa.Array:
        """For which rows the condition is true."""
        if self.condition is None:
            return pa.repeat(pa.scalar(True), rows)
        return evaluate(self.condition, scope).fill_null(False)

    def made(self, schema: Struct, scope: pa.Table, rows: int) -> pa.Table:
        """New rows; columns that are not set are null."""
        empty = pa.table([pa.nulls(rows, f.type) for f in to_arrow(schema)], names=list(schema.names))
        return assigned(empty, scope, self.values)


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
class _Hits:
    """The rows of a file that change: where they are, which row of the source, and which clause."""

    positions: pa.Array
    source: pa.Array
    clause: pa.Array

    @staticmethod
    def joined(parts: Sequence[_Hits]) -> _Hits:
        """All of them by position."""

        def whole(name: str) -> pa.Array:
            return pa.concat_arrays([pa.array([], pa.int64()), *(getattr(part, name) for part in parts)])

        found = _Hits(whole("positions"), whole("source"), whole("clause"))
        return found.take(pc.sort_indices(found.positions))

    def take(self, at: pa.Array) -> _Hits:
        return _Hits(self.positions.take(at), self.source.take(at), self.clause.take(at))

    def slice(self, start: int, length: int) -> _Hits:
        return _Hits(*(array.slice(start, length) for array in (self.positions, self.source, self.clause)))


@dataclass(frozen=True)
class MergeOrder:
    """All that the merge of one file needs to know; serialisable, with the source."""

    scan: ScanOrder
    text: MergeText
    join: Join
    matched: tuple[MergeClause, ...]
    missing: tuple[MergeClause, ...]
    change: ChangeOrder
    source: pa.Table = field(hash=False)

    @property
    def clauses(self) -> tuple[MergeClause, ...]:
        """All clauses for rows of the table."""
        return (*self.matched, *self.missing)

    def run(self, add: AddFile) -> MergedFile:
        """Merge the source into one file. Raises DataError where several of its rows would change one of the file."""
        before = dead_rows(self.scan.store, add.deletion_vector) or BitMap64()
        hits, matched, rows = self._find(add, before)
        hit = from_arrow(hits.positions)
        self._refuse_several(hits, hit)
        changed = self._write(add, hits, hit) if hit else Changed([])
        deleting = pa.array([i for i, clause in enumerate(self.clauses) if clause.action is Action.DELETE], pa.int64())
        deleted = len(from_arrow(hits.positions.filter(pc.is_in(hits.clause, deleting))))
        return MergedFile(Struck(add, rows, before | hit, before), changed, matched, len(hit) - deleted, deleted)

    def _find(self, add: AddFile, before: BitMap64) -> tuple[_Hits, BitMap64, int]:
        """The rows that change, those of the source that match any, and how many rows the file has."""
        conditions = [clause.condition for clause in self.clauses if clause.condition is not None]
        terms = [*(mine for mine, _ in self.join.keys), *([] if self.join.rest is None else [self.join.rest])]
        needed = members_of([*terms, *conditions], self.text.target)
        names = tuple(name for name in self.scan.columns if name in needed) or self.scan.columns[:1]
        parts: list[_Hits] = []
        matched: BitMap64 = BitMap64()
        rows = 0
        for start, batch in positions(replace(self.scan, columns=names), add):
            rows += batch.num_rows
            alive = pc.indices_nonzero(keep_mask(before, start, batch.num_rows)).cast(pa.int64())
            live = batch.take(alive)
            mine, theirs = self._pairs(live)
            matched |= from_arrow(theirs)
            parts += [
                _Hits(pc.add(alive.take(hits.positions), start), hits.source, hits.clause)
                for hits in (self._chosen(live, mine, theirs), self._left(live, mine))
            ]
        return _Hits.joined(parts), matched, rows

    def _pairs(self, live: pa.Table) -> tuple[pa.Array, pa.Array]:
        """The pairs of rows for which the condition is true: numbers of rows of the batch, and of the source."""
        found = [self._joined(live)] if self.join.keys else list(self._all_pairs(live.num_rows))
        if self.join.rest is not None:
            found = [self._filtered(live, mine, theirs) for mine, theirs in found]
        empty = pa.array([], pa.int64())
        return pa.concat_arrays([empty, *(m for m, _ in found)]), pa.concat_arrays([empty, *(t for _, t in found)])

    def _joined(self, live: pa.Table) -> tuple[pa.Array, pa.Array]:
        sides = []
        for at, (name, rows) in enumerate(((self.text.target, live), (self.text.source, self.source))):
            scope = _scope((name, rows))
            keys = {f"key {i}": evaluate(pair[at], scope) for i, pair in enumerate(self.join.keys)}
            sides.append(pa.table({**keys, f"row {at}": pa.arange(0, rows.num_rows)}))
        joined = sides[0].join(sides[1], keys=[f"key {i}" for i in range(len(self.join.keys))], join_type="inner")
        return _whole(joined.column("row 0")), _whole(joined.column("row 1"))

    def _all_pairs(self, rows: int) -> Iterator[tuple[pa.Array, pa.Array]]:
        if not rows:
            return
        step = max(1, _PAIRS // rows)
        for start in range(0, self.source.num_rows, step):
            count = min(step, self.source.num_rows - start)
            number = pa.arange(0, rows * count)
            mine = pc.divide(number, count)
            yield mine, pc.add(pc.subtract(number, pc.multiply(mine, count)), start)

    def _filtered(self, live: pa.Table, mine: pa.Array, theirs: pa.Array) -> tuple[pa.Array, pa.Array]:
        assert self.join.rest is not None
        kept = evaluate(self.join.rest, self._both(live, mine, theirs, [self.join.rest])).fill_null(False)
        return mine.filter(kept), theirs.filter(kept)

    def _both(self, live: pa.Table, mine: pa.Array, theirs: pa.Array, nodes: Sequence[Node]) -> pa.Table:
        """Pairs of rows, with the columns that are looked at."""
        sides = ((self.text.target, live, mine), (self.text.source, self.source, theirs))
        return _scope(*((name, _only(rows, members_of(nodes, name)).take(numbers)) for name, rows, numbers in sides))

    def _chosen(self, live: pa.Table, mine: pa.Array, theirs: pa.Array) -> _Hits:
        """The pairs for which a clause has its way: the first whose condition is true."""
        conditions = [clause.condition for clause in self.matched if clause.condition is not None]
        return _first_clauses(self.matched, self._both(live, mine, theirs, conditions), mine, theirs, 0)

    def _left(self, live: pa.Table, mine: pa.Array) -> _Hits:
        """The rows without a match that a clause changes."""
        if not self.missing:
            return _Hits(*(pa.array([], pa.int64()) for _ in range(3)))
        alone = pc.indices_nonzero(pc.invert(pc.is_in(pa.arange(0, live.num_rows), mine))).cast(pa.int64())
        scope = _scope((self.text.target, live.take(alone)))
        nobody = pa.repeat(pa.scalar(_NONE, pa.int64()), len(alone))
        return _first_clauses(self.missing, scope, alone, nobody, len(self.matched))

    def _refuse_several(self, hits: _Hits, hit: BitMap64) -> None:
        if len(hit) == len(hits.positions):
            return
        counts = pc.value_counts(hits.positions)
        several = counts.field("values").filter(pc.greater(counts.field("counts"), 1))
        changes = hits.take(pc.indices_nonzero(pc.is_in(hits.positions, several)))
        if all(self.clauses[number].action is Action.DELETE for number in pc.unique(changes.clause).to_pylist()):
            return
        rows = self.source.take(changes.source.slice(0, 2)).to_pylist()
        raise DataError(
            f"table {self.scan.table_name}: several rows of the source match one row of the table",
            (f"{len(several)} row(s) would be changed more than once, one of them by {rows[0]} and {rows[1]}",),
            fix="nothing was changed; make the source have one row for each, or say more in on=",
        )

    def _write(self, add: AddFile, hits: _Hits, hit: BitMap64) -> Changed:
        """Write the new form of the rows."""
        first = pc.indices_nonzero(_differs(hits.positions))
        hits = hits.take(first) if len(first) < len(hits.positions) else hits
        share = self.scan.options.writer_memory_limit // _READING
        done = 0
        with ChangeWriter(self.change) as writer:
            for rows in chosen_rows(self.scan, add, hit, share):
                self._change(writer, rows, hits.slice(done, rows.num_rows))
                done += rows.num_rows
            return writer.close()

    def _change(self, writer: ChangeWriter, rows: pa.Table, hits: _Hits) -> None:
        for number, clause in enumerate(self.clauses):
            at = pc.indices_nonzero(pc.equal(hits.clause, number))
            if not len(at):
                continue
            some = rows.take(at)
            if clause.action is Action.DELETE:
                writer.delete(some)
                continue
            sides: list[Side] = [(self.text.target, some.select(self.scan.columns))]
            if number < len(self.matched):
                sides.append((self.text.source, self.source.take(hits.source.take(at))))
            writer.put(assigned(some, _scope(*sides), clause.values))


def _first_clauses(
    clauses: Sequence[MergeClause], scope: pa.Table, rows: pa.Array, source: pa.Array, number: int
) -> _Hits:
    chosen = pa.repeat(pa.scalar(_NONE, pa.int64()), len(rows))
    for at, clause in enumerate(clauses):
        free = pc.equal(chosen, _NONE)
        chosen = pc.if_else(pc.and_(free, clause.applies(scope, len(rows))), number + at, chosen)
    hit = pc.indices_nonzero(pc.not_equal(chosen, _NONE))
    return _Hits(rows.take(hit), source.take(hit), chosen.take(hit))


def _scope(*sides: Side) -> pa.Table:
    """Rows of one or both sides as expressions see them: each side is a struct."""
    structs = {
        name: pa.StructArray.from_arrays([_whole(c) for c in rows.columns], names=rows.schema.names)
        for name, rows in sides
        if rows.num_columns
    }
    return pa.table(structs)


def _only(rows: pa.Table, names: set[str]) -> pa.Table:
    return rows.select([name for name in rows.schema.names if name in names])


def _whole(column: pa.ChunkedArray) -> pa.Array:
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)


def _differs(numbers: pa.Array) -> pa.Array:
    """Whether a number is another than the one before it."""
    if not len(numbers):
        return pa.array([], pa.bool_())
    return pa.concat_arrays([pa.array([True]), pc.not_equal(numbers.slice(1), numbers.slice(0, len(numbers) - 1))])
