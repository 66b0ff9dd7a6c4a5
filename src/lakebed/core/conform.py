"""Checks rows that a user wants to write against the table's schema, and makes them exactly that schema.

Only conversions that lose nothing are done; everything that does not fit is reported at once.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.types as pat

from lakebed.core.adapt import adapt, widen_array
from lakebed.core.errors import DataError
from lakebed.core.lossless import conversion, hint
from lakebed.core.recast import Recast, Rows, assemble, chunks_of, has_hidden_nulls, is_entries, nulls, sources_of
from lakebed.core.schema import Array, Field, Map, Struct, Type
from lakebed.core.schema_arrow import decoded_type, is_list_like, to_arrow
from lakebed.core.schema_ddl import type_ddl
from lakebed.core.schema_path import ELEMENT, KEY, VALUE, Path, did_you_mean, format_path

__all__ = ["FIX", "adapt", "check_schema", "conform", "widen_array"]

FIX = "nothing was written; change the rows, or the table with alter()"


def conform(batch: Rows, schema: Struct, *, table_name: str, first_row: int = 0) -> Rows:
    """The rows with exactly the Arrow schema of the table; the same object if they have it already.

    Columns are found by name (the exact one, else the only one that differs in case); missing nullable
    columns become nulls. Raises one ``DataError`` that lists every problem; ``first_row`` is the number of the
    first row in it, for a part of larger data.

    >>> from lakebed.core.schema_ddl import from_ddl
    >>> schema = from_ddl("id BIGINT NOT NULL, name STRING")
    >>> conform(pa.table({"ID": pa.array([1], pa.int8())}), schema, table_name="t").to_pylist()
    [{'id': 1, 'name': None}]
    >>> conform(pa.table({"id": [1, None], "nam": ["a", "b"]}), schema, table_name="shop.orders")
    Traceback (most recent call last):
    lakebed.core.errors.DataError: table shop.orders: the rows do not fit:
      - column nam: not in the table (did you mean 'name'?); drop it, or add it to the table first
      - column id: 1 null in a NOT NULL column (in row 1)
    fix: nothing was written; change the rows, or the table with alter()
    """
    target = to_arrow(schema)
    if batch.schema.equals(target) and not _needs_rebuilding(batch, schema):
        if batch.schema.equals(target, check_metadata=True):
            return batch
        return type(batch).from_arrays(batch.columns, schema=target)
    problems = list(check_schema(batch.schema, schema))
    recast = Recast(stored=False)
    columns = _columns(batch, schema, target, recast)
    problems += recast.findings.problems(first_row)
    if problems:
        raise DataError(f"table {table_name}: the rows do not fit", tuple(problems), fix=FIX)
    return assemble(batch, columns, target)


def check_schema(incoming: pa.Schema, schema: Struct) -> tuple[str, ...]:
    """Why rows of an Arrow schema cannot be written to a table, whatever their values are.

    >>> from lakebed.core.schema_ddl import from_ddl
    >>> check_schema(pa.schema([("id", pa.string())]), from_ddl("id BIGINT"))
    ('column id: expected BIGINT, found string (cast it to that type before the write)',)
    """
    return tuple(_struct_problems(list(incoming), schema, ()))


def _needs_rebuilding(batch: Rows, schema: Struct) -> bool:
    for column, field in zip(batch.columns, schema, strict=True):
        if not field.nullable and column.null_count:
            return True
        nested = isinstance(field.type, Struct | Array | Map)
        if nested and any(has_hidden_nulls(chunk, field.type) for chunk in chunks_of(column)):
            return True
    return False


def _columns(batch: Rows, schema: Struct, target: pa.Schema, recast: Recast) -> list[list[pa.Array]]:
    """The columns that can be made, as chunks; those of a wrong type are left out (they are problems)."""
    made: list[list[pa.Array]] = []
    sources = sources_of(batch.schema.names, schema, stored=False)
    for field, source, arrow in zip(schema, sources, target, strict=True):
        if source is None:
            made.append([nulls(batch.num_rows, arrow.type)])
            continue
        column = batch.column(source)
        if any(_type_problems(column.type, field.type, (field.name,))):
            continue
        made.append(recast.chunks(chunks_of(column), field))
    return made


def _type_problems(found: pa.DataType, expected: Type, path: Path) -> Iterator[str]:
    found = decoded_type(found)
    if pat.is_null(found):
        return
    if isinstance(expected, Struct) and pat.is_struct(found):
        yield from _struct_problems(list(found), expected, path)
    elif isinstance(expected, Array) and is_list_like(found):
        yield from _type_problems(found.value_type, expected.element, (*path, ELEMENT))
    elif isinstance(expected, Map) and (pat.is_map(found) or is_entries(found)):
        key, value = _entry_types(found)
        yield from _type_problems(key, expected.key, (*path, KEY))
        yield from _type_problems(value, expected.value, (*path, VALUE))
    elif conversion(found, expected) is None:
        way_out = hint(found, expected)
        yield f"column {format_path(path)}: expected {type_ddl(expected)}, found {found} ({way_out})"


def _entry_types(found: pa.DataType) -> tuple[pa.DataType, pa.DataType]:
    if pat.is_map(found):
        return found.key_type, found.item_type
    return found.value_type.field(0).type, found.value_type.field(1).type


def _struct_problems(found: list[pa.Field], struct: Struct, path: Path) -> Iterator[str]:
    names = [f.name for f in found]
    sources = sources_of(names, struct, stored=False)
    used = {names[source] for source in sources if source is not None}
    folded: dict[str, list[str]] = {}
    for name in names:
        folded.setdefault(name.casefold(), []).append(name)
    yield from _name_problems(folded, used, struct, path)
    for field, source in zip(struct, sources, strict=True):
        place = format_path((*path, field.name))
        if source is not None:
            yield from _type_problems(found[source].type, field.type, (*path, field.name))
        elif not field.nullable and field.name.casefold() not in folded:
            yield f"column {place}: {type_ddl(field.type)} NOT NULL is missing{_near(field, names, used)}"


def _name_problems(folded: dict[str, list[str]], used: set[str], struct: Struct, path: Path) -> Iterator[str]:
    """Columns that are there twice, that two columns could be, or that the table does not have."""
    for same in folded.values():
        place = format_path((*path, same[0]))
        if len(set(same)) < len(same):
            yield f"column {place}: the name is there {len(same)} times; rename or drop the others"
        elif len(same) > 1 and any(f.name.casefold() == same[0].casefold() for f in struct):
            listed = " and ".join(repr(name) for name in same)
            yield f"column {place}: {listed} differ only in case; rename or drop one"
        elif same[0] not in used:
            known = did_you_mean(same[0], struct.names)
            yield f"column {place}: not in the table ({known}); drop it, or add it to the table first"


def _near(field: Field, names: list[str], used: set[str]) -> str:
    meant = did_you_mean(field.name, [n for n in names if n not in used])
    return f" ({meant})" if meant.startswith("did you mean") else ""
