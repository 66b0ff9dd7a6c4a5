"""The figures as tables: on the terminal and, with charts, in the docs."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from bench.peers.contenders import PEERS_PYTHON
from bench.report import number
from bench.report import render as render_lines
from bench.spark_peers.contenders import BY_NAME, CONTENDERS, ROOT, yardstick
from bench.spark_peers.found import OTHER, Found, chart_file
from bench.spark_peers.goals import lines
from bench.spark_peers.workloads.names import WORKLOADS, Workload

DOCS = ROOT / "docs" / "benchmarks"
PAGE = "peers"
"""Of the docs, unless another is named."""
BEGIN, END = '<!-- peers: written by `make bench-peers BENCH_ARGS="--publish"` -->', "<!-- peers: end -->"
_OTHER_CHARTS = {
    "amplification": "Bytes written for each byte given",
    "disk": "Bytes on disk after all upserts",
    "memory": "Peak memory",
}


def render(console: Console, found: Found) -> None:
    """Print everything."""
    for name, text in found.facts.items():
        console.print(f"{name:>14}: {text}", highlight=False, markup=False)
    for workload in _done(found):
        head, *rows = table(found, workload)
        shown = Table(title=f"{workload.number}: {workload.title}", title_justify="left")
        for name in head:
            shown.add_column(name, overflow="fold")
        for row in rows:
            shown.add_row(*map(escape, row))
        console.print(shown)
        for name, text in errors(found, workload):
            console.print(f"  {name}: {text}", style="red", highlight=False, markup=False)
    judged = lines(found)
    if judged:
        render_lines(console, "Goals", judged)
    for name, text in found.absent.items():
        console.print(f"{name} did not take part: {text}", style="red", highlight=False, markup=False)


def table(found: Found, workload: Workload) -> Iterator[list[str]]:
    """A head and a row for each contender with right rows: seconds, and in brackets the multiple of plain Parquet."""
    steps = [(step, title) for step, title in workload.steps if _somebody(found, workload, step)]
    firsts = [(step, title) for step, title in workload.firsts if _somebody(found, workload, step)]
    titles = [title for _, title in (*steps, *firsts, *workload.counts)]
    yield ["", "Spark", "runs", *titles, *_SIDE]
    for contender in CONTENDERS:
        good = found.good(workload.name, contender.name)
        if not good:
            continue
        plain = yardstick(contender).name
        row = [contender.name, found.contenders[contender.name]["spark"], str(len(good))]
        for step, _ in steps:
            row.append(
                _seconds(found.figure(workload.name, contender.name, step), found.figure(workload.name, plain, step))
            )
        for step, _ in firsts:
            row.append(
                _seconds(found.first(workload.name, contender.name, step), found.first(workload.name, plain, step))
            )
        for (step, what), _ in workload.counts:
            row.append(_count(found.figure(workload.name, contender.name, step, what)))
        yield [*row, *_side(found, workload, contender.name)]


_GROWING = ("upsert", "append", "writers", "update", "delete", "load")
"""Steps after which the size of a table is told: the last of a workload first."""
_SIDE = ("written / given", "on disk", "files", "peak memory")


def _side(found: Found, workload: Workload, name: str) -> list[str]:
    amplified = found.amplification(workload.name, name, ("upsert", "append"))
    last = next((step for step in _GROWING if found.last(workload.name, name, step, "disk") is not None), "load")
    disk, files = (found.last(workload.name, name, last, what) for what in ("disk", "files"))
    peak = found.most(workload.name, name, "peak")
    return [
        "" if amplified is None else f"{amplified:.2f}",
        "" if disk is None else f"{disk / 2**20:,.1f} MiB",
        "" if files is None else f"{files:,.0f}",
        "" if peak is None else f"{peak:.2f} GiB",
    ]


def errors(found: Found, workload: Workload) -> list[tuple[str, str]]:
    """Whose runs failed or had wrong rows, be it one of several; and what those who have refused something said."""
    told = []
    for contender in CONTENDERS:
        runs = found.runs.get((workload.name, contender.name), [])
        told += [(contender.name, text) for text in found.failures(workload.name, contender.name)]
        told += [(contender.name, f"refused: {text}") for text in sorted({one for run in runs for one in run.said})]
    return told


def markdown(found: Found, charts: Sequence[str], stem: str = PAGE) -> str:
    """What stands on a page between the marks, with the charts that were drawn, which are beside it."""
    facts, parts = found.facts, []
    others = "".join(f"; {name}: {what}" for name, what in facts.items() if name.startswith(OTHER))
    parts.append(
        f"{facts['date']}, in {facts.get('took', 'unknown time')}; {facts['machine']}; load at start "
        f"{facts['load at start']}; scale {facts['scale']} ({found.sizes['rows']:,} rows); commit "
        f"{facts.get('commit', 'unknown')}; Python {facts['python']}; {facts['packages']}; {facts['java']}; "
        f"{facts['session']}{others}."
    )
    parts.append(_rows(["contender", "Spark", "JARs", "configuration"], _configurations(found)))
    judged = lines(found)
    if judged:
        rows = [
            [one.what, f"{number(one.value)} {one.unit}", _goal(one.goal, at_least=one.at_least), one.verdict, one.note]
            for one in judged
        ]
        parts.append(_rows(["what", "measured", "goal", "verdict", "how"], rows))
    for workload in _done(found):
        head, *rows = table(found, workload)
        parts.append(f"### {workload.number}: {workload.title}")
        parts.append(_rows(head, rows))
        if workload.name == "tpch":
            parts += ["Seconds of each query:", _rows(*_queries(found, workload))]
        told = errors(found, workload)
        if told:
            parts.append("\n".join(f"- {name}: {_cell(text)}" for name, text in told))
        if (chart := chart_file(workload.name, stem)) in charts:
            parts.append(f"![{workload.title}]({chart})")
    bars = {chart_file(what, stem): text for what, text in _OTHER_CHARTS.items()}
    if bars.keys() & set(charts):
        parts.append("### Bytes and memory")
        parts += [f"![{text}]({chart})" for chart, text in bars.items() if chart in charts]
    if found.absent:
        parts.append("\n".join(f"- {name} did not take part: {_cell(text)}" for name, text in found.absent.items()))
    return "\n\n".join(parts)


def _queries(found: Found, workload: Workload) -> tuple[list[str], list[list[str]]]:
    """A row for each query, a column for each contender."""
    times = {one.name: dict(found.series(workload.name, one.name, "query")) for one in CONTENDERS}
    asked = {name: answers for name, answers in times.items() if answers}
    numbers = sorted({query for answers in asked.values() for query in answers})
    return ["", *asked], [[str(n), *(_count(one.get(n)) for one in asked.values())] for n in numbers]


def publish(found: Found, kept: Path, docs: Path, stem: str = PAGE) -> list[Path]:
    """Put the table, the charts and the figures into a page of the docs; all that was written.

    Raises RuntimeError if the page has no place for them or a chart could not be drawn.
    """
    page, figures = docs / f"{stem}.md", docs / f"{stem}.json"
    text = page.read_text()
    if text.count(BEGIN) != 1 or text.count(END) != 1:
        raise RuntimeError(f"{page} should have the lines {BEGIN!r} and {END!r} once each, where the tables go")
    if kept.resolve() != figures.resolve():
        shutil.copyfile(kept, figures)
    order = [str(PEERS_PYTHON), "-m", "bench.spark_peers.charts", str(figures.resolve()), str(docs.resolve())]
    drawn = subprocess.run(order, cwd=ROOT, check=False, stdout=subprocess.PIPE, text=True)
    if drawn.returncode:
        raise RuntimeError(f"the charts were not drawn (exit code {drawn.returncode}); the error is above")
    charts: list[str] = json.loads(drawn.stdout)
    before, rest = text.split(BEGIN)
    page.write_text(f"{before}{BEGIN}\n\n{markdown(found, charts, stem)}\n\n{END}{rest.split(END)[1]}")
    return [figures, *(docs / name for name in charts), page]


def _done(found: Found) -> list[Workload]:
    return [one for one in WORKLOADS if any(kind == one.name for kind, _ in found.runs)]


def _somebody(found: Found, workload: Workload, step: str) -> bool:
    return any(found.figure(workload.name, name, step) is not None for name in BY_NAME)


def _configurations(found: Found) -> list[list[str]]:
    return [[name, one["spark"], one["jars"], one["how"]] for name, one in found.contenders.items()]


def _seconds(value: float | None, plain: float | None) -> str:
    if value is None:
        return "-"
    return f"{number(value)} s ({value / plain:.1f})" if plain else f"{number(value)} s"


def _count(value: float | None) -> str:
    return "-" if value is None else number(value)


def _goal(goal: float | None, *, at_least: bool) -> str:
    return "" if goal is None else f"{'>=' if at_least else '<='} {goal:g}"


def _rows(head: list[str], rows: list[list[str]]) -> str:
    made = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    return "\n".join([*made, *(f"| {' | '.join(map(_cell, row))} |" for row in rows)])


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ").replace("<", "&lt;")
