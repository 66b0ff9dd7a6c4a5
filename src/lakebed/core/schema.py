"""The schema model: what a table's columns are, in the words of the open log.

A schema is a ``Struct``. All types are frozen and compare by value; ``Field.metadata`` carries the
open log's field metadata (comments, column mapping) and is never mutated.

>>> orders = Struct((Field("id", LONG, nullable=False), Field("tags", Array(STRING))))
>>> orders.names
('id', 'tags')
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

MAPPING_ID = "delta.columnMapping.id"
MAPPING_NAME = "delta.columnMapping.physicalName"
COMMENT = "comment"
TYPE_CHANGES = "delta.typeChanges"


@dataclass(frozen=True, slots=True)
class Primitive:
    """A type without parameters; ``name`` is the open log's name of it."""

    name: str


BYTE = Primitive("byte")
SHORT = Primitive("short")
INTEGER = Primitive("integer")
LONG = Primitive("long")
FLOAT = Primitive("float")
DOUBLE = Primitive("double")
BOOLEAN = Primitive("boolean")
STRING = Primitive("string")
BINARY = Primitive("binary")
DATE = Primitive("date")
TIMESTAMP = Primitive("timestamp")
TIMESTAMP_NTZ = Primitive("timestamp_ntz")

# A column of which nothing is known but nulls. It is met in data; a table never has one.
VOID = Primitive("void")

PRIMITIVES: Mapping[str, Primitive] = {
    t.name: t
    for t in (
        BYTE, SHORT, INTEGER, LONG, FLOAT, DOUBLE, BOOLEAN, STRING, BINARY, DATE, TIMESTAMP, TIMESTAMP_NTZ,
    )
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Decimal:
    """An exact number of ``precision`` digits, ``scale`` of them after the point."""

    precision: int
    scale: int


@dataclass(frozen=True, slots=True)
class Array:
    """A list of ``element``."""

    element: Type
    contains_null: bool = True


@dataclass(frozen=True, slots=True)
class Map:
    """A map; keys are never null."""

    key: Type
    value: Type
    value_contains_null: bool = True


@dataclass(frozen=True, slots=True)
class Struct:
    """A row of named fields; the schema of a table is one."""

    fields: tuple[Field, ...]
    # Made on first use: a table of thousands of columns is looked up by name once per column.
    _names: _Names | None = field(default=None, init=False, repr=False, compare=False)

    def __iter__(self) -> Iterator[Field]:
        return iter(self.fields)

    def __len__(self) -> int:
        return len(self.fields)

    def __contains__(self, name: object) -> bool:
        return name in self._lookup().exact

    def __getitem__(self, name: str) -> Field:
        return self._lookup().exact[name]

    def __reduce__(self) -> tuple[object, ...]:
        return Struct, (self.fields,)

    def _lookup(self) -> _Names:
        if self._names is None:
            object.__setattr__(self, "_names", _Names.of(self.fields))
        assert self._names is not None
        return self._names

    @property
    def names(self) -> tuple[str, ...]:
        """The logical names of the fields, in order."""
        return tuple(f.name for f in self.fields)

    def find(self, name: str) -> Field | None:
        """The field of that name: an exact match, else the only one that differs in case."""
        lookup = self._lookup()
        return lookup.exact.get(name) or lookup.folded.get(name.casefold())

    def select(self, names: tuple[str, ...] | list[str]) -> Struct:
        """The fields of these names, in that order."""
        return Struct(tuple(self[n] for n in names))


@dataclass(frozen=True, slots=True)
class _Names:
    """The fields by name, and by folded name where that name is the only one of its kind."""

    exact: dict[str, Field]
    folded: dict[str, Field]

    @staticmethod
    def of(fields: tuple[Field, ...]) -> _Names:
        exact: dict[str, Field] = {}
        folded: dict[str, Field] = {}
        ambiguous: set[str] = set()
        for f in fields:
            exact.setdefault(f.name, f)
            key = f.name.casefold()
            if key in folded:
                ambiguous.add(key)
            folded[key] = f
        for key in ambiguous:
            del folded[key]
        return _Names(exact, folded)


Type = Primitive | Decimal | Array | Map | Struct


@dataclass(frozen=True, slots=True)
class Field:
    """A named column or struct member."""

    name: str
    type: Type
    nullable: bool = True
    metadata: Mapping[str, Any] = field(default_factory=dict, hash=False)

    @property
    def physical_name(self) -> str:
        """The name in data files: it never changes, whatever the column is called now."""
        name = self.metadata.get(MAPPING_NAME, self.name)
        return str(name)

    @property
    def comment(self) -> str | None:
        """What a person said of the column."""
        text = self.metadata.get(COMMENT)
        return None if text is None else str(text)

    def with_metadata(self, **entries: Any) -> Field:
        """The same field with metadata entries set; a value of None removes an entry."""
        merged = {**self.metadata, **entries}
        return replace(self, metadata={k: v for k, v in merged.items() if v is not None})


def each_field(struct: Struct, change: Callable[[Field], Field]) -> Struct:
    """The struct with every field changed, at every level; a field comes before those below it.

    >>> lower = lambda f: replace(f, name=f.name.lower())
    >>> each_field(Struct((Field("A", Array(LONG)), Field("B", LONG))), lower).names
    ('a', 'b')
    """
    return Struct(tuple(_deep(change(f), change) for f in struct))


def _deep(column: Field, change: Callable[[Field], Field]) -> Field:
    return replace(column, type=_below(column.type, change))


def _below(kind: Type, change: Callable[[Field], Field]) -> Type:
    if isinstance(kind, Struct):
        return each_field(kind, change)
    if isinstance(kind, Array):
        return replace(kind, element=_below(kind.element, change))
    if isinstance(kind, Map):
        return replace(kind, key=_below(kind.key, change), value=_below(kind.value, change))
    return kind
