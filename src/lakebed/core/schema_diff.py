"""How two schemas differ: in words, and as the changes that make rows of one fit the other."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from lakebed.core.lossless import conversion
from lakebed.core.schema import MAPPING_ID, VOID, Array, Decimal, Field, Map, Struct, Type
from lakebed.core.schema_arrow import from_arrow, type_to_arrow
from lakebed.core.schema_changes import AddColumn, Change, WidenColumn
from lakebed.core.schema_check import raise_problems, type_problems
from lakebed.core.schema_ddl import type_ddl
from lakebed.core.schema_path import KEY, VALUE, Path, format_path, members
from lakebed.core.widening import can_widen, widened_to_hold


def diff(old: Struct, new: Struct) -> list[str]:
    """The differences in words; columns are told apart by their mapping ids where both have them.

    >>> from lakebed.core.schema_ddl import from_ddl
    >>> diff(from_ddl("id INT, a DATE"), from_ddl("id BIGINT, b DATE"))
    ['id: type changed from INT to BIGINT', 'a: dropped (DATE)', 'b: added (DATE)']
    """
    return list(_diff_struct(old, new, ()))


def merge_schemas(table: Struct, incoming: Struct | pa.Schema, widen: bool = True) -> list[Change]:
    """The changes after which rows of the incoming schema fit the table: columns that it lacks are added
    (nullable, at the end), and types are widened where Delta does that by itself.

    Null-typed columns of an Arrow schema fit any column that is there. Raises one ``SchemaError`` that
    lists every type that cannot be brought together.

    >>> from lakebed.core.schema_ddl import from_ddl
    >>> merge_schemas(from_ddl("id INT"), from_ddl("id BIGINT, s STRING"))
    [WidenColumn(path=('id',), type=Primitive(name='long')), \
AddColumn(path=('s',), type=Primitive(name='string'), nullable=True, comment=None, after=None, first=False)]
    """
    if isinstance(incoming, pa.Schema):
        incoming = from_arrow(incoming, void=True)
    changes: list[Change] = []
    problems: list[str] = []
    for found in _merge_struct(table, incoming, (), widen):
        if isinstance(found, str):
            problems.append(found)
        else:
            changes.append(found)
    raise_problems("the schemas cannot be merged", problems)
    return changes


def _merge_struct(table: Struct, incoming: Struct, path: Path, widen: bool) -> Iterator[Change | str]:
    for field in incoming:
        known = table.find(field.name)
        if known is not None:
            yield from _merge_type(known.type, field.type, (*path, known.name), widen)
            continue
        new = (*path, field.name)
        wrong = list(type_problems(field.type, new))
        yield from wrong
        if not wrong:
            yield AddColumn(new, field.type, comment=field.comment)


def _merge_type(table: Type, incoming: Type, path: Path, widen: bool) -> Iterator[Change | str]:
    if incoming in (VOID, table):
        return
    if isinstance(table, Struct) and isinstance(incoming, Struct):
        yield from _merge_struct(table, incoming, path, widen)
        return
    incoming = _as_map(incoming) if isinstance(table, Map) else incoming
    if isinstance(table, Array | Map) and type(table) is type(incoming):
        for ours, theirs in zip(members(table), members(incoming), strict=True):
            yield from _merge_type(ours.type, theirs.type, (*path, ours.name), widen)
        return
    wider = widened_to_hold(table, incoming)
    if widen and wider is not None:
        yield WidenColumn(path, wider)
    elif conversion(type_to_arrow(incoming), table) is None:
        yield _clash(table, incoming, path, widen)


def _as_map(incoming: Type) -> Type:
    """Entries of a key and a value are a map, for systems that have no maps."""
    if isinstance(incoming, Array) and isinstance(incoming.element, Struct):
        entry = incoming.element
        if [name.casefold() for name in entry.names] == [KEY, VALUE]:
            return Map(entry.fields[0].type, entry.fields[1].type)
    return incoming


def _clash(table: Type, incoming: Type, path: Path, widen: bool) -> str:
    text = f"column {format_path(path)} is {type_ddl(table)} and the rows have {type_ddl(incoming)}"
    if can_widen(table, incoming):
        how = "widen the column first" if widen else "allow widening, or widen the column first"
        return f"{text} (fix: {how})"
    if isinstance(incoming, Decimal) or not isinstance(incoming, Struct | Array | Map):
        return f"{text} (fix: cast it before the write)"
    return f"{text} (fix: write it under another name)"


def _diff_struct(old: Struct, new: Struct, path: Path) -> Iterator[str]:
    pairs = _pairs(old, new)
    for before, after in pairs:
        if before is not None and after is not None:
            yield from _diff_field(before, after, path)
        elif before is not None:
            yield f"{format_path((*path, before.name))}: dropped ({type_ddl(before.type)})"
        elif after is not None:
            yield f"{format_path((*path, after.name))}: added ({_column(after)})"
    both = [(b, a) for b, a in pairs if b is not None and a is not None]
    kept = [a.name for _, a in both]
    order = [f.name for f in new if f.name in set(kept)]
    if kept != order:
        where = f"{format_path(path)}: " if path else ""
        yield f"{where}columns are in another order: {', '.join(order)}"


def _pairs(old: Struct, new: Struct) -> list[tuple[Field | None, Field | None]]:
    """Fields of the old schema, in order, with what became of them; then the new ones."""

    def identity(field: Field) -> object:
        return field.metadata[MAPPING_ID] if by_id else field.name.casefold()

    by_id = all(MAPPING_ID in f.metadata for f in (*old.fields, *new.fields))
    now = {identity(f): f for f in new}
    known = {identity(f) for f in old}
    return [(f, now.get(identity(f))) for f in old] + [(None, f) for f in new if identity(f) not in known]


def _diff_field(old: Field, new: Field, path: Path) -> Iterator[str]:
    place = format_path((*path, new.name))
    if old.name != new.name:
        yield f"{format_path((*path, old.name))}: renamed to {place}"
    if old.nullable != new.nullable:
        yield f"{place}: {'may be null now' if new.nullable else 'is NOT NULL now'}"
    if old.comment != new.comment:
        yield f"{place}: comment changed from {old.comment!r} to {new.comment!r}"
    yield from _diff_type(old.type, new.type, (*path, new.name))


def _diff_type(old: Type, new: Type, path: Path) -> Iterator[str]:
    if isinstance(old, Struct) and isinstance(new, Struct):
        yield from _diff_struct(old, new, path)
    elif isinstance(old, Array | Map) and type(old) is type(new):
        for before, after in zip(members(old), members(new), strict=True):
            yield from _diff_field(before, after, path)
    elif old != new:
        yield f"{format_path(path)}: type changed from {type_ddl(old)} to {type_ddl(new)}"


def _column(field: Field) -> str:
    return type_ddl(field.type) + ("" if field.nullable else " NOT NULL")
