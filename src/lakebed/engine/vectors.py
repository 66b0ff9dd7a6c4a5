"""Giving data files their deletion vectors: packed in one file, small ones inline."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from pyroaring import BitMap64

from lakebed.core.actions import AddFile, DeletionVector
from lakebed.core.file_tags import REPLACED, TOMBSTONES, tombstones_of
from lakebed.core.steps import Step, reach
from lakebed.storage.deletion_vector import decode, encode, write_vectors
from lakebed.storage.store import Store


@dataclass(frozen=True)
class Vectors:
    """Vectors that have been written."""

    vectors: list[DeletionVector]
    """In the order of the bitmaps that were given."""
    path: str | None
    """The file that holds those which are not inline; None if all are."""


def store_vectors(store: Store, dead: Sequence[BitMap64], *, never_inline: Collection[int] = ()) -> Vectors:
    """Write the dead rows of several files; nothing is written if there are none.

    ``never_inline`` has the numbers of those that are as they were: a file cannot leave and enter as the same one.
    """
    if not dead:
        return Vectors([], None)
    written = write_vectors(store, dead, never_inline=never_inline)
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


def replaced_tombstones(add: AddFile) -> BitMap64:
    """The positions of a file's tombstones that are no longer what their keys have come to.

    Only a key's present tombstone keeps late rows away. A vector cannot tell: all tombstones are dead.
    """
    text = (add.tags or {}).get(REPLACED)
    return BitMap64() if text is None else decode(base64.b64decode(text), f"tag {REPLACED} of {add.path}")


def with_replaced(add: AddFile, replaced: BitMap64) -> AddFile:
    """The file with these positions as its replaced tombstones; without any mark once all of them are.

    >>> file = AddFile("a", {}, 1, 0, True, tags={"lakebed.bucket": "0", "lakebed.tombstones": "2"})
    >>> sorted(replaced_tombstones(with_replaced(file, BitMap64([4]))))
    [4]
    >>> with_replaced(file, BitMap64([4, 5])).tags
    {'lakebed.bucket': '0'}
    """
    tags = {name: text for name, text in (add.tags or {}).items() if name != REPLACED}
    if len(replaced) >= tombstones_of(add):
        tags.pop(TOMBSTONES, None)
    elif replaced:
        tags[REPLACED] = base64.b64encode(encode(replaced)).decode()
    return replace(add, tags=tags)


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
