"""Updating rows by predicate: columns get new values that are computed from the old ones."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakebed.core.actions import AddFile, Metadata
from lakebed.core.bucketing import split_action
from lakebed.core.commit import Claim, Kind
from lakebed.core.errors import InputError, PredicateError
from lakebed.core.keyed import KeySpec
from lakebed.core.predicate import Node, evaluate, parse_value, render
from lakebed.core.predicate.coercion import convert
from lakebed.core.predicate.nodes import Literal
from lakebed.core.schema import Struct, Type
from lakebed.core.schema_arrow import type_to_arrow
from lakebed.core.suggest import did_you_mean
from lakebed.engine.change_rows import Changed, ChangeOrder, ChangeWriter
from lakebed.engine.combining.chosen_rows import chosen_rows
from lakebed.engine.delete import StrikeOrder, Struck, strike_out
from lakebed.engine.draft import Draft
from lakebed.engine.scan import ScanOrder
from lakebed.engine.settle import settle_for, settle_own
from lakebed.engine.workforce import Workload

UPDATE_THREADS = 2
# The part of the memory limit for rows that are read and wait to be written.
_READING = 4

Values = Mapping[str, Node]
"""What columns are set to, by their names."""


def parse_values(metadata: Metadata, given: Mapping[str, Any], scope: Struct, table_name: str) -> dict[str, Node]:
    """The values of an assignment, in the types of their columns.

    Text is SQL over ``scope``, and may be parsed already; anything else is a constant. Raises InputError for a column
    that is not there, or that decides where a row belongs, and PredicateError for text that is no value.
    """
    values: dict[str, Node] = {}
    for name, value in given.items():
        column = metadata.schema.find(str(name))
        if column is None:
            raise InputError(
                f"table {table_name} has no column {name!r} to set", fix=did_you_mean(str(name), metadata.schema.names)
            )
        if column.name in values:
            raise InputError(f"table {table_name}: column {column.name!r} is set twice")
        try:
            parsed = _parsed(value, scope, column.type)
            values[column.name] = convert(parsed, column.type)
        except PredicateError as error:
            raise PredicateError(f"table {table_name}: column {column.name!r}: {error}") from error
    return values


def _parsed(value: Any, scope: Struct, kind: Type) -> Node:
    if isinstance(value, Node):
        return value
    return parse_value(value, scope) if isinstance(value, str) else _constant(value, kind)


def _constant(value: Any, kind: Type) -> Node:
    try:
        return Literal(pa.scalar(value, type_to_arrow(kind)).as_py(), kind)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise PredicateError(f"the value {value!r} does not fit: {error}") from error


def refuse_fixed(metadata: Metadata, names: Collection[str], table_name: str) -> None:
    """Raise InputError for columns whose values decide where a row is and which one counts."""
    key = KeySpec.of(metadata)
    fixed = () if key is None else (*key.key, *key.sequence)
    wrong = [name for name in names if name in fixed]
    if wrong:
        raise InputError(
            f"table {table_name}: {', '.join(wrong)} is part of the primary key or of the sequence, and stays",
            fix="delete the rows and insert them anew",
        )


def update(draft: Draft, values: Values, predicate: Node) -> int:
    """Set columns in every row for which ``predicate`` is true; returns how many there were."""
    draft.refuse_if_append_only("update")
    refuse_fixed(draft.metadata, values, draft.handle.name)
    ChangeOrder.of(draft, "update")
    before = settle_for(draft, predicate)
    done = _change(draft, values, predicate)
    changed = sum(one.struck.fresh for one in done)
    key = KeySpec.of(draft.metadata)
    if key is None:
        strike_out(draft, [one.struck for one in done])
        enter(draft, [one.changed for one in done])
        buckets = before
    else:
        enter(draft, [one.changed for one in done])
        buckets = before | settle_own(draft, key)
    draft.claims.append(Claim(Kind.UPDATE, predicate=predicate, buckets=buckets, settles=bool(buckets)))
    draft.parameters.update(predicate=render(predicate), set={name: render(node) for name, node in values.items()})
    draft.count("numUpdatedRows", changed)
    return changed


def enter(draft: Draft, changed: Collection[Changed]) -> None:
    """Files with changed rows become part of the draft."""
    draft.add_new([add for one in changed for add in one.files])
    for place, number in dict.fromkeys(split for one in changed for split in one.splits):
        action = split_action(place, number)
        draft.domains[action.domain] = action


@dataclass(frozen=True)
class _Updated:
    """One file after its rows have been looked at."""

    struck: Struck
    changed: Changed


def _change(draft: Draft, values: Values, predicate: Node) -> list[_Updated]:
    workload = Workload[AddFile, _Updated](
        work=lambda prefix: _UpdateOrder.of(draft, values, predicate, prefix).run,
        size=lambda add: add.size,
        made=lambda one: [add.file_path for add in one.changed.files],
        threads=UPDATE_THREADS,
    )
    files = draft.live(predicate)
    done = workload.run(draft, files)
    return [_Updated(one.struck.of(add), one.changed) for add, one in zip(files, done, strict=True)]


@dataclass(frozen=True)
class _UpdateOrder:
    """Which rows to change, and how; small and serialisable."""

    strike: StrikeOrder
    rows: ScanOrder
    change: ChangeOrder
    values: Values = field(hash=False)

    @staticmethod
    def of(draft: Draft, values: Values, predicate: Node, prefix: str) -> _UpdateOrder:
        handle = draft.handle
        names = tuple(draft.metadata.schema.names)
        rows = ScanOrder(handle.store, handle.name, draft.metadata, handle.options, names)
        change = ChangeOrder.of(draft, "update", prefix)
        return _UpdateOrder(StrikeOrder.of(draft, predicate), rows, change, values)

    def run(self, add: AddFile) -> _Updated:
        """Write the new form of the rows of one file."""
        struck = self.strike.strike(add)
        if not struck.fresh:
            return _Updated(struck, Changed([]))
        share = self.rows.options.writer_memory_limit // _READING
        with ChangeWriter(self.change) as writer:
            for rows in chosen_rows(self.rows, add, struck.hit, share):
                writer.put(assigned(rows, rows, self.values))
            return _Updated(struck, writer.close())


def assigned(rows: pa.Table, scope: pa.Table, values: Values) -> pa.Table:
    """The rows with other values in some columns; these are computed from ``scope``, row by row."""
    columns, fields = list(rows.columns), list(rows.schema)
    for name, node in values.items():
        at = rows.schema.get_field_index(name)
        columns[at], fields[at] = _as(evaluate(node, scope), fields[at].type), pa.field(name, fields[at].type)
    return pa.table(columns, schema=pa.schema(fields))


def _as(values: pa.Array, wanted: pa.DataType) -> pa.Array:
    return values if values.type == wanted else pc.cast(values, wanted)
