"""Finds and replaces one place in a nested schema."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from lakebed.core.errors import SchemaError
from lakebed.core.schema import Array, Field, Map, Struct, Type
from lakebed.core.schema_changes import AnyPath
from lakebed.core.schema_path import KEY, Path, did_you_mean, format_path, members, parse_path


def resolve(schema: Struct, path: AnyPath) -> tuple[Path, Field]:
    """The path with names as the schema spells them, and what is there; an array element or a map's key
    and value count as fields. Raises ``SchemaError`` with near names.

    >>> from lakebed.core.schema import LONG
    >>> resolve(Struct((Field("Tags", Array(LONG)),)), "tags.element")[0]
    ('Tags', 'element')
    """
    wanted = parse_path(path)
    if not wanted:
        raise SchemaError("the path of a column is empty")
    found: tuple[str, ...] = ()
    here: Type = schema
    field: Field | None = None
    for name in wanted:
        below = Struct(members(here))
        field = below.find(name)
        if field is None:
            of = f" in {format_path(found)}" if found else ""
            raise SchemaError(
                f"there is no column {format_path((*found, name))}",
                fix=did_you_mean(name, below.names) if below.fields else f"there is nothing{of} to name",
            )
        found = (*found, field.name)
        here = field.type
    assert field is not None
    return found, field


def is_struct_member(schema: Struct, path: Path) -> bool:
    """Whether the path, as ``resolve`` gives it, ends at a named field and not in an array or a map.

    >>> from lakebed.core.schema import LONG
    >>> is_struct_member(Struct((Field("tags", Array(LONG)),)), ("tags", "element"))
    False
    """
    return len(path) == 1 or isinstance(resolve(schema, path[:-1])[1].type, Struct)


def edit_at(schema: Struct, path: Path, edit: Callable[[Field], Field]) -> Struct:
    """The schema with the field at the path, as ``resolve`` gives it, replaced.

    >>> from lakebed.core.schema import LONG, STRING
    >>> schema = Struct((Field("tags", Array(LONG)),))
    >>> edit_at(schema, ("tags", "element"), lambda f: replace(f, type=STRING))["tags"].type
    Array(element=Primitive(name='string'), contains_null=True)
    """
    edited = _edit(schema, path, edit)
    assert isinstance(edited, Struct)
    return edited


def edit_struct(schema: Struct, path: Path, edit: Callable[[Struct], Struct]) -> Struct:
    """The schema with the struct at the path replaced; the empty path is the schema itself."""
    if not path:
        return edit(schema)

    def of_field(field: Field) -> Field:
        assert isinstance(field.type, Struct)
        return replace(field, type=edit(field.type))

    return edit_at(schema, path, of_field)


def _edit(kind: Type, path: Path, edit: Callable[[Field], Field]) -> Type:
    step, rest = path[0], path[1:]

    def change(field: Field) -> Field:
        return replace(field, type=_edit(field.type, rest, edit)) if rest else edit(field)

    if isinstance(kind, Struct):
        return Struct(tuple(change(f) if f.name == step else f for f in kind))
    if isinstance(kind, Array):
        element = change(members(kind)[0])
        return Array(element.type, element.nullable)
    assert isinstance(kind, Map)
    key, value = members(kind)
    if step == KEY:
        return replace(kind, key=change(key).type)
    changed = change(value)
    return Map(kind.key, changed.type, changed.nullable)
