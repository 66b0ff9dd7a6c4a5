"""Predicates evaluated on rows in memory."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from lakebed.core.errors import PredicateError
from lakebed.core.predicate.expression import to_expression
from lakebed.core.predicate.nodes import Column, Node, columns
from lakebed.core.predicate.render import render
from lakebed.core.schema_arrow import decoded_type

_LAYOUTS = {pa.string_view(): pa.string(), pa.binary_view(): pa.binary()}


def evaluate(node: Node, rows: pa.RecordBatch | pa.Table) -> pa.Array:
    """The value of the node for each row; a condition gives TRUE, FALSE or NULL for unknown.

    Raises PredicateError when a row makes the node fail: a division by zero, an overflow, a cast.

    >>> from lakebed.core.predicate import parse
    >>> from lakebed.core.schema import Field, LONG, Struct
    >>> rows = pa.table({"n": [1, None, -1]})
    >>> evaluate(parse("n < 0", Struct((Field("n", LONG),))), rows).to_pylist()
    [False, None, True]
    """
    needed = sorted(columns(node))
    missing = [name for name in needed if not rows.schema.get_all_field_indices(name)]
    if missing:
        raise PredicateError(
            f"the rows lack the column {missing[0]!r} of the predicate {render(node)}",
            found=", ".join(rows.schema.names),
        )
    try:
        if not needed:
            # A table without columns has no rows for Arrow; one row stands for all.
            return pa.repeat(project(to_expression(node), pa.table({"row": [0]}))[0], rows.num_rows)
        table = pa.Table.from_batches([rows]) if isinstance(rows, pa.RecordBatch) else rows
        there = _as_it_is(node, table) if isinstance(node, Column) else None
        return project(to_expression(node), _plain(table.select(needed))) if there is None else there
    except pa.ArrowException as error:
        raise PredicateError(
            f"the predicate {render(node)} fails on a row: {error}",
            fix="exclude such rows first, as in `b <> 0 AND a / b > 1`",
        ) from error


def _as_it_is(node: Column, table: pa.Table) -> pa.Array | None:
    """A column, or a member of one, that needs no computing: the plan of an expression would look at all members of the
    struct. None if there are several of the name."""
    place = table.schema.get_field_index(node.path[0])
    if place < 0:
        return None
    found = table.column(place)
    values = found.chunk(0) if found.num_chunks == 1 else pa.concat_arrays([pa.array([], found.type), *found.chunks])
    for name in node.path[1:]:
        at = values.type.get_field_index(name)
        if at < 0:
            return None
        # The function copies what describes the members, all of them; it is needed where the struct itself is null.
        values = pc.struct_field(values, [at]) if values.null_count else values.field(at)
    return values if (kind := _plain_type(values.type)) == values.type else values.cast(kind)


def project(expression: pc.Expression, table: pa.Table) -> pa.Array:
    """The value of an Arrow expression for each row, in order; raises what Arrow raises."""
    from pyarrow import acero  # not at the top: it brings in pandas, if there is one

    source = acero.Declaration("table_source", acero.TableSourceNodeOptions(table))
    value = acero.Declaration("project", acero.ProjectNodeOptions([expression], ["value"]))
    result = acero.Declaration.from_sequence([source, value]).to_table(use_threads=False)
    return pa.concat_arrays(result.column(0).chunks) if result.num_rows else _empty(result)


def _plain(table: pa.Table) -> pa.Table:
    """The columns in the layouts that Arrow's functions all know: no dictionaries, no views."""
    for at, field in enumerate(table.schema):
        kind = _plain_type(field.type)
        if kind != field.type:
            table = table.set_column(at, field.name, table.column(at).cast(kind))
    return table


def _plain_type(kind: pa.DataType) -> pa.DataType:
    decoded = decoded_type(kind)
    return _LAYOUTS.get(decoded, decoded)


def _empty(result: pa.Table) -> pa.Array:
    return pa.array([], result.schema.field(0).type)
