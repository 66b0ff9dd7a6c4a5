"""One process that works on a table of a single large bucket, and says what it found and how much memory it needed.

python bucket_memory_worker.py <directory> <fill|read|settle|compact> <MiB of the bucket> <merge engine>

Prints JSON: MiB of memory ``before`` and at the ``peak``, how many MiB of Arrow rows passed, and sums over them.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import polars  # noqa: F401 - loaded before the first measurement
import pyarrow as pa
import pyarrow.compute as pc
from upsert_memory_worker import peak

import lakebed

SCHEMA = "id BIGINT NOT NULL, v BIGINT, a BIGINT, b DOUBLE, c DOUBLE, d STRING, e STRING, f TIMESTAMP, g BOOLEAN"
ROW = 80
"""About the bytes of a row in memory."""
ROWS = 32_768
FILLING: dict[str, Any] = {"writer_memory_limit": "192MiB", "sync": False}
OPTIONS: dict[str, Any] = {"writer_memory_limit": "32MiB", "key_cache_size": "32MiB", "sync": False}
SPREAD = 0x5851F42D4C957F2D
"""Odd, so that products with it are as many as their factors; and far apart, as keys of real tables are."""
STRIDES = (1, 3, 7)
"""The first upsert has every key, the next ones each third and each seventh one."""


def batch(numbers: pa.Array, value: int) -> pa.RecordBatch:
    """Rows for the keys of ``numbers``; all but ``v`` is random, so that it does not compress."""
    size = len(numbers)

    def random(below: int) -> pa.Array:
        return pc.floor(pc.multiply(pc.random(size), float(below))).cast(pa.int64())

    columns = [keys(numbers), pa.repeat(pa.scalar(value, pa.int64()), size), random(1 << 50)]
    columns += [pc.random(size), pc.random(size), random(1 << 50).cast(pa.string()), random(500).cast(pa.string())]
    columns += [random(1 << 50).cast(pa.timestamp("us", "UTC")), pc.equal(random(2), 1)]
    return pa.record_batch(columns, ["id", "v", *"abcdefg"])


def keys(numbers: pa.Array) -> pa.Array:
    """The keys of rows by their numbers: products modulo 2 to the power of 64."""
    return pc.multiply(numbers, pa.scalar(SPREAD, pa.int64()))


def batches(rows: int, stride: int) -> Iterator[pa.RecordBatch]:
    for start in range(0, rows, stride * ROWS):
        numbers = pa.array(range(start, min(rows, start + stride * ROWS), stride), pa.int64())
        yield batch(numbers, stride)


def fill(lake: lakebed.Warehouse, rows: int, engine: str) -> dict[str, int]:
    """Three upserts, of which the last two are not settled."""
    properties = {"fields.v.aggregate-function": "sum"} if engine == "aggregation" else {}
    table = lake.create_table(
        "t", SCHEMA, primary_key=["id"], buckets=1, merge="on-read", merge_engine=engine, properties=properties
    )
    for stride in STRIDES:
        table.upsert(batches(rows, stride))
        if stride == 1:
            table.settle()
    files = table.files()
    return {"files": files.num_rows, "unsettled": sum(files["unsettled"].to_pylist())}


def read(lake: lakebed.Warehouse) -> dict[str, int]:
    """Stream over all rows."""
    count = values = ids = size = 0
    for rows in lake.table("t").to_batches():
        count += rows.num_rows
        values += pc.sum(rows["v"]).as_py()
        ids += pc.sum(pc.bit_wise_and(rows["id"], pa.scalar(0xFFFFFFFF, pa.int64()))).as_py()
        size += rows.nbytes
    return {"rows": count, "values": values, "ids": ids, "MiB": size >> 20}


def settle(lake: lakebed.Warehouse) -> dict[str, int]:
    table = lake.table("t")
    table.settle()
    return {"unsettled": sum(table.files()["unsettled"].to_pylist())}


def compact(lake: lakebed.Warehouse) -> dict[str, int]:
    table = lake.table("t")
    table.compact(full=True)
    files = table.files()
    return {"files": files.num_rows, "dead": sum(files["dead_rows"].to_pylist())}


STEPS: dict[str, Callable[[lakebed.Warehouse], dict[str, int]]] = {"read": read, "settle": settle, "compact": compact}


def main(root: Path, step: str, size: int, engine: str) -> None:
    with lakebed.connect(root, **(FILLING if step == "fill" else OPTIONS)) as lake:
        before = peak()
        found = fill(lake, (size << 20) // ROW, engine) if step == "fill" else STEPS[step](lake)
    print(json.dumps({"before": before, "peak": peak(), **found}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), sys.argv[4])
