"""An online shop whose database tells of every change, as Debezium would; and what it should all add up to."""

from __future__ import annotations

import json
import random
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ORDERS = "id BIGINT, customer STRING, city STRING, cents BIGINT, state STRING, _position STRING"
CITIES = ("Graz", "Linz", "Salzburg", "Wien")


@dataclass
class Shop:
    """The orders of the shop. ``orders`` is what the tables have to hold in the end; nothing of Lakebed is in it."""

    orders: dict[int, dict[str, Any]] = field(default_factory=dict)
    chance: random.Random = field(default_factory=lambda: random.Random(7))
    log: int = 1_000
    next_id: int = 1

    def messages(self, count: int) -> list[str]:
        """The next changes: of ten, six are new orders, three are updates and one is a delete."""
        return [self._message() for _ in range(count)]

    def _message(self) -> str:
        kind = self.chance.choices("cud", (6, 3, 1))[0] if self.orders else "c"
        if kind == "c":
            order = {
                "id": self.next_id,
                "customer": f"customer-{self.chance.randrange(500):03}",
                "city": self.chance.choice(CITIES),
                "cents": self.chance.randrange(100, 50_000),
                "state": "new",
            }
            self.next_id += 1
            return self.tell("c", None, order)
        before = self.orders[self.chance.choice(list(self.orders)) if len(self.orders) < 50 else self._any()]
        if kind == "d":
            return self.tell("d", before, None)
        return self.tell("u", before, before | {"state": "paid", "cents": before["cents"] + self.chance.randrange(500)})

    def _any(self) -> int:
        while True:
            number = self.chance.randrange(1, self.next_id)
            if number in self.orders:
                return number

    def tell(self, op: str, before: dict[str, Any] | None, after: dict[str, Any] | None) -> str:
        """One change happens; the message that Debezium would send of it."""
        if before is not None:
            del self.orders[before["id"]]
        if after is not None:
            self.orders[after["id"]] = after
        self.log += 8
        return json.dumps({"op": op, "before": before, "after": after, "source": {"table": "orders", "lsn": self.log}})

    @property
    def total(self) -> int:
        """The cents of all orders."""
        return sum(order["cents"] for order in self.orders.values())

    def revenue(self) -> dict[str, tuple[int, int]]:
        """For each city, the cents and the number of its orders."""
        cents, count = Counter[str](), Counter[str]()
        for order in self.orders.values():
            cents[order["city"]] += order["cents"]
            count[order["city"]] += 1
        return {city: (cents[city], count[city]) for city in count}


class Feed:
    """A directory that messages arrive in, a file for each batch, in place of a message queue."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.folder.mkdir(parents=True)
        self.files = 0

    def put(self, messages: list[str]) -> None:
        """One more batch; it is there at once and whole."""
        hidden = self.folder / f".{self.files:05}"
        hidden.write_text("\n".join(messages), "utf-8")
        hidden.rename(self.folder / f"{self.files:05}.jsonl")
        self.files += 1
