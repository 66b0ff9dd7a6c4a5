"""Rows that an engine cannot merge: said before they are written, and again where they are met."""

from __future__ import annotations

import decimal
from collections.abc import Sequence
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc

from lakebed.core.errors import DataError
from lakebed.core.file_tags import KIND_COLUMN
from lakebed.core.keyed import MergeEngine
from lakebed.core.merging.arithmetic import zero_taken_back
from lakebed.core.merging.functions import Function
from lakebed.core.merging.spec import DELETE, UPDATE_BEFORE, FieldRule, MergeSpec
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
    _check_required(batch, spec)


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


def _check_required(batch: pa.Table, spec: MergeSpec) -> None:
    """Raise DataError for rows that would leave a null in a NOT NULL column when they are taken back."""
    present = [rule for rule in spec.fields if rule.required and rule.name in batch.column_names]
    if spec.aggregates:
        kinds = (UPDATE_BEFORE,) if spec.remove_on_delete else (UPDATE_BEFORE, DELETE)
        taken = pc.is_in(batch[KIND_COLUMN], pa.array(kinds, pa.int8()))
        _refuse_nulls(batch, taken, [rule for rule in present if rule.loses_its_value], spec)
        for rule in present:
            if rule.function is Function.SUM and not rule.ignore_retract:
                # In a key that is not there yet nothing but the row itself gives the sum a value.
                _refuse_nulls(batch, pc.and_(taken, pc.is_null(batch[rule.name])), [rule], spec)
    for group in spec.groups:
        removes = set(group.sequence) & set(spec.remove_on_groups)
        kinds = (UPDATE_BEFORE,) if removes else (UPDATE_BEFORE, DELETE)
        taken = pc.is_in(batch[KIND_COLUMN], pa.array(kinds, pa.int8()))
        columns = [rule for rule in present if rule.name in group.columns and rule.loses_its_value]
        if columns:
            valid = [pc.is_valid(batch[name]) for name in group.sequence]
            _refuse_nulls(batch, pc.and_(taken, reduce(pc.or_, valid)), columns, spec)


def _refuse_nulls(batch: pa.Table, mask: pa.ChunkedArray, rules: Sequence[FieldRule], spec: MergeSpec) -> None:
    rows = batch.filter(mask) if rules else batch.slice(0, 0)
    if not rows.num_rows:
        return
    names = ", ".join(rule.name for rule in rules)
    count = f"{rows.num_rows} row" + ("s" if rows.num_rows != 1 else "")
    example = rows.slice(0, 1).select(spec.key).to_pylist()[0]
    ways = ["let the columns be null", "set 'fields.<column>.ignore-retract' to true for them"]
    ways += ["'remove-record-on-delete' to true to remove whole rows"] if spec.aggregates else []
    raise DataError(
        f"merge engine {spec.engine.value!r} cannot take back {count} of kind -D or -U: "
        f"a null would be left in NOT NULL columns: {names}",
        (f"for example {_NAMES[rows[KIND_COLUMN][0].as_py()]} of {example}",),
        fix=", or ".join([*ways, "'ignore-delete' to true"]),
    )
