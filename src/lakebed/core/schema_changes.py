"""The changes that a schema can go through, as values.

A path is dotted text or a tuple of names: ``addr.street``, ``tags.element``, ``prices.value.amount``.

>>> from lakebed.core.schema import STRING
>>> AddColumn("addr.zip", STRING, comment="postal code").path
'addr.zip'
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from lakebed.core.schema import Type

AnyPath: TypeAlias = str | tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AddColumn:
    """Add a column, by default as the last of its struct; ``after`` names a neighbour."""

    path: AnyPath
    type: Type
    nullable: bool = True
    comment: str | None = None
    after: str | None = None
    first: bool = False


@dataclass(frozen=True, slots=True)
class DropColumn:
    """Take a column away. Its values stay in old data files, where nobody reads them."""

    path: AnyPath


@dataclass(frozen=True, slots=True)
class RenameColumn:
    """Give a column another name; it stays in its struct."""

    path: AnyPath
    new_name: str


@dataclass(frozen=True, slots=True)
class MoveColumn:
    """Put a column elsewhere in its struct: first, or after a neighbour."""

    path: AnyPath
    after: str | None = None
    first: bool = False


@dataclass(frozen=True, slots=True)
class WidenColumn:
    """Give a column, an array element, a map key or a map value a wider type."""

    path: AnyPath
    type: Type


@dataclass(frozen=True, slots=True)
class SetNullable:
    """Say whether a column, an array element or a map value may be null."""

    path: AnyPath
    nullable: bool


@dataclass(frozen=True, slots=True)
class SetComment:
    """Set or, with None, remove what is said of a column."""

    path: AnyPath
    comment: str | None


Change: TypeAlias = AddColumn | DropColumn | RenameColumn | MoveColumn | WidenColumn | SetNullable | SetComment
