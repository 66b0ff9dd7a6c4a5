"""What is in a table's directory: the files that may be the table's own, a part at a time.

Names that begin with ``_`` or ``.`` are left to whoever put them there, and so is a directory that is a table of its
own; what remains are data files, files of deletion vectors, and what killed writers left.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

from lakebed.core.actions import Metadata
from lakebed.core.partition import partition_path
from lakebed.delta.paths import LOG
from lakebed.storage import z85
from lakebed.storage.durable import is_temporary
from lakebed.storage.store import FileInfo, Store

_DATA = ".parquet"
_VECTOR = re.compile(r"(?:(.+)/)?deletion_vector_([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\.bin", re.DOTALL)


@dataclass(frozen=True)
class Directory:
    """A table's directory, with what tells its partitions from what others hide there."""

    store: Store
    partitions: frozenset[str]
    """What the names of directories of partitions begin with, like ``dt=``."""

    @classmethod
    def of(cls, store: Store, metadata: Metadata) -> Directory:
        """The directory of a table that has this metadata."""
        names = {name for f in metadata.partition_schema for name in (f.name, f.physical_name)}
        return cls(store, frozenset(partition_path([name], ["x"]).removesuffix("x") for name in names))

    def files(self, empty: list[str]) -> Iterator[FileInfo]:
        """All files that may be the table's own, in no order; temporaries of the log among them.

        Directories without anything in them are added to ``empty`` on the way, where the storage has directories.
        """
        yield from (file for file in self.store.list(LOG, recursive=False) if is_temporary(_name(file.path)))
        yield from self._below_local(empty) if self.store.location.is_local else self._below_remote()

    def _below_local(self, empty: list[str]) -> Iterator[FileInfo]:
        pending = [""]
        while pending:
            path = pending.pop()
            directories, files = self.store.children(path)
            if path and LOG in directories:
                continue
            if path and not directories and not files:
                empty.append(path)
            yield from filter(is_own, files)
            pending += [f"{path}/{name}" if path else name for name in directories if not self._is_hidden(name)]

    def _below_remote(self) -> Iterator[FileInfo]:
        """One listing for each directory of the first level: a request per thousand files, not one per directory."""
        directories, files = self.store.children()
        yield from filter(is_own, files)
        for directory in directories:
            if not self._is_hidden(directory):
                yield from self._of_one_table(list(self.store.list(directory)))

    def _of_one_table(self, files: list[FileInfo]) -> Iterator[FileInfo]:
        inner = f"/{LOG}/"
        tables = tuple({file.path.partition(inner)[0] + "/" for file in files if inner in file.path})
        for file in files:
            above = file.path.split("/")[:-1]
            if is_own(file) and not file.path.startswith(tables) and not any(map(self._is_hidden, above)):
                yield file

    def _is_hidden(self, name: str) -> bool:
        return name.startswith(("_", ".")) and not name.startswith(tuple(self.partitions))


def is_own(file: FileInfo) -> bool:
    """Whether the name of a file is one that a writer of tables gives.

    >>> [is_own(FileInfo(path, 0, 0)) for path in ("dt=1/a.parquet", "notes.txt", "_delta.parquet", ".x.tmp")]
    [True, False, False, False]
    """
    name = _name(file.path)
    if name.startswith(("_", ".")):
        return is_temporary(name)
    return name.endswith(_DATA) or _VECTOR.fullmatch(name) is not None


def _name(path: str) -> str:
    return path.rpartition("/")[2]


def vector_key(path: str) -> str | None:
    """What the metastore calls a file of vectors; None for any other file.

    >>> vector_key("ab/deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin")
    'uab^-aqEH.-t@S}K{vb[*k^'
    """
    match = _VECTOR.fullmatch(path)
    return None if match is None else f"u{match[1] or ''}{z85.encode(uuid.UUID(match[2]).bytes)}"


def parts(files: Iterable[FileInfo], size: int) -> Iterator[list[FileInfo]]:
    """The files, ``size`` at a time."""
    rest = iter(files)
    while part := list(islice(rest, size)):
        yield part
