"""What went wrong elsewhere with maintenance, memory and small vectors (see PITFALLS in the design papers)."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import lakebed
from lakebed.engine.resolving import known_dead
from lakebed.storage.store import Store


def rows(table: Any) -> dict[int, int]:
    return {row["id"]: row["v"] for row in table.to_arrow().to_pylist()}


def test_ducklake_650_999_what_is_inline_is_read_back_as_it_was(
    local_lake: lakebed.Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DuckLake #650, #999: inlined data read back wrong. Here small vectors are in the log itself."""
    properties = {"compact-on-write": 0}
    table = local_lake.create_table("t", "id BIGINT, v BIGINT", primary_key=["id"], buckets=1, properties=properties)
    model = dict.fromkeys(range(30_000), 0)
    table.upsert([{"id": i, "v": 0} for i in model])
    kinds = []
    for number, keys in enumerate(([0], [29_999], [5, 0, 17], range(0, 30_000, 3), [1]), 1):
        table.upsert([{"id": key, "v": number} for key in keys])
        model |= dict.fromkeys(keys, number)
        monkeypatch.setattr(known_dead, "_shared", known_dead.DeadRows())  # vectors are read again
        largest = max(table._point().sources(None), key=lambda source: source.add.num_records or 0)  # type: ignore[attr-defined]
        assert largest.add.deletion_vector is not None
        kinds.append(largest.add.deletion_vector.storage_type)
        assert rows(table) == model
        seen = pl.scan_delta(table.location).collect()
        assert dict(zip(seen["id"].to_list(), seen["v"].to_list(), strict=True)) == model
    assert kinds == ["i", "i", "i", "u", "u"]


@pytest.mark.parametrize("versions", [6, 30])
def test_delta_1248_2201_vacuum_asks_as_often_whatever_there_is(
    local_lake: lakebed.Warehouse, monkeypatch: pytest.MonkeyPatch, versions: int
) -> None:
    """Delta #1248, #2201: vacuum is slow. It lists data, log and lists of scans once each, and deletes in one go."""
    table = local_lake.create_table(
        "t", "id BIGINT, v BIGINT", primary_key=["id"], buckets=2, properties={"compact-on-write": 0}
    )
    for number in range(versions):
        table.upsert([{"id": i, "v": number} for i in range(0, 40, 1 + number % 3)])
    before = rows(table)
    table.compact(full=True)
    table.expire("0 seconds")
    calls: Counter[str] = Counter()
    for name in ("list", "delete_many", "exists"):
        real = getattr(Store, name)

        def counted(*given: Any, _name: str = name, _real: Any = real, **more: Any) -> Any:
            calls[_name] += 1
            return _real(*given, **more)

        monkeypatch.setattr(Store, name, counted)
    removed = table.vacuum("0 seconds")
    assert removed.files.num_rows >= 2 * versions
    assert calls["list"] <= 3
    assert calls["delete_many"] <= 2
    assert calls["exists"] == 0
    assert rows(table) == before


GROWING = """
import gc, sys
import pyarrow as pa
import lakebed
from pathlib import Path

def resident():
    return int(Path("/proc/self/status").read_text().split("VmRSS:")[1].split()[0]) // 1024

options = {"key_cache_size": "1MiB"}
with lakebed.connect(sys.argv[1], **options) as lake:
    table = lake.create_table("t", "id BIGINT, text STRING", primary_key=["id"], buckets=2, merge=sys.argv[2])
    text = pa.array(["x" * 100] * 20_000)
    def cycle(number):
        ids = pa.array([(n * 7919 + number) % 40_000 for n in range(20_000)])
        table.upsert(pa.table({"id": ids, "text": text}))
        table.to_arrow(); table.to_polars(); table.settle()
        if number % 5 == 4:
            table.compact(full=True); table.expire("0 seconds"); table.vacuum("0 seconds")
    for number in range(15):
        cycle(number)
    gc.collect()
    held, before = pa.total_allocated_bytes(), resident()
    for number in range(15, 45):
        cycle(number)
    gc.collect()
    print(pa.total_allocated_bytes() - held >> 20, resident() - before)
"""


@pytest.mark.parametrize("merge", [pytest.param("on-read", marks=pytest.mark.soak), "on-write"])
def test_lakesoul_208_memory_does_not_grow_from_round_to_round(tmp_path: Path, merge: str) -> None:
    """LakeSoul #208: native memory leaks. A batch of 2 MB that stayed each time would be 60 MB after 30 rounds."""
    done = subprocess.run(
        [sys.executable, "-c", GROWING, str(tmp_path), merge], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    arrow, resident = map(int, done.stdout.split())
    assert arrow < 10
    assert resident < 40
