"""Places in a source's log, as texts that compare as the places do."""

from __future__ import annotations

from typing import Any

_DIGITS = 20


def place(*parts: Any) -> str:
    """The text of a place: numbers get as many digits as any has, and what is missing comes before all else.

    >>> place(99) < place(100) < place(100, 0)
    True
    >>> place(None, 3) < place(0, 0)
    True
    """
    # The separator comes before all digits, so that a part that is missing does, too.
    return ".".join(_part(part) for part in parts)


def log_file(name: object) -> object:
    """The number of a log file like ``mysql-bin.000003``, or the name where it has none.

    >>> log_file("mysql-bin.000003"), log_file("")
    ('000003', None)
    """
    text = "" if name is None else str(name)
    number = text.rpartition(".")[2]
    return number if number.isdecimal() else text or None


def _part(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return ""
    text = str(value)
    # A negative number is none of a log: zero-padded it would come after its neighbours.
    return text.zfill(_DIGITS) if text.isdecimal() else text
