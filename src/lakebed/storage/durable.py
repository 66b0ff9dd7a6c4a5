"""Local files that are there after a crash, whole or not at all.

The content goes to a temporary file in the same directory first; only a complete file gets its name. A
killed process can leave the temporary file, whose name starts with ``.`` and ends in ``.tmp``.
"""

from __future__ import annotations

import errno
import os
import re
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

# Another process may remove a directory it finds empty just before our file is in it.
_ATTEMPTS = 5
_TEMPORARY = re.compile(r"\..+\.[0-9a-f]{32}\.tmp", re.DOTALL)

Bytes = bytes | bytearray | memoryview


def is_temporary(name: str) -> bool:
    """Whether a file name is one that a killed writer left.

    >>> is_temporary(".a.parquet.0f8fad5bd9cb469fa16570867728950e.tmp"), is_temporary(".mine.tmp")
    (True, False)
    """
    return _TEMPORARY.fullmatch(name) is not None


def replace_file(path: str, data: Bytes, *, sync: bool) -> None:
    """Give ``path`` this content, at once and for every reader; make missing directories."""
    with _temporary(path, data, sync=sync) as temporary:
        os.replace(temporary, path)
    if sync:
        sync_directory(os.path.dirname(path))


@contextmanager
def staged_file(path: str, *, sync: bool) -> Iterator[str]:
    """The path of a temporary file to be filled by the block; after it, ``path`` has that content, at once.

    If the block fails nothing remains but directories.
    """
    with _temporary(path, b"", sync=False) as temporary:
        yield temporary
        if sync:
            _sync(temporary)
        os.replace(temporary, path)
    if sync:
        sync_directory(os.path.dirname(path))


def create_file(path: str, data: Bytes) -> bool:
    """Create ``path`` with this content, durably; False if it was there already.

    Of several processes exactly one gets True: a hard link cannot replace a file. The others return when the
    name is durable too, whoever made it.
    """
    if os.path.lexists(path):
        sync_directory(os.path.dirname(path))
        return False
    with _temporary(path, data, sync=True) as temporary:
        try:
            os.link(temporary, path)
        except FileExistsError:
            sync_directory(os.path.dirname(path))
            return False
        except OSError as failure:
            if failure.errno not in (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS):
                raise
            return _create_without_link(path, data)
    sync_directory(os.path.dirname(path))
    return True


def _create_without_link(path: str, data: Bytes) -> bool:
    """For file systems without hard links: exclusive, but a crash can leave a part of the file."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    except FileExistsError:
        return False
    try:
        _fill(descriptor, data, sync=True)
    except BaseException:
        os.unlink(path)
        raise
    sync_directory(os.path.dirname(path))
    return True


def sync_directory(path: str) -> None:
    """Make the names in a directory durable."""
    _sync(path)


def _sync(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def remove_empty_parents(path: str, root: str) -> None:
    """Remove the directories between ``root`` and ``path`` that are empty, ``root`` excluded."""
    for parent in Path(path).parents:
        if not parent.is_relative_to(root) or str(parent) == root:
            return
        # Not empty, or already gone: in both cases there is nothing to do.
        with suppress(OSError):
            parent.rmdir()


@contextmanager
def _temporary(path: str, data: Bytes, *, sync: bool) -> Iterator[str]:
    directory, name = os.path.split(path)
    temporary = os.path.join(directory, f".{name[:100]}.{uuid.uuid4().hex}.tmp")
    descriptor = _create_in_made_directory(temporary)
    try:
        _fill(descriptor, data, sync=sync)
        yield temporary
    finally:
        with suppress(FileNotFoundError):
            os.unlink(temporary)


def _create_in_made_directory(path: str) -> int:
    for attempt in range(_ATTEMPTS):
        try:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        except FileNotFoundError:
            if attempt == _ATTEMPTS - 1:
                raise
    raise AssertionError("unreachable")


def _fill(descriptor: int, data: Bytes, *, sync: bool) -> None:
    with os.fdopen(descriptor, "wb", buffering=0) as file:
        rest = memoryview(data)
        while rest:
            rest = rest[file.write(rest) :]
        if sync:
            os.fsync(file.fileno())
