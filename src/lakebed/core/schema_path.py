"""Where a column is: the names from the root, such as ``addr.street`` or ``tags.element``.

Below an array the next name is ``element``; below a map it is ``key`` or ``value``. A name that is no
plain word stands in backticks, with a backtick in it doubled.

>>> parse_path("addr.`zip.code`")
('addr', 'zip.code')
>>> format_path(("addr", "zip.code"))
'addr.`zip.code`'
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TypeAlias

from lakebed.core import suggest
from lakebed.core.errors import SchemaError
from lakebed.core.schema import Array, Field, Map, Struct, Type

Path: TypeAlias = tuple[str, ...]

ELEMENT = "element"
KEY = "key"
VALUE = "value"

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_STEP = re.compile(r"`((?:[^`]|``)+)`|([^`.]+)")


def parse_path(path: str | Iterable[str]) -> Path:
    """The names of a path that is given as dotted text or as names. Raises ``SchemaError``."""
    if not isinstance(path, str):
        return tuple(path)
    names: list[str] = []
    at = 0
    while True:
        step = _STEP.match(path, at)
        if step is None:
            break
        quoted, plain = step.groups()
        names.append(quoted.replace("``", "`") if quoted is not None else plain)
        at = step.end()
        if at == len(path):
            return tuple(names)
        if path[at] != ".":
            break
        at += 1
    raise SchemaError(
        f"column path {path!r} cannot be read at character {at + 1}",
        expected="names separated by dots",
        fix="put names with dots or backticks in backticks, as in addr.`zip.code`",
    )


def quote_name(name: str) -> str:
    """The name as SQL and paths write it: in backticks unless it is a plain word.

    >>> quote_name("id"), quote_name("unit price")
    ('id', '`unit price`')
    """
    return name if _PLAIN.fullmatch(name) else "`" + name.replace("`", "``") + "`"


def format_path(path: Iterable[str]) -> str:
    """The path as dotted text that ``parse_path`` reads."""
    return ".".join(map(quote_name, path))


def members(kind: Type) -> tuple[Field, ...]:
    """What is directly below a type, each with its name in a path and whether it may be null.

    >>> from lakebed.core.schema import STRING
    >>> members(Array(STRING, contains_null=False))
    (Field(name='element', type=Primitive(name='string'), nullable=False, metadata={}),)
    """
    if isinstance(kind, Struct):
        return kind.fields
    if isinstance(kind, Array):
        return (Field(ELEMENT, kind.element, kind.contains_null),)
    if isinstance(kind, Map):
        return (Field(KEY, kind.key, nullable=False), Field(VALUE, kind.value, kind.value_contains_null))
    return ()


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A hint with the names that ``name`` may have meant, or the names there are.

    >>> did_you_mean("amout", ["id", "amount"])
    "did you mean 'amount'?"
    """
    names = list(known)
    near = suggest.did_you_mean(name, names, most=3)
    if near is not None:
        return near
    listed = ", ".join(names[:20]) + (", …" if len(names) > 20 else "")
    return f"there is {listed}" if names else "there are no columns"
