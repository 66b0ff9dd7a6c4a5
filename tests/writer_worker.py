"""A process that appends to one table many times, beside others. Run by test_many_writers.py."""

from __future__ import annotations

import traceback
import warnings
from dataclasses import dataclass
from multiprocessing.connection import Connection

import lakebed


@dataclass(frozen=True)
class Order:
    """How often to append to the table ``default.t``."""

    warehouse: str
    metastore: str | None
    writer: int
    commits: int


def serve(pipe: Connection) -> None:
    """Follow one order after the other, until the pipe is closed; each is answered by what went wrong."""
    while True:
        try:
            order: Order = pipe.recv()
        except EOFError:
            return
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error", UserWarning)
                follow(order, pipe)
            pipe.send("")
        except Exception:
            pipe.send(traceback.format_exc())


def follow(order: Order, pipe: Connection) -> None:
    with lakebed.connect(order.warehouse, order.metastore) as lake:
        table = lake.table("t")
        pipe.send("ready")
        pipe.recv()
        for number in range(order.commits):
            table.append([{"writer": order.writer, "number": number}])
