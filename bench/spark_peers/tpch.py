"""The data of TPC-H, made by tpchgen-cli, and refreshes of it.

A refresh follows the specification in what it does: 0.1 % of the orders are inserted with their lines, under keys that
the generator leaves free, and as many are deleted, which are next to each other. The rows that are inserted are copies
of others.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from bench.peers.contenders import PEERS_PYTHON
from bench.spark_peers.places import Places

FREE = 8
"""Of 32 keys the generator uses the first 8."""
SHARE = 1_000
"""One order of so many comes, and one goes, with each refresh."""


def make(places: Places, scale: float, refreshes: int, parts: int) -> None:
    """Write tables, refreshes, the keys that each of them deletes, and what must be there after all.

    Raises RuntimeError if the generator is missing or fails.
    """
    target = places.batch("tpch", 0)
    generate(target, scale, parts)
    orders, lines = (pq.read_table(target / name) for name in ("orders", "lineitem"))
    orders, lines = _plain(orders), _plain(lines)
    keys = _array(orders["o_orderkey"]).sort()
    size = max(1, len(keys) // SHARE)
    deleted = []
    for number in range(refreshes):
        taken = keys.slice(number * size, size)
        gone = keys.slice(len(keys) - (number + 1) * size, size)
        deleted.append((gone[0].as_py(), gone[-1].as_py()))
        for name, table, key in (("orders", orders, "o_orderkey"), ("lineitem", lines, "l_orderkey")):
            new = table.filter(pc.is_in(table[key], value_set=_array(taken)))
            place = new.column_names.index(key)
            _store(places.batch(f"refresh-{name}", number), new.set_column(place, key, pc.add(new[key], FREE)))
    (places.root / "tpch.json").write_text(json.dumps(deleted))
    low = deleted[-1][0]
    for name, table, key in (("orders", orders, "o_orderkey"), ("lineitem", lines, "l_orderkey")):
        kept = table.filter(pc.less(table[key], low))
        news = [pq.read_table(places.batch(f"refresh-{name}", number)) for number in range(refreshes)]
        _store(places.expected(name), pa.concat_tables([kept, *(new.cast(kept.schema) for new in news)]))


def generate(target: Path, scale: float, parts: int) -> None:
    """A folder for each table. Raises RuntimeError if the generator is missing or fails."""
    tool = PEERS_PYTHON.parent / "tpchgen-cli"
    if not tool.exists():
        raise RuntimeError(f"{tool} is missing; `make peers` installs it")
    order = [str(tool), "parquet", "-s", f"{scale:g}", "--parts", str(parts), "-o", str(target)]
    done = subprocess.run(order, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"tpchgen-cli failed: {done.stderr.strip()[:300]}")


def _plain(table: pa.Table) -> pa.Table:
    """Texts as all readers have them, and no notes on the columns."""
    kinds = [pa.string() if pa.types.is_string_view(field.type) else field.type for field in table.schema]
    names = table.column_names
    return table.cast(pa.schema([pa.field(name, kind, False) for name, kind in zip(names, kinds, strict=True)]))


def _array(values: pa.ChunkedArray) -> pa.Array:
    return values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values


def _store(folder: Path, table: pa.Table) -> None:
    folder.mkdir(parents=True)
    pq.write_table(table, folder / "0.parquet", compression="zstd")
