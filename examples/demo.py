"""The main job, end to end, on the embedded default: `make demo`."""

from __future__ import annotations

import datetime as dt
import json
import random
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from textwrap import indent
from typing import Any

import deltalake
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
    read_delete_evolve(orders, days[0])
    travel(orders)
    transact(lake, orders)
    append_together(lake)
    stock = upsert(lake)
    follow_changes(lake)
    settle(stock)
    maintain(stock)
    other_readers(warehouse, orders, stock)
    lose_the_metastore(lake, warehouse, orders)


def read_delete_evolve(orders: lakebed.Table, day: dt.date) -> None:
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
    orders.append([{"id": 1_000_000, "dt": day, "customer": "ann", "amount": 1.5, "note": "by hand"}])
    show("newest rows", orders.to_polars(where="id >= 299999").cast({"id": pl.String}).to_dicts())


def travel(orders: lakebed.Table) -> None:
    chapter(5, "Time travel, tags and going back", "Every version stays readable by number, by time and by tag.")
    orders.tag("before-accident", retain="30 days")
    orders.overwrite(orders.to_arrow().slice(0, 10))
    console.print(
        f"  after an accident: {orders.count():,} rows; at the tag: {orders.at(tag='before-accident').count():,} rows"
    )
    orders.restore(tag="before-accident")
    console.print(f"  restored:          {orders.count():,} rows")
    history(orders)


def transact(lake: lakebed.Warehouse, orders: lakebed.Table) -> None:
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


def append_together(lake: lakebed.Warehouse) -> None:
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


def upsert(lake: lakebed.Warehouse) -> lakebed.Table:
    chapter(
        8,
        "A primary key: one row for each key",
        "upsert() adds new keys and replaces known ones. It writes the new rows only;\n"
        "the rows that they replace get a bit in a deletion vector, in the same commit.",
    )
    stock = lake.create_table("shop.stock", "item BIGINT, pieces INT, ts BIGINT", primary_key=["item"], buckets=4)
    timed("first load, 200,000 rows", lambda: stock.upsert(stock_of(range(200_000), ts=1)))
    timed("upsert of 10,000 of them", lambda: stock.upsert(stock_of(range(0, 200_000, 20), ts=2)))
    stock.delete([{"item": 199_998}, {"item": 199_999}])
    show(
        "shop.stock: three versions",
        (
            {
                "version": n,
                "after": what,
                "rows": stock.at(version=n).count(),
                "new": stock.at(version=n).count("ts = 2"),
            }
            for n, what in enumerate(("the first load", "the upsert", "the delete"), 1)
        ),
    )
    show("shop.stock: files by bucket", _buckets(stock))
    return stock


def follow_changes(lake: lakebed.Warehouse) -> None:
    chapter(
        9,
        "Late rows, deletes and sums",
        "A sequence orders the rows of a key, whenever they come. A merge engine says how they become one.",
    )
    people = lake.create_table(
        "shop.people", "id INT, city STRING, ts INT", primary_key=["id"], sequence=["ts"], properties={"row-kind": "op"}
    )
    people.upsert([{"id": 1, "city": "Linz", "ts": 20, "op": "+I"}, {"id": 2, "city": "Graz", "ts": 20, "op": "+I"}])
    people.upsert([{"id": 1, "city": "Wels", "ts": 10, "op": "+U"}, {"id": 2, "ts": 30, "op": "-D"}])
    people.upsert([{"id": 2, "city": "Enns", "ts": 25, "op": "+U"}])
    console.print("  Wels came late, and Enns is older than the delete:")
    show("shop.people", people.to_arrow().to_pylist())
    functions = {"sold": "sum", "best": "max", "buyers": "collect"}
    sales = lake.create_table(
        "shop.sales",
        "item STRING, sold INT, best DOUBLE, buyers ARRAY<STRING>",
        primary_key=["item"],
        merge_engine="aggregation",
        properties={f"fields.{name}.aggregate-function": function for name, function in functions.items()},
    )
    sales.upsert([{"item": "tea", "sold": 2, "best": 3.5, "buyers": ["ann"]}])
    sales.upsert([{"item": "tea", "sold": 5, "best": 3.0, "buyers": ["bob"]}])
    show("shop.sales: sum, max, collect", sales.to_arrow().to_pylist())


def settle(stock: lakebed.Table) -> None:
    chapter(
        10,
        "Upserts never conflict",
        "Eight threads upsert the same keys at once. With merge = on-read a write does not even look\n"
        "at older rows: readers match the keys, until settle() does it for good.",
    )
    stock.alter(properties={"merge": "on-read"})
    before = stock.version
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: [stock.upsert(stock_of(range(n, 2000), ts=10 + n)) for _ in range(2)], range(8)))
    console.print(f"  {stock.version - before} upserts, no error; {stock.count():,} rows as before")
    live = stock.count("ts >= 10")
    hidden = stock.files()["unsettled"].to_pylist().count(True)
    console.print(
        f"  Lakebed reads {live:,} new rows; {hidden} files are not settled, so other engines read"
        f" {stock.read_optimised().count('ts >= 10'):,} of them"
    )
    timed("settle()", stock.settle)
    console.print(f"  now other engines read {stock.read_optimised().count('ts >= 10'):,} of them")


def maintain(stock: lakebed.Table) -> None:
    chapter(
        11,
        "Compact, expire, vacuum",
        "Small files are packed and dead rows dropped, while others write. Versions go when you say so;\n"
        "then so do the files that no version, tag or reader needs.",
    )
    rows = stock.to_arrow().sort_by("item")
    before = stock.files()
    timed("compact(full=True)", lambda: stock.compact(full=True))
    after = stock.files()
    console.print(
        f"  {before.num_rows} files with {sum(before['dead_rows'].to_pylist()):,} dead rows became {after.num_rows}"
        f" with {sum(after['dead_rows'].to_pylist()):,}"
    )
    console.print(f"  the rows are the same: {stock.to_arrow().sort_by('item') == rows}")
    stock.tag("first-load", version=1)
    gone = stock.vacuum("0 days")
    console.print(f"  vacuum: {gone.versions} versions and {len(gone.paths)} files gone, {gone.bytes / 1e6:.1f} MB")
    console.print(f"  the tagged version is still there: {stock.at(tag='first-load').count():,} rows")
    try:
        stock.at(version=2)
    except lakebed.NotFoundError as error:
        console.print(indent(str(error), "  "), style="red", highlight=False)


def other_readers(warehouse: Path, orders: lakebed.Table, stock: lakebed.Table) -> None:
    chapter(
        12,
        "Every version is a Delta table",
        "polars and deltalake read the same folders with their own Delta readers, deletion vectors and all.",
    )
    stock.upsert([{"item": 7, "pieces": 1_000_000, "ts": 99}])
    stock.settle()
    lines = []
    for table, column in ((orders, "amount"), (stock, "pieces")):
        path = str(warehouse / "shop" / table.name.removeprefix("shop."))
        polars = pl.scan_delta(path).select(pl.len(), pl.col(column).sum()).collect()
        query = deltalake.QueryBuilder().register("t", deltalake.DeltaTable(path))
        delta = pa.table(query.execute(f"SELECT count(*) AS n, sum({column}) AS total FROM t")).to_pylist()[0]
        found = {
            "Lakebed": (table.count(), table.to_polars([column])[column].sum()),
            "polars.scan_delta": (polars["len"][0], polars[column][0]),
            "deltalake": (delta["n"], delta["total"]),
        }
        lines += [
            {"table": table.name, "reader": reader, "rows": rows, "sum of amount or pieces": float(total)}
            for reader, (rows, total) in found.items()
        ]
    show("the same numbers from three readers", lines)


def lose_the_metastore(lake: lakebed.Warehouse, warehouse: Path, orders: lakebed.Table) -> None:
    chapter(13, "Lose the metastore, keep the tables", "The open log alone rebuilds it: lakebed.recover(path).")
    location, version = orders.location, orders.version
    lake.close()
    shutil.rmtree(warehouse / ".lakebed")
    recovered = lakebed.recover(location)
    console.print(f"  {recovered.name}: version {recovered.version} of {version}, {recovered.count():,} rows")
    console.print(
        f"  its tag is gone with the metastore; its versions are not: {len(recovered.history())} in the history"
    )


def timed(what: str, work: Callable[[], object]) -> None:
    begun = time.perf_counter()
    work()
    console.print(f"  {what}: {(time.perf_counter() - begun) * 1000:,.0f} ms")


def stock_of(items: range, ts: int) -> pa.Table:
    return pa.table(
        {
            "item": pa.array(items, pa.int64()),
            "pieces": pa.array([(item * 7 + ts) % 100 for item in items], pa.int32()),
            "ts": pa.repeat(pa.scalar(ts, pa.int64()), len(items)),
        }
    )


def _buckets(table: lakebed.Table) -> list[dict[str, Any]]:
    files = pl.DataFrame(table.files()).group_by("bucket").agg(pl.len().alias("files"), pl.sum("rows", "dead_rows"))
    return files.sort("bucket").to_dicts()


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
