"""Files of a write that are part of no commit: those of tasks that failed, were killed, or came second."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager

from lakebed.core.errors import StorageError
from lakebed.engine.draft import LeftoverWarning
from lakebed.engine.leftovers import Directory
from lakebed.engine.workforce import NewFiles
from lakebed.storage.durable import is_temporary


def remove_all(files: NewFiles) -> None:
    """Remove every file of a job that failed, wherever it is. What appears later is left to vacuum."""
    with _warned(files.table_name):
        found = Directory.of(files.store, files.metadata).files([])
        _remove(files, (file.path for file in found))


def remove_but(files: NewFiles, kept: Collection[str]) -> None:
    """Remove what other attempts of the same tasks have written beside the files that are ``kept``."""
    with _warned(files.table_name):
        for folder in {path.rpartition("/")[0] for path in kept}:
            found = (file.path for file in files.store.list(folder, recursive=False))
            _remove(files, (path for path in found if path not in kept))


def _remove(files: NewFiles, paths: Iterable[str]) -> None:
    own = [path for path in paths if _is_of(path.rpartition("/")[2], files.prefix)]
    files.store.delete_many(own)
    for path in own:
        files.store.remove_empty_parents(path)


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
