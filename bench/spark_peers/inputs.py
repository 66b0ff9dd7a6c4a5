"""What is written into the tables, and the rows that must be there in the end: Parquet files, the same for everybody.

Runs in Lakebed's own environment, before any contender. What must be live comes from the input alone, by numpy: no
contender has a part in it.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from bench.sample import rows
from bench.spark_peers import tpch
from bench.spark_peers.edit import DELETE_AT, DELETE_EVERY, UPDATE_AT, UPDATE_EVERY
from bench.spark_peers.places import Places
from bench.spark_peers.sizes import Sizes

NEW_KEYS = 0.05
"""Random keys come from a range that is larger than the table by this part, so that some of them are inserts."""
FILES = 4
"""Files of a large input; Spark has as many tasks at least."""


def make(places: Places, sizes: Sizes, workloads: Sequence[str]) -> None:
    """Write what these workloads need."""
    shutil.rmtree(places.root, ignore_errors=True)
    _store(places.base, rows(sizes.rows))
    for name in workloads:
        _MAKERS[name](places, sizes)
    (places.root / "sizes.json").write_text(json.dumps(sizes.to_json()))


def _upserts(places: Places, sizes: Sizes) -> None:
    """Batches of random keys, distinct within each."""
    made = [places.batch("batch", number) for number in range(sizes.upserts)]
    for number, folder in enumerate(made):
        _store(folder, _random_rows(sizes.rows, sizes.batch, seed=1 + number))
    live(places.expected("upserts"), [places.base, *made])


def _trickle(places: Places, sizes: Sizes) -> None:
    """Small batches of random keys."""
    made = [places.batch("trickle", number) for number in range(sizes.trickles)]
    for number, folder in enumerate(made):
        _store(folder, _random_rows(sizes.rows, sizes.trickle, seed=1_000 + number), 1)
    live(places.expected("trickle"), [places.base, *made])


def _changes(places: Places, sizes: Sizes) -> None:
    """A large batch, and one of 1 % of the rows."""
    before, changed = places.batch("before", 0), places.batch("changed", 0)
    _store(before, _random_rows(sizes.rows, sizes.batch, seed=2_000))
    _store(changed, _random_rows(sizes.rows, sizes.rows // 100, seed=2_001), 1)
    live(places.expected("changes"), [places.base, before, changed])


def _lookups(places: Places, sizes: Sizes) -> None:
    """A batch, keys with what is to be found for them, and ranges of a thousandth of the keys."""
    batch, expected = places.batch("looked-up", 0), places.expected("lookups")
    _store(batch, _random_rows(sizes.rows, sizes.batch, seed=3_000))
    live(expected, [places.base, batch])
    found = pq.read_table(expected, columns=["id", "reference"])
    random = np.random.default_rng(3_001)
    chosen = found.take(random.choice(found.num_rows, sizes.lookups, replace=False))
    width = max(10, sizes.rows // 1000)
    starts = random.integers(0, sizes.rows - width, sizes.lookups).tolist()
    points = list(zip(chosen["id"].to_pylist(), chosen["reference"].to_pylist(), strict=True))
    wanted = {"points": points, "ranges": [(start, start + width - 1) for start in starts]}
    (places.root / "lookups.json").write_text(json.dumps(wanted))


def _edits(places: Places, sizes: Sizes) -> None:
    """Only what must be there: the edits themselves are SQL."""
    base = pq.read_table(places.base)
    ids = base["id"].to_numpy()
    kept = base.filter(pa.array(ids % DELETE_EVERY != DELETE_AT))
    _store(places.expected("deleted"), kept)
    hit = pa.array(kept["id"].to_numpy() % UPDATE_EVERY == UPDATE_AT)
    quantity = pc.if_else(hit, pc.add(kept["quantity"], pa.scalar(1, pa.int32())), kept["quantity"])
    channel = pc.if_else(hit, "changed", kept["channel"])
    place = kept.column_names.index
    kept = kept.set_column(place("quantity"), "quantity", quantity).set_column(place("channel"), "channel", channel)
    _store(places.expected("updated"), kept)


def _writers(places: Places, sizes: Sizes) -> None:
    """Batches with the first hundredth of all keys and as many of their own; a row follows from its key."""
    source = rows(sizes.rows, seed=4_000)
    share, count = sizes.rows // 100, sizes.writers * sizes.writes
    own = np.random.default_rng(4_001).permutation(np.arange(share, sizes.rows))
    size = min(share, len(own) // count)
    for number in range(count):
        ids = np.concatenate([np.arange(share), own[number * size : (number + 1) * size]])
        batch = source.take(ids)
        writer = pa.array([f"writer-{number}"] * batch.num_rows)
        _store(
            places.batch("writer", number), batch.set_column(batch.column_names.index("channel"), "channel", writer), 1
        )


def _partitions(places: Places, sizes: Sizes) -> None:
    """A row for each partition, and one more for each."""
    parts = np.arange(sizes.partitions, dtype=np.int64)
    made = [
        pa.table({"id": parts + number * sizes.partitions, "amount": parts / 7 + number, "part": parts})
        for number in range(2)
    ]
    for number, table in enumerate(made):
        _store(places.batch("partitioned", number), table)
    _store(places.expected("partitions"), pa.concat_tables(made))


def _tpch(places: Places, sizes: Sizes) -> None:
    """Eight tables, and orders with their lines that come and go."""
    tpch.make(places, sizes.tpch, sizes.refreshes, FILES)


_MAKERS: dict[str, Callable[[Places, Sizes], None]] = {
    "upserts": _upserts,
    "trickle": _trickle,
    "changes": _changes,
    "lookups": _lookups,
    "edits": _edits,
    "tpch": _tpch,
    "writers": _writers,
    "partitions": _partitions,
}


def live(target: Path, inputs: Sequence[Path]) -> None:
    """Write the rows that are live after these inputs, in their order, were upserted."""
    tables = [pq.read_table(folder) for folder in inputs]
    owner = np.zeros(1 + max(table["id"].to_numpy().max() for table in tables), np.int32)
    for number, table in enumerate(tables):
        owner[table["id"].to_numpy()] = number
    kept = [table.filter(pa.array(owner[table["id"].to_numpy()] == number)) for number, table in enumerate(tables)]
    _store(target, pa.concat_tables(kept).combine_chunks())


def _random_rows(count: int, size: int, *, seed: int) -> pa.Table:
    return rows(size, seed=seed, ids=_random_keys(int(count * (1 + NEW_KEYS)), size, seed))


def _random_keys(among: int, size: int, seed: int) -> npt.NDArray[np.int64]:
    return np.random.default_rng(seed).choice(among, size, replace=False).astype(np.int64)


def _store(folder: Path, table: pa.Table, parts: int = FILES) -> None:
    folder.mkdir(parents=True)
    step = -(-table.num_rows // parts)
    for part in range(parts):
        pq.write_table(table.slice(part * step, step), folder / f"{part}.parquet", compression="zstd")
