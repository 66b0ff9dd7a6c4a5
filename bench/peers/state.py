"""The input of the benchmark of upserts, and the rows that must be there in the end. Runs as a process of its own.

The input is made once and is the same for everybody: the rows of the table, batches of rows with random keys, and a few
rows to warm up with. What must be live after some batches comes from these files alone, by numpy: no contender has
a part in it. Two tables are the same if their rows, sorted by the key, have the same bytes.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from bench.peers.contenders import KEY
from bench.peers.plain import LIVE_LZ4, write
from bench.peers.worker import stored
from bench.sample import rows

NEW_KEYS = 0.05
"""Random keys are taken from a range that is larger than the table by this part, so that some are inserts."""
WARM_ROWS = 1_000


def base(folder: Path) -> Path:
    """The file of the rows of the table."""
    return folder / "base.arrow"


def warm(folder: Path) -> Path:
    """The file of the rows to warm up with."""
    return folder / "warm.arrow"


def batch(folder: Path, size: int, number: int) -> Path:
    """The file of one batch of upserts."""
    return folder / f"upsert-{size}-{number}.arrow"


def make(folder: str, count: int, sizes: list[int], upserts: int) -> dict[str, Any]:
    """Write all input files; the keys of a batch are distinct and in no order."""
    place, bytes_of = Path(folder), {}
    place.mkdir(parents=True, exist_ok=True)
    table = rows(count)
    bytes_of["base"] = table.nbytes
    _store(base(place), table)
    _store(warm(place), rows(WARM_ROWS))
    for size in sizes:
        for number in range(upserts):
            seed = size + number
            ids = np.random.default_rng(seed).choice(int(count * (1 + NEW_KEYS)), size, replace=False)
            upsert = rows(size, seed=seed, ids=ids.astype(np.int64))
            bytes_of[str(size)] = upsert.nbytes
            _store(batch(place, size, number), upsert)
    return bytes_of


def expect(folder: str, size: int, upserts: int, live: str | None) -> dict[str, Any]:
    """The digest of the rows that are live after the first upserts; they are written to ``live``, too, if given."""
    place = Path(folder)
    parts = [stored(base(place)), *(stored(batch(place, size, number)) for number in range(upserts))]
    owner = np.full(1 + max(pc.max(part[KEY]).as_py() for part in parts), -1, dtype=np.int16)
    for number, part in enumerate(parts):
        owner[part[KEY].to_numpy()] = number
    parts = [part.filter(pa.array(owner[part[KEY].to_numpy()] == number)) for number, part in enumerate(parts)]
    table = pa.concat_tables(parts)
    if live is not None:
        frame = pl.from_arrow(table)
        assert isinstance(frame, pl.DataFrame)
        write(frame, Path(live))
        write(frame, Path(live).with_name(LIVE_LZ4), codec="lz4")
    return _digest(table)


def digest(folder: str, path: str) -> dict[str, Any]:
    """Count, sums and a hash of the rows of an Arrow file."""
    found = stored(Path(path))
    schema = stored(warm(Path(folder))).schema
    if set(found.column_names) != set(schema.names):
        raise RuntimeError(f"the columns should be {schema.names}, they are {found.column_names}")
    return _digest(found.select(schema.names).cast(schema))


def _digest(table: pa.Table) -> dict[str, Any]:
    table = table.sort_by(KEY).combine_chunks()
    sums, total = {}, hashlib.sha256()
    for name, column in zip(table.column_names, table.columns, strict=True):
        one = column.combine_chunks()
        sums[name] = _sum(one)
        for part in _bytes(one):
            total.update(part)
    return {"rows": table.num_rows, "sums": sums, "hash": total.hexdigest()}


def _bytes(column: Any) -> list[Any]:
    """The values, and which of them are null, as memory that says nothing else."""
    nulls = pc.is_null(column).cast(pa.uint8()).to_numpy()
    if pa.types.is_string(column.type):
        filled = pc.fill_null(column, "")
        _, offsets, text = filled.buffers()
        ends = np.frombuffer(offsets, np.int32)[filled.offset : filled.offset + len(filled) + 1]
        return [nulls, np.diff(ends), memoryview(text)[ends[0] : ends[-1]]]
    numbers = column.cast(pa.int8()) if pa.types.is_boolean(column.type) else column
    if pa.types.is_timestamp(numbers.type):
        numbers = numbers.cast(pa.int64())
    return [nulls, np.ascontiguousarray(pc.fill_null(numbers, 0).to_numpy())]


def _sum(column: Any) -> float:
    if pa.types.is_string(column.type):
        return float(pc.sum(pc.binary_length(column)).as_py())
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.int64())
    return float(pc.sum(column.cast(pa.float64())).as_py())


def _store(path: Path, table: pa.Table) -> None:
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)


VERBS: dict[str, Callable[..., dict[str, Any]]] = {"make": make, "expect": expect, "digest": digest}

if __name__ == "__main__":
    order = json.loads(sys.argv[1])
    print(json.dumps(VERBS[order.pop("do")](**order)))
