"""The loop that looks after tables, beside writers and alone."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import lakebed

AT_ONCE = timedelta(0)


def test_every_table_has_its_turn(local_lake: lakebed.Warehouse) -> None:
    local_lake.create_namespace("shop")
    keyed = local_lake.create_table("shop.k", "id BIGINT", primary_key=["id"], buckets=1, merge="on-read")
    plain = local_lake.create_table("p", "id BIGINT")
    for id in range(6):
        keyed.upsert([{"id": id % 2}])
        plain.append([{"id": id}])
    broken = local_lake.create_table("broken", "id BIGINT")
    for id in range(6):
        broken.append([{"id": id}])
    lost = Path(broken.location.removeprefix("file://")) / broken.files()["path"][0].as_py()
    lost.unlink()
    done = {one.table: one for one in local_lake.maintain(retain=AT_ONCE)}
    assert set(done) == {"default.broken", "default.p", "shop.k"}
    assert isinstance(done["default.broken"].error, lakebed.FileMissingError)
    assert not any(keyed.files()["unsettled"].to_pylist())
    assert plain.files().num_rows == 1
    assert done["default.p"].vacuumed is not None
    assert len(done["default.p"].vacuumed.paths) == 6
    assert (keyed.count(), plain.count()) == (2, 6)


def test_maintenance_in_a_thread_beside_a_writer(local_lake: lakebed.Warehouse) -> None:
    table = local_lake.create_table("t", "id BIGINT, n BIGINT", primary_key=["id"], buckets=2, merge="on-read")
    stop = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        loop = pool.submit(local_lake.maintain, ["t"], every="1 millisecond", stop=stop)
        try:
            for n in range(30):
                table.upsert([{"id": id, "n": n} for id in range(n, n + 5)])
        finally:
            stop.set()
        (last,) = loop.result()
    assert last.error is None
    assert sorted(map(tuple, (row.values() for row in table.to_arrow().to_pylist()))) == [
        *((id, id) for id in range(30)),
        *((id, 29) for id in range(30, 34)),
    ]
    local_lake.maintain(retain=AT_ONCE)
    assert not any(table.files()["unsettled"].to_pylist())
    assert table.files().num_rows < 10
