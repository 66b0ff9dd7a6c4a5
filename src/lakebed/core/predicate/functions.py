"""The scalar functions of predicates: which arguments they take and what they give.

Each is computed by Arrow: case folding and character counts are by Unicode code point, temporal functions
are in UTC.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from lakebed.core.errors import PredicateError
from lakebed.core.predicate.coercion import convert, is_numeric
from lakebed.core.predicate.nodes import Function, Literal, Node
from lakebed.core.schema import BOOLEAN, DATE, INTEGER, STRING, TIMESTAMP, VOID, Type
from lakebed.core.schema_ddl import type_ddl
from lakebed.core.type_groups import FLOATS, TIMESTAMPS

_UNITS = ("year", "quarter", "month", "week", "day", "hour", "minute", "second")


@dataclass(frozen=True, slots=True)
class Signature:
    """One function: ``bind`` checks and converts the arguments, ``build`` makes the Arrow call.

    ``monotone`` says that a larger last argument never gives a smaller result, so bounds map to bounds.
    """

    bind: Callable[[Sequence[Node]], tuple[tuple[Node, ...], Type]]
    build: Callable[[Function, Sequence[pc.Expression]], pc.Expression]
    monotone: bool = False


def call(name: str, args: Sequence[Node]) -> Node:
    """A checked call of ``name``; raises PredicateError when the arguments do not fit.

    >>> call("lower", [Literal("A", STRING)]).type
    Primitive(name='string')
    """
    bound, kind = FUNCTIONS[name].bind(args)
    return Function(name, bound, kind)


def _fail(name: str, args: Sequence[Node], expected: str) -> PredicateError:
    found = ", ".join(type_ddl(a.type) for a in args)
    return PredicateError(f"function {name}", expected=expected, found=f"({found})")


def _text(name: str, result: Type) -> Callable[[Sequence[Node]], tuple[tuple[Node, ...], Type]]:
    def bind(args: Sequence[Node]) -> tuple[tuple[Node, ...], Type]:
        if len(args) != 1 or args[0].type not in (STRING, VOID):
            raise _fail(name, args, "one string")
        return (_typed(args[0], STRING),), result

    return bind


def _part(name: str) -> Callable[[Sequence[Node]], tuple[tuple[Node, ...], Type]]:
    def bind(args: Sequence[Node]) -> tuple[tuple[Node, ...], Type]:
        if len(args) != 1 or args[0].type not in (DATE, *TIMESTAMPS, STRING, VOID):
            raise _fail(name, args, "one date or timestamp")
        return (convert(args[0], DATE),), INTEGER

    return bind


def _typed(node: Node, kind: Type) -> Node:
    return Literal(None, kind) if node.type == VOID else node


def _bind_abs(args: Sequence[Node]) -> tuple[tuple[Node, ...], Type]:
    if len(args) != 1 or not is_numeric(args[0].type):
        raise _fail("abs", args, "one number")
    return (args[0],), args[0].type


def _bind_isnan(args: Sequence[Node]) -> tuple[tuple[Node, ...], Type]:
    if len(args) != 1 or args[0].type not in FLOATS:
        raise _fail("isnan", args, "one float or double")
    return (args[0],), BOOLEAN


def _bind_concat(args: Sequence[Node]) -> tuple[tuple[Node, ...], Type]:
    if not args or any(a.type not in (STRING, VOID) for a in args):
        raise _fail("concat", args, "strings")
    return tuple(_typed(a, STRING) for a in args), STRING


def _bind_substring(args: Sequence[Node]) -> tuple[tuple[Node, ...], Type]:
    numbers = args[1:]
    constant = all(isinstance(n, Literal) and isinstance(n.value, int) for n in numbers)
    if len(args) not in (2, 3) or args[0].type not in (STRING, VOID) or not constant:
        raise _fail("substring", args, "a string, a constant position and optionally a constant length")
    return (_typed(args[0], STRING), *(convert(n, INTEGER) for n in numbers)), STRING


def _bind_date_trunc(args: Sequence[Node]) -> tuple[tuple[Node, ...], Type]:
    unit = args[0]
    if len(args) != 2 or not isinstance(unit, Literal) or str(unit.value).lower() not in _UNITS:
        raise PredicateError("function date_trunc", expected=f"a constant unit: one of {', '.join(_UNITS)}")
    if args[1].type not in (DATE, *TIMESTAMPS, VOID):
        raise _fail("date_trunc", args, "a unit and a date or timestamp")
    value = args[1] if args[1].type in TIMESTAMPS else convert(args[1], TIMESTAMP)
    return (Literal(str(unit.value).lower(), STRING), value), value.type


def _build_substring(node: Function, args: Sequence[pc.Expression]) -> pc.Expression:
    numbers = [a.value for a in node.args[1:] if isinstance(a, Literal)]
    start = numbers[0] - 1 if numbers[0] > 0 else numbers[0]
    if len(numbers) == 1:
        return pc.utf8_slice_codeunits(args[0], start)
    if numbers[1] <= 0:
        return pc.utf8_slice_codeunits(args[0], 0, 0)
    stop = start + numbers[1]
    # A negative position counts from the end, where a stop of zero would mean the start.
    return pc.utf8_slice_codeunits(args[0], start, None if start < 0 <= stop else stop)


def _build_date_trunc(node: Function, args: Sequence[pc.Expression]) -> pc.Expression:
    unit = node.args[0]
    assert isinstance(unit, Literal)
    return pc.floor_temporal(args[1], unit=unit.value)


def _build_concat(_: Function, args: Sequence[pc.Expression]) -> pc.Expression:
    return pc.binary_join_element_wise(*args, pc.scalar(""), null_handling="emit_null")


FUNCTIONS: dict[str, Signature] = {
    "lower": Signature(_text("lower", STRING), lambda _, a: pc.utf8_lower(a[0])),
    "upper": Signature(_text("upper", STRING), lambda _, a: pc.utf8_upper(a[0])),
    "trim": Signature(_text("trim", STRING), lambda _, a: pc.utf8_trim(a[0], " ")),
    "length": Signature(_text("length", INTEGER), lambda _, a: pc.utf8_length(a[0])),
    "substring": Signature(_bind_substring, _build_substring),
    "concat": Signature(_bind_concat, _build_concat),
    "abs": Signature(_bind_abs, lambda _, a: pc.abs_checked(a[0])),
    "isnan": Signature(_bind_isnan, lambda _, a: pc.is_nan(a[0])),
    "year": Signature(_part("year"), lambda _, a: pc.year(a[0]).cast(pa.int32()), monotone=True),
    "month": Signature(_part("month"), lambda _, a: pc.month(a[0]).cast(pa.int32())),
    "day": Signature(_part("day"), lambda _, a: pc.day(a[0]).cast(pa.int32())),
    "date_trunc": Signature(_bind_date_trunc, _build_date_trunc, monotone=True),
}
