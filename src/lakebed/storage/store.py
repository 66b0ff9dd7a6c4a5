"""Files below one directory of any file system.

All paths are relative to the store's location and are checked by ``Location.child``: a path, wherever it
came from, never leaves the directory.
"""

from __future__ import annotations

import errno
import io
import os
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, BinaryIO

from pyarrow import fs

from lakebed.core.errors import FileMissingError, StorageError
from lakebed.core.location import Location
from lakebed.core.options import Options
from lakebed.storage import durable
from lakebed.storage.failure import translated
from lakebed.storage.filesystem import filesystem_path, open_filesystem

# Deleting on an object store is a request per file; they wait for the network, not for the processor.
_DELETE_THREADS = 16
_DELETE_ATTEMPTS = 20


@dataclass(frozen=True, slots=True)
class FileInfo:
    """A file that is there: its path below the store, its bytes and its age."""

    path: str
    size: int
    mtime_ms: int


Children = tuple[list[str], list[FileInfo]]
"""Names of directories, and files."""


def open_store(location: Location, options: Options | None = None) -> Store:
    """The store at ``location``. Nothing is read or created until the store is used.

    >>> import tempfile
    >>> store = open_store(Location.parse(tempfile.mkdtemp()))
    >>> store.put("a/b.txt", b"hello")
    >>> store.read("a/b.txt")
    b'hello'
    """
    return Store(location, options or Options())


class Store:
    """Reads, writes, lists and deletes files below ``location``.

    It can be pickled; the connection is opened where it is used. Every method raises a
    ``StorageError`` that names the file: ``FileMissingError``, ``AccessError``, ``NoSpaceError`` or,
    where nothing more is known, ``StorageError`` itself.
    """

    def __init__(self, location: Location, options: Options) -> None:
        self.location = location
        self.options = options
        self._filesystem: fs.FileSystem | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return Store, (self.location, self.options)

    def __repr__(self) -> str:
        return f"Store({self.location.uri!r})"

    @property
    def filesystem(self) -> fs.FileSystem:
        """Arrow's file system under this store."""
        if self._filesystem is None:
            with translated("open", self.location.uri):
                self._filesystem = open_filesystem(self.location, self.options)
        return self._filesystem

    def path(self, rel: str) -> str:
        """The path of a file as ``filesystem`` takes it."""
        return filesystem_path(self.location.child(rel))

    def uri(self, rel: str) -> str:
        """The URI of a file, for messages and for other systems."""
        return self.location.child(rel).uri

    def read(self, rel: str) -> bytes:
        """The whole content of a file."""
        with translated("read", self.uri(rel)), self.filesystem.open_input_file(self.path(rel)) as file:
            data: bytes = file.read()
        return data

    def open_input(self, rel: str) -> Any:
        """A random-access Arrow file; the caller closes it."""
        with translated("open", self.uri(rel)):
            return self.filesystem.open_input_file(self.path(rel))

    def open_output(self, rel: str) -> BinaryIO:
        """An Arrow output stream that replaces the file; the caller closes it.

        On S3 the file appears when the stream is closed. Use ``put`` where the bytes are at hand.
        """
        with translated("write", self.uri(rel)):
            if not self._is_object_store:
                self.filesystem.create_dir(filesystem_path(self.location.child(rel).parent), recursive=True)
            stream: BinaryIO = self.filesystem.open_output_stream(self.path(rel))
            return stream

    def make_dir(self, rel: str) -> None:
        """Make a directory, if it is not there, so that a place that cannot be written shows early.

        Nothing on S3, which has no directories.
        """
        if not self._is_object_store:
            with translated("write", self.uri(rel)):
                self.filesystem.create_dir(self.path(rel), recursive=True)

    def put(self, rel: str, data: durable.Bytes, *, sync: bool | None = None) -> None:
        """Write a file, replacing one of that name; readers see the old or the new content.

        ``sync`` makes a local file durable before the return; by default the option ``sync`` decides.
        """
        with translated("write", self.uri(rel)):
            if self.location.is_local:
                wanted = self.options.sync if sync is None else sync
                durable.replace_file(self.path(rel), data, sync=wanted)
                return
            with self.open_output(rel) as stream:
                stream.write(data)

    @contextmanager
    def staged(self, rel: str) -> Iterator[str | io.BytesIO]:
        """Where the block may write a file's content: a path, or memory; after it the file is there, whole.

        It is durable if the option ``sync`` says so. If the block fails nothing remains.
        """
        with translated("write", self.uri(rel)):
            if self.location.is_local:
                with durable.staged_file(self.path(rel), sync=self.options.sync) as path:
                    yield path
                return
        content = io.BytesIO()
        yield content
        self.put(rel, content.getbuffer())

    def put_if_absent(self, rel: str, data: durable.Bytes) -> bool:
        """Write a file durably unless one of that name is there; whether it was written.

        Local files: exactly one of several writers gets True. Object stores: a check and a write, so
        two writers at once may both get True. That is harmless here because the metastore decides
        what version n holds before anyone publishes it: all writers of one name bring the same bytes.
        """
        if self.location.is_local:
            with translated("write", self.uri(rel)):
                return durable.create_file(self.path(rel), data)
        if self.exists(rel):
            return False
        self.put(rel, data)
        return True

    def exists(self, rel: str) -> bool:
        """Whether a file of that name is there."""
        with translated("look for", self.uri(rel)):
            return bool(self.filesystem.get_file_info(self.path(rel)).type == fs.FileType.File)

    def info(self, rel: str) -> FileInfo:
        """Size and age of a file. Raises ``FileMissingError`` if it is not there."""
        with translated("look for", self.uri(rel)):
            found = self.filesystem.get_file_info(self.path(rel))
        if found.type != fs.FileType.File:
            raise FileMissingError(f"{self.uri(rel)}: there is no such file")
        return FileInfo(rel, found.size, _milliseconds(found))

    def size(self, rel: str) -> int:
        """The bytes of a file. Raises ``FileMissingError`` if it is not there."""
        return self.info(rel).size

    def list(self, prefix: str = "", recursive: bool = True) -> Iterator[FileInfo]:
        """The files below the directory ``prefix`` (of the whole store by default), in no order.

        A directory that is not there has no files. Links to directories are not followed.
        """
        base = self.location.child(prefix) if prefix else self.location
        if self.location.is_local:
            yield from _list_local(base, prefix, recursive)
            return
        root = filesystem_path(self.location)
        with translated("list", base.uri):
            selector = fs.FileSelector(filesystem_path(base), allow_not_found=True, recursive=recursive)
            found = self.filesystem.get_file_info(selector)
        for info in found:
            if info.type == fs.FileType.File:
                yield FileInfo(info.path[len(root) :].lstrip("/"), info.size, _milliseconds(info))

    def children(self, prefix: str = "") -> Children:
        """The names of the directories, and the files, that are directly in the directory ``prefix``.

        A directory that is not there has none. A link to a directory counts as nothing.
        """
        base = self.location.child(prefix) if prefix else self.location
        if self.location.is_local:
            return _children_local(base.path, prefix)
        with translated("list", base.uri):
            selector = fs.FileSelector(filesystem_path(base), allow_not_found=True, recursive=False)
            found = self.filesystem.get_file_info(selector)
        directories = [info.base_name for info in found if info.type == fs.FileType.Directory]
        files = [
            FileInfo(f"{prefix}/{info.base_name}" if prefix else info.base_name, info.size, _milliseconds(info))
            for info in found
            if info.type == fs.FileType.File
        ]
        return directories, files

    def delete(self, rel: str, *, missing_ok: bool = True) -> None:
        """Delete a file. With ``missing_ok=False`` a missing one raises ``FileMissingError``.

        On S3, Arrow leaves an empty object that marks the directory; listings pass over it.
        """
        try:
            with translated("delete", self.uri(rel)):
                if self.location.is_local:
                    os.unlink(self.path(rel))
                else:
                    self.filesystem.delete_file(self.path(rel))
        except FileMissingError:
            if not missing_ok:
                raise

    def delete_many(self, rels: Iterable[str]) -> None:
        """Delete files, at once where the file system is far away; missing ones are passed over."""
        if self.location.is_local:
            for rel in rels:
                self.delete(rel)
            return
        with ThreadPoolExecutor(_DELETE_THREADS, thread_name_prefix="lakebed-delete") as pool:
            for _ in pool.map(self.delete, rels):
                pass

    def delete_each(self, rels: Iterable[str]) -> dict[str, StorageError]:
        """Delete files as ``delete_many`` does, however many of them fail; the failures by file."""
        failures: dict[str, StorageError] = {}

        def attempt(rel: str) -> None:
            try:
                self.delete(rel)
            except StorageError as error:
                failures[rel] = error

        if self.location.is_local:
            for rel in rels:
                attempt(rel)
        else:
            with ThreadPoolExecutor(_DELETE_THREADS, thread_name_prefix="lakebed-delete") as pool:
                for _ in pool.map(attempt, rels):
                    pass
        return failures

    def delete_dir(self, rel: str = "") -> None:
        """Delete a directory with all files below it; the whole store by default."""
        target = self.location.child(rel) if rel else self.location
        path = filesystem_path(target)
        with translated("delete", target.uri):
            for _ in range(_DELETE_ATTEMPTS):
                try:
                    self.filesystem.delete_dir(path)
                    return
                except OSError as error:
                    # Others make and delete files there: that one of them is gone does not mean that all are.
                    if error.errno not in (errno.ENOENT, errno.ENOTEMPTY):
                        raise
                    if self.filesystem.get_file_info(path).type == fs.FileType.NotFound:
                        return
            self.filesystem.delete_dir(path)

    def remove_empty_parents(self, rel: str) -> None:
        """Remove directories above ``rel`` that hold nothing; the store itself stays."""
        if self.location.is_local:
            durable.remove_empty_parents(self.path(rel), self.location.path)

    def remove_empty_dir(self, rel: str, *, unchanged_since: int) -> None:
        """Remove a directory, and those above it, if they hold nothing and it is as old as a time (ms) at least."""
        if self.location.is_local:
            path = self.path(rel)
            with suppress(FileNotFoundError):
                if os.stat(path).st_mtime_ns // 1_000_000 <= unchanged_since:
                    durable.remove_empty_parents(os.path.join(path, "file"), self.location.path)

    @property
    def _is_object_store(self) -> bool:
        return self.location.scheme == "s3"


def _milliseconds(info: fs.FileInfo) -> int:
    return (info.mtime_ns or 0) // 1_000_000


def _list_local(directory: Location, prefix: str, recursive: bool) -> Iterator[FileInfo]:
    pending = [(directory.path, prefix)]
    while pending:
        path, name = pending.pop()
        directories, files = _children_local(path, name)
        yield from files
        if recursive:
            pending += [(os.path.join(path, child), f"{name}/{child}" if name else child) for child in directories]


def _children_local(directory: str, prefix: str) -> Children:
    directories: list[str] = []
    files: list[FileInfo] = []
    try:
        with translated("list", directory):
            entries = list(os.scandir(directory))
    except FileMissingError:
        return directories, files
    for entry in entries:
        if entry.is_dir(follow_symlinks=False):
            directories.append(entry.name)
        elif entry.is_file():
            try:
                found = entry.stat()
            except FileNotFoundError:
                continue  # deleted between the listing and now
            rel = f"{prefix}/{entry.name}" if prefix else entry.name
            files.append(FileInfo(rel, found.st_size, found.st_mtime_ns // 1_000_000))
    return directories, files
