"""Defects of key tables that were found once, and must not come back."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import lakebed

ROWS = 2_000


@pytest.mark.parametrize("merge", ["on-read", "on-write"])
def test_a_batch_is_merged_as_a_whole_whatever_the_memory_limit(tmp_path: Path, merge: str) -> None:
    """Beyond the limit a batch becomes several files; the sequence orders the rows of a key across all of them."""
    numbers = [(n * 7919) % ROWS for n in range(ROWS)]
    batch = pa.table(
        {
            "id": pa.array([0 if n % 400 == 0 else n for n in range(ROWS)], pa.int32()),
            "s": pa.array(numbers, pa.int32()),
            "v": [str(n) for n in numbers],
            "pad": ["x" * 1000] * ROWS,
        }
    )
    found = set()
    for limit in ("1MiB", "1GiB"):
        with lakebed.connect(tmp_path / limit, writer_memory_limit=limit) as lake:
            table = lake.create_table(
                "t",
                "id INT, s INT, v STRING, pad STRING",
                primary_key=["id"],
                buckets=1,
                sequence=["s"],
                merge=merge,
                merge_engine="aggregation",
                properties={"fields.v.aggregate-function": "listagg"},
            )
            table.upsert(batch)
            assert merge == "on-write" or (table.files().num_rows > 1) == (limit == "1MiB")
            for _ in range(2):
                found.add(table.to_arrow(["v"], where="id = 0")["v"][0].as_py())
                table.settle()
    in_order = sorted(number for n, number in enumerate(numbers) if n % 400 == 0)
    assert found == {",".join(map(str, in_order))}
