"""Which buckets can hold the keys that a predicate names: no other bucket's files are looked at."""

from __future__ import annotations

from itertools import product
from math import prod

import pyarrow as pa

from lakebed.core.actions import Metadata
from lakebed.core.bucketing import MAX_DEPTH, fixed
from lakebed.core.keyed import KeySpec
from lakebed.core.murmur3 import spark_hash
from lakebed.core.predicate import Node
from lakebed.core.predicate.nodes import And, Column, Compare, In, Literal
from lakebed.core.schema_arrow import type_to_arrow

_MOST_KEYS = 1000


def key_buckets(predicate: Node, metadata: Metadata) -> list[int] | None:
    """The numbers of the buckets in which the predicate may be true; None if it may be in any of them.

    It tells if the predicate says what every key column is equal to, or one of.
    """
    key = KeySpec.of(metadata)
    if key is None or key.buckets == 1:
        return None
    terms = predicate.terms if isinstance(predicate, And) else (predicate,)
    named = [next(filter(None, (_values(term, name) for term in terms)), None) for name in key.key]
    values = [some for some in named if some is not None]
    if len(values) < len(named) or prod(map(len, values)) > _MOST_KEYS:
        return None
    rows = list(zip(*product(*values), strict=True))
    kinds = [type_to_arrow(f.type) for f in metadata.schema.select(key.key)]
    hashes = spark_hash([pa.array(column, kind) for column, kind in zip(rows, kinds, strict=True)])
    if isinstance(key.buckets, int):
        return sorted(set(fixed(hashes, key.buckets).to_pylist()))
    return sorted({number for spot in hashes.view(pa.uint32()).to_pylist() for number in _nodes(spot)})


def _values(term: Node, column: str) -> list[object] | None:
    """What the column is equal to, or one of, wherever the term is true; None if the term does not say."""
    match term:
        case Compare(op="=" | "<=>", left=Column(path=(name,), type=kind), right=Literal() as literal):
            values: tuple[Literal, ...] = (literal,)
        case Compare(op="=" | "<=>", left=Literal() as literal, right=Column(path=(name,), type=kind)):
            values = (literal,)
        case In(operand=Column(path=(name,), type=kind), values=values):
            pass
        case _:
            return None
    if name != column or any(value.type != kind for value in values):
        return None
    return [value.value for value in values if value.value is not None] or None


def _nodes(spot: int) -> list[int]:
    """The dynamic buckets that a hash may be in: its leaf, whichever that is, is one of them.

    >>> _nodes(1 << 31)[:3]
    [-1, -3, -6]
    """
    return [-(1 << depth | spot >> (32 - depth)) for depth in range(MAX_DEPTH + 1)]
