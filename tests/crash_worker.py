"""A process that does one thing to a table and kills itself at a named step. It is the ``doomed`` of the tests."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from multiprocessing.connection import Connection

import lakebed
from lakebed.core.steps import Step, observe


@dataclass(frozen=True)
class Order:
    """What to do to which table, and where to die; a transaction also changes the table ``side``."""

    warehouse: str
    metastore: str | None
    table: str
    operation: str
    step: Step
    side: str = ""


def operate(lake: lakebed.Warehouse, order: Order) -> None:
    """The one thing."""
    table, operation = lake.table(order.table), order.operation
    if operation == "append":
        table.append([{"id": 10100, "part": "a"}, {"id": 10101, "part": "b"}])
    elif operation == "delete":
        table.delete("id % 2 = 0")
    elif operation == "overwrite":
        table.overwrite([{"id": 10100, "part": "a"}])
    elif operation == "alter":
        table.alter(add={"note": "STRING"})
    elif operation == "transaction":
        with lake.transaction() as tx:
            tx.table(order.table).append([{"id": 10100, "part": "a"}])
            tx.table(order.side).append([{"id": 10100}])
    elif operation == "expire":
        table.expire(0)
    else:
        raise ValueError(operation)


def main(pipe: Connection) -> None:
    """Follow one order, which is the last."""
    try:
        order: Order = pipe.recv()
    except EOFError:
        return
    lake = lakebed.connect(order.warehouse, order.metastore)

    def die(step: Step) -> None:
        if step is order.step:
            os.kill(os.getpid(), signal.SIGKILL)

    observe(die)
    operate(lake, order)
