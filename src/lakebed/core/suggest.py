"""Near names, for messages that help."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def did_you_mean(wrong: object, known: Iterable[str]) -> str | None:
    """A hint with the nearest known name; None when nothing is near.

    >>> did_you_mean("amout", ["id", "amount"])
    "did you mean 'amount'?"
    """
    names = {name.casefold(): name for name in known}
    near = difflib.get_close_matches(str(wrong).casefold(), names, n=1)
    return f"did you mean {names[near[0]]!r}?" if near else None
