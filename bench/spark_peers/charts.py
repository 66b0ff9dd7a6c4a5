"""Draws the charts of the benchmark from its file of figures. Runs in the environment of the peers."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("svg")
from matplotlib import pyplot

from bench.spark_peers.contenders import CONTENDERS
from bench.spark_peers.found import Found, chart_file

matplotlib.rcParams["svg.hashsalt"] = "lakebed"  # the same figures make the same file
matplotlib.rcParams["svg.fonttype"] = "none"  # text stays text, for those who search, and those who listen
matplotlib.rcParams["font.family"] = "sans-serif"

Panel = tuple[str, list[tuple[str, float]]]
"""A title, and a value for each contender."""
INK, FAINT, GREY = "#22262b", "#e3e6ea", "#8a8f98"
DASHES: dict[str, Any] = {"4.3": "-", "4.2": "--", "4.1": "-.", "3.5": ":"}
"""How plain Parquet is drawn, by Spark."""
COLOURS = {
    "lakebed on-write": "#0b6e4f",
    "lakebed on-read": "#54b78f",
    "delta": "#c8553d",
    "iceberg": "#3d6fc8",
    "hudi mor": "#b8860b",
    "hudi cow": "#e0b84c",
    "paimon mor": "#7b4fa3",
    "paimon dv": "#b48fd0",
}


def main(source: Path, target: Path) -> None:
    """All charts into a folder, named as the file of figures is; their names go to the standard output."""
    found = Found.from_json(json.loads(source.read_text()))
    files = {chart_file(name, source.stem): draw for name, draw in CHARTS.items()}
    drawn = [name for name, draw in files.items() if _save(draw(found), target / name)]
    print(json.dumps(drawn))


def upserts(found: Found) -> Any:
    """Large upserts and the reads after them."""
    titles = (("upsert", "Large upserts, one by one", "upsert"), ("read", "The full read after all of them", "asked"))
    return _lines(found, "upserts", titles)


def trickle(found: Found) -> Any:
    """Small upserts: how cost grows."""
    titles = (("upsert", "Small upserts, one by one", "upsert"), ("read", "Full reads between them", "upserts so far"))
    return _lines(found, "trickle", titles)


def amplification(found: Found) -> Any:
    """Bytes written for each byte given."""

    def value(workload: str, name: str) -> float | None:
        return found.amplification(workload, name, ("upsert",))

    return _bars(_each(value, "{}: bytes written / bytes given"), "{:.2f}")


def disk(found: Found) -> Any:
    """What is on the disk after all upserts."""

    def value(workload: str, name: str) -> float | None:
        size = found.last(workload, name, "upsert", "disk")
        return None if size is None else size / 2**20

    return _bars(_each(value, "After {}: MiB on disk"), "{:,.1f}")


def memory(found: Found) -> Any:
    """The most memory of the processes of a contender."""

    def value(workload: str, name: str) -> float | None:
        return found.most(workload, name, "peak")

    return _bars(_each(value, "{} and reads: peak GiB"), "{:.2f}")


CHARTS: dict[str, Callable[[Found], Any]] = {
    "upserts": upserts,
    "trickle": trickle,
    "amplification": amplification,
    "disk": disk,
    "memory": memory,
}


def _lines(found: Found, workload: str, steps: tuple[tuple[str, str, str], ...]) -> Any:
    """A panel for each step, with its title and what its rounds are: a line for each contender, round by round, on a
    logarithmic scale."""
    figure, axes = pyplot.subplots(1, len(steps), figsize=(13, 4.4), squeeze=False)
    empty = True
    for axis, (step, title, rounds_are) in zip(axes[0], steps, strict=True):
        for contender in CONTENDERS:
            points = found.series(workload, contender.name, step)
            if not points:
                continue
            empty = False
            style = {"linestyle": DASHES[contender.spark], "linewidth": 1.2} if contender.plain else {"linewidth": 2}
            rounds, seconds = [1 + number for number, _ in points], [value for _, value in points]
            axis.plot(
                rounds, seconds, marker="o", markersize=3, label=contender.name, color=_colour(contender.name), **style
            )
        axis.set_yscale("log")
        axis.yaxis.set_major_formatter(lambda value, _place: f"{value:g}")
        axis.yaxis.set_minor_formatter(lambda value, _place: f"{value:g}" if f"{value:e}"[0] in "25" else "")
        axis.xaxis.get_major_locator().set_params(integer=True)
        _plain_look(axis, title)
        axis.set_xlabel(rounds_are, color=INK, fontsize=9)
        axis.set_ylabel("seconds", color=INK, fontsize=9)
    if empty:
        return None
    drawn = {line.get_label(): line for axis in axes[0] for line in axis.get_lines()}
    lines = [drawn[one.name] for one in CONTENDERS if one.name in drawn]
    axes[0][-1].legend(handles=lines, loc="center left", bbox_to_anchor=(1.02, 0.5), frameon=False, fontsize=9)
    return figure


def _bars(panels: list[Panel], text: str) -> Any:
    """A panel for each list: a bar for each contender, with its value at the end."""
    panels = [(title, values) for title, values in panels if values]
    if not panels:
        return None
    most = max(len(values) for _, values in panels)
    figure, axes = pyplot.subplots(1, len(panels), figsize=(13, 0.9 + 0.34 * most), squeeze=False)
    for axis, (title, values) in zip(axes[0], panels, strict=True):
        for place, (name, value) in enumerate(values):
            axis.barh(place, value, color=_colour(name), height=0.62)
            axis.text(value, place, f" {text.format(value)}", va="center", color=INK, fontsize=9)
        axis.set_yticks(range(len(values)), [name for name, _ in values], color=INK)
        axis.invert_yaxis()
        axis.set_xlim(0, max(value for _, value in values) * 1.2)
        _plain_look(axis, title)
        axis.tick_params(axis="y", length=0)
    return figure


def _each(value: Callable[[str, str], float | None], title: str) -> list[Panel]:
    """A panel for large and one for small upserts."""
    made = []
    for workload, name in (("upserts", "large upserts"), ("trickle", "small upserts")):
        values = [(one.name, value(workload, one.name)) for one in CONTENDERS]
        text = title.format(name)
        made.append((text[0].upper() + text[1:], [(one, amount) for one, amount in values if amount is not None]))
    return made


def _colour(name: str) -> str:
    return COLOURS.get(name, GREY)


def _plain_look(axis: Any, title: str) -> None:
    axis.set_title(title, loc="left", color=INK, fontsize=11)
    axis.grid(color=FAINT)
    axis.set_axisbelow(True)
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)


def _save(figure: Any, path: Path) -> bool:
    if figure is None:
        path.unlink(missing_ok=True)
        return False
    figure.tight_layout()
    figure.savefig(path, facecolor="white", metadata={"Date": None})
    pyplot.close(figure)
    return True


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
