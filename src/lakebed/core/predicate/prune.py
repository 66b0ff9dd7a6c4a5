"""Which files can hold matching rows, by partition values and statistics alone.

Each condition is computed in three flags per file: a row *can be* TRUE, FALSE, NULL. The flags are upper
estimates at every step, which makes NOT, OR, IN and IS NULL right without special cases: a file is skipped
only if no row can be TRUE, and taken whole only if no row can be FALSE or NULL.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakebed.core.errors import PredicateError
from lakebed.core.predicate.evaluate import evaluate
from lakebed.core.predicate.expression import scalar, value_set
from lakebed.core.predicate.like import prefix
from lakebed.core.predicate.nodes import (
    And,
    Case,
    Coalesce,
    Column,
    Compare,
    Function,
    In,
    IsNull,
    Like,
    Literal,
    Node,
    Not,
    Opaque,
    Or,
    children,
    columns,
    walk,
)
from lakebed.core.predicate.ranges import NO, YES, Flags, Range, both, either, range_of, unless_known
from lakebed.core.schema import BOOLEAN, STRING
from lakebed.core.statistics import FileStats
from lakebed.core.type_groups import FLOATS

# A long IN list is tested as this many intervals, so that its cost per file is bounded.
_INTERVALS = 32
_NEGATED = {"=": "<>", "<>": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}


@dataclass(frozen=True, slots=True)
class Truth:
    """What a condition can be for a row of a file."""

    can_true: Flags
    can_false: Flags
    can_null: Flags


UNKNOWN = Truth(YES, YES, YES)


def may_match(node: Node, files: FileStats) -> pa.BooleanArray:
    """For each file: false only if it is certain that no row of it qualifies.

    >>> from lakebed.core.schema import LONG
    >>> files = FileStats(2, mins={("n",): pa.array([1, 5])}, maxs={("n",): pa.array([4, 9])})
    >>> may_match(Compare(">", Column(("n",), LONG), Literal(4, LONG)), files).to_pylist()
    [False, True]
    """
    rows = pc.coalesce(pc.not_equal(files.num_records, 0), YES)
    return _array(both(truth(node, files).can_true, rows), files)


def must_match(node: Node, files: FileStats) -> pa.BooleanArray:
    """For each file: true only if it is certain that every row of it qualifies.

    >>> from lakebed.core.schema import LONG
    >>> files = FileStats(2, partitions={("p",): pa.array([1, None])})
    >>> must_match(Compare("=", Column(("p",), LONG), Literal(1, LONG)), files).to_pylist()
    [True, False]
    """
    found = truth(node, files)
    empty = pc.coalesce(pc.equal(files.num_records, 0), NO)
    return _array(either(pc.invert(either(found.can_false, found.can_null)), empty), files)


def _array(flags: Flags, files: FileStats) -> pa.BooleanArray:
    if isinstance(flags, pa.Scalar):
        return pa.repeat(flags, files.count)
    return flags.combine_chunks() if isinstance(flags, pa.ChunkedArray) else flags


def truth(node: Node, files: FileStats) -> Truth:
    """What the condition can be in each file."""
    exact = _exact(node, files)
    if exact is not None:
        return exact
    match node:
        case And():
            return _and([truth(t, files) for t in node.terms])
        case Or():
            return _not(_and([_not(truth(t, files)) for t in node.terms]))
        case Not():
            return _not(truth(node.operand, files))
        case IsNull():
            operand = boolean_range(node.operand, files)
            return Truth(operand.can_null, operand.can_value, NO)
        case Compare():
            return _compare(node, files)
        case In():
            return _in(node, files)
        case Like():
            return _like(node, files)
        case Coalesce():
            parts = [truth(a, files) for a in node.args]
            return Truth(
                either(*(p.can_true for p in parts)),
                either(*(p.can_false for p in parts)),
                both(*(p.can_null for p in parts)),
            )
        case Case():
            return _any([truth(v, files) for v in (*(v for _, v in node.branches), node.default)])
        case Column() | Literal():
            return _from_range(range_of(node, files))
        case _:
            return _opaque(node, files)


def _exact(node: Node, files: FileStats) -> Truth | None:
    """The condition evaluated on partition values, when it reads nothing else; every row of a file agrees."""
    names = columns(node)
    if not all((name,) in files.partitions for name in names):
        return None
    # Arrow and Spark disagree on NaN; the ranges below hold for both.
    if any(isinstance(part, Column) and (part.type in FLOATS or len(part.path) > 1) for part in walk(node)):
        return None
    if isinstance(node, Opaque) and not names:
        return None
    rows = pa.table({name: files.partitions[(name,)] for name in names}) if names else pa.table({"row": [0]})
    try:
        result: Any = evaluate(node, rows)
    except PredicateError:
        # A row of such a file fails in the scan as well, if it is ever reached.
        return None
    if not names:
        result = result[0]
    return Truth(pc.coalesce(result, NO), pc.coalesce(pc.invert(result), NO), pc.is_null(result))


def _and(parts: list[Truth]) -> Truth:
    return Truth(
        both(*(p.can_true for p in parts)),
        either(*(p.can_false for p in parts)),
        # NULL needs one NULL term, and no term that is FALSE in every row.
        both(
            either(*(p.can_null for p in parts)),
            *(either(p.can_true, p.can_null) for p in parts),
        ),
    )


def _not(part: Truth) -> Truth:
    return Truth(part.can_false, part.can_true, part.can_null)


def _any(parts: list[Truth]) -> Truth:
    return Truth(
        either(*(p.can_true for p in parts)),
        either(*(p.can_false for p in parts)),
        either(*(p.can_null for p in parts)),
    )


def _opaque(node: Node, files: FileStats) -> Truth:
    """A condition of which only this is known: an Arrow expression, a pattern, a function."""
    if isinstance(node, Opaque):
        return UNKNOWN
    operands = [boolean_range(c, files) for c in children(node)]
    can_value = both(YES, *(o.can_value for o in operands))
    # Spark's isnan of NULL is FALSE, Arrow's is NULL.
    can_false = YES if isinstance(node, Function) else can_value
    return Truth(can_value, can_false, either(NO, *(o.can_null for o in operands)))


def boolean_range(node: Node, files: FileStats) -> Range:
    """The range of any node; a condition counts as 0 or 1."""
    if node.type != BOOLEAN:
        return range_of(node, files)
    found = truth(node, files)
    zero, one = pa.scalar(0, pa.int8()), pa.scalar(1, pa.int8())
    return Range(
        pc.if_else(found.can_false, zero, one),
        pc.if_else(found.can_true, one, zero),
        found.can_null,
        either(found.can_true, found.can_false),
        NO,
    )


def _from_range(found: Range) -> Truth:
    can_true = unless_known(lambda high, _: high, found.high, found.high)
    can_false = unless_known(lambda low, _: pc.invert(low), found.low, found.low)
    return Truth(both(can_true, found.can_value), both(can_false, found.can_value), found.can_null)


def _compare(node: Compare, files: FileStats) -> Truth:
    left, right = boolean_range(node.left, files), boolean_range(node.right, files)
    values = both(left.can_value, right.can_value)
    op = "=" if node.op == "<=>" else node.op
    nan_true, nan_false = _nan(op, left.can_nan, right.can_nan)
    can_true = both(values, either(_possible(op, left, right), nan_true))
    can_false = both(values, either(_possible(_NEGATED[op], left, right), nan_false))
    if node.op != "<=>":
        return Truth(can_true, can_false, either(left.can_null, right.can_null))
    one_null = either(both(left.can_null, right.can_value), both(left.can_value, right.can_null))
    return Truth(either(can_true, both(left.can_null, right.can_null)), either(can_false, one_null), NO)


def _possible(op: str, left: Range, right: Range) -> Flags:
    """Whether ``a op b`` holds for some a of the left range and b of the right one."""
    match op:
        case "<":
            return unless_known(pc.less, left.low, right.high)
        case "<=":
            return unless_known(pc.less_equal, left.low, right.high)
        case ">":
            return unless_known(pc.greater, left.high, right.low)
        case ">=":
            return unless_known(pc.greater_equal, left.high, right.low)
        case "=":
            return both(_possible("<=", left, right), _possible(">=", left, right))
    # Only a single value on both sides, the same, rules out a difference.
    return either(
        unless_known(pc.not_equal, left.low, left.high),
        unless_known(pc.not_equal, right.low, right.high),
        unless_known(pc.not_equal, left.low, right.low),
    )


def _nan(op: str, left: Flags, right: Flags) -> tuple[Flags, Flags]:
    """What NaN operands can make of a comparison, by IEEE 754 or by Spark (largest, and equal to itself)."""
    pair = both(left, right)
    if op == "<>":
        return either(left, right), pair
    larger = left if op in (">", ">=") else right if op in ("<", "<=") else NO
    return either(larger, pair), either(left, right)


def _in(node: In, files: FileStats) -> Truth:
    found = boolean_range(node.operand, files)
    has_null = any(v.value is None for v in node.values)
    if node.operand.type == BOOLEAN:
        hit, miss = YES, YES
    else:
        hit, miss = _hits(node, found), _misses(node, found)
    can_true, missed = both(found.can_value, hit), both(found.can_value, miss)
    return Truth(
        can_true,
        NO if has_null else missed,
        either(found.can_null, missed) if has_null else found.can_null,
    )


def _hits(node: In, found: Range) -> Flags:
    listed = value_set(node).unique()
    # NaN in the list may mean NaN in the column, for Spark.
    by_nan = found.can_nan if any(v.value != v.value for v in node.values) else NO
    if not len(listed):
        return by_nan
    ordered = listed.take(pc.sort_indices(listed))
    step = -(-len(ordered) // _INTERVALS)
    intervals = [
        both(
            unless_known(pc.less_equal, found.low, ordered[min(at + step, len(ordered)) - 1]),
            unless_known(pc.greater_equal, found.high, ordered[at]),
        )
        for at in range(0, len(ordered), step)
    ]
    return either(*intervals, by_nan)


def _misses(node: In, found: Range) -> Flags:
    """Whether a value outside the list is possible: always, unless a file has one value and it is listed."""
    if found.low is None or found.high is None:
        return YES
    constant = pc.coalesce(pc.equal(found.low, found.high), NO)
    listed = pc.is_in(found.low, value_set=value_set(node))
    return either(pc.invert(both(constant, listed)), found.can_nan)


def _like(node: Like, files: FileStats) -> Truth:
    text, rest = prefix(node.pattern)
    if not rest:
        return _compare(Compare("=", node.operand, Literal(text, STRING)), files)
    found = range_of(node.operand, files)
    start = scalar(Literal(text, STRING))
    can_true = both(
        found.can_value,
        unless_known(lambda low, s: pc.less_equal(_head(low, text), s), found.low, start),
        unless_known(lambda high, s: pc.greater_equal(_head(high, text), s), found.high, start),
    )
    whole = either(
        unless_known(lambda low, _: pc.invert(pc.starts_with(low, text)), found.low, start),
        unless_known(lambda high, _: pc.invert(pc.starts_with(high, text)), found.high, start),
    )
    can_false = found.can_value if rest != "%" else both(found.can_value, whole)
    return Truth(can_true, can_false, found.can_null)


def _head(bounds: Any, text: str) -> Any:
    return pc.utf8_slice_codeunits(bounds, 0, len(text))
