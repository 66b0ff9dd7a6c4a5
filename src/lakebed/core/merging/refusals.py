"""Rows that an engine cannot merge: said before they are written, and again where they are met."""

from __future__ import annotations

import decimal

import pyarrow as pa
import pyarrow.compute as pc

from lakebed.core.errors import DataError
from lakebed.core.file_tags import KIND_COLUMN
from lakebed.core.keyed import MergeEngine
from lakebed.core.merging.arithmetic import zero_taken_back
from lakebed.core.merging.functions import Function
from lakebed.core.merging.spec import DELETE, UPDATE_BEFORE, MergeSpec
from lakebed.core.schema import DOUBLE, FLOAT, Decimal

_NAMES = {UPDATE_BEFORE: "-U", DELETE: "-D"}


def check_rows(batch: pa.Table, spec: MergeSpec) -> None:
    """Refuses rows of kind -D and -U that the table's engine cannot do; effects: none.

    Raises DataError with how many rows, an example, and the properties that would help. Writers call it
    before they commit, so that no table gets rows that cannot be merged.
    """
    if KIND_COLUMN not in batch.column_names or spec.ignore_delete:
        return
    kinds = batch[KIND_COLUMN]
    if kinds.null_count == len(kinds):
        return
    refused = _refused_kinds(spec)
    if refused:
        _refuse(batch, pc.is_in(kinds, pa.array(refused, pa.int8())), spec)
    _check_products(batch, spec)


def _refused_kinds(spec: MergeSpec) -> tuple[int, ...]:
    if spec.engine is MergeEngine.FIRST_ROW:
        return (UPDATE_BEFORE, DELETE)
    if spec.engine is MergeEngine.PARTIAL_UPDATE and not spec.groups and not spec.remove_on_delete:
        return (UPDATE_BEFORE, DELETE)
    if _stuck(spec):
        return (UPDATE_BEFORE,) if spec.remove_on_delete else (UPDATE_BEFORE, DELETE)
    return ()


def _stuck(spec: MergeSpec) -> list[str]:
    """The columns whose function cannot take a row back."""
    if spec.engine not in (MergeEngine.AGGREGATION, MergeEngine.PARTIAL_UPDATE):
        return []
    grouped = {name for group in spec.groups for name in group.columns}
    return [
        f"{rule.name} ({rule.function.value})"
        for rule in spec.fields
        if rule.function is not None and not rule.retracts and (spec.aggregates or rule.name in grouped)
    ]


def _refuse(batch: pa.Table, mask: pa.ChunkedArray, spec: MergeSpec) -> None:
    rows = batch.filter(mask)
    if rows.num_rows == 0:
        return
    example = rows.slice(0, 1).select(spec.key).to_pylist()[0]
    kind = _NAMES[rows[KIND_COLUMN][0].as_py()]
    count = f"{rows.num_rows} row" + ("s" if rows.num_rows != 1 else "")
    stuck = _stuck(spec)
    why = f": columns that cannot take a row back are {', '.join(stuck)}" if stuck else ""
    raise DataError(
        f"merge engine {spec.engine.value!r} cannot take back {count} of kind -D or -U{why}",
        (f"for example {kind} of {example}",),
        fix=_way_out(spec),
    )


def _way_out(spec: MergeSpec) -> str:
    if spec.engine is MergeEngine.FIRST_ROW:
        return "set property 'ignore-delete' to true"
    if spec.engine is MergeEngine.AGGREGATION:
        return (
            "set 'fields.<column>.ignore-retract' to true for these columns, or 'remove-record-on-delete' to true to "
            "remove whole rows, or 'ignore-delete' to true"
        )
    if spec.groups:
        return "set 'fields.<column>.ignore-retract' to true for these columns, or 'ignore-delete' to true"
    return (
        "set property 'ignore-delete' to true, or 'remove-record-on-delete' to true to remove whole rows, "
        "or use sequence groups to take back their columns"
    )


def _check_products(batch: pa.Table, spec: MergeSpec) -> None:
    kinds = (UPDATE_BEFORE,) if spec.remove_on_delete else (UPDATE_BEFORE, DELETE)
    for rule in spec.fields:
        exact = rule.type not in (FLOAT, DOUBLE)
        if rule.function is not Function.PRODUCT or rule.ignore_retract or not exact:
            continue
        if rule.name not in batch.column_names:
            continue
        column = batch[rule.name]
        zero = pa.scalar(decimal.Decimal(0) if isinstance(rule.type, Decimal) else 0, column.type)
        taken = pc.is_in(batch[KIND_COLUMN], pa.array(kinds, pa.int8()))
        zeros = batch.filter(pc.and_kleene(taken, pc.equal(column, zero)))
        if zeros.num_rows:
            example = zeros.slice(0, 1).select(spec.key).to_pylist()[0]
            raise zero_taken_back(rule, (f"{zeros.num_rows} rows, for example {example}",))
