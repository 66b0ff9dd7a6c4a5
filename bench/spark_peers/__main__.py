"""Lakebed on Spark against Delta Lake, Iceberg, Hudi and Paimon: the same work, checked, on one machine.

Every contender is a process with a session of its own (local, the same memory), on the newest Spark that its
published JARs are made for, in the configuration that its documentation recommends. It warms up on a tiny table, and
then runs the workload several times; the median counts. Rows are counted and hashed against what must be there before
a time counts, and who fails is shown with the error. Spark versions differ, so everything is also given as a ratio to
plain Parquet on the same Spark.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
from functools import partial, reduce
from pathlib import Path

from rich.console import Console

from bench.machine import machine
from bench.servers import scratch
from bench.spark_peers.contenders import BY_NAME, Contender, chosen
from bench.spark_peers.contest import Contest, Options, java
from bench.spark_peers.found import Found
from bench.spark_peers.report import DOCS, PAGE, publish, render
from bench.spark_peers.sizes import Sizes
from bench.spark_peers.workloads.names import WORKLOADS, named

DEFAULT_SCALE = 0.01
APART_FROM = 0.1
"""From this scale on a workload has a process of its own: below, starting it would take longer than the work."""
SMALL_PATIENCE = 4.0
"""Below that scale, whoever takes longer than so many seconds for a run does one instead of three: the whole is to end
in 20 minutes."""
ALL = [one.name for one in WORKLOADS]
USUAL = [one for one in chosen(None) if one.name != "lakebed on-read"]
"""Everybody, with Lakebed as it is by default; more would not end in 20 minutes."""
RESULTS = Path(__file__).resolve().parent.parent / "results"


def main() -> int:
    """The command line. The exit code is 1 if anybody failed, or had wrong rows."""
    arguments = _arguments()
    signal.signal(signal.SIGTERM, lambda number, _frame: sys.exit(128 + number))
    console = Console(width=None if sys.stdout.isatty() else 160)
    if arguments.reuse is None:
        arguments.output.parent.mkdir(parents=True, exist_ok=True)
        _keep(_measure(arguments, console), arguments.output)
    first, *more = (Found.from_json(json.loads(path.read_text())) for path in arguments.reuse or [arguments.output])
    found = reduce(Found.with_others, more, first)
    if more:
        _keep(found, arguments.output)
    render(console, found)
    if arguments.publish:
        kept = arguments.reuse[0] if arguments.reuse and not more else arguments.output
        for path in publish(found, kept, arguments.docs, arguments.page):
            console.print(f"written: {path}", highlight=False)
    return int(any(run.error and not run.missing for runs in found.runs.values() for run in runs))


def _keep(found: Found, path: Path) -> None:
    path.write_text(json.dumps(found.to_json(), indent=1) + "\n")


def _measure(arguments: argparse.Namespace, console: Console) -> Found:
    options = Options(
        sizes=Sizes.at(arguments.scale),
        workloads=arguments.only,
        contenders=arguments.contenders,
        runs=arguments.runs,
        patience=arguments.patience or (SMALL_PATIENCE if arguments.scale < APART_FROM else None),
        limit=arguments.limit,
        apart=arguments.scale >= APART_FROM if arguments.apart is None else arguments.apart,
        memory=arguments.memory,
        cores=arguments.cores,
    )
    facts = {
        **machine(),
        "java": java(),
        "session": f"local[{options.cores}], driver memory {options.memory}, up to {options.runs} run(s)",
        "scale": f"{arguments.scale:g}",
    }
    keep = partial(_keep, path=arguments.output)
    if arguments.folder is not None:
        return Contest(arguments.folder, options, console, keep).run(facts)
    with scratch("peers") as root:
        return Contest(root, options, console, keep).run(facts)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.spark_peers", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    told = "; ".join(f"{one.number} {one.name}: {one.title}" for one in WORKLOADS).replace("%", "%%")
    parser.add_argument("--scale", type=float, default=DEFAULT_SCALE, help="part of ten million rows; %(default)s")
    parser.add_argument("--only", type=_workloads, default=ALL, help=f"some of {told}")
    parser.add_argument("--contenders", type=_contenders, default=USUAL, help=f"some of {', '.join(BY_NAME)}")
    parser.add_argument("--runs", type=int, default=3, help="of every workload; the median counts")
    parser.add_argument("--patience", type=float, help="seconds; who takes longer for a run does no further one")
    parser.add_argument("--limit", type=float, default=3600.0, help="seconds after which a run is stopped")
    parser.add_argument(
        "--apart", action=argparse.BooleanOptionalAction, help="a process for each workload: from scale 0.1"
    )
    parser.add_argument("--memory", default="6g", help="of the driver of every session")
    parser.add_argument("--cores", type=int, default=2, help="of every session")
    parser.add_argument("--folder", type=Path, help="where tables and logs go; else a folder that is deleted")
    parser.add_argument("--output", type=Path, default=RESULTS / "peers-latest.json", help="where the figures go")
    parser.add_argument(
        "--reuse", type=Path, nargs="+", help="show (or publish) the figures of these files together; measure nothing"
    )
    parser.add_argument("--publish", action="store_true", help="write table and charts into the docs")
    parser.add_argument("--docs", type=Path, default=DOCS, help="the folder that they go to")
    parser.add_argument("--page", default=PAGE, help="the page there that they are for; %(default)s")
    return parser.parse_args()


def _workloads(text: str) -> list[str]:
    if text == "all":
        return ALL
    try:
        return list(dict.fromkeys(named(word).name for word in text.split(",")))
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _contenders(text: str) -> list[Contender]:
    try:
        return chosen(text.split(","))
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


if __name__ == "__main__":
    raise SystemExit(main())
