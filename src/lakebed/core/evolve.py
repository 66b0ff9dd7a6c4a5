"""Schema evolution as a pure function: a schema and changes in, the next schema out.

>>> from lakebed.core.schema import LONG
>>> from lakebed.core.schema_ddl import from_ddl, to_ddl
>>> schema = from_ddl("id INT NOT NULL, name STRING")
>>> done = evolve(schema, [WidenColumn("id", LONG), RenameColumn("name", "label")], mapping=False)
>>> to_ddl(done.schema), done.mapping, done.max_column_id, done.widened
('id BIGINT NOT NULL, label STRING', True, 2, True)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from lakebed.core.column_mapping import enable_mapping, highest_id, map_new_fields, new_physical_name
from lakebed.core.errors import SchemaError
from lakebed.core.schema import COMMENT, TYPE_CHANGES, Array, Field, Map, Struct, Type
from lakebed.core.schema_changes import (
    AddColumn,
    AnyPath,
    Change,
    DropColumn,
    MoveColumn,
    RenameColumn,
    SetComment,
    SetNullable,
    WidenColumn,
)
from lakebed.core.schema_check import raise_problems, reserved_name_problem, type_problems
from lakebed.core.schema_ddl import type_ddl
from lakebed.core.schema_delta import type_to_delta
from lakebed.core.schema_diff import diff, merge_schemas
from lakebed.core.schema_edit import edit_at, edit_struct, is_struct_member, resolve
from lakebed.core.schema_path import Path, did_you_mean, format_path, parse_path
from lakebed.core.schema_spark import comments_only
from lakebed.core.widening import can_widen, is_integer, wider_types

__all__ = [
    "AddColumn", "Change", "DropColumn", "Evolved", "MoveColumn", "RenameColumn", "SetComment",
    "SetNullable", "WidenColumn", "diff", "evolve", "merge_schemas",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Evolved:
    """What a table's schema is after changes.

    ``mapping`` says whether column mapping (mode ``name``) is on, ``needs_mapping`` whether these changes
    turned it on. ``widened`` says that the table needs the Delta feature ``typeWidening``. ``renamed``
    has the new name of each top-level column that got one; the partition and protected columns are given
    under their new names.
    """

    schema: Struct
    mapping: bool
    max_column_id: int
    widened: bool
    needs_mapping: bool
    partition_columns: tuple[str, ...] = ()
    protected_columns: tuple[str, ...] = ()
    renamed: Mapping[str, str] = field(default_factory=dict)


def evolve(
    schema: Struct,
    changes: Sequence[Change],
    *,
    partition_columns: Sequence[str] = (),
    protected_columns: Sequence[str] = (),
    mapping: bool,
    max_column_id: int = 0,
    nulls_checked: bool = False,
    new_name: Callable[[], str] = new_physical_name,
) -> Evolved:
    """Apply the changes in order. Raises one ``SchemaError`` that lists every change that is not possible.

    A rename or a drop turns column mapping on. ``protected_columns`` (primary keys, sequence columns)
    cannot be dropped, widened or made nullable: widening a key would change its hash, and so its bucket.
    ``nulls_checked`` says that the caller has looked for nulls in every column that becomes NOT NULL.
    """
    turn_on = not mapping and any(isinstance(c, RenameColumn | DropColumn) for c in changes)
    if turn_on:
        schema, max_column_id = enable_mapping(schema, max_column_id)
    work = _Evolution(
        schema=schema,
        mapping=mapping or turn_on,
        max_column_id=max(max_column_id, highest_id(schema)),
        partition_columns=tuple(partition_columns),
        protected_columns=tuple(protected_columns),
        nulls_checked=nulls_checked,
        new_name=new_name,
    )
    problems = []
    for change in changes:
        try:
            work.apply(change)
        except SchemaError as error:
            problems.append(str(error))
    raise_problems("the schema cannot be changed so", problems)
    return Evolved(
        work.schema,
        work.mapping,
        work.max_column_id if work.mapping else max_column_id,
        work.widened,
        turn_on,
        work.partition_columns,
        work.protected_columns,
        work.renamed,
    )


@dataclass(slots=True)
class _Evolution:
    """The schema between two changes. A change that fails leaves it as it was."""

    schema: Struct
    mapping: bool
    max_column_id: int
    partition_columns: tuple[str, ...]
    protected_columns: tuple[str, ...]
    nulls_checked: bool
    new_name: Callable[[], str]
    widened: bool = False
    renamed: dict[str, str] = field(default_factory=dict)

    def apply(self, change: Change) -> None:
        match change:
            case AddColumn():
                self._add(change)
            case DropColumn():
                self._drop(change)
            case RenameColumn():
                self._rename(change)
            case MoveColumn():
                self._move(change)
            case WidenColumn():
                self._widen(change)
            case SetNullable():
                self._set_nullable(change)
            case SetComment():
                self._set_comment(change)

    def _add(self, change: AddColumn) -> None:
        *above, name = parse_path(change.path)
        parent, struct = self._struct_at(tuple(above), name)
        path = (*parent, name)
        if not change.nullable:
            raise SchemaError(
                f"column {format_path(path)} cannot be added as NOT NULL, the rows there are have no value for it",
                fix="add it as nullable, fill it, then set it NOT NULL",
            )
        _check_new_name(struct, name, parent)
        position = _position(struct, change.after, change.first, default=len(struct))
        raise_problems(f"add column {format_path(path)}", list(type_problems(change.type, path)))
        column = Field(name, change.type, metadata={} if change.comment is None else {COMMENT: change.comment})
        added = comments_only(Struct((column,)))
        if self.mapping:
            added, self.max_column_id = map_new_fields(added, self.max_column_id, self.new_name)

        def insert(s: Struct) -> Struct:
            return Struct((*s.fields[:position], *added.fields, *s.fields[position:]))

        self.schema = edit_struct(self.schema, parent, insert)

    def _drop(self, change: DropColumn) -> None:
        path, _ = resolve(self.schema, change.path)
        place = f"column {format_path(path)}"
        parent, struct = self._parent_of(path, "dropped")
        if path[0] in self.partition_columns:
            raise SchemaError(
                f"{place} cannot be dropped, the table is partitioned by it", fix="write a new table without it"
            )
        if path[0] in self.protected_columns:
            raise SchemaError(f"{place} cannot be dropped, it is a key or the table depends on it")
        left = tuple(f for f in struct if f.name != path[-1])
        if not left or (not parent and all(f.name in self.partition_columns for f in left)):
            if parent:
                raise SchemaError(f"{place} cannot be dropped, its struct has no other", fix="drop the whole struct")
            raise SchemaError(
                f"{place} cannot be dropped, a table needs a column besides its partition columns",
                fix="add another column first, or drop the table",
            )
        self.schema = edit_struct(self.schema, parent, lambda s: Struct(left))

    def _rename(self, change: RenameColumn) -> None:
        path, column = resolve(self.schema, change.path)
        parent, struct = self._parent_of(path, "renamed")
        old, new = path[-1], change.new_name
        if new == old:
            return
        others = Struct(tuple(f for f in struct if f is not column))
        _check_new_name(others, new, parent)
        self.schema = edit_at(self.schema, path, lambda f: replace(f, name=new))
        if not parent:
            first = next((was for was, now in self.renamed.items() if now == old), old)
            self.renamed[first] = new
            self.partition_columns = tuple(new if c == old else c for c in self.partition_columns)
            self.protected_columns = tuple(new if c == old else c for c in self.protected_columns)

    def _move(self, change: MoveColumn) -> None:
        path, column = resolve(self.schema, change.path)
        parent, struct = self._parent_of(path, "moved")
        if change.first == (change.after is not None):
            raise SchemaError(f"column {format_path(path)}: say where it goes", expected="first or after, one of both")
        others = Struct(tuple(f for f in struct if f is not column))
        at = _position(others, change.after, change.first, default=len(others))
        self.schema = edit_struct(
            self.schema, parent, lambda s: Struct((*others.fields[:at], column, *others.fields[at:]))
        )

    def _widen(self, change: WidenColumn) -> None:
        path, column = resolve(self.schema, change.path)
        old, new = column.type, change.type
        if old == new:
            return
        self._check_widening(path, old, new)
        # The history belongs to the nearest struct field; what is below it is named by fieldPath.
        owner = path
        while not is_struct_member(self.schema, owner):
            owner = owner[:-1]
        entry = {"fromType": type_to_delta(old), "toType": type_to_delta(new)}
        if owner != path:
            entry["fieldPath"] = ".".join(path[len(owner) :])

        def record(f: Field) -> Field:
            return f.with_metadata(**{TYPE_CHANGES: [*f.metadata.get(TYPE_CHANGES, ()), entry]})

        schema = edit_at(self.schema, path, lambda f: replace(f, type=new))
        self.schema = edit_at(schema, owner, record)
        self.widened = True

    def _check_widening(self, path: Path, old: Type, new: Type) -> None:
        place = f"column {format_path(path)}"
        if isinstance(old, Struct | Array | Map):
            raise SchemaError(
                f"{place} is a {type_ddl(old)}", fix="name the part to widen, such as tags.element or addr.street"
            )
        raise_problems("widen", list(type_problems(new, path)))
        if not can_widen(old, new):
            raise SchemaError(f"{place} cannot become {type_ddl(new)}", expected=wider_types(old), found=type_ddl(old))
        if path[0] in self.protected_columns:
            raise SchemaError(f"{place} cannot be widened, it is a key or the table depends on its type")
        # The text of a partition value must stay that of its equals: 7 and 7.0 would be two partitions.
        if path[0] in self.partition_columns and not is_integer(new):
            raise SchemaError(
                f"{place} is a partition column and cannot become {type_ddl(new)}", expected="a wider integer"
            )

    def _set_nullable(self, change: SetNullable) -> None:
        path, column = resolve(self.schema, change.path)
        place = f"column {format_path(path)}"
        if change.nullable == column.nullable:
            return
        if change.nullable:
            if self._is_key(path):
                raise SchemaError(f"{place} is a map key, which is never null")
            if path[0] in self.protected_columns:
                raise SchemaError(f"{place} cannot become nullable, it is a key or the table depends on it")
        elif not self.nulls_checked:
            raise SchemaError(
                f"{place} cannot become NOT NULL unless the rows are known to have no null in it",
                fix="let the table's alter check them",
            )
        self.schema = edit_at(self.schema, path, lambda f: replace(f, nullable=change.nullable))

    def _is_key(self, path: Path) -> bool:
        above = resolve(self.schema, path[:-1])[1].type if len(path) > 1 else self.schema
        return isinstance(above, Map) and path[-1] == "key"

    def _set_comment(self, change: SetComment) -> None:
        path, _ = resolve(self.schema, change.path)
        self._parent_of(path, "commented on")
        self.schema = edit_at(self.schema, path, lambda f: f.with_metadata(**{COMMENT: change.comment}))

    def _parent_of(self, path: Path, verb: str) -> tuple[Path, Struct]:
        if not is_struct_member(self.schema, path):
            raise SchemaError(
                f"column {format_path(path)} is part of an array or map and cannot be {verb} alone",
                fix=f"name the column {format_path(path[:-1])}",
            )
        return self._struct_at(path[:-1], path[-1])

    def _struct_at(self, path: AnyPath, name: str) -> tuple[Path, Struct]:
        """The struct that has, or gets, a member of that name."""
        if not path:
            return (), self.schema
        full, column = resolve(self.schema, path)
        kind = column.type
        if isinstance(kind, Struct):
            return full, kind
        inner = kind.element if isinstance(kind, Array) else kind.value if isinstance(kind, Map) else None
        step = "element" if isinstance(kind, Array) else "value"
        raise SchemaError(
            f"column {format_path(full)} is a {type_ddl(kind)} and has no member {name!r}",
            fix=f"use {format_path((*full, step, name))}" if isinstance(inner, Struct) else None,
        )


def _check_new_name(struct: Struct, name: str, parent: Path) -> None:
    place = f"column {format_path((*parent, name))}"
    if not name.strip():
        raise SchemaError("a column cannot have an empty name")
    taken = next((f.name for f in struct if f.name.casefold() == name.casefold()), None)
    if taken is not None:
        raise SchemaError(f"{place} is there already", found=repr(taken), fix="choose another name")
    problem = None if parent else reserved_name_problem(name)
    if problem is not None:
        raise SchemaError(problem)


def _position(struct: Struct, after: str | None, first: bool, *, default: int) -> int:
    if first:
        return 0
    if after is None:
        return default
    neighbour = struct.find(after)
    if neighbour is None:
        raise SchemaError(f"there is no column {after!r} to come after", fix=did_you_mean(after, struct.names))
    return struct.names.index(neighbour.name) + 1
