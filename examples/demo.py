"""The main job, end to end, on the embedded default: `make demo`."""

from __future__ import annotations

import datetime as dt
import random
import shutil
import tempfile
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
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
        table.add_row(*("·" if value is None else str(value) for value in row.values()))
    console.print(table)


def history(table: lakebed.Table, limit: int = 6) -> None:
    show(
        f"{table.name}: history",
        (
            {
                "version": c.version,
                "when (UTC)": c.timestamp.strftime("%H:%M:%S.%f")[:-3],
                "operation": c.operation,
                "what": ", ".join(f"{k} {v:,}" for k, v in c.metrics.items() if k in SHOWN) or "·",
                "in the open log": "yes" if c.published else "not yet",
            }
            for c in table.history(limit)
        ),
    )


SHOWN = ("numFiles", "numOutputRows", "numDeletedRows", "numRemovedFiles", "numRestoredFiles")


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
    for where in ("dt = '2026-11-14'", "id < 1000", "amount > 199.99 and customer like 'customer-00%'"):
        console.print(
            f"  {where:50s} {orders.files(where).num_rows} of {orders.files().num_rows} files,"
            f" {orders.count(where):>7,} rows"
        )

    chapter(3, "Deletes write a bitmap, not the file", "Delta's deletion vectors: the Parquet files stay as they are.")
    orders.delete("amount < 0")
    show("shop.orders: files after the delete", _files(orders))

    chapter(4, "The schema moves, the files do not", "Added, renamed, widened columns are seen by old files at once.")
    orders.alter(add={"note": "STRING"}, rename={"customer": "buyer"})
    orders.append([{"id": 1_000_000, "dt": days[0], "buyer": "ann", "amount": 1.5, "note": "by hand"}])
    show("newest rows", orders.to_arrow(where="id >= 299999").to_pylist())

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
        tx.table("shop.orders").delete("buyer = 'ann'")
        tx.table("shop.audit").append([{"at": dt.datetime.now(dt.UTC), "what": "ann's orders erased"}])
    console.print(f"  new versions: {tx.versions}")
    try:
        with lake.transaction() as tx:
            tx.table("shop.orders").delete("true")
            tx.table("shop.audit").append([{"what": 42}])
    except lakebed.LakebedError as error:
        console.print(f"  [red]a mistake in the second table:[/] {error}")
    console.print(f"  and so the first is untouched: {orders.count():,} rows, {audit.count()} audit row")

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
        "polars reads the same folder with its own Delta reader; so can Spark, Trino or DuckDB.",
    )
    location = orders.location
    other = pl.scan_delta(str(Path(warehouse) / "shop" / "orders")).select(pl.len(), pl.col("amount").sum()).collect()
    show(
        "the same numbers from two readers",
        [
            {
                "reader": "Lakebed",
                "rows": orders.count(),
                "sum of amount": round(orders.to_polars(["amount"])["amount"].sum(), 2),
            },
            {"reader": "polars.scan_delta", "rows": other["len"][0], "sum of amount": round(other["amount"][0], 2)},
        ],
    )

    chapter(9, "Lose the metastore, lose nothing", "The open log alone rebuilds it: lakebed.recover(path).")
    versions = orders.version
    lake.close()
    shutil.rmtree(warehouse / ".lakebed")
    recovered = lakebed.recover(location)
    console.print(f"  {recovered.name}: version {recovered.version} of {versions}, {recovered.count():,} rows")


def _files(table: lakebed.Table) -> list[dict[str, Any]]:
    return [
        {
            "partition": row["partition"],
            "MB": round(row["size"] / 1e6, 2),
            "rows": row["rows"],
            "dead rows": row["dead_rows"],
            "added in version": row["added_version"],
        }
        for row in table.files().to_pylist()
    ]


if __name__ == "__main__":
    main()
