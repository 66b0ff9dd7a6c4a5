"""Statistics of data files: numRecords, minValues, maxValues and nullCount, as the open log has them.

``FileStats`` holds the statistics of many files in columns, for pruning; ``parse_stats`` makes it from the
log's JSON texts. ``build_stats`` writes the JSON text of one file.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from lakebed.core.schema import Struct
from lakebed.core.stats_bounds import Path, bound_to_json
from lakebed.core.stats_read import read_stats

__all__ = ["FileStats", "Path", "build_stats", "parse_stats"]


@dataclass(frozen=True, slots=True)
class FileStats:
    """What is known of ``count`` files: one array entry per file, null where unknown.

    Columns are named by their logical paths. ``partitions`` holds exact values, in which null is a value;
    ``mins`` and ``maxs`` are bounds of the values that are not null, not necessarily tight.
    ``num_records`` counts physical rows, dead ones included.
    """

    count: int
    num_records: pa.Array = None
    partitions: Mapping[Path, pa.Array] = field(default_factory=dict)
    mins: Mapping[Path, pa.Array] = field(default_factory=dict)
    maxs: Mapping[Path, pa.Array] = field(default_factory=dict)
    null_counts: Mapping[Path, pa.Array] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.num_records is None:
            object.__setattr__(self, "num_records", pa.nulls(self.count, pa.int64()))

    def with_partitions(self, values: Mapping[str, pa.Array]) -> FileStats:
        """The same files with the exact values of their partition columns."""
        return replace(self, partitions={(name,): array for name, array in values.items()})


def parse_stats(texts: Sequence[str | None], schema: Struct, wanted: Collection[Path]) -> FileStats:
    """The statistics of the wanted columns (logical paths) from the log's JSON texts, one per file.

    Absent, malformed or unusable entries are unknown, never an error: pruning then keeps the file.
    Timestamp maxima are widened to the end of their millisecond, because writers cut them.

    >>> from lakebed.core.schema import Field, LONG
    >>> stats = parse_stats(['{"numRecords":2,"minValues":{"n":1}}', None], Struct((Field("n", LONG),)), {("n",)})
    >>> stats.num_records.to_pylist(), stats.mins[("n",)].to_pylist()
    ([2, None], [1, None])
    """
    records, mins, maxs, nulls = read_stats(texts, schema, wanted)
    return FileStats(len(texts), records, {}, mins, maxs, nulls)


def build_stats(
    num_records: int,
    mins: Mapping[Path, Any],
    maxs: Mapping[Path, Any],
    null_counts: Mapping[Path, int],
    tight: bool = True,
) -> str:
    """The statistics of one file as JSON text; paths are physical names, values Python or Arrow scalars.

    Strings are cut to 32 characters so that they stay bounds, timestamps to milliseconds. What has no
    place in the log's statistics (NaN, infinity, binary, a maximum that cannot be cut) is left out.

    >>> build_stats(2, {("n",): 1}, {("n",): 5}, {("n",): 0})
    '{"numRecords":2,"minValues":{"n":1},"maxValues":{"n":5},"nullCount":{"n":0},"tightBounds":true}'
    """
    # Numbers are put in as ready text, because json would round decimals to floats.
    parts = {
        "numRecords": str(num_records),
        "minValues": _nested({p: bound_to_json(v, upper=False) for p, v in mins.items()}),
        "maxValues": _nested({p: bound_to_json(v, upper=True) for p, v in maxs.items()}),
        "nullCount": _nested({p: str(n) for p, n in null_counts.items()}),
        "tightBounds": json.dumps(tight),
    }
    return "{" + ",".join(f'"{name}":{text}' for name, text in parts.items()) + "}"


def _nested(texts: Mapping[Path, str | None]) -> str:
    """A JSON object of ready texts, with one level per name of a path; None is left out."""
    tree: dict[str, Any] = {}
    for path, text in texts.items():
        if text is not None:
            node = tree
            for name in path[:-1]:
                node = node.setdefault(name, {})
            node[path[-1]] = text
    return _object(tree)


def _object(tree: Mapping[str, Any]) -> str:
    entries = (
        f"{json.dumps(name, ensure_ascii=False)}:{_object(value) if isinstance(value, dict) else value}"
        for name, value in tree.items()
    )
    return "{" + ",".join(entries) + "}"
