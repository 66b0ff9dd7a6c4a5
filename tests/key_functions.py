"""Aggregate functions of the key model, one value at a time, as Paimon documents them.

A function folds values into an accumulator (``add``), takes a value back (``retract``), and puts an accumulator of
older rows under one of newer rows (``join``), which is what a late row needs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

NOTHING: Any = type("Nothing", (), {"__repr__": lambda self: "NOTHING"})()
"""No row so far: unlike a null, which a row may have brought."""


class Refused(Exception):
    """The table must refuse this write."""


@dataclass(frozen=True)
class Function:
    """One aggregate function with its settings for one column."""

    name: str
    ignore_retract: bool = False
    delimiter: str = ","
    distinct: bool = False
    nested_key: tuple[str, ...] = ()

    def add(self, sofar: Any, value: Any) -> Any:
        """``sofar`` with one more value."""
        if self.name == "first_value":
            return value if sofar is NOTHING else sofar
        sofar = None if sofar is NOTHING else sofar
        if self.name == "count":
            return (sofar or 0) + (value is not None)
        return self.join(sofar, self._one(value))

    def retract(self, sofar: Any, value: Any) -> Any:
        """``sofar`` with one value less. Raises Refused if the function cannot do that."""
        sofar = None if sofar is NOTHING else sofar
        if self.ignore_retract:
            return sofar
        if self.name not in _RETRACT:
            raise Refused(f"{self.name} cannot retract")
        return _RETRACT[self.name](self, sofar, value)

    def join(self, older: Any, newer: Any) -> Any:
        """The accumulator of both, where every row of ``newer`` comes after every row of ``older``."""
        if self.name in ("first_value", "last_value"):
            return older if self.name == "first_value" else newer
        if older is None or newer is None:
            return newer if older is None else older
        return _JOIN[self.name](self, older, newer)

    def _one(self, value: Any) -> Any:
        """The accumulator of a single value."""
        if value is None:
            return None
        if self.name == "collect" and self.distinct:
            return _distinct(value)
        if self.name == "nested_update":
            return self._nested([], value)
        if self.name == "merge_map":
            return dict(value)
        return value

    def _listed(self, older: str, newer: str) -> str:
        if not newer.strip() or not older.strip():
            return newer if not older.strip() and newer.strip() else older
        if not self.distinct:
            return older + self.delimiter + newer
        have = older.split(self.delimiter)
        fresh = [t for t in dict.fromkeys(newer.split(self.delimiter)) if t.strip() and t not in have]
        return self.delimiter.join([older, *fresh])

    def _nested(self, older: list[Any], newer: list[Any]) -> list[Any]:
        rows = [row for row in [*older, *newer] if row is not None]
        if not self.nested_key:
            return rows
        return list({self._nested_key(row): row for row in rows}.values())

    def _nested_key(self, row: dict[str, Any]) -> tuple[Any, ...]:
        return tuple(row[name] for name in self.nested_key)

    def _without_nested(self, sofar: Any, value: Any) -> Any:
        if sofar is None or value is None:
            return sofar
        if self.nested_key:
            gone = {self._nested_key(row) for row in value if row is not None}
            return [row for row in sofar if self._nested_key(row) not in gone]
        return [row for row in sofar if row not in value]


def _distinct(values: list[Any]) -> list[Any]:
    found: list[Any] = []
    for value in values:
        if value not in found:
            found.append(value)
    return found


def _collected(f: Function, older: list[Any], newer: list[Any]) -> list[Any]:
    return _distinct([*older, *newer]) if f.distinct else [*older, *newer]


def _without(f: Function, sofar: Any, value: Any) -> Any:
    """Each retracted element takes one equal element away."""
    if sofar is None or value is None:
        return sofar
    gone, kept = list(value), []
    for element in sofar:
        if element in gone:
            gone.remove(element)
        else:
            kept.append(element)
    return kept


def _without_keys(f: Function, sofar: Any, value: Any) -> Any:
    if sofar is None or value is None:
        return sofar
    return {key: v for key, v in sofar.items() if key not in dict(value)}


def _less(f: Function, sofar: Any, value: Any) -> Any:
    if value is None:
        return sofar
    return -value if sofar is None else sofar - value


_JOIN: dict[str, Callable[[Function, Any, Any], Any]] = {
    "sum": lambda f, a, b: a + b,
    "product": lambda f, a, b: a * b,
    "count": lambda f, a, b: a + b,
    "min": lambda f, a, b: min(a, b),
    "max": lambda f, a, b: max(a, b),
    "bool_and": lambda f, a, b: a and b,
    "bool_or": lambda f, a, b: a or b,
    "last_non_null_value": lambda f, a, b: b,
    "first_non_null_value": lambda f, a, b: a,
    "listagg": lambda f, a, b: f._listed(a, b),
    "collect": _collected,
    "merge_map": lambda f, a, b: {**a, **b},
    "nested_update": lambda f, a, b: f._nested(a, b),
}
_RETRACT: dict[str, Callable[[Function, Any, Any], Any]] = {
    "sum": _less,
    "product": lambda f, a, b: a if a is None or b is None else a / b,
    "count": lambda f, a, b: (a or 0) - (b is not None),
    "last_value": lambda f, a, b: None,
    "last_non_null_value": lambda f, a, b: a if b is None else None,
    "collect": _without,
    "merge_map": _without_keys,
    "nested_update": lambda f, a, b: f._without_nested(a, b),
}
