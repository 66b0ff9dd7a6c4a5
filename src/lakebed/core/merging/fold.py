"""The fold: what a key's state becomes when a batch is merged into it."""

from __future__ import annotations

from dataclasses import replace

import polars as pl
import pyarrow as pa

from lakebed.core.file_tags import KIND_COLUMN, ROW_VERSION_COLUMN
from lakebed.core.keyed import MergeEngine
from lakebed.core.merging.arithmetic import UnfitError, overflow
from lakebed.core.merging.lanes import Lane, group_lane, plain_lane
from lakebed.core.merging.refusals import check_rows
from lakebed.core.merging.removal import Outcome, remove
from lakebed.core.merging.rows import KEY_NUMBER, LATE, POSITION, RETRACT, ROW, VERSION, Rows, arrange
from lakebed.core.merging.spec import DELETE, FieldRule, MergeSpec
from lakebed.core.merging.stepwise import never_whole, stepped, stepped_keys
from lakebed.core.merging.vectors import Vector, evaluate, newest, passed, vector
from lakebed.core.recast import Recast, has_hidden_nulls
from lakebed.core.schema import Field, Type


def fold(state: pa.Table | None, batch: pa.Table, spec: MergeSpec) -> pa.Table:
    """The new state of every key of the batch, in the order in which the batch first names them.

    ``state`` has at most one row per key, ``batch`` any number, in the order of the batch; both have
    ``_lakebed_kind`` and ``_lakebed_row_version``. A row of kind 3 is a tombstone; a key of which nothing
    remains is left out. The result has the batch's columns, all nullable; it knows only the columns that
    the batch has (see ``MergeSpec.required``). Raises DataError for rows that cannot be merged.

    >>> spec = MergeSpec(("id",), (), MergeEngine.DEDUPLICATE, ())
    >>> hidden = {"_lakebed_kind": pa.array([0, 0], pa.int8()), "_lakebed_row_version": pa.array([4, 4])}
    >>> fold(None, pa.table({"id": [1, 1], "name": ["a", "b"], **hidden}), spec)["name"].to_pylist()
    ['b']
    """
    check_rows(batch, spec)
    if batch.num_rows == 0:
        return batch.cast(_nullable(batch.schema))
    rows = arrange(state, batch, spec)
    if spec.engine is MergeEngine.FIRST_ROW:
        return _whole_rows(rows, rows.frame.sort(POSITION, maintain_order=True).group_by(KEY_NUMBER).first(), spec)
    if spec.engine is MergeEngine.DEDUPLICATE:
        latest = rows.frame.filter(~pl.col(LATE)).sort(POSITION, maintain_order=True).group_by(KEY_NUMBER).last()
        return _whole_rows(rows, latest, spec)
    try:
        return _combined(rows, spec)
    except UnfitError as unfit:
        (key,) = rows.source.select(spec.key).take(rows.first.slice(unfit.at, 1).to_arrow()).to_pylist()
        raise overflow(unfit.rule, key) from unfit


def _nullable(schema: pa.Schema) -> pa.Schema:
    return pa.schema([f.with_nullable(True) for f in schema], schema.metadata)


def _whole_rows(rows: Rows, chosen: pl.DataFrame, spec: MergeSpec) -> pa.Table:
    """One row per key as it is; a deleted one keeps only its key and sequence, or nothing."""
    chosen = chosen.sort(KEY_NUMBER)
    if not spec.keeps_tombstones:
        chosen = chosen.filter(~pl.col(RETRACT))
    kept = pl.when(RETRACT).then(None).otherwise(pl.col(ROW))
    live, dead = chosen.select(kept).to_series().to_arrow(), chosen[ROW].to_arrow()
    columns = {}
    for name in rows.source.column_names:
        always = name in spec.key or name in spec.sequence or name == ROW_VERSION_COLUMN
        columns[name] = rows.source[name].take(dead if always else live)
    columns[KIND_COLUMN] = _kinds(chosen[RETRACT])
    return pa.table(columns, schema=_nullable(rows.source.schema))


def _kinds(deleted: pl.Series) -> pa.Array:
    return pl.select(pl.when(deleted).then(pl.lit(DELETE, dtype=pl.Int8))).to_series().to_arrow()


def _combined(rows: Rows, spec: MergeSpec) -> pa.Table:
    frame, outcome = remove(rows, spec)
    values: dict[str, pa.Array] = {}
    grouped = {name for group in spec.groups for name in (*group.columns, *group.sequence)}
    present = set(rows.source.column_names)
    rules = {rule.name: rule for rule in spec.fields if rule.name in present}
    values |= _lane_values(plain_lane(rows, frame, spec), [r for n, r in rules.items() if n not in grouped])
    for group in spec.groups:
        if present.issuperset(group.sequence):
            lane = group_lane(rows, frame, group)
            values |= _lane_values(lane, [rules[name] for name in group.columns if name in rules])
            values |= evaluate(lane, {name: newest(lane, name) for name in group.sequence})
    return _assembled(rows, outcome, values, spec)


def _lane_values(lane: Lane, rules: list[FieldRule]) -> dict[str, pa.Array]:
    """The values of the lane's columns per key: whole columns at once, single keys in steps where they must."""
    vectors: dict[str, Vector] = {}
    values: dict[str, pa.Array] = {}
    for rule in rules:
        keys = stepped_keys(lane, rule)
        if keys is None:
            vectors[rule.name] = passed(lane, rule) if never_whole(rule) else vector(lane, rule)
            continue
        others = replace(lane, frame=lane.frame.filter(~pl.col(KEY_NUMBER).is_in(keys.implode())))
        whole = passed(others, rule) if never_whole(rule) else vector(others, rule)
        base = evaluate(others, {rule.name: whole})[rule.name]
        values[rule.name] = _patched(base, keys, stepped(lane, rule, keys))
    return {**values, **evaluate(lane, vectors)} if vectors else values


def _patched(base: pa.Array, keys: pl.Series, patch: pa.Array) -> pa.Array:
    """The values of ``base`` with those of some keys replaced."""
    at = pl.DataFrame({"at": range(len(base))}).join(
        pl.DataFrame({"at": keys.cast(pl.Int64), "new": range(len(base), len(base) + len(patch))}),
        on="at", how="left", maintain_order="left",
    )  # fmt: skip
    return pa.concat_arrays([base, patch]).take(at.select(pl.coalesce("new", "at")).to_series().to_arrow())


def _assembled(rows: Rows, outcome: Outcome, values: dict[str, pa.Array], spec: MergeSpec) -> pa.Table:
    kept = outcome.frame
    live = kept.select(pl.when("live").then(pl.col(KEY_NUMBER))).to_series().to_arrow()
    types = {rule.name: rule.type for rule in spec.fields}
    columns = {}
    for field in rows.source.schema:
        if field.name in spec.key:
            column = rows.source[field.name].take(rows.first.gather(kept[KEY_NUMBER]).to_arrow())
        elif field.name in spec.sequence:
            column = rows.source[field.name].take(kept[ROW].to_arrow())
        elif field.name == KIND_COLUMN:
            column = _kinds(~kept["live"])
        elif field.name == ROW_VERSION_COLUMN:
            column = kept[VERSION].to_arrow()
        elif field.name in values:
            column = _writable(values[field.name].take(live), types[field.name])
        else:
            raise KeyError(f"column {field.name!r} has no rule")
        columns[field.name] = column
    return pa.table(columns, schema=_nullable(rows.source.schema))


def _writable(column: pa.Array, kind: Type) -> pa.Array | pa.ChunkedArray:
    """The column without nulls in required members of null structs: taking rows makes them, no file may have them."""
    if not has_hidden_nulls(column, kind):
        return column
    return pa.chunked_array(Recast(stored=False).chunks([column], Field("", kind)), column.type)
