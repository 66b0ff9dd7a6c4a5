"""What was measured, and what is made of it: medians, ratios, and what each figure is called."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from statistics import mean, median
from typing import Any

from bench.spark_peers.process import Run
from bench.spark_peers.workloads.names import ASKED, named

OTHER = "run of "
"""What names of facts begin with that tell which figures are of another run."""


@dataclass
class Found:
    """All runs of all contenders."""

    facts: dict[str, str]
    sizes: dict[str, Any]
    contenders: dict[str, dict[str, str]] = field(default_factory=dict)
    """By name: the Spark that it ran on, its JARs, and its configuration in words."""
    runs: dict[tuple[str, str], list[Run]] = field(default_factory=dict)
    """By workload and contender, the warm-up left out."""
    absent: dict[str, str] = field(default_factory=dict)
    """Who could not take part at all, and why."""

    def add(self, workload: str, contender: str, run: Run) -> None:
        """One more run."""
        self.runs.setdefault((workload, contender), []).append(run)

    def good(self, workload: str, contender: str) -> list[Run]:
        """The runs whose rows were right: only their times count."""
        return [run for run in self.runs.get((workload, contender), []) if not run.error]

    def error(self, workload: str, contender: str) -> str:
        """Why the contender has no times in a workload; empty if it has."""
        if self.good(workload, contender):
            return ""
        failed = self.failures(workload, contender)
        return failed[0] if failed else self.absent.get(contender, "did not take part")

    def failures(self, workload: str, contender: str) -> list[str]:
        """What was wrong with the runs that failed or had wrong rows, each text once; others may have been right."""
        runs = self.runs.get((workload, contender), [])
        return list(dict.fromkeys(run.error for run in runs if run.error))

    def figure(self, workload: str, contender: str, step: str, what: str = "seconds") -> float | None:
        """The median over the runs, of the mean over the rounds of a step in each run.

        Of their median, if all of them ask the same; of the last ones, if the first are told of besides.
        """
        each = [_of(run.steps, step, what) for run in self.good(workload, contender)]
        middle = median if step in named(workload).asked_again else mean
        if step in dict(named(workload).firsts):
            each = [found[-ASKED:] for found in each]
        values = [middle(found) for found in each if found]
        return median(values) if values else None

    def first(self, workload: str, contender: str, step: str) -> float | None:
        """The median over the runs, of the seconds of a step's first round."""
        values = [found[0] for run in self.good(workload, contender) if (found := _of(run.steps, step, "seconds"))]
        return median(values) if values else None

    def series(self, workload: str, contender: str, step: str, what: str = "seconds") -> list[tuple[int, float]]:
        """Round by round, the median over the runs."""
        rounds: dict[int, list[float]] = {}
        for run in self.good(workload, contender):
            for one in run.steps:
                if one["step"] == step and what in one:
                    rounds.setdefault(one["number"], []).append(one[what])
        return [(number, median(values)) for number, values in sorted(rounds.items())]

    def most(self, workload: str, contender: str, what: str) -> float | None:
        """The largest value of anything that steps tell: of the peak of memory, say."""
        values = [one[what] for run in self.good(workload, contender) for one in run.steps if what in one]
        return max(values, default=None)

    def last(self, workload: str, contender: str, step: str, what: str) -> float | None:
        """What the last round of a step told, as the median over the runs."""
        values = [found[-1] for run in self.good(workload, contender) if (found := _of(run.steps, step, what))]
        return median(values) if values else None

    def amplification(self, workload: str, contender: str, steps: Iterable[str]) -> float | None:
        """Bytes written below the table's folder for each byte of Parquet that was given."""
        values = []
        for run in self.good(workload, contender):
            told = [one for one in run.steps if one["step"] in set(steps) and "source" in one and "written" in one]
            if told:
                values.append(sum(one["written"] for one in told) / sum(one["source"] for one in told))
        return median(values) if values else None

    def to_json(self) -> dict[str, Any]:
        """All of it for the results file."""
        return {
            "facts": self.facts,
            "sizes": self.sizes,
            "contenders": self.contenders,
            "absent": self.absent,
            "runs": [
                {"workload": workload, "contender": contender, **asdict(run)}
                for (workload, contender), runs in self.runs.items()
                for run in runs
            ],
        }

    def with_others(self, other: Found) -> Found:
        """These figures, and those of another run for what this one has not done: its facts say of when they are.

        Raises ValueError if both are not of one size.
        """
        if self.sizes != other.sizes:
            raise ValueError(f"figures of two sizes: {self.sizes} and {other.sizes}")
        more = {key: runs for key, runs in other.runs.items() if key not in self.runs}
        when = ", ".join(sorted({workload for workload, _ in more}))
        told = f"{when} (load at start {other.facts['load at start']}; {other.facts['machine']})"
        earlier = {name: text for name, text in other.facts.items() if name.startswith(OTHER)}
        facts = {**self.facts, f"{OTHER}{other.facts['date']}": told, **earlier} if more else self.facts
        contenders = {**other.contenders, **self.contenders}
        return Found(facts, self.sizes, contenders, {**self.runs, **more}, {**other.absent, **self.absent})

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Found:
        """The opposite of ``to_json``."""
        found = cls(value["facts"], value["sizes"], value["contenders"], absent=value["absent"])
        for one in value["runs"]:
            found.add(one.pop("workload"), one.pop("contender"), Run(**one))
        return found


def chart_file(name: str, page: str) -> str:
    """The file of a chart of a page of the docs."""
    return f"{page}-{name}.svg"


def _of(steps: list[dict[str, Any]], step: str, what: str) -> list[float]:
    return [one[what] for one in steps if one["step"] == step and what in one]
