"""Tables with Spark against plain Spark, on one machine.

A table of ten million rows gets ten upserts of two million random keys. The yardstick is what Spark does with the
same input and no table: ``df.write.parquet``, and ``spark.read.parquet`` of the rows that are live in the end. A write
and what it is compared with take turns; of reads the best of several counts. The rows are counted and hashed
against plain Spark's before any time is believed.

Each part is a process with a session of its own, and finds in the folder what the parts before it have left there:
``--only read --folder DIR`` measures reads again on the same tables.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path

from bench.report import Line
from bench.servers import scratch
from bench.spark_parts import PARTS, ROWS, SIZE, Amount


def run(*, quick: bool, only: Sequence[str] = (), folder: Path | None = None) -> list[Line]:
    """All parts, or some of them, in a folder that stays if one is given; quick is a hundredth of it.

    Raises RuntimeError if a part fails.
    """
    amount = Amount(ROWS // 100, SIZE // 100, 2, 1, 500) if quick else Amount()
    with scratch("spark") if folder is None else nullcontext(folder) as root:
        root.mkdir(parents=True, exist_ok=True)
        return [line for part in only or PARTS for line in _part(part, root, amount)]


def _part(name: str, root: Path, amount: Amount) -> list[Line]:
    order = json.dumps({"part": name, "root": str(root), "amount": asdict(amount)})
    done = subprocess.run([sys.executable, "-m", "bench.spark_parts", order], stdout=subprocess.PIPE, check=False)
    if done.returncode:
        raise RuntimeError(f"the part {name} has failed; its error is above")
    return [Line(**line) for line in json.loads(done.stdout.splitlines()[-1])]
