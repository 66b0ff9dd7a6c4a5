"""The main job, end to end, on the embedded default: `make demo`."""

from __future__ import annotations

import datetime as dt
import json
import random
import shutil
import tempfile
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from textwrap import indent
from typing import Any

import polars as pl
import pyarrow as pa
from rich.console import Console
from rich.panel import Panel
from rich.table import Table as RichTable

import lakebed

console = Console(width=110)


def chapter(number: int, title: str, text: str) -> None:
    console.print()
    console.print(Panel(text, title=f"[bold]{number}. {title}", title_align="left", border_style="cyan"))


def show(title: str, rows: Iterable[dict[str, Any]]) -> None:
    rows = list(rows)
    table = RichTable(title=title, title_justify="left", header_style="bold")
    for name in rows[0] if rows else []:
        table.add_column(name, justify="right" if isinstance(rows[0][name], int | float) else "left")
    for row in rows:
        table.add_row(*(_text(value) for value in row.values()))
    console.print(table)


def _text(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:,.2f}"
    return "·" if value is None else f"{value:,}" if isinstance(value, int) else str(value)


def history(table: lakebed.Table, limit: int = 6) -> None:
    show(
        f"{table.name}: history",
        (
            {
                "version": c.version,
                "when (UTC)": c.timestamp.strftime("%H:%M:%S.%f")[:-3],
                "operation": c.operation,
                "what": ", ".join(f"{text}: {c.metrics[k]:,}" for k, text in SHOWN.items() if k in c.metrics) or "·",
                "in the open log": "yes" if c.published else "not yet",
            }
            for c in table.history(limit)
        ),
    )


SHOWN = {
    "numOutputRows": "rows in",
    "numDeletedRows": "rows out",
    "numRestoredFiles": "files back",
    "numRemovedFiles": "files out",
}


def orders_of(day: dt.date, count: int, first: int) -> pa.Table:
    chance = random.Random(first)
    return pa.table(
        {
            "id": pa.array(range(first, first + count), pa.int64()),
            "dt": pa.array([day] * count, pa.date32()),
            "customer": [f"customer-{chance.randrange(500):03d}" for _ in range(count)],
            "amount": [round(chance.uniform(-5, 200), 2) for _ in range(count)],
        }
    )


def main() -> None:
    root = Path(tempfile.mkdtemp(prefix="lakebed-demo-"))
    started = time.perf_counter()
    try:
        run(root / "warehouse")
    finally:
        shutil.rmtree(root, ignore_errors=True)
    console.print(
        f"\n[bold green]Done in {time.perf_counter() - started:.1f} s.[/] The warehouse was in a temporary folder."
    )


def run(warehouse: Path) -> None:
    chapter(
        1, "A warehouse is a folder", "connect() makes it, with its SQLite metastore in .lakebed/. No server, no JAR."
    )
    lake = lakebed.connect(warehouse)
    lake.create_namespace("shop")
    orders = lake.create_table(
        "shop.orders",
        "id BIGINT NOT NULL, dt DATE, customer STRING, amount DOUBLE COMMENT 'in euro'",
        partition_by=["dt"],
        comment="what people bought",
    )
    days = [dt.date(2026, 11, 13) + dt.timedelta(days=n) for n in range(3)]
    for number, day in enumerate(days):
        orders.append(orders_of(day, 100_000, number * 100_000))
    show("shop.orders: files", _files(orders))

    chapter(
        2, "Reads look only at files that matter", "Partitions first, then minimum, maximum and null count per file."
    )
    for where in ("dt = '2026-11-14'", "id < 1000", "amount > 199 and customer like '%-007'"):
        console.print(
            f"  {where:42s} {orders.files(where).num_rows} of {orders.files().num_rows} files,"
            f" {orders.count(where):>7,} rows"
        )

    chapter(3, "Deletes write a bitmap, not the file", "Delta's deletion vectors: the Parquet files stay as they are.")
    orders.delete("amount < 0")
    show("shop.orders: files after the delete", _files(orders))

    chapter(4, "The schema moves, the files do not", "A new column is null in old rows; no file is written again.")
    orders.alter(add={"note": "STRING"}, move={"note": "after dt"})
    orders.append([{"id": 1_000_000, "dt": days[0], "customer": "ann", "amount": 1.5, "note": "by hand"}])
    show("newest rows", orders.to_polars(where="id >= 299999").cast({"id": pl.String}).to_dicts())

    chapter(5, "Time travel, tags and going back", "Every version stays readable by number, by time and by tag.")
    orders.tag("before-accident", retain="30 days")
    orders.overwrite(orders.to_arrow().slice(0, 10))
    console.print(
        f"  after an accident: {orders.count():,} rows; at the tag: {orders.at(tag='before-accident').count():,} rows"
    )
    orders.restore(tag="before-accident")
    console.print(f"  restored:          {orders.count():,} rows")
    history(orders)

    chapter(6, "Several tables, one commit", "A transaction lands whole or not at all, whatever fails in between.")
    audit = lake.create_table("shop.audit", "at TIMESTAMP, what STRING")
    with lake.transaction() as tx:
        tx.table("shop.orders").delete("customer = 'ann'")
        tx.table("shop.audit").append([{"at": dt.datetime.now(dt.UTC), "what": "ann's orders erased"}])
    console.print("  new versions: " + ", ".join(f"{name} {version}" for name, version in tx.versions.items()))
    try:
        with lake.transaction() as tx:
            tx.table("shop.orders").delete("true")
            tx.table("shop.audit").append([{"what": 42}])
    except lakebed.LakebedError as error:
        console.print(indent(f"a mistake in the second table: {error}", "  "), style="red", highlight=False)
    console.print(f"  so the first table is untouched: {orders.count():,} rows, {audit.count()} audit row")

    chapter(
        7,
        "Writers do not get in each other's way",
        "Eight threads append to one table at once; nobody retries, nobody fails.",
    )
    clicks = lake.create_table("shop.clicks", "writer INT, n INT")
    begun = time.perf_counter()
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda w: [clicks.append([{"writer": w, "n": n}]) for n in range(10)], range(8)))
    rate = clicks.version / (time.perf_counter() - begun)
    console.print(f"  {clicks.version} versions, {clicks.count()} rows, {rate:.0f} commits/s")

    chapter(
        8,
        "Every version is a Delta table",
        "polars reads the same folder with its own Delta reader, deletion vectors and all.",
    )
    location = orders.location
    other = pl.scan_delta(str(Path(warehouse) / "shop" / "orders")).select(pl.len(), pl.col("amount").sum()).collect()
    show(
        "the same numbers from two readers",
        [
            {
                "reader": "Lakebed",
                "rows": orders.count(),
                "sum of amount": orders.to_polars(["amount"])["amount"].sum(),
            },
            {"reader": "polars.scan_delta", "rows": other["len"][0], "sum of amount": other["amount"][0]},
        ],
    )

    chapter(9, "Lose the metastore, keep the tables", "The open log alone rebuilds it: lakebed.recover(path).")
    versions = orders.version
    lake.close()
    shutil.rmtree(warehouse / ".lakebed")
    recovered = lakebed.recover(location)
    console.print(f"  {recovered.name}: version {recovered.version} of {versions}, {recovered.count():,} rows")
    console.print(
        f"  its tag is gone with the metastore; its versions are not: {len(recovered.history())} in the history"
    )


def _files(table: lakebed.Table) -> list[dict[str, Any]]:
    return [
        {
            "partition": ", ".join(f"{name} = {value}" for name, value in json.loads(row["partition"]).items()),
            "MB": row["size"] / 1e6,
            "rows": row["rows"],
            "dead rows": row["dead_rows"],
            "added in version": row["added_version"],
        }
        for row in table.files().to_pylist()
    ]


if __name__ == "__main__":
    main()
