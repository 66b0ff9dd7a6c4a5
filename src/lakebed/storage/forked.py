"""Whether this process was forked from one that used polars, whose threads do not survive a fork.

Polars would wait for them for ever. Arrow starts its threads anew.
"""

from __future__ import annotations

import os
import sys

_lost = False


def polars_is_lost() -> bool:
    """Whether any call of polars might never return.

    >>> polars_is_lost()
    False
    """
    return _lost


def _after_fork() -> None:
    global _lost  # noqa: PLW0603 - the process as a whole has lost them
    _lost = _lost or "polars" in sys.modules


os.register_at_fork(after_in_child=_after_fork)
