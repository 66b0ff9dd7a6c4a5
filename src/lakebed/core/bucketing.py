"""Which bucket a row belongs to, by the hash of its key; and how buckets of a growing table relate.

A table with a fixed number of buckets has the numbers 0 to n - 1. The buckets of other tables are the nodes of
a binary tree over the top bits of the hash (extendible hashing): the node at some depth whose path from the
root spells ``prefix`` is ``(1 << depth) | prefix``, and its number is that, negated. So the root is -1, its
children are -2 and -3. A node is *split* once the open log says so; a writer puts a row into the deepest node
that it reaches through split nodes. A writer that did not know of a split has put rows into an inner node:
nothing is wrong, but the files of nodes that overlap have to be settled together.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable

import pyarrow as pa
import pyarrow.compute as pc

from lakebed.core.actions import DomainMetadata
from lakebed.core.errors import CorruptFileError, InputError
from lakebed.core.schema import DOUBLE, FLOAT, VOID, Decimal, Primitive, Type

ROOT = -1
MAX_DEPTH = 32
"""The hash has no more bits: rows whose hashes are equal stay in one bucket, however many they are."""

SPLIT_DOMAIN = "lakebed.split."

# How many bits one table lookup decides: a table of this many bits is made in a millisecond.
_LOOKUP_BITS = 14


def check_key_type(kind: Type) -> str | None:
    """Why a column of this type cannot be a part of a primary key; None if it can.

    >>> check_key_type(DOUBLE)
    'a float is no key: values that print alike can differ, and NaN equals nothing'
    >>> check_key_type(Decimal(38, 0)) is None
    True
    """
    if kind in (FLOAT, DOUBLE):
        return "a float is no key: values that print alike can differ, and NaN equals nothing"
    if kind == VOID:
        return "a column without a type has no values to tell rows apart"
    if isinstance(kind, Primitive | Decimal):
        return None
    return f"a nested value ({type(kind).__name__.lower()}) is no key: it has no order; use columns of plain types"


def fixed(hashes: pa.Array, n: int) -> pa.Array:
    """The bucket of each hash among ``n``, as Spark's ``pmod(hash, n)``; int32.

    Raises InputError if there is no such number of buckets.

    >>> fixed(pa.array([-1, 0, 9], pa.int32()), 8).to_pylist()
    [7, 0, 1]
    """
    if not 1 <= n < 1 << 31:
        raise InputError("the number of buckets cannot be used", expected="1 to 2147483647", found=str(n))
    count = pa.scalar(n, pa.int32())
    rest = pc.subtract(hashes, pc.multiply(pc.divide(hashes, count), count))
    below = pc.cast(pc.less(rest, pa.scalar(0, pa.int32())), pa.int32())
    return pc.add(rest, pc.multiply(below, count))


def depth(number: int) -> int:
    """How many bits of the hash the bucket stands for. Raises InputError for the number of a fixed bucket.

    >>> depth(ROOT), depth(-5)
    (0, 2)
    """
    return _node(number).bit_length() - 1


def child(number: int, bit: int) -> int:
    """The half of the bucket whose next bit of the hash is ``bit``.

    Raises InputError if the bucket stands for all bits of the hash already, or is a fixed one.

    >>> child(ROOT, 0), child(ROOT, 1), child(-3, 0)
    (-2, -3, -6)
    """
    if not can_split(number):
        raise InputError(f"bucket {number} cannot be split", expected=f"a depth below {MAX_DEPTH}")
    return -(_node(number) << 1 | bit)


def parent(number: int) -> int | None:
    """The bucket that this one is a half of; None for the root. Raises InputError for a fixed bucket.

    >>> parent(-7), parent(-3), parent(ROOT)
    (-3, -1, None)
    """
    node = _node(number)
    return None if node == 1 else -(node >> 1)


def can_split(number: int) -> bool:
    """Whether the hash has a bit left to tell the rows of the bucket apart; a fixed bucket never splits.

    >>> can_split(ROOT), can_split(-(1 << MAX_DEPTH)), can_split(3)
    (True, False, False)
    """
    return number < 0 and depth(number) < MAX_DEPTH


def overlaps(a: int, b: int) -> bool:
    """Whether the same key can be in both buckets: they are one, or one is an ancestor of the other.

    >>> overlaps(-1, -6), overlaps(-6, -3), overlaps(-6, -7), overlaps(2, 2), overlaps(-1, 1)
    (True, True, False, True, False)
    """
    if a == b or a >= 0 or b >= 0:
        return a == b
    upper, lower = sorted((-a, -b))
    return lower >> (lower.bit_length() - upper.bit_length()) == upper


def groups(numbers: Iterable[int]) -> list[frozenset[int]]:
    """The buckets that have to be settled together: each set is connected by overlaps, no two sets overlap.

    >>> [sorted(group) for group in groups([0, 1, -4, -2, -3])]
    [[-3], [-4, -2], [0], [1]]
    """
    found: dict[int, set[int]] = {}
    # From the top down, so that the top of a node's set is there before the node is.
    for number in sorted(set(numbers), reverse=True):
        top = number if number >= 0 else next((up for up in ancestors(number) if up in found), number)
        found.setdefault(top, set()).add(number)
    return [frozenset(found[top]) for top in sorted(found)]


def leaves(hashes: pa.Array, splits: Collection[int]) -> pa.Array:
    """The bucket of each hash: the deepest node reached from the root through the nodes in ``splits``; int64.

    Splits that cannot be reached, and those of nodes at the greatest depth, change nothing.

    >>> leaves(pa.array([0, 2**30, -1], pa.int32()), {-1, -2}).to_pylist()
    [-4, -5, -3]
    """
    return _descend(hashes.view(pa.uint32()), ROOT, frozenset(splits))


def split_domain(place: str, number: int) -> str:
    """The name of the domain that says that a node is split; ``place`` is the buckets' partition, or "".

    >>> split_domain("", -5)
    'lakebed.split.5'
    """
    node = str(_node(number))
    # A place has the length that its partition values have; a name in a database has a limit.
    return SPLIT_DOMAIN + (f"{hashlib.sha256(place.encode()).hexdigest()[:32]}.{node}" if place else node)


def split_action(place: str, number: int) -> DomainMetadata:
    """The fact that a node is split. It never conflicts: whoever splits the same node says the same.

    Raises InputError for a bucket that cannot be split.

    >>> split_action('{"dt":"mon"}', -2).configuration
    '{"place":"{\\\\"dt\\\\":\\\\"mon\\\\"}","bucket":-2}'
    """
    if not can_split(number):
        raise InputError(f"bucket {number} cannot be split", expected=f"a depth below {MAX_DEPTH}")
    fact = {"place": place, "bucket": number}
    return DomainMetadata(split_domain(place, number), json.dumps(fact, separators=(",", ":"), ensure_ascii=False))


def parse_split(domain: str, configuration: str) -> tuple[str, int] | None:
    """The place and the number of the split node; None for a domain that is about something else.

    Raises CorruptFileError for a split that cannot be understood.

    >>> action = split_action("", -2)
    >>> parse_split(action.domain, action.configuration), parse_split("delta.rowTracking", "{}")
    (('', -2), None)
    """
    if not domain.startswith(SPLIT_DOMAIN):
        return None
    try:
        fact = json.loads(configuration)
        place, number = fact["place"], fact["bucket"]
        if isinstance(number, int) and can_split(number) and domain == split_domain(place, number):
            return place, number
        reason: Exception | None = None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        reason = error
    raise CorruptFileError(
        f"domain {domain} cannot be understood", expected="the split of a bucket", found=configuration
    ) from reason


def _node(number: int) -> int:
    if number >= 0:
        raise InputError(f"bucket {number} is one of a fixed number of buckets", expected="a negative number")
    return -number


def ancestors(number: int) -> list[int]:
    """The buckets that a dynamic one came from by splits, from the root down.

    >>> ancestors(-6), ancestors(ROOT)
    ([-1, -3], [])
    """
    node = -number
    return [-(node >> up) for up in range(node.bit_length() - 1, 0, -1)]


def _descend(hashes: pa.Array, top: int, splits: frozenset[int]) -> pa.Array:
    """The leaves of hashes that are all below ``top``, by one table lookup, and by more where the tree is deeper."""
    level = [top]
    bits = 0
    limit = min(_LOOKUP_BITS, MAX_DEPTH - depth(top))
    while bits < limit and not splits.isdisjoint(level):
        # A leaf stands for all paths below it, so that the level has a place for every path.
        level = [below for node in level for below in _halves(node, splits, depth(top) + bits)]
        bits += 1
    if bits == 0:
        return pa.repeat(pa.scalar(top, pa.int64()), len(hashes))
    # The bits above, which all these hashes share, are shifted out at the left.
    path = pc.shift_left(hashes, pa.scalar(depth(top), pa.uint32()))
    reached = pc.take(pa.array(level, pa.int64()), pc.shift_right(path, pa.scalar(32 - bits, pa.uint32())))
    for node in sorted(splits.intersection(level)):
        if depth(node) < MAX_DEPTH:
            below = pc.equal(reached, pa.scalar(node, pa.int64()))
            reached = pc.replace_with_mask(reached, below, _descend(hashes.filter(below), node, splits))
    return reached


def _halves(node: int, splits: frozenset[int], at: int) -> tuple[int, int]:
    if node in splits and depth(node) == at:
        return -(-node << 1), -(-node << 1 | 1)
    return node, node
