"""Where one statement ends and the next begins."""

from __future__ import annotations

import re

# A text, a quoted name, a comment, or the end of a statement. What is open at the end is still being typed.
_PART = re.compile(
    r"""
    '(?:[^'\\]|\\.|'')*(?P<text>'|\Z)
    | "(?:[^"\\]|\\.|"")*(?P<quoted>"|\Z)
    | `(?:[^`]|``)*(?P<name>`|\Z)
    | --[^\n]*
    | /\*(?:.*?)(?P<comment>\*/|\Z)
    | (?P<end>;)
    """,
    re.VERBOSE | re.DOTALL,
)
_COMMENTS = re.compile(r"""('(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*"|`[^`]*`)|--[^\n]*|/\*.*?(?:\*/|\Z)""", re.DOTALL)


def split(text: str) -> tuple[list[str], str]:
    """The statements that end with a semicolon, without it, and what comes after the last one.

    >>> split("select ';' /* ; */; select 2; sel")
    (["select ';' /* ; */", 'select 2'], ' sel')
    """
    found: list[str] = []
    start = 0
    for part in _PART.finditer(text):
        if part["end"]:
            found.append(text[start : part.start()].strip())
            start = part.end()
    return [one for one in found if not is_blank(one)], text[start:]


def is_blank(text: str) -> bool:
    """Whether there is nothing but blanks and comments.

    >>> is_blank(" -- later\\n"), is_blank("select 1")
    (True, False)
    """
    return not _COMMENTS.sub(lambda found: found[1] or " ", text).strip()
