"""What every table's schema must keep to, whoever made it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lakebed.core.errors import SchemaError
from lakebed.core.schema import PRIMITIVES, Decimal, Field, Map, Primitive, Struct, Type
from lakebed.core.schema_ddl import type_ddl
from lakebed.core.schema_path import Path, did_you_mean, format_path, members

RESERVED_PREFIX = "_lakebed_"
RESERVED_NAMES = frozenset(
    {"_change_type", "_commit_version", "_commit_timestamp", "_file", "_row_index", "_bucket", "_partition"}
)


def validate_schema(schema: Struct, partition_columns: Sequence[str] = ()) -> None:
    """Raise one ``SchemaError`` that lists every reason why no table can have this schema.

    >>> from lakebed.core.schema import LONG
    >>> validate_schema(Struct((Field("id", LONG), Field("dt", LONG))), ["dt"])
    """
    problems = [*_struct_problems(schema, ()), *_reserved(schema), *_partitioning(schema, partition_columns)]
    raise_problems("the schema cannot be used", problems)


def raise_problems(what: str, problems: Sequence[str]) -> None:
    """Raise one ``SchemaError`` with all the problems, if there are any.

    >>> raise_problems("alter table t", [])
    """
    if len(problems) == 1:
        raise SchemaError(f"{what}: {problems[0]}")
    if problems:
        raise SchemaError(f"{what}:" + "".join(f"\n  - {p}" for p in problems))


def reserved_name_problem(name: str) -> str | None:
    """Why a column may not have this name, if it may not.

    >>> reserved_name_problem("_file")
    "column _file: the name belongs to Lakebed's metadata columns (fix: choose another name)"
    """
    folded = name.casefold()
    if folded in RESERVED_NAMES:
        return (
            f"column {format_path([name])}: the name belongs to Lakebed's metadata columns (fix: choose another name)"
        )
    if folded.startswith(RESERVED_PREFIX):
        return (
            f"column {format_path([name])}: names that start with {RESERVED_PREFIX} belong to Lakebed "
            "(fix: choose another name)"
        )
    if name == "*" or (name.startswith("^") and name.endswith("$")):
        return f"column {format_path([name])}: polars takes the name for a pattern (fix: choose another name)"
    return None


def type_problems(kind: Type, path: Path) -> Iterator[str]:
    """Why no column at the path may have this type, at any level of it."""
    place = f"column {format_path(path)}"
    if isinstance(kind, Primitive) and PRIMITIVES.get(kind.name) != kind:
        yield f"{place}: no column can have the type {kind.name} (fix: give it a type)"
    if isinstance(kind, Decimal) and not (1 <= kind.precision <= 38 and 0 <= kind.scale <= kind.precision):
        yield f"{place}: {type_ddl(kind)} is not possible (precision 1 to 38, scale 0 to the precision)"
    if isinstance(kind, Struct):
        yield from _struct_problems(kind, path)
        return
    if isinstance(kind, Map) and _contains_map(kind.key):
        yield f"{place}: a map key cannot be or contain a map (fix: use an array of structs)"
    for member in members(kind):
        yield from type_problems(member.type, (*path, member.name))


def _struct_problems(struct: Struct, path: Path) -> Iterator[str]:
    if not struct.fields:
        yield f"column {format_path(path)}: a struct needs a field" if path else "there are no columns"
    seen: dict[str, Field] = {}
    for field in struct:
        if not field.name.strip():
            where = f"in column {format_path(path)}" if path else "in the schema"
            yield f"{where}: a column has an empty name"
        earlier = seen.setdefault(field.name.casefold(), field)
        if earlier is not field:
            yield (
                f"column {format_path((*path, field.name))}: the name is taken by "
                f"{format_path((*path, earlier.name))} (names must differ by more than case)"
            )
        yield from type_problems(field.type, (*path, field.name))


def _contains_map(kind: Type) -> bool:
    return isinstance(kind, Map) or any(_contains_map(m.type) for m in members(kind))


def _reserved(schema: Struct) -> Iterator[str]:
    for field in schema:
        problem = reserved_name_problem(field.name)
        if problem is not None:
            yield problem


def _partitioning(schema: Struct, partition_columns: Sequence[str]) -> Iterator[str]:
    seen: set[str] = set()
    for name in partition_columns:
        if name not in schema:
            yield f"partition column {name!r} is not in the schema ({did_you_mean(name, schema.names)})"
        elif not isinstance(schema[name].type, Primitive | Decimal):
            yield f"partition column {name!r} is {type_ddl(schema[name].type)}; it must be a single value"
        if name in seen:
            yield f"partition column {name!r} is given twice"
        seen.add(name)
    if seen and seen >= set(schema.names):
        yield "every column is a partition column; at least one must not be"
