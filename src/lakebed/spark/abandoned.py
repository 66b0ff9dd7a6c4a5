"""Files of a write that are part of no commit: those of tasks that failed, were killed, or came second."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager

from lakebed.core.actions import Metadata
from lakebed.core.errors import StorageError
from lakebed.engine.draft import LeftoverWarning
from lakebed.engine.leftovers import Directory
from lakebed.storage.durable import is_temporary
from lakebed.storage.store import Store


def remove_all(store: Store, metadata: Metadata, prefix: str, table_name: str) -> None:
    """Remove every file of a write that failed, wherever it is. What appears later is left to vacuum."""
    with _warned(table_name):
        _remove(store, (file.path for file in Directory.of(store, metadata).files([])), prefix)


def remove_but(store: Store, prefix: str, kept: Collection[str], table_name: str) -> None:
    """Remove what other attempts of the same tasks have written beside the files that are ``kept``."""
    with _warned(table_name):
        for folder in {path.rpartition("/")[0] for path in kept}:
            found = (file.path for file in store.list(folder, recursive=False))
            _remove(store, (path for path in found if path not in kept), prefix)


def _remove(store: Store, paths: Iterable[str], prefix: str) -> None:
    own = [path for path in paths if _is_of(path.rpartition("/")[2], prefix)]
    store.delete_many(own)
    for path in own:
        store.remove_empty_parents(path)


def _is_of(name: str, prefix: str) -> bool:
    return name.startswith(prefix) or (is_temporary(name) and name.startswith(f".{prefix}"))


@contextmanager
def _warned(table_name: str) -> Iterator[None]:
    """The outcome of the write is known; files that cannot be removed do not change it."""
    try:
        yield
    except StorageError as error:
        warnings.warn(
            LeftoverWarning(
                f"table {table_name}: files of tasks that did not count could not be removed ({error}); "
                "vacuum will find them"
            ),
            stacklevel=3,
        )
