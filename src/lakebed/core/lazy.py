"""Names of a package that are imported when they are first asked for, so that importing the package costs nothing."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any


def lazily(package: str, homes: Mapping[str, Sequence[str]]) -> Callable[[str], Any]:
    """The ``__getattr__`` of a package whose names are defined in other modules: ``homes`` says in which.

    Its own modules are found too, as if they had been imported already.

    >>> find = lazily("lakebed", {"lakebed.core.names": ["TableName"]})
    >>> find("TableName").__module__
    'lakebed.core.names'
    >>> find("core").__name__
    'lakebed.core'
    >>> find("TabelName")
    Traceback (most recent call last):
    AttributeError: module 'lakebed' has no attribute 'TabelName'
    """
    home_of = {name: home for home, names in homes.items() for name in names}

    def find(name: str) -> Any:
        home = home_of.get(name)
        if home is None:
            return _module(package, name)
        found = getattr(importlib.import_module(home), name)
        setattr(sys.modules[package], name, found)  # the next time nobody asks here
        return found

    return find


def _module(package: str, name: str) -> Any:
    whole = f"{package}.{name}"
    try:
        if not name.startswith("_"):
            return importlib.import_module(whole)
    except ModuleNotFoundError as error:
        if error.name != whole:
            raise
    raise AttributeError(f"module {package!r} has no attribute {name!r}")
