"""A process that does one thing to a table and kills itself at a named step. Run by test_crash.py."""

from __future__ import annotations

import json
import os
import signal
import sys
from typing import Any

import lakebed
from lakebed.core.steps import Step, observe


def main(order: dict[str, Any]) -> None:
    lake = lakebed.connect(order["warehouse"], order["metastore"])
    table = lake.table("t")
    fatal = Step(order["step"])

    def die(step: Step) -> None:
        if step is fatal:
            os.kill(os.getpid(), signal.SIGKILL)

    observe(die)
    operation = order["operation"]
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
            tx.table("t").append([{"id": 10100, "part": "a"}])
            tx.table("side").append([{"id": 10100}])
    else:
        raise ValueError(operation)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
