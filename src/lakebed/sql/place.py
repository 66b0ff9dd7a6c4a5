"""Errors that point at the place in a statement."""

from __future__ import annotations

import unicodedata

from lakebed.core.errors import SqlError

_WIDTH = 100
"""Of a longer line only the part around the place is shown."""


def pointed(
    text: str,
    start: int,
    end: int,
    what: str,
    *,
    expected: str | None = None,
    found: str | None = None,
    fix: str | None = None,
) -> SqlError:
    """The error about what is from ``start`` up to ``end`` in a statement.

    >>> print(pointed("SELECT *\\nFROM ordrs", 14, 19, "there is no table ordrs", fix="did you mean 'orders'?"))
    line 2, column 6: there is no table ordrs
      FROM ordrs
           ^^^^^
    fix: did you mean 'orders'?
    """
    start = min(max(start, 0), len(text))
    first = text.rfind("\n", 0, start) + 1
    last = text.find("\n", start)
    line = text[first : last if last >= 0 else len(text)].rstrip("\r")
    column = start - first
    shown, before, marked = _cut(line, column, max(1, min(end - start, len(line) - column)))
    mark = " " * _cells(before) + "^" * max(1, _cells(marked))
    place = f"line {text.count(chr(10), 0, start) + 1}, column {column + 1}"
    return SqlError(f"{place}: {what}\n  {shown}\n  {mark}", expected=expected, found=found, fix=fix)


def _cut(line: str, column: int, length: int) -> tuple[str, str, str]:
    """What is shown of the line, what of that is before the place, and the place itself."""
    line = line.replace("\t", " ")
    if len(line) <= _WIDTH:
        return line, line[:column], line[column : column + length]
    low = max(0, min(column - _WIDTH // 3, len(line) - _WIDTH))
    high = min(len(line), low + _WIDTH)
    head, tail = "…" if low else "", "…" if high < len(line) else ""
    return f"{head}{line[low:high]}{tail}", head + line[low:column], line[column : min(column + length, high)]


def _cells(text: str) -> int:
    """How many cells of a terminal the text takes."""
    wide = sum(unicodedata.east_asian_width(letter) in "WF" for letter in text)
    return len(text) + wide - sum(unicodedata.combining(letter) > 0 for letter in text)
