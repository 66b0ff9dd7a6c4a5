"""One process that upserts a lot of rows and says how much memory it needed: MiB before and at the peak.

python upsert_memory_worker.py <directory> <MiB of rows> <MiB of writer_memory_limit> <buckets> [sorted] [<merge>]

With ``sorted`` a column that only sorts orders the whole batch. With a way of merging, on-read or on-write, it is the
upsert of a table, which is committed, and its rows are counted; else files are written, and no more.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import polars  # noqa: F401 - loaded before the first measurement
import pyarrow as pa
import pyarrow.compute as pc
from upserting import order_for

import lakebed
from lakebed.core.options import Options
from lakebed.engine.keyed_write import write_upserts

ROWS = 32_768
SCHEMA = "id BIGINT, a BIGINT, b BIGINT, c DOUBLE, d DOUBLE, e STRING, f STRING, g TIMESTAMP, h BOOLEAN, i BIGINT"


def numbers(below: int) -> pa.Array:
    return pc.floor(pc.multiply(pc.random(ROWS), float(below))).cast(pa.int64())


def batch(helper: bool) -> pa.RecordBatch:
    """Ten columns of random values, which neither sort nor compress well."""
    columns = [numbers(1 << 50) for _ in range(3)] + [pc.random(ROWS), pc.random(ROWS)]
    columns += [numbers(1 << 50).cast(pa.string()), numbers(500).cast(pa.string())]
    columns += [numbers(1 << 50).cast(pa.timestamp("us", "UTC")), pc.equal(numbers(2), 1), numbers(1 << 20)]
    names = ["id", *"abcdefghi"]
    return pa.record_batch([*columns, numbers(1 << 50)] if helper else columns, [*names, "lsn"] if helper else names)


def batches(total: int, helper: bool) -> Iterator[pa.RecordBatch]:
    made = 0
    while made < total:
        rows = batch(helper)
        made += rows.nbytes
        yield rows


def peak() -> int:
    """The most memory that this process has had, in MiB."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    line = next(line for line in status.splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) // 1024


def upsert(root: Path, total: int, limit: int, buckets: str, merge: str) -> None:
    """The same as one commit of a table."""
    lake = lakebed.connect(root, writer_memory_limit=limit << 20, key_cache_size=limit << 18)
    count = int(buckets) if buckets.isdigit() else buckets
    table = lake.create_table("t", SCHEMA, primary_key=["id"], buckets=count, merge=merge)
    table.upsert([{"id": 1}])
    before, given = peak(), 0

    def counted() -> Iterator[pa.RecordBatch]:
        nonlocal given
        for rows in batches(total << 20, False):
            given += rows.num_rows
            yield rows

    done = table.upsert(pa.RecordBatchReader.from_batches(batch(False).schema, counted()))
    most = peak()
    assert given * 10 * 8 > total << 19
    assert table.version == done.version
    assert given * 0.999 < table.count() <= given + 1  # of so many random numbers a few are the same
    print(before, most, table.files().num_rows)


def main() -> None:
    root, total, limit, buckets = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
    helper = "sorted" in sys.argv[5:]
    options = Options(writer_memory_limit=limit << 20, sync=False)
    order = order_for(root, SCHEMA, ["id"], buckets=buckets, options=options, sort_by=("lsn",) if helper else ())
    schema = batch(helper).schema
    merge = next((word for word in sys.argv[5:] if word.startswith("on-")), None)
    if merge is not None:
        upsert(root, total, limit, buckets, merge)
        return
    before = peak()
    done = write_upserts(pa.RecordBatchReader.from_batches(schema, batches(total << 20, helper)), order)
    assert done.rows * 10 * 8 > total << 19
    print(before, peak(), len(done.files))


if __name__ == "__main__":
    main()
