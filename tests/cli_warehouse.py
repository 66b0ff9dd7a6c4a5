"""The warehouse that the tests of commands look at."""

from __future__ import annotations

from pathlib import Path

import lakebed


def make_warehouse(path: Path) -> Path:
    """A warehouse with a table of each kind: keyed and unsettled, partitioned, and empty."""
    with lakebed.connect(path) as lake:
        lake.create_namespace("shop")
        orders = lake.create_table(
            "shop.orders",
            "id BIGINT, name STRING, amount DOUBLE COMMENT 'in euro'",
            primary_key=["id"],
            buckets=4,
            merge="on-read",
            comment="orders of the shop",
        )
        orders.upsert([{"id": i, "name": "ann", "amount": float(i)} for i in range(100)])
        orders.settle()
        orders.tag("eod")
        orders.upsert([{"id": i, "name": "bob", "amount": 0.5} for i in range(10)])
        orders.settle()
        orders.delete("id >= 95")
        orders.upsert([{"id": 500, "name": "eve", "amount": 1.0}])
        events = lake.create_table("events", "n BIGINT NOT NULL, day STRING", partition_by=["day"])
        events.append([{"n": 1, "day": "mon"}, {"n": 2, "day": "tue"}])
        events.overwrite([{"n": 3, "day": "mon"}], where="day = 'mon'")
        lake.create_table("nothing", "n BIGINT")
    return path
