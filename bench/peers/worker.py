"""A process that does one phase of one contender, request by request, and tells what each took.

An order on the command line names the contender and its folder. Once warm, it says that it is ready; from then on each
line on the standard input is a request and each line on the standard output its answer, all as JSON.
"""

from __future__ import annotations

import gc
import json
import os
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TextIO

import pyarrow as pa

from bench.peers.contenders import BY_NAME, Contender, Table


def main(order: dict[str, Any]) -> None:
    """Answer until the standard input ends."""
    answers = _own_output()
    contender, folder = BY_NAME[order["contender"]], Path(order["folder"])
    warm_up(contender, folder.with_name(f"{folder.name}-warm-{os.getpid()}"), Path(order["warm"]), order["verb"])
    table = contender.table(folder)
    if order["verb"] != "load":
        table.open()
    print(json.dumps("ready"), file=answers, flush=True)
    for line in sys.stdin:
        print(json.dumps(answer(table, order["verb"], json.loads(line))), file=answers, flush=True)


def warm_up(contender: Contender, folder: Path, warm: Path, verb: str) -> None:
    """Do the same on a tiny table first: what is loaded and compiled once per process is not measured."""
    table = contender.table(folder)
    rows = table.prepare(stored(warm))
    table.load(rows)
    table.upsert(rows)
    if verb in ("settle", "compact"):
        getattr(table, verb)()
    table.read()
    shutil.rmtree(folder, ignore_errors=True)


def answer(table: Table, verb: str, request: dict[str, Any]) -> dict[str, Any]:
    """Do it once: seconds, CPU seconds, and the most memory that the process had meanwhile, in GiB."""
    act: Callable[..., Any] = getattr(table, verb)
    given = (table.prepare(stored(Path(request["input"]))),) if "input" in request else ()
    gc.collect()
    os.sync()  # what others have left unflushed must not be on this one's bill
    _forget_peak()
    begun, used = time.perf_counter(), time.process_time()
    result = act(*given)
    seconds, cpu = time.perf_counter() - begun, time.process_time() - used
    found = {"seconds": seconds, "cpu": cpu, "peak": _peak()}
    if request.get("dump"):
        _dump(result, Path(request["dump"]))
    return found


def stored(path: Path) -> pa.Table:
    """The rows of an Arrow file, in memory: a mapped file would be read while the clock runs."""
    with pa.OSFile(str(path)) as file:
        return pa.ipc.open_file(file).read_all()


def _dump(result: Any, path: Path) -> None:
    rows = result.to_arrow() if hasattr(result, "to_arrow") else pa.table(result)
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, rows.schema) as writer:
        writer.write_table(rows)


def _own_output() -> TextIO:
    """The standard output for answers only: what a library prints goes to the standard error."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    return answers


def _forget_peak() -> None:
    # Linux then counts the highest resident size (VmHWM) anew. ru_maxrss cannot be reset, and it is inherited.
    Path("/proc/self/clear_refs").write_text("5")


def _peak() -> float:
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 2**20


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
