"""Near names, for messages that help."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def did_you_mean(wrong: object, known: Iterable[str], *, most: int = 1) -> str | None:
    """A hint with the nearest known names, at most ``most``; None when nothing is near.

    >>> did_you_mean("amout", ["id", "amount"])
    "did you mean 'amount'?"
    """
    names = {name.casefold(): name for name in known}
    near = difflib.get_close_matches(str(wrong).casefold(), names, n=most)
    return f"did you mean {' or '.join(repr(names[name]) for name in near)}?" if near else None
