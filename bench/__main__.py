"""Runs the benchmarks: ``python -m bench [NAME …] [--quick]``; the names are those of ``TITLES``."""

from __future__ import annotations

import argparse
import importlib
import json
import os
import signal
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console

from bench.machine import machine
from bench.report import Line, render
from bench.spark_parts import PARTS

TITLES = {
    "startup": "How soon a command answers",
    "commits": "Commits per second, published log included",
    "planning": "Planning a table of many files",
    "throughput": "Write and read against plain polars and pyarrow",
    "spark": "Tables with Spark against plain Spark",
    "streams": "Changes against full reads, and micro-batches of upserts",
    "upserts": "Primary-key tables against plain Parquet, deltalake, pypaimon and pyiceberg",
}
RESULTS = Path(__file__).parent / "results" / "latest.json"


def main() -> int:
    """Run what was asked for; the exit code is 1 if a goal was missed."""
    parser = argparse.ArgumentParser(prog="python -m bench", description="Benchmarks with goals.")
    parser.add_argument("names", nargs="*", help=f"some of {', '.join(TITLES)}; all by default")
    parser.add_argument("--quick", action="store_true", help="small data: whether it runs, not how fast it is")
    parser.add_argument("--only", action="append", default=[], choices=PARTS, help="parts of spark, after each other")
    parser.add_argument("--folder", type=Path, help="where the tables of spark stay from part to part")
    parser.add_argument("--output", type=Path, default=RESULTS, help="where the figures go, as JSON")
    arguments = parser.parse_args()
    unknown = sorted(set(arguments.names) - set(TITLES))
    if unknown:
        parser.error(f"no benchmark {', '.join(unknown)}; there are {', '.join(TITLES)}")
    parts: dict[str, Any] = {"only": arguments.only, "folder": arguments.folder}
    if any(parts.values()) and arguments.names != ["spark"]:
        parser.error("--only and --folder are for the benchmark spark alone")
    # A run that is ended from outside stops its servers and deletes its files too.
    signal.signal(signal.SIGTERM, lambda number, _frame: sys.exit(128 + number))
    console = Console(width=None if os.isatty(1) else 140)
    facts = machine()
    for name, text in facts.items():
        console.print(f"{name:>14}: {text}", highlight=False)
    found: dict[str, list[Line]] = {}
    for name in arguments.names or TITLES:
        lines: list[Line] = importlib.import_module(f"bench.{name}").run(
            quick=arguments.quick, **(parts if name == "spark" else {})
        )
        # Small data shows fixed costs only, which the goals are not about.
        found[name] = [replace(line, goal=None) for line in lines] if arguments.quick else lines
        render(console, TITLES[name], found[name])
    _save(arguments.output, facts, found, quick=arguments.quick)
    return int(any(line.met is False for lines in found.values() for line in lines))


def _save(path: Path, facts: dict[str, str], found: dict[str, list[Line]], *, quick: bool) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = {name: [line.to_json() for line in lines] for name, lines in found.items()}
    path.write_text(json.dumps({"facts": facts, "quick": quick, **lines}, indent=2) + "\n")


if __name__ == "__main__":
    raise SystemExit(main())
