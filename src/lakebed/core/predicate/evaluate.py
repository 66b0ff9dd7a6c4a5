"""Predicates evaluated on rows in memory."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from lakebed.core.errors import PredicateError
from lakebed.core.predicate.expression import to_expression
from lakebed.core.predicate.nodes import Node, columns
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
    missing = [name for name in needed if name not in rows.schema.names]
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
        return project(to_expression(node), _plain(table.select(needed)))
    except pa.ArrowException as error:
        raise PredicateError(
            f"the predicate {render(node)} fails on a row: {error}",
            fix="exclude such rows first, as in `b <> 0 AND a / b > 1`",
        ) from error


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
        kind = _LAYOUTS.get(decoded_type(field.type), decoded_type(field.type))
        if kind != field.type:
            table = table.set_column(at, field.name, table.column(at).cast(kind))
    return table


def _empty(result: pa.Table) -> pa.Array:
    return pa.array([], result.schema.field(0).type)
