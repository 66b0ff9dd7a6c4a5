"""Reading and writing hold a bounded part of a table in memory, however large the table is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

import lakebed

BATCHES, ROWS = 40, 50_000
BATCH_BYTES = ROWS * 8 * 4
LIMIT = 8 << 20


def batches(peaks: list[int]) -> Iterator[pa.RecordBatch]:
    for number in range(BATCHES):
        peaks.append(pa.total_allocated_bytes())
        start = number * ROWS
        numbers = pa.array(range(start, start + ROWS), pa.int64())
        yield pa.record_batch([numbers] * 4, names=["a", "b", "c", "d"])


def test_append_and_read_in_bounded_memory(tmp_path: Path) -> None:
    whole = BATCHES * BATCH_BYTES
    assert whole > 60 << 20
    with lakebed.connect(tmp_path, writer_memory_limit=LIMIT) as lake:
        table = lake.create_table("t", "a BIGINT, b BIGINT, c BIGINT, d BIGINT")
        before = pa.total_allocated_bytes()
        writing: list[int] = []
        table.append(batches(writing))
        assert max(writing) - before < 3 * LIMIT
        assert table.files().num_rows >= whole // (2 * LIMIT)

        before = pa.total_allocated_bytes()
        rows, peak = 0, 0
        for batch in table.to_batches():
            rows += batch.num_rows
            peak = max(peak, pa.total_allocated_bytes() - before)
        assert rows == BATCHES * ROWS
        assert peak < whole // 2


def test_stopping_early_stops_reading(tmp_path: Path) -> None:
    with lakebed.connect(tmp_path) as lake:
        table = lake.create_table("t", "a BIGINT, b BIGINT, c BIGINT, d BIGINT")
        table.append(batches([]))
        stream = table.to_batches()
        assert next(stream).num_rows > 0
        stream.close()  # type: ignore[attr-defined]
        import threading

        assert not [t for t in threading.enumerate() if t.name == "lakebed-prefetch"]
