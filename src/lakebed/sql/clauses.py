"""Clauses that several statements share."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from lakebed.sql.cursor import Cursor


def if_not_exists(cursor: Cursor) -> bool:
    """Go past IF NOT EXISTS."""
    if cursor.take("IF"):
        cursor.need("NOT", "EXISTS")
        return True
    return False


def if_exists(cursor: Cursor) -> bool:
    """Go past IF EXISTS."""
    if cursor.take("IF"):
        cursor.need("EXISTS")
        return True
    return False


def properties(cursor: Cursor) -> dict[str, Any]:
    """Go past ``('key' = 'value', other.key = 5)``."""
    found: dict[str, Any] = {}

    def one() -> None:
        at = cursor.word
        key = property_key(cursor)
        if key in found and at is not None:
            raise cursor.error(at, f"the property {key!r} is set twice")
        cursor.take("=")
        found[key] = cursor.constant("the value of the property")

    cursor.listed(one)
    return found


def property_keys(cursor: Cursor) -> list[str]:
    """Go past ``('key', other.key)``."""
    return cursor.listed(lambda: property_key(cursor))


def property_key(cursor: Cursor) -> str:
    """Go past the name of a property: text, or words with dots and hyphens between them."""
    word = cursor.word
    if word is not None and word.spelled[:1] in ("'", '"'):
        return cursor.text("the name of a property")
    parts = [cursor.name("the name of a property")]
    while cursor.sees(".|-"):
        parts.append("." if cursor.take(".") else "-")
        cursor.take("-")
        parts.append(cursor.name("the name of a property"))
    return "".join(parts)


def pattern_of(cursor: Cursor) -> str | None:
    """Go past ``[LIKE] 'pattern'``."""
    liked = cursor.take("LIKE")
    if cursor.at_end and not liked:
        return None
    return cursor.text("a pattern like 'ord*'")


def matching(names: Iterable[str], pattern: str | None) -> list[str]:
    """The names that match a pattern of Spark's: ``*`` and ``%`` for any letters, ``|`` for or, case does not count.

    >>> matching(["orders", "lines", "Order_log"], "ord*|x")
    ['orders', 'Order_log']
    """
    if pattern is None:
        return list(names)
    parts = [re.escape(part).replace(r"\*", ".*").replace("%", ".*").strip() for part in pattern.split("|")]
    test = re.compile("|".join(f"(?:{part})" for part in parts), re.IGNORECASE)
    return [name for name in names if test.fullmatch(name)]
