"""Arrow expressions to predicate nodes, with exactly the rows that Arrow would select.

What this module does not model stays an ``Opaque`` part that Arrow evaluates. Where Arrow's own conversion
of operands could differ from Lakebed's, the part is left to Arrow as well.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from lakebed.core.errors import InputError, PredicateError
from lakebed.core.predicate import like
from lakebed.core.predicate.arrow_wire import Call, Constant, FieldRef, Part, Wire, WireError, decode
from lakebed.core.predicate.casts import is_lossless
from lakebed.core.predicate.coercion import adapt, is_integer, is_numeric
from lakebed.core.predicate.nodes import (
    Arithmetic,
    Case,
    Cast,
    Coalesce,
    Compare,
    In,
    IsNull,
    Like,
    Literal,
    Negate,
    Node,
    Not,
    Opaque,
    conjunction,
    disjunction,
    walk,
)
from lakebed.core.predicate.resolve import resolve
from lakebed.core.schema import BOOLEAN, DOUBLE, LONG, STRING, VOID, Decimal, Primitive, Struct, Type
from lakebed.core.schema_arrow import to_arrow, type_from_arrow
from lakebed.core.type_groups import FLOATS, TIMESTAMPS

_COMPARE = {
    "equal": "=", "not_equal": "<>", "less": "<", "less_equal": "<=", "greater": ">", "greater_equal": ">=",
}  # fmt: skip
_ARITHMETIC = {"add_checked": "+", "subtract_checked": "-", "multiply_checked": "*"}
# The values of Arrow's SetLookupOptions.NullMatchingBehavior.
_MATCH, _SKIP, _EMIT_NULL, _INCONCLUSIVE = range(4)


class _UnmodelledError(Exception):
    """A part of the expression that only Arrow understands."""


def parse_arrow(expression: pc.Expression, schema: Struct) -> Node:
    """The node that the expression means for rows of ``schema``; raises PredicateError if Arrow cannot bind it.

    >>> from lakebed.core.schema import Field
    >>> parse_arrow(pc.field("n").is_null(), Struct((Field("n", LONG),)))
    IsNull(operand=Column(path=('n',), type=Primitive(name='long')))
    """
    if "FieldPath(" in str(expression):
        raise PredicateError(f"{expression} refers to a column by position", fix="refer to columns by name")
    try:
        wire = decode(expression)
    except WireError:
        # A later Arrow may serialise differently: lose the pruning, not the meaning.
        _check(expression, schema)
        return Opaque(expression, frozenset(schema.names))
    _resolve_all(wire.root, schema)
    node = _Decoder(wire, schema).condition(wire.root, positive=True)
    if any(isinstance(part, Opaque) for part in walk(node)):
        _check(expression, schema)
    return node


def _check(expression: pc.Expression, schema: Struct) -> None:
    try:
        to_arrow(schema).empty_table().filter(expression)
    except (pa.ArrowException, TypeError, KeyError) as error:
        raise PredicateError(f"{expression} is no condition on these columns: {error}") from error


def _resolve_all(part: Part, schema: Struct) -> None:
    if isinstance(part, FieldRef):
        resolve(part.path, schema, exact=True)
    elif isinstance(part, Call):
        for arg in part.args:
            _resolve_all(arg, schema)


def _reads(part: Part) -> frozenset[str]:
    if isinstance(part, FieldRef):
        return frozenset({part.path[0]})
    return frozenset().union(*map(_reads, part.args)) if isinstance(part, Call) else frozenset()


class _Decoder:
    def __init__(self, wire: Wire, schema: Struct) -> None:
        self._wire = wire
        self._schema = schema

    def condition(self, part: Part, *, positive: bool = False) -> Node:
        """The node of a boolean part. ``positive``: only whether it is TRUE matters, not FALSE against NULL."""
        if isinstance(part, Call):
            if part.name in ("and_kleene", "or_kleene"):
                join = conjunction if part.name == "and_kleene" else disjunction
                return join(*(self.condition(a, positive=positive) for a in part.args))
            if part.name in ("and", "and_") and positive:
                # Arrow's plain `and` is NULL where Kleene's is FALSE, but TRUE for the same rows.
                return conjunction(*(self.condition(a, positive=True) for a in part.args))
            if part.name == "invert":
                return Not(self.condition(part.args[0]))
        try:
            node = self.value(part)
            if node.type == VOID:
                return Literal(None, BOOLEAN)
            if node.type == BOOLEAN:
                return node
        except (_UnmodelledError, InputError):
            # Not ours to judge: Arrow evaluates it, and says at the end whether it can.
            pass
        try:
            return Opaque(self._wire.cut(part), _reads(part))
        except WireError as error:
            raise PredicateError(f"a part of the Arrow expression cannot be read: {part}") from error

    def value(self, part: Part) -> Node:
        """The node of a part of any type; raises _UnmodelledError."""
        if isinstance(part, FieldRef):
            return resolve(part.path, self._schema, exact=True)
        if isinstance(part, Constant):
            return _literal(part.value)
        if part.name in _COMPARE:
            return self._compare(part)
        if part.name in _ARITHMETIC or part.name == "divide_checked":
            return self._arithmetic(part)
        if part.name in ("and_kleene", "or_kleene", "invert"):
            return self.condition(part)
        rule = _RULES.get(part.name)
        if rule is None:
            raise _UnmodelledError(part.name)
        return rule(self, part)

    def pair(self, part: Call) -> tuple[Node, Node]:
        """Two operands of one type, without a conversion that Arrow might do in another way."""
        left, right = self.value(part.args[0]), self.value(part.args[1])
        return self.same(left, right)

    def same(self, left: Node, right: Node) -> tuple[Node, Node]:
        if left.type == right.type and left.type != VOID:
            return left, right
        if isinstance(right, Literal) and (adapted := _exactly(right, left.type)) is not None:
            return left, adapted
        if isinstance(left, Literal) and (adapted := _exactly(left, right.type)) is not None:
            return adapted, right
        raise _UnmodelledError("operands of two types")

    def _compare(self, part: Call) -> Node:
        return Compare(_COMPARE[part.name], *self.pair(part))

    def _arithmetic(self, part: Call) -> Node:
        left, right = self.value(part.args[0]), self.value(part.args[1])
        if left.type != right.type:
            # Arrow may widen the column or narrow the literal: the overflow would differ.
            raise _UnmodelledError("operands of two types")
        if part.name == "divide_checked":
            if left.type not in (LONG, DOUBLE):
                raise _UnmodelledError("division")
            return Arithmetic("div" if left.type == LONG else "/", left, right)
        if not is_integer(left.type) and left.type not in FLOATS:
            raise _UnmodelledError("decimal arithmetic")
        return Arithmetic(_ARITHMETIC[part.name], left, right)


def _literal(value: pa.Scalar) -> Literal:
    kind = type_from_arrow(value.type, void=True)
    if not isinstance(kind, Primitive | Decimal):
        raise _UnmodelledError("a nested literal")
    if kind in TIMESTAMPS:
        return _moment(value, kind)
    return Literal(value.as_py(), kind)


def _moment(value: pa.Scalar, kind: Type) -> Literal:
    try:
        moment = value.cast(pa.timestamp("us", value.type.tz)).as_py()
    except (pa.ArrowInvalid, ValueError, OverflowError) as error:
        raise _UnmodelledError("a moment that Python cannot hold") from error
    return Literal(moment.astimezone(dt.UTC) if moment is not None and moment.tzinfo else moment, kind)


def _exactly(literal: Literal, kind: Type) -> Literal | None:
    """The literal as ``kind`` where only one result is possible, whoever converts."""
    if literal.type == VOID:
        return Literal(None, kind)
    if not (is_numeric(literal.type) and is_numeric(kind)):
        return None
    adapted = adapt(literal, kind)
    return adapted if adapted is not None and adapted.value == literal.value else None


def _is_null(decoder: _Decoder, part: Call) -> Node:
    operand = decoder.value(part.args[0])
    if part.options and part.options["nan_is_null"].as_py() and operand.type in FLOATS:
        raise _UnmodelledError("nan_is_null")
    return IsNull(Literal(None, BOOLEAN) if operand.type == VOID else operand)


def _is_valid(decoder: _Decoder, part: Call) -> Node:
    return Not(_is_null(decoder, Call(part.name, part.args, None, part.span)))


def _is_in(decoder: _Decoder, part: Call) -> Node:
    operand = decoder.value(part.args[0])
    if part.options is None:
        raise _UnmodelledError("is_in without options")
    behaviour = part.options["null_matching_behavior"].as_py()
    listed = [_literal(v) for v in part.options["value_set"].values]
    values = [_exactly(v, operand.type) if v.type != operand.type else v for v in listed]
    known = tuple(v for v in values if v is not None and v.value is not None)
    nulls = sum(1 for v in listed if v.value is None)
    if len(known) + nulls != len(listed) or any(_by_bits(v) for v in known):
        raise _UnmodelledError("is_in")
    found: Node = In(operand, known) if known else conjunction(IsNull(operand), Literal(None, BOOLEAN))
    if behaviour == _MATCH and nulls:
        return disjunction(IsNull(operand), found)
    if behaviour in (_MATCH, _SKIP):
        return conjunction(Not(IsNull(operand)), found)
    raise _UnmodelledError("is_in")


def _by_bits(literal: Literal) -> bool:
    # Arrow's lookup finds NaN and tells 0.0 from -0.0; `=` does neither.
    return literal.type in FLOATS and (math.isnan(literal.value) or literal.value == 0.0)


def _starts_with(decoder: _Decoder, part: Call) -> Node:
    return Like(_text(decoder, part), like.quote(_pattern(part)) + "%")


def _match_like(decoder: _Decoder, part: Call) -> Node:
    return Like(_text(decoder, part), like.normalise(_pattern(part)))


def _text(decoder: _Decoder, part: Call) -> Node:
    operand = decoder.value(part.args[0])
    if operand.type != STRING:
        raise _UnmodelledError("a match on bytes")
    return operand


def _pattern(part: Call) -> str:
    if part.options is None or part.options["ignore_case"].as_py():
        raise _UnmodelledError("ignore_case")
    return str(part.options["pattern"].as_py())


def _coalesce(decoder: _Decoder, part: Call) -> Node:
    args = [decoder.value(a) for a in part.args]
    if any(a.type != args[0].type for a in args) or len(args) < 2:
        raise _UnmodelledError("coalesce of several types")
    return Coalesce(tuple(args))


def _if_else(decoder: _Decoder, part: Call) -> Node:
    test = decoder.condition(part.args[0])
    then, otherwise = decoder.same(decoder.value(part.args[1]), decoder.value(part.args[2]))
    # Arrow's if_else of NULL is NULL; CASE would take the default.
    return Case(((IsNull(test), Literal(None, then.type)), (test, then)), otherwise)


def _cast(decoder: _Decoder, part: Call) -> Node:
    operand = decoder.value(part.args[0])
    if part.options is None:
        raise _UnmodelledError("cast without options")
    target = type_from_arrow(part.options["to_type"].type)
    if operand.type == target:
        return operand
    if isinstance(operand, Literal) or not is_lossless(operand.type, target):
        raise _UnmodelledError("a cast that may lose")
    return Cast(operand, target)


def _negate(decoder: _Decoder, part: Call) -> Node:
    operand = decoder.value(part.args[0])
    if isinstance(operand, Literal) or not (is_integer(operand.type) or operand.type in FLOATS):
        raise _UnmodelledError("negate")
    return Negate(operand)


_RULES: dict[str, Callable[[_Decoder, Call], Node]] = {
    "is_null": _is_null,
    "is_valid": _is_valid,
    "is_in": _is_in,
    "starts_with": _starts_with,
    "match_like": _match_like,
    "coalesce": _coalesce,
    "if_else": _if_else,
    "cast": _cast,
    "negate_checked": _negate,
}
