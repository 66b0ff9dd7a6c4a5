"""The aggregate functions of columns: which types they take, and what they can do with a row that is taken back."""

from __future__ import annotations

from enum import StrEnum

from lakebed.core.schema import (
    BINARY,
    BOOLEAN,
    BYTE,
    DATE,
    DOUBLE,
    FLOAT,
    INTEGER,
    LONG,
    SHORT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    Array,
    Decimal,
    Map,
    Primitive,
    Struct,
    Type,
)


class Function(StrEnum):
    """An aggregate function, by the name that Paimon gives it."""

    SUM = "sum"
    PRODUCT = "product"
    COUNT = "count"
    MIN = "min"
    MAX = "max"
    FIRST_VALUE = "first_value"
    LAST_VALUE = "last_value"
    FIRST_NON_NULL_VALUE = "first_non_null_value"
    LAST_NON_NULL_VALUE = "last_non_null_value"
    BOOL_AND = "bool_and"
    BOOL_OR = "bool_or"
    LISTAGG = "listagg"
    COLLECT = "collect"
    MERGE_MAP = "merge_map"
    NESTED_UPDATE = "nested_update"
    HLL_SKETCH = "hll_sketch"
    THETA_SKETCH = "theta_sketch"


RETRACTABLE = frozenset(
    {
        Function.SUM, Function.PRODUCT, Function.COUNT, Function.COLLECT, Function.MERGE_MAP, Function.NESTED_UPDATE,
        Function.LAST_VALUE, Function.LAST_NON_NULL_VALUE,
    }
)  # fmt: skip
"""Functions that can take a row back."""

NULLED = frozenset({None, Function.LAST_VALUE, Function.LAST_NON_NULL_VALUE})
"""Functions after which nothing is left when a row is taken back: what was there before is not known any more."""

COMMUTES = frozenset({Function.SUM, Function.COUNT})
"""Functions that may take a row back before it was put; for the others there is nothing to take it back from."""

SKETCHES = frozenset({Function.HLL_SKETCH, Function.THETA_SKETCH})

WHOLE_NUMBERS = frozenset({BYTE, SHORT, INTEGER, LONG})
_NUMBERS = WHOLE_NUMBERS | {FLOAT, DOUBLE}
_INSTANTS = frozenset({DATE, TIMESTAMP, TIMESTAMP_NTZ})


def fits(function: Function, kind: Type) -> bool:
    """Whether the function can work on a column of this type.

    >>> fits(Function.SUM, STRING), fits(Function.MAX, STRING)
    (False, True)
    """
    if function in (Function.SUM, Function.PRODUCT):
        return is_number(kind)
    if function is Function.COUNT:
        return kind in (INTEGER, LONG)
    if function in (Function.MIN, Function.MAX):
        return is_comparable(kind) or kind == STRING
    if function in (Function.BOOL_AND, Function.BOOL_OR):
        return kind == BOOLEAN
    if function is Function.LISTAGG:
        return kind == STRING
    if function is Function.COLLECT:
        return isinstance(kind, Array)
    if function is Function.MERGE_MAP:
        return isinstance(kind, Map)
    if function is Function.NESTED_UPDATE:
        return isinstance(kind, Array) and isinstance(kind.element, Struct)
    return kind == BINARY if function in SKETCHES else True


def wanted(function: Function) -> str:
    """The types that the function takes, for a message.

    >>> wanted(Function.MERGE_MAP)
    'a map'
    """
    return _WANTED.get(function, "any type")


_WANTED = {
    Function.SUM: "a number",
    Function.PRODUCT: "a number",
    Function.COUNT: "int or bigint",
    Function.MIN: "a number, string, date or timestamp",
    Function.MAX: "a number, string, date or timestamp",
    Function.BOOL_AND: "boolean",
    Function.BOOL_OR: "boolean",
    Function.LISTAGG: "string",
    Function.COLLECT: "an array",
    Function.MERGE_MAP: "a map",
    Function.NESTED_UPDATE: "an array of structs",
    Function.HLL_SKETCH: "binary",
    Function.THETA_SKETCH: "binary",
}


def is_number(kind: Type) -> bool:
    """Whether the type is a number.

    >>> is_number(Decimal(10, 2)), is_number(DATE)
    (True, False)
    """
    return isinstance(kind, Decimal) or (isinstance(kind, Primitive) and kind in _NUMBERS)


def is_exact(kind: Type) -> bool:
    """Whether the type is a number that adds up to the same in any order.

    >>> is_exact(Decimal(10, 2)), is_exact(DOUBLE)
    (True, False)
    """
    return isinstance(kind, Decimal) or kind in WHOLE_NUMBERS


def is_comparable(kind: Type) -> bool:
    """Whether values of the type can order the rows of a sequence group.

    >>> is_comparable(DATE), is_comparable(STRING)
    (True, False)
    """
    return is_number(kind) or (isinstance(kind, Primitive) and kind in _INSTANTS)
