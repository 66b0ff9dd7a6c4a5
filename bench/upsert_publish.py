"""The figures of the benchmark of upserts, as a file, in the docs and as a chart."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

from bench.peers.contenders import PEERS_PYTHON
from bench.report import Line, number
from bench.upsert_report import COLUMNS, Found, lines, times

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
PAGE = "benchmarks.md"
CHART = "images/upserts.png"
BEGIN, END = '<!-- upserts: written by `make bench-upserts BENCH_ARGS="--publish"` -->', "<!-- upserts: end -->"


def save(path: Path, facts: dict[str, str], found: Found) -> None:
    """Write the figures as JSON; ``load`` reads them."""
    path.parent.mkdir(parents=True, exist_ok=True)
    judged = [line.to_json() for line in lines(found)]
    path.write_text(json.dumps({"facts": facts, "found": found.to_json(), "lines": judged}, indent=1) + "\n")


def load(path: Path) -> tuple[dict[str, str], Found]:
    """What ``save`` has written."""
    value: dict[str, Any] = json.loads(path.read_text())
    return value["facts"], Found.from_json(value["found"])


def publish(path: Path, docs: Path) -> list[Path]:
    """Put the figures of a file into the docs, with the chart, and keep the file under its date; all that was written.

    Raises RuntimeError if the page has no place for them or the chart could not be drawn.
    """
    facts, found = load(path)
    page, chart = docs / PAGE, docs / CHART
    text = page.read_text()
    if text.count(BEGIN) != 1 or text.count(END) != 1:
        raise RuntimeError(f"{page} should have the lines {BEGIN!r} and {END!r} once each, where the table goes")
    kept = path.with_name(f"upserts-{facts['date'].split()[0]}.json")
    if kept != path:
        shutil.copyfile(path, kept)
    chart.parent.mkdir(parents=True, exist_ok=True)
    order = [str(PEERS_PYTHON), "-m", "bench.peers.chart", str(kept.resolve()), str(chart.resolve())]
    drawn = subprocess.run(order, cwd=ROOT, check=False)
    if drawn.returncode:
        raise RuntimeError(f"the chart was not drawn (exit code {drawn.returncode}); its error is above")
    before, rest = text.split(BEGIN)
    page.write_text(f"{before}{BEGIN}\n{_section(facts, found, kept)}{END}{rest.split(END)[1]}")
    return [kept, chart, page]


def _section(facts: dict[str, str], found: Found, kept: Path) -> str:
    judged = lines(found)
    goals = [line for line in judged if line.goal is not None]
    met = sum(line.met is True for line in goals)
    about = (
        f"{facts['date']}. {facts['machine']}; load at start {facts['load at start']}; {facts['packages']}, "
        f"{facts['peers']}. {found.rows:,} rows; {met} of {len(goals)} goals met. "
        f"All figures: `bench/results/{kept.name}`."
    )
    ratios = ["| what | measured | goal | verdict | how |", "|---|---:|---:|---|---|", *map(_row, judged)]
    figures = [f"| {' | '.join(COLUMNS)} |", "|---|---|---:|---:|---:|"]
    figures += [f"| {' | '.join(row)} |" for row in times(found)]
    legend = "Seconds per upsert (mean), per read, settle or compaction (best), and the peak memory of the process:"
    image = f"![Seconds and memory of upserts and reads]({CHART})"
    return "\n".join(["", about, "", image, "", *ratios, "", legend, "", *figures, "", ""])


def _row(line: Line) -> str:
    goal = "" if line.goal is None else f"{'>=' if line.at_least else '<='} {line.goal:g} {line.unit}"
    return f"| {line.what} | {number(line.value)} {line.unit} | {goal} | {line.verdict} | {line.note} |"
