"""What the demo shows: chapters, lines that are checked, and how it ends."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.rule import Rule
from rich.table import Table

Value = TypeVar("Value")


class WrongNumber(Exception):
    """A check of the demo that does not hold."""


class Screen:
    """Prints at most 80 columns; every number that is claimed goes through ``check``."""

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Console(width=80, highlight=False)
        self.checks = 0
        self._chapter = 0

    def chapter(self, title: str, *lines: str) -> None:
        """Begin a chapter: a title, and a few words on what comes."""
        self._chapter += 1
        self.console.print()
        self.console.print(Rule(f"[bold]{self._chapter}  {title}", align="left", style="cyan"))
        for line in lines:
            self.console.print(f"[dim]{line}")

    def check(self, text: str, found: object, expected: object) -> None:
        """Show a line with a tick; raise WrongNumber, after showing both, if it is not as expected."""
        if found != expected:
            self.console.print(f"  [bold red]✗[/] {text}")
            raise WrongNumber(f"{text}: expected {expected!r}, found {found!r}")
        self.checks += 1
        self.console.print(f"  [green]✓[/] {text}")

    def say(self, text: str) -> None:
        """Show a line that claims nothing."""
        self.console.print(f"    {text}")

    def rows(self, title: str, rows: list[dict[str, Any]]) -> None:
        """Show a small table."""
        table = Table(title=title, title_justify="left", title_style="italic", header_style="bold", box=SIMPLE_HEAD)
        for name, value in rows[0].items():
            table.add_column(name, justify="right" if isinstance(value, int | float) else "left")
        for row in rows:
            table.add_row(*(f"{value:,}" if isinstance(value, int) else str(value) for value in row.values()))
        self.console.print(table)

    @contextmanager
    def working(self, text: str) -> Iterator[None]:
        """Show that something takes a while, on a terminal."""
        with self.console.status(f"[dim]{text}"):
            yield

    def timed(self, text: str, work: Callable[[], Value]) -> tuple[Value, float]:
        """What the work gives, and how many seconds it took."""
        with self.working(text):
            begun = time.perf_counter()
            result = work()
            return result, time.perf_counter() - begun
