"""A fresh process that loads a large table, or plans one read of it. Run by planning.py."""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import lakebed
from lakebed.core.actions import AddFile
from lakebed.core.predicate import parse
from lakebed.engine.plan import plan
from lakebed.metastore import LoggedVersion

VERSIONS = 100
PARTITIONS = 1000
ROWS = 1_000_000
SCHEMA = "part INT, id BIGINT, name STRING, amount DOUBLE, at TIMESTAMP"
ONE_PARTITION = "part = 417"
ONE_FILE = "id = 123456789"
TEMPLATE = (
    '{"numRecords":%d,"minValues":{"id":%d,"name":"aaron","amount":0.25,"at":"2026-11-15T00:00:00.000Z"},'
    '"maxValues":{"id":%d,"name":"zoe","amount":999.75,"at":"2026-11-15T23:59:59.999Z"},'
    '"nullCount":{"id":0,"name":17,"amount":0,"at":0},"tightBounds":true}'
)


def history(seed: lakebed.Table, files: int) -> Iterator[LoggedVersion]:
    """A log with this many files: the first commit of ``seed``, then appends of equal size."""
    state = seed._handle.metastore.state(seed._handle.table_id)
    yield LoggedVersion(0, state.timestamp, (state.protocol, state.metadata))
    size = files // VERSIONS
    for version in range(1, VERSIONS + 1):
        numbers = range((version - 1) * size, version * size)
        yield LoggedVersion(version, state.timestamp + version, tuple(_file(number, version) for number in numbers))


def _file(number: int, version: int) -> AddFile:
    part, first = str(number % PARTITIONS), number * ROWS
    return AddFile(
        path=f"part={part}/{number:08x}-5a1e-4bed-8c0f-{number * 2654435761 % 2**48:012x}.parquet",
        partition_values={"part": part},
        size=40_000_000 + number,
        modification_time=1_763_164_800_000 + number,
        data_change=True,
        stats=TEMPLATE % (ROWS, first, first + ROWS - 1),
        base_row_id=first,
        default_row_commit_version=version,
    )


def load(order: dict[str, Any]) -> float:
    """Make the table; the seconds that it took."""
    with lakebed.connect(order["warehouse"], order["metastore"]) as lake:
        seed = lake.create_table("seed", SCHEMA, partition_by=["part"])
        place = lake._root.child("default/big").uri
        begun = time.perf_counter()
        lake._metastore.import_table("default", "big", place, "big", history(seed, order["files"]))
        return time.perf_counter() - begun


def measure(order: dict[str, Any]) -> dict[str, float]:
    """Plan once; seconds, CPU seconds, files found, and the most memory that the process has had, in GiB."""
    with lakebed.connect(order["warehouse"], order["metastore"]) as lake:
        table = lake.table("big")
        assert table.version == VERSIONS  # connected, and the schema is known, as in a running reader
        act = _actions(table, order["where"])[order["how"]]
        begun, used = time.perf_counter(), time.process_time()
        found = act()
        seconds, used = time.perf_counter() - begun, time.process_time() - used
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        return {"seconds": seconds, "cpu": used, "files": found, "peak": peak}


def _actions(table: lakebed.Table, where: str | None) -> dict[str, Callable[[], int]]:
    handle = table._handle

    def planned(*, whole: bool) -> Any:
        state = handle.metastore.state(handle.table_id)
        predicate = None if where is None else parse(where, state.metadata.schema)
        return plan(handle.metastore, handle.table_id, state.version, state.metadata, predicate, whole=whole)

    return {
        "files": lambda: int(table.files(where).num_rows),
        "plan": lambda: len(planned(whole=False)),
        "plan, all details": lambda: len(planned(whole=True)),
        "plan, an object per file": lambda: len(list(planned(whole=True).adds())),
    }


def main(order: dict[str, Any]) -> None:
    print(json.dumps(load(order) if order["how"] == "load" else measure(order)))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
