"""LIKE patterns: one normal form with the backslash as escape, and what a pattern says of its matches."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from lakebed.core.errors import PredicateError

_WILD = ("%", "_")


def normalise(pattern: str, escape: str = "\\") -> str:
    r"""The pattern with the backslash as escape character.

    Raises PredicateError when the escape precedes anything but ``%``, ``_`` or itself, as Spark does.

    >>> normalise("50!%", "!")
    '50\\%'
    """
    parts: list[str] = []
    rest = iter(pattern)
    for character in rest:
        if character == escape:
            escaped = next(rest, "")
            if escaped not in (*_WILD, escape):
                raise PredicateError(
                    f"LIKE pattern {pattern!r}: the escape {escape!r} must precede %, _ or itself",
                    fix=f"double the {escape!r}",
                )
            parts.append(quote(escaped))
        else:
            parts.append(character if character in _WILD else quote(character))
    return "".join(parts)


def quote(text: str) -> str:
    r"""The pattern that matches exactly this text.

    >>> quote("50%")
    '50\\%'
    """
    return "".join(f"\\{c}" if c in (*_WILD, "\\") else c for c in text)


def prefix(pattern: str) -> tuple[str, str]:
    r"""The text that every match starts with, and the rest of the pattern after it.

    >>> prefix("a\\_b%c")
    ('a_b', '%c')
    """
    text: list[str] = []
    at = 0
    while at < len(pattern) and pattern[at] not in _WILD:
        at += pattern[at] == "\\"
        text.append(pattern[at])
        at += 1
    return "".join(text), pattern[at:]


def check_regex(pattern: str) -> None:
    """Raise PredicateError when the regular expression is not one of RE2."""
    try:
        pc.match_substring_regex(pa.array([""]), pattern)
    except pa.ArrowInvalid as error:
        raise PredicateError(
            f"RLIKE pattern {pattern!r} is no regular expression",
            found=str(error),
            expected="RE2 syntax (no look-around, no back-references)",
        ) from error
