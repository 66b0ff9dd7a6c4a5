"""What file statistics say about the values of an expression: bounds, and whether it can be NULL or NaN.

Everything is columnar: one entry per file, or an Arrow scalar where all files agree. Every statement is
an upper estimate: a range may be wider than the values, never narrower.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakebed.core.errors import PredicateError
from lakebed.core.predicate.casts import build_cast, keeps_order
from lakebed.core.predicate.coercion import is_integer
from lakebed.core.predicate.evaluate import project
from lakebed.core.predicate.expression import scalar
from lakebed.core.predicate.functions import FUNCTIONS
from lakebed.core.predicate.nodes import (
    Arithmetic,
    Case,
    Cast,
    Coalesce,
    Column,
    Function,
    Literal,
    Negate,
    Node,
    children,
)
from lakebed.core.schema import BOOLEAN, Type
from lakebed.core.statistics import FileStats
from lakebed.core.type_groups import FLOATS

# An Arrow boolean array without nulls, or a boolean scalar that stands for all files.
Flags = Any
# An Arrow array or scalar of bounds, null where unknown; None where nothing is known of any file.
Bounds = Any

YES: Flags = pa.scalar(True)
NO: Flags = pa.scalar(False)


@dataclass(frozen=True, slots=True)
class Range:
    """Values that are not NULL or NaN lie between ``low`` and ``high``.

    The flags say whether a row can be NULL, can be something else, and can be NaN.
    """

    low: Bounds
    high: Bounds
    can_null: Flags
    can_value: Flags
    can_nan: Flags


def either(*flags: Flags) -> Flags:
    """Where any flag is set."""
    result = flags[0]
    for flag in flags[1:]:
        result = pc.or_(result, flag)
    return result


def both(*flags: Flags) -> Flags:
    """Where all flags are set."""
    result = flags[0]
    for flag in flags[1:]:
        result = pc.and_(result, flag)
    return result


def unless_known(test: Callable[[Bounds, Bounds], Flags], left: Bounds, right: Bounds) -> Flags:
    """The test of two bounds, and true where one of them is unknown."""
    if left is None or right is None:
        return YES
    result = test(left, right)
    return pc.coalesce(result, YES)


def range_of(node: Node, files: FileStats) -> Range:
    """The range of a node that is not a condition."""
    match node:
        case Column():
            return _column(node, files)
        case Literal():
            return _literal(node)
        case Cast() if keeps_order(node.operand.type, node.type):
            return _mapped(range_of(node.operand, files), _caster(node))
        case Function() if FUNCTIONS[node.name].monotone:
            return _mapped(range_of(node.args[-1], files), _applier(node))
        case Negate() if is_integer(node.type):
            inner = range_of(node.operand, files)
            low, high = _checked(pc.negate_checked, inner.high), _checked(pc.negate_checked, inner.low)
            return replace(inner, low=low, high=high)
        case Arithmetic() if node.op in ("+", "-") and is_integer(node.type):
            return _sum(node, files)
        case Coalesce():
            return _coalesce([range_of(a, files) for a in node.args])
        case Case():
            parts = [range_of(v, files) for v in (*(v for _, v in node.branches), node.default)]
            return _union(parts, either(*(p.can_null for p in parts)))
        case _:
            return _unknown(node, files)


def _column(node: Column, files: FileStats) -> Range:
    exact = files.partitions.get(node.path)
    if exact is not None:
        nan = pc.coalesce(pc.is_nan(exact), NO) if node.type in FLOATS else NO
        bound = _without_nan(exact, node.type)
        return Range(bound, bound, pc.is_null(exact), pc.is_valid(exact), nan)
    nulls = files.null_counts.get(node.path)
    if nulls is None:
        can_null, can_value = YES, YES
    else:
        can_null = pc.coalesce(pc.not_equal(nulls, 0), YES)
        can_value = pc.coalesce(pc.not_equal(nulls, files.num_records), YES)
    low = _without_nan(files.mins.get(node.path), node.type)
    high = _without_nan(files.maxs.get(node.path), node.type)
    # Writers leave NaN out of the bounds, so bounds never tell that there is none.
    return Range(low, high, can_null, can_value, YES if node.type in FLOATS else NO)


def _without_nan(bounds: Bounds, kind: Type) -> Bounds:
    if bounds is None or kind not in FLOATS:
        return bounds
    return pc.if_else(pc.is_nan(bounds), pa.scalar(None, bounds.type), bounds)


def _literal(node: Literal) -> Range:
    if node.value is None:
        return Range(None, None, YES, NO, NO)
    value = scalar(node)
    if node.type in FLOATS and node.value != node.value:
        return Range(None, None, NO, YES, YES)
    return Range(value, value, NO, YES, NO)


def _unknown(node: Node, files: FileStats) -> Range:
    """Nothing about the values; NULL only where an operand is, because no operator makes one."""
    parts = [Range(None, None, YES, YES, NO) if c.type == BOOLEAN else range_of(c, files) for c in children(node)]
    can_null = either(NO, *(p.can_null for p in parts))
    can_value = both(YES, *(p.can_value for p in parts))
    return Range(None, None, can_null, can_value, YES if node.type in FLOATS else NO)


def _mapped(inner: Range, apply: Callable[[Bounds], Bounds]) -> Range:
    low, high = _checked(apply, inner.low), _checked(apply, inner.high)
    return replace(inner, low=low, high=high)


def _checked(apply: Callable[[Bounds], Bounds], bounds: Bounds) -> Bounds:
    """The bounds after ``apply``, or unknown where a bound (wider than the data) makes it fail."""
    if bounds is None:
        return None
    try:
        return apply(bounds)
    except (pa.ArrowException, PredicateError):
        return None


def _caster(node: Cast) -> Callable[[Bounds], Bounds]:
    return lambda bounds: _project(build_cast(pc.field("x"), node.operand.type, node.type), bounds)


def _applier(node: Function) -> Callable[[Bounds], Bounds]:
    value = pc.field("x")
    args = [value for _ in node.args]
    return lambda bounds: _project(FUNCTIONS[node.name].build(node, args), bounds)


def _project(expression: pc.Expression, bounds: Bounds) -> Bounds:
    if isinstance(bounds, pa.Scalar):
        return project(expression, pa.table({"x": pa.array([bounds.as_py()], bounds.type)}))[0]
    return project(expression, pa.table({"x": bounds}))


def _sum(node: Arithmetic, files: FileStats) -> Range:
    left, right = range_of(node.left, files), range_of(node.right, files)
    add = pc.add_checked if node.op == "+" else pc.subtract_checked
    low, high = (right.low, right.high) if node.op == "+" else (right.high, right.low)
    return Range(
        None if low is None else _checked(lambda bounds: add(bounds, low), left.low),
        None if high is None else _checked(lambda bounds: add(bounds, high), left.high),
        either(left.can_null, right.can_null),
        both(left.can_value, right.can_value),
        NO,
    )


def _coalesce(parts: Sequence[Range]) -> Range:
    """The first value that is not NULL: a part counts only where all before it can be NULL."""
    reached, held = YES, []
    for part in parts:
        held.append(replace(part, can_value=both(part.can_value, reached), can_nan=both(part.can_nan, reached)))
        reached = both(reached, part.can_null)
    return _union(held, reached)


def _union(parts: Sequence[Range], can_null: Flags) -> Range:
    """The range of a value that is one of several."""
    low, high, used = parts[0].low, parts[0].high, parts[0].can_value
    for part in parts[1:]:
        low = _joined(low, used, part.low, part.can_value, pc.less)
        high = _joined(high, used, part.high, part.can_value, pc.greater)
        used = either(used, part.can_value)
    return Range(low, high, can_null, used, either(*(p.can_nan for p in parts)))


def _joined(a: Bounds, a_used: Flags, b: Bounds, b_used: Flags, first: Callable[[Bounds, Bounds], Flags]) -> Bounds:
    """The outer one of two bounds; a part without values in a file does not count there."""
    known = b if a is None else a
    if known is None:
        return None
    unknown = pa.scalar(None, known.type)
    a, b = unknown if a is None else a, unknown if b is None else b
    # A comparison with an unknown bound is null, and so is the result.
    outer = pc.if_else(first(a, b), a, b)
    return pc.if_else(both(a_used, b_used), outer, pc.if_else(a_used, a, b))
