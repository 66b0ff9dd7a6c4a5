"""The other processes of the demo: a writer that upserts, and one that is killed on the way."""

from __future__ import annotations

import os
import signal
import sys

import lakebed
from lakebed.core.steps import Step, observe


def upsert(warehouse: str, writer: int, times: int) -> None:
    """Upsert the same hundred items again and again."""
    with lakebed.connect(warehouse) as lake:
        stock = lake.table("shop.stock")
        sys.stdin.readline()  # both begin at once
        for n in range(times):
            stock.upsert([{"item": item, "writer": writer, "n": n} for item in range(100)])


def die(warehouse: str, step: str) -> None:
    """Pay every order of a city in one upsert; the process is killed at a step of it, as by kill -9."""
    with lakebed.connect(warehouse) as lake:
        ledger = lake.table("shop.ledger")
        observe(lambda at: os.kill(os.getpid(), signal.SIGKILL) if at == Step(step) else None)
        ledger.upsert([{"id": number, "note": step} for number in range(1000)])


if __name__ == "__main__":
    {"upsert": lambda: upsert(sys.argv[2], int(sys.argv[3]), int(sys.argv[4])), "die": lambda: die(*sys.argv[2:])}[
        sys.argv[1]
    ]()
