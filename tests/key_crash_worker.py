"""A process that does one thing to a primary-key table and kills itself at a named step. Run by test_key_crash.py."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from datetime import timedelta
from multiprocessing.connection import Connection

import lakebed
from lakebed.core.steps import Step, observe

ROWS = 400
"""Enough that vectors are not inline."""
NEW_ROWS = [{"id": i, "v": 1} for i in range(0, ROWS, 2)] + [{"id": 9000 + i, "v": 1} for i in range(10)]
MOST_ROWS = [{"id": i, "v": 2} for i in range(ROWS) if i % 8]
FEW_ROWS = [{"id": i, "v": 1000} for i in (*range(0, 90, 3), 9000)]
DELETED = [{"id": i} for i in range(0, ROWS, 2)]
AT_ONCE = timedelta(0)


@dataclass(frozen=True)
class Order:
    """What to do to which table, and where to die."""

    warehouse: str
    metastore: str | None
    table: str
    operation: str
    step: Step
    time: int = 1
    """Which of the times that it comes to the step."""
    after: Step | None = None
    """The step from which these times are counted; None: from the beginning."""


def operate(table: lakebed.Table, operation: str) -> None:
    """The one thing; what ``upsert`` does depends on the table's own ``merge``."""
    if operation == "upsert":
        table.upsert(NEW_ROWS)
    elif operation == "replace most":
        table.upsert(MOST_ROWS)
    elif operation == "replace few":
        table.upsert(FEW_ROWS)
    elif operation == "delete":
        table.delete(DELETED)
    elif operation == "settle":
        table.settle()
    elif operation == "compact":
        table.compact(full=True)
    elif operation == "expire":
        table.expire(AT_ONCE)
    elif operation == "vacuum":
        table.vacuum(AT_ONCE)
    else:
        raise ValueError(operation)


def main(pipe: Connection) -> None:
    """Follow one order, which is the last."""
    try:
        order: Order = pipe.recv()
    except EOFError:
        return
    table = lakebed.connect(order.warehouse, order.metastore).table(order.table)
    left, begun = order.time, order.after is None

    def die(step: Step) -> None:
        nonlocal left, begun
        if not begun:
            begun = step is order.after
        elif step is order.step:
            left -= 1
            if not left:
                os.kill(os.getpid(), signal.SIGKILL)

    observe(die)
    operate(table, order.operation)
