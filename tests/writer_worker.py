"""A process that appends to one table many times. Run by test_many_writers.py."""

from __future__ import annotations

import json
import sys

import lakebed


def main(order: dict[str, object]) -> None:
    with lakebed.connect(str(order["warehouse"]), order["metastore"]) as lake:  # type: ignore[arg-type]
        table = lake.table("t")
        print("ready", flush=True)
        sys.stdin.readline()
        for number in range(int(str(order["commits"]))):
            table.append([{"writer": order["writer"], "number": number}])


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
