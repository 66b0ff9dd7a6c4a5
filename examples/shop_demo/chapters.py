"""The chapters of the demo. Each does one thing to the shop's tables, and checks what it claims."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa

import lakebed
from shop_demo import worker
from shop_demo.screen import Screen
from shop_demo.shop import ORDERS, Feed, Shop

BATCH = 4_000


class Demo:
    """The warehouse, the shop, and what runs between them."""

    def __init__(self, screen: Screen, lake: lakebed.Warehouse, pipeline: Any, feed: Feed) -> None:
        self.screen, self.lake, self.pipeline, self.feed = screen, lake, pipeline, feed
        self.shop = Shop()
        lake.create_namespace("shop")
        self.orders = lake.create_table("shop.orders", ORDERS, primary_key=["id"], sequence=["_position"], buckets=2)
        self.revenue = lake.create_table(
            "shop.revenue",
            "city STRING, cents BIGINT, orders BIGINT",
            primary_key=["city"],
            merge_engine="aggregation",
            properties={"fields.cents.aggregate-function": "sum", "fields.orders.aggregate-function": "sum"},
        )

    def run(self) -> None:
        """All chapters, in order."""
        self.stream_in()
        self.follow()
        self.correct_late()
        self.travel()
        self.write_together()
        self.crash()
        self.settle_and_compact()
        self.open_elsewhere()

    def stream_in(self) -> None:
        """Change records -> a table with one row for each order."""
        self.screen.chapter(
            "Orders stream in",
            "The shop's database sends a record of every change, as Debezium writes",
            "them: new orders, updates, deletes. Each micro-batch is one commit.",
        )
        self.first = [self.shop.messages(BATCH) for _ in range(3)]
        for messages in self.first:
            self.feed.put(messages)
        _, seconds = self.screen.timed("the stream runs", lambda: self.pipeline.ingest(self.orders))
        self.screen.check(f"{3 * BATCH:,} records, 3 versions, {seconds:.1f} s", self.orders.version, 3)
        self._check_orders()

    def follow(self) -> None:
        """A second table that is kept up to date by the changes of the first."""
        self.screen.chapter(
            "A total for each city, kept up to date",
            "A second stream reads the changes of the orders, not the orders: what an",
            "update replaced is taken back from the sum, what it brought is added.",
        )
        with self.screen.working("the stream runs"):
            self.pipeline.total(self.orders, self.revenue)
        self._check_revenue()
        before = self.orders.version
        self.feed.put(self.shop.messages(BATCH // 4))
        with self.screen.working("more orders come in"):
            self.pipeline.ingest(self.orders)
            told = self.orders.changes(before, mode="all").to_arrow().num_rows
            self.pipeline.total(self.orders, self.revenue)
        self.screen.say(
            f"{BATCH // 4:,} more records: {told:,} changed rows were read, of {self.orders.count():,} orders"
        )
        self._check_revenue()
        cities = self.revenue.to_polars().sort("city")
        rows = [{"city": r["city"], "orders": r["orders"], "euro": r["cents"] // 100} for r in cities.to_dicts()]
        self.screen.rows("shop.revenue", rows)

    def correct_late(self) -> None:
        """Old records come again, and one that is a true correction."""
        self.screen.chapter(
            "Late and doubled records do no harm",
            "The first batch arrives once more, hours late; with it one true correction.",
            "The position in the source's log is the table's sequence: older rows lose.",
        )
        before = self.shop.total
        order = next(iter(self.shop.orders.values()))
        correction = self.shop.tell("u", order, order | {"cents": order["cents"] + 1})
        self.feed.put([*self.first[0], correction])
        with self.screen.working("the stream runs"):
            self.pipeline.ingest(self.orders)
        cents = self._cents(self.orders)
        self.screen.check(f"{BATCH:,} old records changed nothing, the correction 1 cent", cents - before, 1)
        self._check_orders()
        with self.screen.working("the total follows"):
            self.pipeline.total(self.orders, self.revenue)
        self._check_revenue()

    def travel(self) -> None:
        """Every version stays readable."""
        self.screen.chapter(
            "Back in time", "Every version stays readable, by number, time or tag, until you let it expire."
        )
        self.orders.tag("first-batch", version=1)
        then = Shop()
        then.messages(BATCH)
        view = self.orders.at(tag="first-batch")
        self.screen.check(f"version 1 had {view.count():,} orders", view.count(), len(then.orders))
        self.screen.check(f"worth {self._cents(view):,} cents", self._cents(view), then.total)

    def write_together(self) -> None:
        """Two processes upsert the same keys."""
        self.screen.chapter(
            "Two writers, the same keys",
            "Two processes upsert the same hundred items, twenty times each, at once.",
            "Neither fails, neither waits for the other to end: upserts never conflict.",
        )
        stock = self.lake.create_table("shop.stock", "item INT, writer INT, n INT", primary_key=["item"], buckets=2)
        writers = [self._start("upsert", number, 20) for number in (1, 2)]
        with self.screen.working("two processes write"):
            for writer in writers:
                writer.stdin.write("go\n")
                writer.stdin.flush()
            codes = [writer.wait() for writer in writers]
        self.screen.check("both ended well", codes, [0, 0])
        self.screen.check("40 upserts are 40 versions", stock.version, 40)
        rows = stock.to_polars()
        self.screen.check("100 items, each once", (rows.height, rows["item"].n_unique()), (100, 100))
        self.screen.check("all of them from one upsert, the last", rows.select("writer", "n").n_unique(), 1)

    def crash(self) -> None:
        """A process is killed in the middle of a write, twice."""
        self.screen.chapter(
            "kill -9 in the middle of a write",
            "A process that upserts 1,000 rows is killed: once when its files are written",
            "but not committed, once when they are committed but not published.",
        )
        ledger = self.lake.create_table("shop.ledger", "id INT, note STRING", primary_key=["id"], buckets=2)
        ledger.upsert([{"id": number, "note": "first"} for number in range(1000)])
        path = self._path("ledger")
        with self.screen.working("a process writes, and is killed"):
            code = self._start("die", "commit.prepared").wait()
        self.screen.check("killed before the commit", code, -signal.SIGKILL)
        self.screen.check("the table is as it was", (ledger.version, ledger.count("note = 'first'")), (1, 1000))
        with self.screen.working("a process writes, and is killed"):
            code = self._start("die", "commit.done").wait()
        self.screen.check("killed after the commit", code, -signal.SIGKILL)
        self.screen.check("all 1,000 rows are there", ledger.count("note = 'commit.done'"), 1000)
        self.screen.check("the open log lacks them", pl.scan_delta(path).filter(note="first").collect().height, 1000)
        ledger.publish()
        after = pl.scan_delta(path).filter(note="commit.done").collect().height
        self.screen.check("until the next writer, or publish()", after, 1000)

    def settle_and_compact(self) -> None:
        """The cost of reading, before and after maintenance."""
        self.screen.chapter(
            "Settle and compact",
            "merge = on-read: an upsert writes its rows and looks at nothing else. Readers",
            "match keys in memory, until settle() does it for good; compact() tidies up.",
        )
        clicks = self.lake.create_table(
            "shop.clicks", "id BIGINT, page STRING, n BIGINT", primary_key=["id"], buckets=4, merge="on-read"
        )
        clicks.upsert(clicks_of(range(1_000_000), 0))
        clicks.settle()
        upserts = [clicks_of(range(start, 1_000_000, 97), start + 1) for start in range(20)]
        _, seconds = self.screen.timed("upserts", lambda: [clicks.upsert(rows) for rows in upserts])
        self.screen.say(f"20 upserts of {upserts[0].num_rows:,} rows into 1,000,000: {seconds / 20 * 1000:.0f} ms each")
        expected = sum(rows.num_rows * (n + 1) for n, rows in enumerate(upserts))
        lines = [self._read("as written", clicks, expected)]
        for name, work in (("settled", clicks.settle), ("compacted", lambda: clicks.compact(full=True))):
            _, seconds = self.screen.timed(name, work)
            lines.append(self._read(name, clicks, expected, seconds))
        self.screen.rows("shop.clicks", lines)
        self.screen.check("the same million rows each time", {line["rows"] for line in lines}, {1_000_000})

    def _read(self, state: str, table: lakebed.Table, expected: int, took: float | None = None) -> dict[str, Any]:
        """A read by somebody who has not read this version before."""
        with self.screen.working("reading"), lakebed.connect(self.lake.location, key_cache_size=0) as fresh:
            begun = time.perf_counter()
            rows = fresh.table(table.name).to_polars()
            seconds = time.perf_counter() - begun
        if rows["n"].sum() != expected:
            self.screen.check(f"{state}: the sum of n", rows["n"].sum(), expected)
        files = table.files()
        return {
            "state": state,
            "it took": "" if took is None else f"{took * 1000:,.0f} ms",
            "files": files.num_rows,
            "unsettled": files["unsettled"].to_pylist().count(True),
            "dead rows": sum(files["dead_rows"].to_pylist()),
            "rows": rows.height,
            "read": f"{seconds * 1000:,.0f} ms",
        }

    def open_elsewhere(self) -> None:
        """Another engine reads the folder."""
        self.screen.chapter(
            "Every version is a Delta table", "polars opens the folder with its own Delta reader. It needs no Lakebed."
        )
        seen = pl.scan_delta(self._path("orders")).select(pl.len(), pl.col("cents").sum()).collect().row(0)
        self.screen.check(
            f"polars: {seen[0]:,} orders, {seen[1]:,} cents", seen, (len(self.shop.orders), self.shop.total)
        )

    def _check_orders(self) -> None:
        rows = self.orders.to_polars()
        count, cents = rows.height, int(rows["cents"].sum())
        self.screen.check(
            f"{count:,} orders, {cents:,} cents", (count, cents), (len(self.shop.orders), self.shop.total)
        )

    def _check_revenue(self) -> None:
        rows = self.revenue.to_polars()
        found = {city: (cents, orders) for city, cents, orders in rows.select("city", "cents", "orders").iter_rows()}
        self.screen.check(f"the totals of {len(found)} cities are those of the orders", found, self.shop.revenue())

    @staticmethod
    def _cents(view: Any) -> int:
        return int(view.to_polars(["cents"])["cents"].sum())

    def _path(self, table: str) -> str:
        return str(Path(self.lake.location.removeprefix("file://")) / "shop" / table)

    def _start(self, *arguments: object) -> subprocess.Popen[str]:
        job, *rest = map(str, arguments)
        command = [sys.executable, worker.__file__, job, self.lake.location, *rest]
        return subprocess.Popen(command, stdin=subprocess.PIPE, text=True)


def clicks_of(ids: range, n: int) -> pa.Table:
    """Rows of the table of clicks."""
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "page": [f"/item/{number % 1000}" for number in ids],
            "n": pa.repeat(pa.scalar(n, pa.int64()), len(ids)),
        }
    )
