"""Who makes a commit, as the open log tells it."""

from __future__ import annotations

import getpass
import os
from functools import cache


@cache
def user_name() -> str:
    """The name of the user that the process runs as; its number where the system has no name for it, as in containers.

    >>> bool(user_name())
    True
    """
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):
        return str(os.getuid()) if hasattr(os, "getuid") else "unknown"
