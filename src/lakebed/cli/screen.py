"""What commands show: rich text on a terminal, plain columns in a pipe, JSON if it is wanted.

Rich is imported for a terminal only: what goes into a pipe starts sooner.
"""

from __future__ import annotations

import dataclasses
import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from enum import Enum
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from rich.console import Console

NAME = "bold"
HEAD = "bold cyan"
GOOD = "green"
BAD = "red"
# Yellow is not readable on white, nor blue on black; this orange is on both.
WARN = "dark_orange3"
FAINT = "dim"


@dataclass(frozen=True)
class Column:
    """A column of a table; numbers stand on the right."""

    name: str
    right: bool = False
    style: str = ""
    wrap: bool = False
    """A long text may take several lines on a terminal; others are cut only if nothing else helps."""


@dataclass(frozen=True)
class Cell:
    """A text with a style of its own."""

    text: str
    style: str = ""

    def __str__(self) -> str:
        return self.text


def is_terminal(stream: TextIO) -> bool:
    """Whether a person looks at the stream; ``TERM=dumb`` counts as a pipe."""
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def width() -> int:
    """How many letters fit on a line; many where nobody looks."""
    return console().width if is_terminal(sys.stdout) else 1_000


def console(stream: TextIO | None = None) -> Console:
    """Rich's console over a stream; standard output by default. It obeys ``NO_COLOR``."""
    from rich.console import Console

    return Console(file=stream or sys.stdout, highlight=False, markup=False, soft_wrap=False)


def visible(text: str) -> str:
    """The text with what would steer a terminal, or break a line, made visible: data may hold anything.

    >>> print(visible("a" + chr(27) + "[31m"), visible("tab" + chr(9) + "here"))
    a\\x1b[31m tab\\there
    """
    return text if text.isprintable() else "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def say(*parts: str | Cell) -> None:
    """One line of text."""
    if not is_terminal(sys.stdout):
        _line(visible("".join(map(str, parts))))
        return
    from rich.text import Text

    pieces = [Cell(part) if isinstance(part, str) else part for part in parts]
    console().print(Text.assemble(*((visible(piece.text), piece.style) for piece in pieces)), soft_wrap=True)


def table(columns: Sequence[Column], rows: Iterable[Sequence[str | Cell]], *, empty: str = "nothing") -> None:
    """Rows under a head; ``empty`` is said if there are none."""
    cells = [list(row) for row in rows]
    if not cells:
        say(Cell(empty, FAINT))
    elif is_terminal(sys.stdout):
        _rich_table(columns, cells)
    else:
        _plain_table(columns, cells)


def _plain_table(columns: Sequence[Column], rows: Sequence[Sequence[str | Cell]]) -> None:
    lines = [[visible(column.name) for column in columns], *([visible(str(cell)) for cell in row] for row in rows)]
    widths = [max(map(len, texts)) for texts in zip(*lines, strict=True)]
    for line in lines:
        padded = [
            text.rjust(width) if column.right else text.ljust(width)
            for text, width, column in zip(line, widths, columns, strict=True)
        ]
        _line("  ".join(padded).rstrip())


def _rich_table(columns: Sequence[Column], rows: Sequence[Sequence[str | Cell]]) -> None:
    from rich.table import Table
    from rich.text import Text

    made = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style=HEAD)
    for column in columns:
        made.add_column(
            Text(visible(column.name)),
            justify="right" if column.right else "left",
            style=column.style,
            no_wrap=not column.wrap,
            overflow="fold" if column.wrap else "ellipsis",
        )
    for row in rows:
        made.add_row(*(_rich_cell(cell) for cell in row))
    console().print(made)


def _rich_cell(cell: Any) -> Any:
    from rich.text import Text

    if isinstance(cell, Cell):
        return Text(visible(cell.text), cell.style)
    return Text(visible(cell)) if isinstance(cell, str) else cell


def facts(pairs: Iterable[tuple[str, str | Cell]]) -> None:
    """Names and what they are, one on each line."""
    known = [(name, value) for name, value in pairs if str(value)]
    width = max((len(name) for name, _ in known), default=0)
    for name, value in known:
        say(Cell(name.ljust(width) + "  ", FAINT), value)


def heading(text: str) -> None:
    """A line above what follows, with an empty one before it."""
    say()
    say(Cell(text, NAME))


def dump(value: Any) -> None:
    """Anything that commands return, as JSON: indented on a terminal, on one line in a pipe."""
    indent = 2 if is_terminal(sys.stdout) else None
    _line(json.dumps(plain(value), indent=indent, ensure_ascii=False))


def plain(value: Any) -> Any:
    """The value as JSON knows it: records become objects, times become text in UTC."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(name): plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(one) for one in value]
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, datetime | date):
        return value.isoformat()
    if isinstance(value, BaseException):
        return str(value)
    if hasattr(value, "to_pylist"):
        return plain(value.to_pylist())
    return value if isinstance(value, str | int | float | bool | None) else str(value)


def _line(text: str) -> None:
    sys.stdout.write(text + "\n")
