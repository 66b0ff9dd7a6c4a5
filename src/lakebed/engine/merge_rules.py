"""What a merge says of rows: which of the table match which of the source, and what becomes of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64

from lakebed.core.errors import DataError
from lakebed.core.merge_plan import Action, Join, MergeText, members_of
from lakebed.core.predicate import Node, evaluate, render
from lakebed.core.schema import Struct
from lakebed.core.schema_arrow import to_arrow
from lakebed.engine.change_rows import ChangeWriter
from lakebed.engine.update import assigned
from lakebed.storage.deletion_vector import from_arrow, keep_mask

# Pairs of rows that are looked at together where no key joins them.
_PAIRS = 1 << 20
# Rows of the source that are inserted at a time.
_INSERTED = 1 << 16
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
class Hits:
    """Rows that change: where they are, which row of the source does it, and which clause."""

    rows: pa.Array
    source: pa.Array
    clause: pa.Array

    @staticmethod
    def joined(parts: Sequence[Hits]) -> Hits:
        """All of them, by row."""

        def whole(name: str) -> pa.Array:
            return pa.concat_arrays([pa.array([], pa.int64()), *(getattr(part, name) for part in parts)])

        found = Hits(whole("rows"), whole("source"), whole("clause"))
        return found.take(pc.sort_indices(found.rows))

    def take(self, at: pa.Array) -> Hits:
        """Some of them."""
        return Hits(self.rows.take(at), self.source.take(at), self.clause.take(at))

    def slice(self, start: int, length: int) -> Hits:
        """Those from one number on."""
        return Hits(*(array.slice(start, length) for array in (self.rows, self.source, self.clause)))

    @property
    def once(self) -> Hits:
        """For each row only the first that there is; several may only be deletes."""
        first = pc.indices_nonzero(_differs(self.rows))
        return self.take(first) if len(first) < len(self.rows) else self

    @property
    def at(self) -> BitMap64:
        """The rows that change."""
        return from_arrow(self.rows)


class SourceRows:
    """The source of a merge, or a part of it that has every row which its counterparts can match."""

    def __init__(self, rules: MergeRules, rows: pa.Table) -> None:
        self.rows = rows
        self._rules = rules

    @cached_property
    def keys(self) -> pa.Table:
        """The values that join, and the number of each row."""
        return self._rules.key_values(self.rows, 1)


@dataclass(frozen=True)
class MergeRules:
    """A merge that has been parsed for one table and one source; small and serialisable."""

    table_name: str
    text: MergeText
    join: Join
    matched: tuple[MergeClause, ...]
    missing: tuple[MergeClause, ...]
    """For rows of the table that the source does not have."""
    inserts: tuple[MergeClause, ...]
    schema: Struct
    """That of the table."""

    @property
    def clauses(self) -> tuple[MergeClause, ...]:
        """All clauses for rows of the table."""
        return (*self.matched, *self.missing)

    @property
    def looked_at(self) -> set[str]:
        """The columns of the table that decide what becomes of a row."""
        conditions = [clause.condition for clause in self.clauses if clause.condition is not None]
        terms = [*(mine for mine, _ in self.join.keys), *([] if self.join.rest is None else [self.join.rest])]
        return members_of([*terms, *conditions], self.text.target)

    def key_values(self, rows: pa.Table, side: int) -> pa.Table:
        """The values that join rows of the table (side 0) or of the source (side 1), and the number of each row."""
        name = (self.text.target, self.text.source)[side]
        nodes = [pair[side] for pair in self.join.keys]
        scope = scope_of((name, _only(rows, members_of(nodes, name))))
        values = {f"key {at}": evaluate(node, scope) for at, node in enumerate(nodes)}
        return pa.table({**values, f"row {side}": pa.arange(0, rows.num_rows)})

    def find(self, live: pa.Table, source: SourceRows) -> tuple[Hits, pa.Array]:
        """The rows that change, and the numbers of those of the source that match any."""
        mine, theirs = self._pairs(live, source)
        return Hits.joined([self._chosen(live, source, mine, theirs), self._left(live, mine)]), theirs

    def _pairs(self, live: pa.Table, source: SourceRows) -> tuple[pa.Array, pa.Array]:
        """The pairs of rows for which the condition is true: numbers of rows of both."""
        if self.join.keys:
            found = [self._joined(live, source)]
        else:
            found = list(_all_pairs(live.num_rows, source.rows.num_rows))
        if self.join.rest is not None:
            found = [self._filtered(live, source, mine, theirs) for mine, theirs in found]
        empty = pa.array([], pa.int64())
        return pa.concat_arrays([empty, *(m for m, _ in found)]), pa.concat_arrays([empty, *(t for _, t in found)])

    def _joined(self, live: pa.Table, source: SourceRows) -> tuple[pa.Array, pa.Array]:
        keys = [f"key {at}" for at in range(len(self.join.keys))]
        joined = self.key_values(live, 0).join(source.keys, keys=keys, join_type="inner")
        return whole(joined.column("row 0")), whole(joined.column("row 1"))

    def _filtered(
        self, live: pa.Table, source: SourceRows, mine: pa.Array, theirs: pa.Array
    ) -> tuple[pa.Array, pa.Array]:
        assert self.join.rest is not None
        kept = evaluate(self.join.rest, self._both(live, source, mine, theirs, [self.join.rest])).fill_null(False)
        return mine.filter(kept), theirs.filter(kept)

    def _both(
        self, live: pa.Table, source: SourceRows, mine: pa.Array, theirs: pa.Array, nodes: Sequence[Node]
    ) -> pa.Table:
        """Pairs of rows, with the columns that are looked at."""
        sides = ((self.text.target, live, mine), (self.text.source, source.rows, theirs))
        return scope_of(*((name, _only(rows, members_of(nodes, name)).take(numbers)) for name, rows, numbers in sides))

    def _chosen(self, live: pa.Table, source: SourceRows, mine: pa.Array, theirs: pa.Array) -> Hits:
        """The pairs for which a clause has its way: the first whose condition is true."""
        conditions = [clause.condition for clause in self.matched if clause.condition is not None]
        return _first_clauses(self.matched, self._both(live, source, mine, theirs, conditions), mine, theirs, 0)

    def _left(self, live: pa.Table, mine: pa.Array) -> Hits:
        """The rows without a match that a clause changes."""
        if not self.missing:
            return Hits(*(pa.array([], pa.int64()) for _ in range(3)))
        alone = pc.indices_nonzero(pc.invert(pc.is_in(pa.arange(0, live.num_rows), mine))).cast(pa.int64())
        scope = scope_of((self.text.target, live.take(alone)))
        nobody = pa.repeat(pa.scalar(_NONE, pa.int64()), len(alone))
        return _first_clauses(self.missing, scope, alone, nobody, len(self.matched))

    def refuse_several(self, hits: Hits, source: SourceRows) -> None:
        """Raise DataError where several rows of the source would change one of the table."""
        if pc.count_distinct(hits.rows).as_py() == len(hits.rows):
            return
        counts = pc.value_counts(hits.rows)
        several = counts.field("values").filter(pc.greater(counts.field("counts"), 1))
        changes = hits.take(pc.indices_nonzero(pc.is_in(hits.rows, several)))
        if all(self.clauses[number].action is Action.DELETE for number in pc.unique(changes.clause).to_pylist()):
            return
        one = changes.source.filter(pc.equal(changes.rows, changes.rows[0])).slice(0, 2)
        rows = source.rows.take(one)
        raise DataError(
            f"table {self.table_name}: several rows of the source match one row of the table",
            (f"{len(several)} row(s) would be changed more than once, one of them{self._told(rows)}",),
            fix="nothing was changed; make the source have one row for each, or say more in on=",
        )

    def _told(self, rows: pa.Table) -> str:
        """The key that rows of the source share, if there is one, and the rows."""
        first, second = rows.to_pylist()
        values = self.key_values(rows.slice(0, 1), 1).to_pylist()[0] if self.join.keys else {}
        names = [render(theirs) for _, theirs in self.join.keys]
        key = ", ".join(f"{name} = {values[f'key {at}']!r}" for at, name in enumerate(names))
        return f"{f' ({key})' if key else ''} by {first} and {second}"

    def change(self, writer: ChangeWriter, rows: pa.Table, hits: Hits, source: SourceRows) -> None:
        """Write the new form of rows; there is a hit for each of them, in their order."""
        for number, clause in enumerate(self.clauses):
            at = pc.indices_nonzero(pc.equal(hits.clause, number))
            if not len(at):
                continue
            some = rows.take(at)
            if clause.action is Action.DELETE:
                writer.delete(some)
                continue
            names = [name for name in self.schema.names if name in some.schema.names]
            sides: list[Side] = [(self.text.target, some.select(names))]
            if number < len(self.matched):
                sides.append((self.text.source, source.rows.take(hits.source.take(at))))
            writer.put(assigned(some, scope_of(*sides), clause.values))

    def deleted(self, hits: Hits) -> int:
        """How many of the rows go."""
        deleting = pa.array([i for i, clause in enumerate(self.clauses) if clause.action is Action.DELETE], pa.int64())
        return int(pc.count_distinct(hits.rows.filter(pc.is_in(hits.clause, deleting))).as_py())

    def insert(self, writer: ChangeWriter, source: pa.Table, matched: BitMap64) -> int:
        """Insert the rows of the source that match none; returns how many."""
        inserted = 0
        for start in range(0, source.num_rows if self.inserts else 0, _INSERTED):
            some = source.slice(start, _INSERTED)
            left = some.filter(keep_mask(matched, start, some.num_rows))
            for clause in self.inserts:
                if not left.num_rows:
                    break
                chosen = clause.applies(scope_of((self.text.source, left)), left.num_rows)
                fresh = left.filter(chosen)
                left = left.filter(pc.invert(chosen))
                if fresh.num_rows:
                    writer.put(clause.made(self.schema, scope_of((self.text.source, fresh)), fresh.num_rows))
                    inserted += fresh.num_rows
        return inserted


def _all_pairs(rows: int, others: int) -> Iterator[tuple[pa.Array, pa.Array]]:
    if not rows:
        return
    step = max(1, _PAIRS // rows)
    for start in range(0, others, step):
        count = min(step, others - start)
        number = pa.arange(0, rows * count)
        mine = pc.divide(number, count)
        yield mine, pc.add(pc.subtract(number, pc.multiply(mine, count)), start)


def _first_clauses(
    clauses: Sequence[MergeClause], scope: pa.Table, rows: pa.Array, source: pa.Array, number: int
) -> Hits:
    chosen = pa.repeat(pa.scalar(_NONE, pa.int64()), len(rows))
    for at, clause in enumerate(clauses):
        free = pc.equal(chosen, _NONE)
        chosen = pc.if_else(pc.and_(free, clause.applies(scope, len(rows))), number + at, chosen)
    hit = pc.indices_nonzero(pc.not_equal(chosen, _NONE))
    return Hits(rows.take(hit), source.take(hit), chosen.take(hit))


def scope_of(*sides: Side) -> pa.Table:
    """Rows of one or both sides as expressions see them: each side is a struct."""
    structs = {
        name: pa.StructArray.from_arrays([whole(c) for c in rows.columns], names=rows.schema.names)
        for name, rows in sides
        if rows.num_columns
    }
    return pa.table(structs)


def _only(rows: pa.Table, names: set[str]) -> pa.Table:
    return rows.select([name for name in rows.schema.names if name in names])


def whole(column: pa.ChunkedArray) -> pa.Array:
    """The column in one piece."""
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)


def _differs(numbers: pa.Array) -> pa.Array:
    """Whether a number is another than the one before it."""
    if not len(numbers):
        return pa.array([], pa.bool_())
    return pa.concat_arrays([pa.array([True]), pc.not_equal(numbers.slice(1), numbers.slice(0, len(numbers) - 1))])
