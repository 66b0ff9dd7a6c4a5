"""Giving data files their deletion vectors: packed in one file, small ones inline."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from pyroaring import BitMap64

from lakebed.core.actions import AddFile, DeletionVector
from lakebed.core.steps import Step, reach
from lakebed.storage.deletion_vector import write_vectors
from lakebed.storage.store import Store


@dataclass(frozen=True)
class Vectors:
    """Vectors that have been written."""

    vectors: list[DeletionVector]
    """In the order of the bitmaps that were given."""
    path: str | None
    """The file that holds those which are not inline; None if all are."""


def store_vectors(store: Store, dead: Sequence[BitMap64]) -> Vectors:
    """Write the dead rows of several files; nothing is written if there are none."""
    if not dead:
        return Vectors([], None)
    written = write_vectors(store, dead)
    reach(Step.VECTOR_WRITTEN)
    found = [
        DeletionVector(
            storage_type=vector.storage_type,
            path_or_inline_dv=vector.path_or_inline,
            offset=vector.offset,
            size_in_bytes=vector.size_in_bytes,
            cardinality=vector.cardinality,
        )
        for vector in written.vectors
    ]
    return Vectors(found, written.path)


def with_vector(add: AddFile, vector: DeletionVector | None, rows: int, *, data_change: bool = True) -> AddFile:
    """The file with ``vector`` in place of the one it had; ``rows`` counts all its rows, dead ones too."""
    stats = add.stats if vector is None else loosened(add.stats, rows)
    return replace(add, deletion_vector=vector, stats=stats, data_change=data_change)


_RAW_NUMBER = re.compile(r'"\\u0000([^"]*)"')


def loosened(stats: str | None, rows: int) -> str:
    """Statistics of a file with dead rows: the bounds still hold, but are no longer exact.

    >>> loosened('{"numRecords":3,"minValues":{"a":1.50},"tightBounds":true}', 3)
    '{"numRecords":3,"minValues":{"a":1.50},"tightBounds":false}'
    """
    # Decimals pass through as text: as floats they would lose digits.
    parsed = json.loads(stats, parse_float=lambda digits: f"\0{digits}") if stats else {}
    parsed["numRecords"] = rows
    parsed["tightBounds"] = False
    return _RAW_NUMBER.sub(r"\1", json.dumps(parsed, separators=(",", ":")))
