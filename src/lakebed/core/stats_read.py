"""The statistics' JSON texts of many files, read into columns.

The texts are parsed in blocks by Arrow with a schema of the wanted columns only. A block that Arrow refuses
(malformed text, a value of another type) is halved until the few bad texts are found; those are read one by
one, and what still makes no sense is unknown.
"""

from __future__ import annotations

import io
import json
from collections.abc import Collection, Mapping, Sequence
from decimal import Decimal as Exact
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from lakebed.core.schema import Struct, Type
from lakebed.core.stats_bounds import Path
from lakebed.core.stats_coerce import coerce_bounds, json_type, lenient_value

Columns = dict[Path, pa.Array]

_BLOCK = 50_000
_FEW = 64
_COUNTS = "nullCount"
_SIDES = ("minValues", "maxValues")


class _Wanted:
    """The wanted columns: logical path, physical path and type of each."""

    def __init__(self, schema: Struct, wanted: Collection[Path]) -> None:
        self.paths: dict[Path, tuple[Path, Type]] = {}
        for path in wanted:
            found = _locate(schema, path)
            if found is not None:
                self.paths[path] = found
        self.bounded = {p: (q, k) for p, (q, k) in self.paths.items() if json_type(k) is not None}


def _locate(schema: Struct, path: Path) -> tuple[Path, Type] | None:
    kind: Type = schema
    physical: list[str] = []
    for name in path:
        if not isinstance(kind, Struct) or name not in kind:
            return None
        field = kind[name]
        physical.append(field.physical_name)
        kind = field.type
    # A struct has no bounds or counts of its own, only its members do.
    return None if isinstance(kind, Struct) else (tuple(physical), kind)


def read_stats(
    texts: Sequence[str | None], schema: Struct, wanted: Collection[Path]
) -> tuple[pa.Array, Columns, Columns, Columns]:
    """Row counts, minima, maxima and null counts by logical path; see ``statistics.parse_stats``."""
    columns = _Wanted(schema, wanted)
    layout = _layout(columns)
    blocks = [_block(texts[at : at + _BLOCK], layout) for at in range(0, len(texts), _BLOCK)]
    table = pa.concat_tables(blocks) if blocks else layout.empty_table()
    mins, maxs = (
        {
            path: coerce_bounds(_leaf(table, (side, *physical)), kind, upper=side == "maxValues")
            for path, (physical, kind) in columns.bounded.items()
        }
        for side in _SIDES
    )
    nulls = {path: _leaf(table, (_COUNTS, *physical)) for path, (physical, _) in columns.paths.items()}
    return _leaf(table, ("numRecords",)), mins, maxs, nulls


def _layout(columns: _Wanted) -> pa.Schema:
    """The part of the statistics' JSON that is read."""
    bounds: dict[Path, pa.DataType] = {}
    for physical, kind in columns.bounded.values():
        found = json_type(kind)
        assert found is not None
        bounds[physical] = found
    counts = {physical: pa.int64() for physical, _ in columns.paths.values()}
    parts = [(_SIDES[0], _struct(bounds)), (_SIDES[1], _struct(bounds)), (_COUNTS, _struct(counts))]
    return pa.schema([("numRecords", pa.int64()), *((n, t) for n, t in parts if t.num_fields)])


def _struct(leaves: Mapping[Path, pa.DataType]) -> pa.StructType:
    heads = dict.fromkeys(path[0] for path in leaves)
    fields = []
    for head in heads:
        below = {path[1:]: kind for path, kind in leaves.items() if path[0] == head}
        fields.append((head, below[()] if () in below else _struct(below)))
    return pa.struct(fields)


def _leaf(table: pa.Table, path: Path) -> pa.Array:
    column = table.column(path[0])
    for name in path[1:]:
        column = pc.struct_field(column, [name])
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)


def _block(texts: Sequence[str | None], layout: pa.Schema) -> pa.Table:
    lines = [text or "{}" for text in texts]
    table = _parsed(lines, layout)
    if table is not None:
        return table
    if len(texts) <= _FEW:
        return pa.Table.from_pylist([_one(line, layout) for line in lines], schema=layout)
    middle = len(texts) // 2
    return pa.concat_tables([_block(texts[:middle], layout), _block(texts[middle:], layout)])


def _parsed(lines: Sequence[str], layout: pa.Schema) -> pa.Table | None:
    """One row per text, or None when some text is not as it should be."""
    # Arrow reads objects, not lines. A text that starts as an object gives at least one row, so the right
    # number of rows means one row per text.
    if not all(line.startswith("{") for line in lines):
        return None
    data = "\n".join(lines).encode("utf-8", "surrogatepass")
    read = pyarrow.json.ReadOptions(block_size=max(1 << 20, 8 * max(map(len, lines))))
    parse = pyarrow.json.ParseOptions(explicit_schema=layout, unexpected_field_behavior="ignore")
    try:
        table = pyarrow.json.read_json(io.BytesIO(data), read_options=read, parse_options=parse)
    except pa.ArrowException:
        return None
    return table if table.num_rows == len(lines) and table.schema.equals(layout) else None


def _one(text: str, layout: pa.Schema) -> dict[str, Any]:
    try:
        found = json.loads(text, parse_float=Exact, parse_constant=lambda _: None)
    except (ValueError, RecursionError):
        return {}
    return _members(found, list(layout))


def _members(found: Any, fields: Sequence[pa.Field]) -> dict[str, Any]:
    if not isinstance(found, dict):
        return {}
    return {field.name: _value(found.get(field.name), field.type) for field in fields}


def _value(found: Any, kind: pa.DataType) -> Any:
    if pa.types.is_struct(kind):
        return _members(found, list(kind))
    return lenient_value(found, kind)
