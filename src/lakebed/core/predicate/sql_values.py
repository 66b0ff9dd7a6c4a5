"""The rules for SQL values: columns, literals, casts, arithmetic, CASE, COALESCE and functions."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from sqlglot import exp

from lakebed.core.errors import PredicateError, SchemaError
from lakebed.core.predicate.coercion import (
    as_decimal,
    common_type,
    convert,
    fits,
    is_integer,
    is_numeric,
    number,
    unify,
)
from lakebed.core.predicate.functions import call
from lakebed.core.predicate.nodes import (
    Arithmetic,
    Case,
    Coalesce,
    IsNull,
    Literal,
    Negate,
    Node,
    Not,
)
from lakebed.core.predicate.resolve import resolve
from lakebed.core.predicate.sql_conditions import compare
from lakebed.core.predicate.sql_reader import Reader, Rule, Rules, only, place, refuse
from lakebed.core.schema import BINARY, BOOLEAN, DATE, DOUBLE, LONG, STRING, VOID, Decimal, Type
from lakebed.core.schema_ddl import type_ddl, type_from_ddl
from lakebed.core.type_groups import FLOATS

_OPERATORS: dict[type[exp.Expression], str] = {
    exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/", exp.Mod: "%", exp.IntDiv: "div",
}  # fmt: skip
_FUNCTIONS: dict[type[exp.Expression], str] = {
    exp.Lower: "lower", exp.Upper: "upper", exp.Length: "length", exp.Abs: "abs", exp.Trim: "trim",
    exp.Year: "year", exp.Month: "month", exp.Day: "day", exp.DayOfMonth: "day", exp.IsNan: "isnan",
}  # fmt: skip


def _column(reader: Reader, tree: exp.Expression) -> Node:
    members: list[str] = []
    inner = tree
    while isinstance(inner, exp.Dot):
        members.append(inner.expression.name)
        inner = inner.this
    if not isinstance(inner, exp.Column) or not all(isinstance(p, exp.Identifier) for p in inner.parts):
        raise refuse(tree)
    return resolve([*(part.name for part in inner.parts), *reversed(members)], reader.schema)


def _literal(reader: Reader, tree: exp.Expression) -> Node:
    return Literal(tree.this, STRING) if tree.args.get("is_string") else number(tree.this)


def _raw_string(reader: Reader, tree: exp.Expression) -> Node:
    return Literal(tree.this, STRING)


def _boolean(reader: Reader, tree: exp.Expression) -> Node:
    return Literal(bool(tree.this), BOOLEAN)


def _null(reader: Reader, tree: exp.Expression) -> Node:
    return Literal(None, VOID)


def _hex(reader: Reader, tree: exp.Expression) -> Node:
    try:
        return Literal(bytes.fromhex(tree.name), BINARY)
    except ValueError as error:
        raise PredicateError(f"{place(tree)} is no binary literal", expected="pairs of hex digits") from error


def _paren(reader: Reader, tree: exp.Expression) -> Node:
    return reader.read(tree.this)


def _negative(reader: Reader, tree: exp.Expression) -> Node:
    inner = tree.this
    if isinstance(inner, exp.Literal) and not inner.is_string:
        # Together, because the least bigint has no positive counterpart.
        return number("-" + inner.this)
    operand = reader.read(inner)
    if not is_numeric(operand.type):
        raise PredicateError(f"{place(tree)}: no minus of {type_ddl(operand.type)}")
    if isinstance(operand, Literal) and operand.value is not None:
        negated = -operand.value
        if not is_integer(operand.type) or fits(negated, operand.type):
            return Literal(negated, operand.type)
    return Negate(operand)


def _cast(reader: Reader, tree: exp.Expression) -> Node:
    only(tree, "this", "to")
    try:
        target = type_from_ddl(tree.args["to"].sql("spark"))
    except SchemaError as error:
        raise PredicateError(f"{place(tree)}: {error}") from error
    return convert(reader.read(tree.this), target)


def _to_date(reader: Reader, tree: exp.Expression) -> Node:
    only(tree, "this", "safe")
    return convert(reader.read(tree.this), DATE)


def _arithmetic(reader: Reader, tree: exp.Expression) -> Node:
    only(tree, "this", "expression", "safe", "typed")
    op = _OPERATORS[type(tree)]
    left, right = reader.read(tree.this), reader.read(tree.expression)
    for side in (left, right):
        if not is_numeric(side.type):
            raise PredicateError(f"{place(tree)}: no arithmetic on {type_ddl(side.type)}")
    made = Arithmetic(op, *_operands(op, left, right, tree))
    _ = made.type  # raises when a decimal result has too many digits
    return made


def _operands(op: str, left: Node, right: Node, tree: exp.Expression) -> tuple[Node, Node]:
    kinds = (left.type, right.type)
    if op in ("%", "div"):
        if not all(map(is_integer, kinds)):
            raise PredicateError(f"{place(tree)}: {op} takes whole numbers", fix="cast the operands to bigint")
        wide: Type = LONG if op == "div" else max(kinds, key=lambda k: as_decimal(k).precision)
        return convert(left, wide), convert(right, wide)
    if any(isinstance(k, Decimal) for k in kinds) and not any(k in FLOATS for k in kinds):
        if op == "/":
            # Arrow cuts the quotient of two decimals where Spark rounds it.
            raise PredicateError(f"{place(tree)}: decimals are not divided", fix="cast an operand to double")
        return _exact(left), _exact(right)
    common = DOUBLE if op == "/" else common_type(*kinds)
    assert common is not None
    return convert(left, common), convert(right, common)


def _exact(node: Node) -> Node:
    if isinstance(node, Literal) and isinstance(node.value, int):
        # As many digits as the number has, not as its type could have.
        return convert(node, Decimal(len(str(abs(node.value))), 0))
    return convert(node, as_decimal(node.type))


def align(nodes: Sequence[Node], tree: exp.Expression) -> list[Node]:
    """The nodes brought to one type, as the results of CASE and COALESCE must be."""
    context = partial(place, tree)
    first, *others = nodes
    for other in others:
        first, _ = unify(first, other, context)
    return [convert(node, first.type) for node in nodes]


def _case(reader: Reader, tree: exp.Expression) -> Node:
    only(tree, "this", "ifs", "default")
    subject = reader.read(tree.this) if tree.this is not None else None
    conditions = [_condition(reader, subject, branch) for branch in tree.args["ifs"]]
    default = tree.args.get("default")
    values = [reader.read(branch.args["true"]) for branch in tree.args["ifs"]]
    values.append(Literal(None, VOID) if default is None else reader.read(default))
    *results, otherwise = align(values, tree)
    return Case(tuple(zip(conditions, results, strict=True)), otherwise)


def _condition(reader: Reader, subject: Node | None, branch: exp.Expression) -> Node:
    if subject is None:
        return reader.boolean(branch.this)
    return compare("=", subject, reader.read(branch.this), partial(place, branch))


def _if(reader: Reader, tree: exp.Expression) -> Node:
    only(tree, "this", "true", "false")
    missing = tree.args.get("false") is None
    otherwise = Literal(None, VOID) if missing else reader.read(tree.args["false"])
    then, otherwise_ = align([reader.read(tree.args["true"]), otherwise], tree)
    return Case(((reader.boolean(tree.this), then),), otherwise_)


def _coalesce(reader: Reader, tree: exp.Expression) -> Node:
    only(tree, "this", "expressions", "is_nvl", "is_null")
    args = align([reader.read(a) for a in (tree.this, *tree.expressions)], tree)
    return Coalesce(tuple(args)) if len(args) > 1 else args[0]


def _nullif(reader: Reader, tree: exp.Expression) -> Node:
    value = reader.read(tree.this)
    same = compare("=", value, reader.read(tree.expression), partial(place, tree))
    return Case(((same, Literal(None, value.type)),), value)


def _function(reader: Reader, tree: exp.Expression) -> Node:
    only(tree, "this")
    return call(_FUNCTIONS[type(tree)], [reader.read(tree.this)])


def _substring(reader: Reader, tree: exp.Expression) -> Node:
    only(tree, "this", "start", "length")
    parts = (tree.this, tree.args.get("start"), tree.args.get("length"))
    return call("substring", [reader.read(p) for p in parts if p is not None])


def _concat(reader: Reader, tree: exp.Expression) -> Node:
    only(tree, "expressions", "this", "expression", "safe", "coalesce")
    trees = tree.expressions or [tree.this, tree.expression]
    parts = [reader.read(t) for t in trees]
    texts = [p.value for p in parts if isinstance(p, Literal) and isinstance(p.value, str)]
    return Literal("".join(texts), STRING) if len(texts) == len(parts) else call("concat", parts)


def _date_trunc(reader: Reader, tree: exp.Expression) -> Node:
    only(tree, "this", "unit")
    return call("date_trunc", [Literal(tree.args["unit"].name, STRING), reader.read(tree.this)])


def _named(reader: Reader, tree: exp.Expression) -> Node:
    name = tree.name.lower()
    if name not in ("isnull", "isnotnull") or len(tree.expressions) != 1:
        raise refuse(tree)
    test = IsNull(reader.read(tree.expressions[0]))
    return test if name == "isnull" else Not(test)


_FUNCTION_RULES: dict[type[exp.Expression], Rule] = dict.fromkeys(_FUNCTIONS, _function)

VALUES: Rules = {
    **dict.fromkeys(_OPERATORS, _arithmetic),
    **_FUNCTION_RULES,
    exp.Column: _column,
    exp.Dot: _column,
    exp.Literal: _literal,
    exp.RawString: _raw_string,
    exp.Boolean: _boolean,
    exp.Null: _null,
    exp.HexString: _hex,
    exp.Paren: _paren,
    exp.Neg: _negative,
    exp.Cast: _cast,
    exp.TryCast: _cast,
    exp.TsOrDsToDate: _to_date,
    exp.Case: _case,
    exp.If: _if,
    exp.Coalesce: _coalesce,
    exp.Nullif: _nullif,
    exp.Substring: _substring,
    exp.Concat: _concat,
    exp.DPipe: _concat,
    exp.TimestampTrunc: _date_trunc,
    exp.Anonymous: _named,
}
