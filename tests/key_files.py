"""What must hold of the files of a primary-key table, whatever its history."""

from __future__ import annotations

import itertools
import re
from collections import Counter, defaultdict
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from key_shapes import Shape

import lakebed
from lakebed.core.actions import AddFile
from lakebed.core.file_tags import KIND_COLUMN, bucket_of, is_unsettled, tombstones_of
from lakebed.engine.scan import dead_rows


def check_files(table: lakebed.Table, shape: Shape) -> None:
    """The invariants of the newest version's files."""
    point = table._point()
    files = list(point.files(None))
    key = [point.metadata.schema[name].physical_name for name in shape.create["primary_key"]]
    for add in files:
        check_file(table, add, key, shape)
    unsettled = [add.base_row_id for add in files if is_unsettled(add)]
    assert None not in unsettled
    assert len(set(unsettled)) == len(unsettled), "unsettled files have an order"
    described = table.files()
    assert sorted(described["path"].to_pylist()) == sorted(add.file_path for add in files)
    check_one_row_per_key(table, files, key)


def check_file(table: lakebed.Table, add: AddFile, key: list[str], shape: Shape) -> None:
    check_bucket(bucket_of(add), shape.create["buckets"])
    if is_unsettled(add):
        assert add.deletion_vector is None, f"{add.path} is unsettled and has a vector"
    data = read_file(table, add)
    assert data.num_rows == add.num_records
    rows = [tuple(_sortable(v) for v in row) for row in zip(*(data[name].to_pylist() for name in key), strict=True)]
    assert rows == sorted(rows), f"{add.path} is not sorted by the key"
    if shape.rules.engine in ("deduplicate", "first-row"):
        assert max(Counter(rows).values(), default=1) == 1, f"{add.path} has a key twice"
    kinds = data[KIND_COLUMN].to_pylist() if KIND_COLUMN in data.column_names else []
    tombstones = {at for at, kind in enumerate(kinds) if kind in (1, 3)}
    if is_unsettled(add) or tombstones_of(add):
        assert len(tombstones) == tombstones_of(add)
        assert bool(tombstones) == (KIND_COLUMN in data.column_names)
    else:  # they have done their work, and nobody sees them
        assert tombstones <= set(dead_rows(table._handle.store, add.deletion_vector) or ())


def check_bucket(number: int | None, buckets: Any) -> None:
    assert number is not None
    if isinstance(buckets, int):
        assert 0 <= number < buckets
    else:
        assert number <= -1


def check_one_row_per_key(table: lakebed.Table, files: list[AddFile], key: list[str]) -> None:
    """Of the settled rows, a key is in one bucket only, and there it lives once."""
    places: defaultdict[tuple[Any, ...], set[int | None]] = defaultdict(set)
    for add in files:
        for row in zip(*(read_file(table, add)[name].to_pylist() for name in key), strict=True):
            places[row].add(bucket_of(add))
    for row, numbers in places.items():
        ordered = sorted((-(n or 0) for n in numbers if n is not None and n < 0), reverse=True)
        for lower, upper in itertools.pairwise(ordered):
            assert is_above(upper, lower), f"key {row} is in buckets {numbers}, which do not overlap"
        assert len([n for n in numbers if n is not None and n >= 0]) <= 1, f"key {row} is in buckets {numbers}"


def is_above(upper: int, lower: int) -> bool:
    """Whether a node of the tree of buckets is the other, or one of its ancestors."""
    return lower >> max(lower.bit_length() - upper.bit_length(), 0) == upper


def read_file(table: lakebed.Table, add: AddFile) -> pa.Table:
    root = re.sub("^file://", "", table.location)
    return pq.ParquetFile(f"{root}/{add.file_path}").read()


def _sortable(value: Any) -> Any:
    return value.encode() if isinstance(value, str) else value
