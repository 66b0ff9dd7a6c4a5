"""Delta type widening: which column types may become which without a rewrite of data files."""

from __future__ import annotations

from dataclasses import replace

from lakebed.core.schema import (
    BYTE,
    DATE,
    DOUBLE,
    FLOAT,
    INTEGER,
    LONG,
    SHORT,
    TIMESTAMP_NTZ,
    Array,
    Decimal,
    Map,
    Struct,
    Type,
)
from lakebed.core.schema_ddl import type_ddl

_INTEGERS: tuple[Type, ...] = (BYTE, SHORT, INTEGER, LONG)
_WIDER: dict[Type, tuple[Type, ...]] = {
    BYTE: (SHORT, INTEGER, LONG, DOUBLE),
    SHORT: (INTEGER, LONG, DOUBLE),
    INTEGER: (LONG, DOUBLE),
    FLOAT: (DOUBLE,),
    DATE: (TIMESTAMP_NTZ,),
}
# The decimal that holds every value; the protocol counts 10 digits for all integers below LONG.
_AS_DECIMAL: dict[Type, Decimal] = {
    BYTE: Decimal(10, 0),
    SHORT: Decimal(10, 0),
    INTEGER: Decimal(10, 0),
    LONG: Decimal(20, 0),
}


def can_widen(old: Type, new: Type) -> bool:
    """Whether the Delta protocol lets a column of one type become the other.

    >>> can_widen(INTEGER, LONG), can_widen(LONG, DOUBLE), can_widen(Decimal(10, 1), Decimal(11, 3))
    (True, False, False)
    """
    if new in _WIDER.get(old, ()):
        return True
    start = old if isinstance(old, Decimal) else _AS_DECIMAL.get(old)
    if start is None or not isinstance(new, Decimal) or new == old:
        return False
    return bool(new.precision - start.precision >= new.scale - start.scale >= 0)


def is_integer(kind: Type) -> bool:
    """Whether the type is a whole number of 8 to 64 bits."""
    return kind in _INTEGERS


def wider_types(old: Type) -> str:
    """What a column of the type can become, for messages.

    >>> wider_types(INTEGER)
    'BIGINT, DOUBLE, or DECIMAL(p,s) with p - s >= 10'
    >>> wider_types(LONG), wider_types(DOUBLE)
    ('DECIMAL(p,s) with p - s >= 20', 'nothing wider')
    """
    names = ", ".join(type_ddl(kind) for kind in _WIDER.get(old, ()))
    decimal = ""
    if isinstance(old, Decimal):
        decimal = f"DECIMAL(p,s) with s >= {old.scale} and p - s >= {old.precision - old.scale}"
    elif old in _AS_DECIMAL:
        decimal = f"DECIMAL(p,s) with p - s >= {_AS_DECIMAL[old].precision}"
    return ", or ".join(part for part in (names, decimal) if part) or "nothing wider"


def widened_to_hold(table: Type, incoming: Type) -> Type | None:
    """The type that a column takes on by itself so that incoming values fit, or None if there is none.

    As in Delta, integers do not become decimals or doubles by themselves: nobody would expect it of a write.

    >>> widened_to_hold(INTEGER, LONG)
    Primitive(name='long')
    >>> widened_to_hold(Decimal(10, 2), Decimal(8, 4))
    Decimal(precision=12, scale=4)
    >>> widened_to_hold(INTEGER, DOUBLE) is None
    True
    """
    if isinstance(table, Decimal) and isinstance(incoming, Decimal):
        scale = max(table.scale, incoming.scale)
        whole = max(table.precision - table.scale, incoming.precision - incoming.scale)
        wider = Decimal(whole + scale, scale)
        return wider if wider.precision <= 38 and wider != table else None
    if is_integer(table) and not is_integer(incoming):
        return None
    return incoming if can_widen(table, incoming) else None


def as_wide_as(now: Struct, then: Struct) -> Struct:
    """The columns of ``now``, in types that hold what they held ``then``, at any level. They are the same columns if
    their physical names are.

    >>> from lakebed.core.schema_ddl import from_ddl
    >>> seen = as_wide_as(from_ddl("a INT, b FLOAT, c ARRAY<INT>"), from_ddl("b DOUBLE, c ARRAY<BIGINT>, a INT"))
    >>> [type_ddl(field.type) for field in seen]
    ['INT', 'DOUBLE', 'ARRAY<BIGINT>']
    """
    known = {field.physical_name: field.type for field in then}
    return Struct(tuple(replace(f, type=_wider(f.type, known.get(f.physical_name, f.type))) for f in now))


def _wider(now: Type, then: Type) -> Type:
    if isinstance(now, Struct) and isinstance(then, Struct):
        return as_wide_as(now, then)
    if isinstance(now, Array) and isinstance(then, Array):
        return replace(now, element=_wider(now.element, then.element))
    if isinstance(now, Map) and isinstance(then, Map):
        return replace(now, key=_wider(now.key, then.key), value=_wider(now.value, then.value))
    if isinstance(now, Decimal) and isinstance(then, Decimal):
        return widened_to_hold(now, then) or now
    return then if can_widen(now, then) else now
