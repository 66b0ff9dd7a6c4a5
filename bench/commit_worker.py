"""A process that lands prepared commits on one table as fast as it can. Run by commits.py."""

from __future__ import annotations

import json
import sys
import time
import uuid
from typing import Any

import lakebed
from lakebed.core.actions import AddFile, now_ms
from lakebed.core.commit import Claim, Kind
from lakebed.engine.draft import Draft, Handle
from lakebed.engine.land import land

FILES_PER_COMMIT = 4
WARM_UP = 3
SCHEMA = "id BIGINT, region STRING, amount DOUBLE, at TIMESTAMP"


def files() -> list[AddFile]:
    """The files of one commit: named, counted and with statistics, but not on the disk."""
    return [_file(number) for number in range(FILES_PER_COMMIT)]


def _file(number: int) -> AddFile:
    low, high = number * 1_000_000, number * 1_000_000 + 999_999
    stats = {
        "numRecords": 1_000_000,
        "minValues": {"id": low, "region": "eu-central", "amount": 0.25, "at": "2026-11-15T00:00:00.000Z"},
        "maxValues": {"id": high, "region": "us-west", "amount": 999.75, "at": "2026-11-15T23:59:59.999Z"},
        "nullCount": {"id": 0, "region": 17, "amount": 0, "at": 0},
        "tightBounds": True,
    }
    text = json.dumps(stats, separators=(",", ":"))
    return AddFile(f"{uuid.uuid4()}.parquet", {}, 40_000_000, now_ms(), True, stats=text)


def main(order: dict[str, Any]) -> None:
    with lakebed.connect(order["warehouse"], order["metastore"]) as lake:
        handle = lake.table(order["table"])._handle
        waiting = [files() for _ in range(order["commits"])]
        for _ in range(WARM_UP):  # connections are open and statements compiled, as in a running writer
            commit(handle, files())
        print("ready", flush=True)
        sys.stdin.readline()
        used = time.process_time()
        for adds in waiting:
            commit(handle, adds)
        print(time.process_time() - used, flush=True)


def commit(handle: Handle, adds: list[AddFile]) -> None:
    """One commit, as a writer makes it once its data files are there."""
    draft = Draft(handle, handle.metastore.state(handle.table_id))
    draft.adds = {add.path: add for add in adds}
    draft.claims.append(Claim(Kind.APPEND))
    land([draft])


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
