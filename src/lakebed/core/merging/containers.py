"""Steps of collections, on values as Arrow hands them to Python: arrays and nested tables are lists, maps are pairs.

Order is kept where Paimon leaves it open: what is there keeps its place, what is new comes behind.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable
from typing import Any

Values = list[Any]
Pairs = list[tuple[Any, Any]]
Rows = list[dict[str, Any] | None]


def identity(value: Any) -> Hashable:
    """What tells a value from others; NaN is one value, and 1 is not true.

    >>> identity({"a": [1]}) == identity({"a": [1]}), identity(float("nan")) == identity(float("nan"))
    (True, True)
    """
    if isinstance(value, dict):
        return ("struct", *((name, identity(member)) for name, member in value.items()))
    if isinstance(value, (list, tuple)):
        return ("list", *(identity(member) for member in value))
    if isinstance(value, float) and math.isnan(value):
        return ("nan",)
    return value.__class__.__name__, value


def appended(distinct: bool) -> Callable[[Values | None, Values | None], Values | None]:
    """collect: the elements of both, each once if they are to be distinct.

    >>> appended(True)(["a"], ["b", "a"])
    ['a', 'b']
    """

    def add(before: Values | None, value: Values | None) -> Values | None:
        if before is None and value is None:
            return None
        return [*(before or []), *(value or [])]

    def add_distinct(before: Values | None, value: Values | None) -> Values | None:
        if before is None and value is None:
            return None
        elements: dict[Hashable, Any] = {}
        for element in (*(before or []), *(value or [])):
            elements.setdefault(identity(element), element)
        return list(elements.values())

    return add_distinct if distinct else add


def without(before: Values | None, value: Values | None) -> Values | None:
    """collect: the elements that are not taken back, each as often as it was not.

    >>> without(["a", "b", "a"], ["a"])
    ['b', 'a']
    """
    if before is None or value is None:
        return before
    gone = Counter(identity(element) for element in value)
    kept = []
    for element in before:
        if gone[identity(element)] > 0:
            gone[identity(element)] -= 1
        else:
            kept.append(element)
    return kept


def joined(delimiter: str) -> Callable[[str | None, str | None], str | None]:
    """listagg of distinct parts: what is there stays as it is, parts that are not in it come behind.

    >>> joined(",")("a,b", "b,c")
    'a,b,c'
    """

    def add(before: str | None, value: str | None) -> str | None:
        if not before or not value:
            return value if before is None or (before == "" and value is not None) else before
        seen = set(before.split(delimiter))
        parts = [before]
        for part in value.split(delimiter):
            if part and part not in seen:
                seen.add(part)
                parts.append(part)
        return delimiter.join(parts)

    return add


def map_with(before: Pairs | None, value: Pairs | None) -> Pairs | None:
    """merge_map: the entries of both; the later value of a key wins.

    >>> map_with([("a", 1), ("b", 2)], [("a", 3)])
    [('a', 3), ('b', 2)]
    """
    if before is None or value is None:
        return value if before is None else before
    entries = {identity(key): (key, item) for key, item in before}
    entries.update({identity(key): (key, item) for key, item in value})
    return list(entries.values())


def map_without(before: Pairs | None, value: Pairs | None) -> Pairs | None:
    """merge_map: the entries whose key is not taken back.

    >>> map_without([("a", 1), ("b", 2)], [("a", 9)])
    [('b', 2)]
    """
    if before is None or value is None:
        return before
    gone = {identity(key) for key, _ in value}
    return [(key, item) for key, item in before if identity(key) not in gone]


def rows_with(key: tuple[str, ...], limit: int | None) -> Callable[[Rows | None, Rows | None], Rows | None]:
    """nested_update: the rows of both; with a key, the later row of a key takes the place of the earlier.

    >>> rows_with(("id",), None)([{"id": 1, "n": 1}], [{"id": 1, "n": 2}, {"id": 2, "n": 3}])
    [{'id': 1, 'n': 2}, {'id': 2, 'n': 3}]
    """

    def add(before: Rows | None, value: Rows | None) -> Rows | None:
        if before is None and value is None:
            return None
        rows: dict[Hashable, dict[str, Any] | None] = {}
        both = (*(before or []), *(value or []))
        for number, row in enumerate(row for row in both if row is not None):
            name = _key_of(row, key) if key else number
            if name in rows or limit is None or len(rows) < limit:
                rows[name] = row
        return list(rows.values())

    return add


def rows_without(key: tuple[str, ...]) -> Callable[[Rows | None, Rows | None], Rows | None]:
    """nested_update: the rows that are not taken back, told by their key or by all they say.

    >>> rows_without(("id",))([{"id": 1, "n": 2}, {"id": 2, "n": 3}], [{"id": 1, "n": None}])
    [{'id': 2, 'n': 3}]
    """

    def take(before: Rows | None, value: Rows | None) -> Rows | None:
        if before is None or value is None:
            return before
        gone = {_key_of(row, key) for row in value if row is not None}
        return [row for row in before if row is not None and _key_of(row, key) not in gone]

    return take


def _key_of(row: dict[str, Any], key: tuple[str, ...]) -> Hashable:
    return tuple(identity(row[name]) for name in key) if key else identity(row)
