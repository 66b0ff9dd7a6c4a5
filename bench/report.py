"""What a benchmark found: one line per measurement, with its goal and whether it was met."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from rich.console import Console
from rich.table import Table


@dataclass(frozen=True)
class Line:
    """One measurement. ``goal`` is None for information that nothing depends on."""

    what: str
    value: float
    unit: str
    goal: float | None = None
    at_least: bool = False
    """Whether a larger value is better; else a smaller one is."""
    note: str = ""

    @property
    def met(self) -> bool | None:
        """Whether the goal was met; None without one."""
        if self.goal is None:
            return None
        return self.value >= self.goal if self.at_least else self.value <= self.goal

    @property
    def verdict(self) -> str:
        """The same in a word."""
        return {True: "met", False: "missed", None: "-"}[self.met]

    def to_json(self) -> dict[str, Any]:
        """The line as an object for the results file."""
        return {**asdict(self), "value": round(self.value, 4), "verdict": self.verdict}


def render(console: Console, title: str, lines: list[Line]) -> None:
    """Print the lines as a table."""
    table = Table(title=title, title_justify="left")
    for name, justify in (("what", "left"), ("measured", "right"), ("goal", "right"), ("verdict", "left")):
        table.add_column(name, justify=justify)  # type: ignore[arg-type]
    table.add_column("note", overflow="fold")
    for line in lines:
        goal = "" if line.goal is None else f"{'>=' if line.at_least else '<='} {line.goal:g} {line.unit}"
        style = {True: "green", False: "red", None: "dim"}[line.met]
        table.add_row(line.what, f"{number(line.value)} {line.unit}", goal, f"[{style}]{line.verdict}[/]", line.note)
    console.print(table)


def number(value: float) -> str:
    """A figure with three digits that count.

    >>> number(1234.5), number(0.01234)
    ('1,234', '0.0123')
    """
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
