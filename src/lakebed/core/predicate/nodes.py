"""The predicate tree: what a condition on rows means, whoever wrote it.

SQL text and ``pyarrow.compute`` expressions are both parsed into these nodes. The tree is typed and
explicit: both operands of a comparison or of an arithmetic operator have types that need no further
conversion, because the parser put a ``Cast`` (or a converted literal) where one was needed. A boolean
node is TRUE, FALSE or NULL for a row (Kleene logic); a row qualifies only when it is TRUE.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow.compute as pc

from lakebed.core.errors import PredicateError
from lakebed.core.schema import BOOLEAN, Decimal, Type

MAX_PRECISION = 38


@dataclass(frozen=True, slots=True)
class Column:
    """A column, or a member of a struct column: ``path`` is one logical name per level."""

    path: tuple[str, ...]
    type: Type


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant. ``value`` is a Python value of ``type``; None is NULL. Timestamps are aware, in UTC."""

    value: Any
    type: Type


@dataclass(frozen=True, slots=True)
class Compare:
    """``left op right`` with op one of ``= <> < <= > >= <=>``; all but ``<=>`` are NULL on a NULL operand."""

    op: str
    left: Node
    right: Node

    @property
    def type(self) -> Type:
        return BOOLEAN


@dataclass(frozen=True, slots=True)
class And:
    """TRUE when all terms are, FALSE when any is, else NULL."""

    terms: tuple[Node, ...]

    @property
    def type(self) -> Type:
        return BOOLEAN


@dataclass(frozen=True, slots=True)
class Or:
    """TRUE when any term is, FALSE when all are, else NULL."""

    terms: tuple[Node, ...]

    @property
    def type(self) -> Type:
        return BOOLEAN


@dataclass(frozen=True, slots=True)
class Not:
    """The opposite; NULL stays NULL."""

    operand: Node

    @property
    def type(self) -> Type:
        return BOOLEAN


@dataclass(frozen=True, slots=True)
class IsNull:
    """Whether the operand is NULL; never NULL itself."""

    operand: Node

    @property
    def type(self) -> Type:
        return BOOLEAN


@dataclass(frozen=True, slots=True)
class In:
    """Whether the operand equals one of ``values``. A NULL operand, or a miss among NULLs, is NULL."""

    operand: Node
    values: tuple[Literal, ...]

    @property
    def type(self) -> Type:
        return BOOLEAN


@dataclass(frozen=True, slots=True)
class Like:
    """A match of the whole text: ``%`` is any run, ``_`` any one character, a backslash escapes."""

    operand: Node
    pattern: str

    @property
    def type(self) -> Type:
        return BOOLEAN


@dataclass(frozen=True, slots=True)
class RLike:
    """A match of the regular expression (RE2 syntax) anywhere in the text."""

    operand: Node
    pattern: str

    @property
    def type(self) -> Type:
        return BOOLEAN


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """``left op right`` with op one of ``+ - * / % div``; overflow and division by zero are errors."""

    op: str
    left: Node
    right: Node

    @property
    def type(self) -> Type:
        a, b = self.left.type, self.right.type
        if isinstance(a, Decimal) and isinstance(b, Decimal):
            return _decimal_result(self.op, a, b)
        return a


@dataclass(frozen=True, slots=True)
class Negate:
    """Unary minus."""

    operand: Node

    @property
    def type(self) -> Type:
        return self.operand.type


@dataclass(frozen=True, slots=True)
class Cast:
    """The operand as another type; a value that the type cannot hold is an error."""

    operand: Node
    type: Type


@dataclass(frozen=True, slots=True)
class Case:
    """The value of the first branch whose condition is TRUE, else ``default``."""

    branches: tuple[tuple[Node, Node], ...]
    default: Node

    @property
    def type(self) -> Type:
        return self.default.type


@dataclass(frozen=True, slots=True)
class Coalesce:
    """The first argument that is not NULL."""

    args: tuple[Node, ...]

    @property
    def type(self) -> Type:
        return self.args[0].type


@dataclass(frozen=True, slots=True)
class Function:
    """A call of one of the scalar functions in ``predicate.functions``."""

    name: str
    args: tuple[Node, ...]
    type: Type


@dataclass(frozen=True, slots=True, eq=False)
class Opaque:
    """An Arrow expression that Lakebed does not model: Arrow evaluates it, it never prunes a file.

    ``reads`` names the top-level columns that it needs.
    """

    expression: pc.Expression
    reads: frozenset[str]

    @property
    def type(self) -> Type:
        return BOOLEAN

    def __eq__(self, other: object) -> bool:
        # `==` of two Arrow expressions builds a third one, so the dataclass must not use it.
        return isinstance(other, Opaque) and bool(self.expression.equals(other.expression))

    def __hash__(self) -> int:
        return hash(str(self.expression))


Node = (
    Column
    | Literal
    | Compare
    | And
    | Or
    | Not
    | IsNull
    | In
    | Like
    | RLike
    | Arithmetic
    | Negate
    | Cast
    | Case
    | Coalesce
    | Function
    | Opaque
)

TRUE = Literal(True, BOOLEAN)
FALSE = Literal(False, BOOLEAN)


def conjunction(*terms: Node) -> Node:
    """The AND of the terms, without nesting; of none it is TRUE.

    >>> conjunction(TRUE, FALSE)
    And(terms=(Literal(value=True, type=Primitive(name='boolean')), Literal(value=False, \
type=Primitive(name='boolean'))))
    """
    flat = tuple(t for term in terms for t in (term.terms if isinstance(term, And) else (term,)))
    return And(flat) if len(flat) > 1 else flat[0] if flat else TRUE


def disjunction(*terms: Node) -> Node:
    """The OR of the terms, without nesting; of none it is FALSE.

    >>> disjunction(TRUE)
    Literal(value=True, type=Primitive(name='boolean'))
    """
    flat = tuple(t for term in terms for t in (term.terms if isinstance(term, Or) else (term,)))
    return Or(flat) if len(flat) > 1 else flat[0] if flat else FALSE


def children(node: Node) -> tuple[Node, ...]:
    """The operands of a node, in order."""
    match node:
        case Column() | Literal() | Opaque():
            return ()
        case Compare() | Arithmetic():
            return node.left, node.right
        case And() | Or():
            return node.terms
        case In():
            return node.operand, *node.values
        case Case():
            return *(part for branch in node.branches for part in branch), node.default
        case Coalesce() | Function():
            return node.args
        case _:
            return (node.operand,)


def walk(node: Node) -> Iterator[Node]:
    """The node and everything below it."""
    pending = [node]
    while pending:
        current = pending.pop()
        yield current
        pending.extend(children(current))


def columns(node: Node) -> set[str]:
    """The top-level columns that the node reads.

    >>> columns(IsNull(Column(("a", "b"), BOOLEAN)))
    {'a'}
    """
    names: set[str] = set()
    for part in walk(node):
        if isinstance(part, Column):
            names.add(part.path[0])
        elif isinstance(part, Opaque):
            names |= part.reads
    return names


def _decimal_result(op: str, a: Decimal, b: Decimal) -> Decimal:
    # The rules of Spark, Hive and Arrow agree here; only Spark would cut digits beyond 38.
    if op == "*":
        result = Decimal(a.precision + b.precision + 1, a.scale + b.scale)
    else:
        scale = max(a.scale, b.scale)
        result = Decimal(max(a.precision - a.scale, b.precision - b.scale) + scale + 1, scale)
    if result.precision > MAX_PRECISION:
        raise PredicateError(
            f"decimal({a.precision},{a.scale}) {op} decimal({b.precision},{b.scale}) needs {result.precision} digits",
            expected=f"at most {MAX_PRECISION}",
            fix="cast an operand to a smaller decimal, or to double",
        )
    return result
