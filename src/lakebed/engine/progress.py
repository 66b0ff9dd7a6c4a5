"""Progress of long work: a bar on a terminal, nothing elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from lakebed.core.options import Options


@contextmanager
def shown(name: str, parts: int, options: Options) -> Iterator[Callable[[], None]]:
    """While the block runs, a bar of the parts that are done; the block calls what it gets after each of them.

    Nothing is shown where errors do not go to a terminal, of work in one part, or if the option ``progress`` is off.

    >>> with shown("shop.orders", 2, Options()) as done:
    ...     done()
    """
    if not options.progress or parts < 2 or not sys.stderr.isatty():
        yield _silent
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(file=sys.stderr, force_terminal=True), transient=True) as bar:
        task = bar.add_task(f"table {name}", total=parts)
        yield lambda: bar.advance(task)


def _silent() -> None:
    """Nobody looks."""
