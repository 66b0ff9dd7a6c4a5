"""Draws the chart of the benchmark of upserts from its file of figures. Runs in the environment of the peers."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot

OURS, PLAIN, PEER, INK, FAINT = "#0b6e4f", "#8a8f98", "#c8553d", "#22262b", "#e3e6ea"
PANELS = (("upsert", "Upserts of {size:,} rows: seconds each"), ("read", "Read of all rows after them: seconds"))


def main(source: Path, target: Path) -> None:
    """A row of panels for each size: dots on a logarithmic scale, each with its seconds and its peak of memory."""
    found = json.loads(source.read_text())["found"]
    sizes = found["sizes"]
    figure, axes = pyplot.subplots(len(sizes), len(PANELS), figsize=(13, 3.6 * len(sizes)), squeeze=False)
    for row, size in enumerate(sizes):
        for column, (phase, title) in enumerate(PANELS):
            _panel(axes[row][column], bars(found, size, phase), title.format(size=size))
    figure.suptitle(
        f"Primary-key table of {found['rows']:,} rows, 10 columns, 4 buckets: further left is better (logarithmic)",
        x=0.01,
        ha="left",
        color=INK,
        fontsize=13,
    )
    figure.tight_layout(rect=(0, 0, 1, 0.97))
    figure.savefig(target, dpi=140, facecolor="white")


def bars(found: dict[str, Any], size: int, phase: str) -> list[tuple[str, float, float]]:
    """Name, seconds and GiB of each contender, the quickest first."""
    made = []
    for one in found["phases"]:
        if one["size"] != size or not one["seconds"]:
            continue
        if one["phase"] != phase and not (phase == "read" and one["phase"] == "read settled"):
            continue
        name = label(one["phase"], one["contender"])
        if name is None:
            continue
        done = upserts(found, size, one["contender"])
        if done and done < found["upserts"]:
            name += f" ({done} of {found['upserts']} upserts)"
        seconds = sum(one["seconds"]) / len(one["seconds"]) if phase == "upsert" else min(one["seconds"])
        made.append((name, seconds, one["peak"]))
    return sorted(made, key=lambda bar: bar[1])


def upserts(found: dict[str, Any], size: int, contender: str) -> int:
    """How many upserts a contender did; 0 for one that only reads."""
    counts = [
        len(one["seconds"])
        for one in found["phases"]
        if (one["size"], one["phase"], one["contender"]) == (size, "upsert", contender.removesuffix(" query"))
    ]
    return sum(counts)


def label(phase: str, contender: str) -> str | None:
    """How a line of the chart is called; None if it is not in it."""
    if contender.startswith("lakebed"):
        if phase == "upsert":
            return contender
        table, _, frame = contender.partition(" to_")
        state = "settled" if phase == "read settled" else "unsettled" if table.endswith("on-read") else "on-write"
        return f"lakebed, {state}, to_{frame or 'arrow'}"
    if phase == "read settled":
        return None
    plain = {"upsert": "plain sorted write", "read": "plain read"}
    return f"{plain[phase]}, {contender}" if contender.startswith(("polars", "pyarrow")) else contender


def _panel(axis: Any, made: list[tuple[str, float, float]], title: str) -> None:
    axis.set_title(title, loc="left", color=INK, fontsize=11)
    least = min((seconds for _, seconds, _ in made), default=1.0) / 2
    for place, (name, seconds, peak) in enumerate(made):
        colour = OURS if name.startswith("lakebed") else PLAIN if name.startswith("plain") else PEER
        axis.plot([seconds], [place], "o", color=colour, markersize=8)
        text = f"  {seconds:.3g} s, {peak:.1f} GiB"
        axis.text(seconds, place, text, va="center", ha="left", color=INK, fontsize=9)
    axis.set_xscale("log")
    most = max((seconds for _, seconds, _ in made), default=1.0)
    axis.set_xlim(least, most * (most / least) ** 0.35)
    axis.set_yticks(range(len(made)), [name for name, _, _ in made], color=INK)
    axis.invert_yaxis()
    axis.grid(color=FAINT)
    axis.xaxis.set_major_formatter(lambda value, _place: f"{value:g}")
    axis.minorticks_off()
    axis.set_axisbelow(True)
    for side in ("top", "right", "left"):
        axis.spines[side].set_visible(False)
    axis.tick_params(axis="y", length=0)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
