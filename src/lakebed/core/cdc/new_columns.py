"""Columns that messages have and a table has not: what type each would have."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import Decimal as Exact
from functools import reduce
from itertools import groupby
from typing import Any

from lakebed.core.cdc.change import Change
from lakebed.core.schema import BOOLEAN, DOUBLE, LONG, STRING, Struct, Type
from lakebed.core.widening import can_widen


def found_types(changes: Sequence[Change], columns: Struct) -> dict[str, Type]:
    """The type of each column that is not among ``columns``: as the message tells, else as its values are.

    A column of nulls, of which the messages say no more, is left out: there is nothing to be kept yet.

    >>> from lakebed.core.cdc.change import NOTHING
    >>> from lakebed.core.schema import Field
    >>> told = [Change("+I", {"id": 1, "n": n}, "", NOTHING) for n in (None, 1, Exact("1.5"))]
    >>> found_types(told, Struct((Field("id", LONG),)))
    {'n': Primitive(name='double')}
    """
    found = []
    for _, run in groupby(changes, key=lambda change: id(change.declared)):
        told = list(run)
        names = [name for name in set().union(*(change.image for change in told)) if columns.find(name) is None]
        kinds = {name: _kinds(name, told) for name in names}
        found.append({name: reduce(wider, sorted(kinds[name], key=repr)) for name in names if kinds[name]})
    return merged(found)


def _kinds(name: str, told: Sequence[Change]) -> set[Type]:
    declared = told[0].declared.get(name)
    if declared is not None and declared.type is not None:
        return {declared.type}
    return {kind for change in told if (kind := _type(change.image.get(name))) is not None}


def _type(value: Any) -> Type | None:
    if value is None:
        return None
    if isinstance(value, bool):
        return BOOLEAN
    if isinstance(value, int):
        return LONG if -(2**63) <= value < 2**63 else STRING
    return DOUBLE if isinstance(value, Exact) else STRING


def wider(one: Type | None, other: Type | None) -> Type:
    """The type that holds the values of both; text holds all.

    >>> wider(LONG, DOUBLE).name, wider(BOOLEAN, LONG).name
    ('double', 'string')
    """
    if one is None or other is None or one == other:
        found = other if one is None else one
        assert found is not None
        return found
    if {one, other} == {LONG, DOUBLE}:
        return DOUBLE
    if can_widen(one, other):
        return other
    return one if can_widen(other, one) else STRING


def merged(found: Iterable[dict[str, Type]]) -> dict[str, Type]:
    """What several parts of the messages have found, together, in the order of names."""
    known: dict[str, Type] = {}
    for part in found:
        for name, kind in part.items():
            known[name] = wider(known.get(name), kind)
    return dict(sorted(known.items()))
