"""What a file system's failure means, in Lakebed's errors.

Local failures are told apart by ``errno``, S3 failures by the error code that the AWS client puts into
its text (``AWS Error ACCESS_DENIED``); the prose around it is never looked at.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa

from lakebed.core.errors import (
    AccessError,
    CorruptFileError,
    FileMissingError,
    LakebedError,
    NoSpaceError,
    StorageError,
)

_ACCESS = {errno.EACCES, errno.EPERM, errno.EROFS}
_SPACE = {errno.ENOSPC, errno.EDQUOT}
_MISSING = {errno.ENOENT, errno.ENOTDIR}
_NO_DIRECTORY = {errno.ENOTDIR, errno.EEXIST}
_AWS_CODE = re.compile(r"AWS Error (\w+)")
_HTTP_STATUS = re.compile(r"HTTP status (\d+)")
_AWS_MISSING = {"NO_SUCH_KEY", "RESOURCE_NOT_FOUND"}
_AWS_ACCESS = {
    "ACCESS_DENIED",
    "INVALID_ACCESS_KEY_ID",
    "INVALID_CLIENT_TOKEN_ID",
    "INVALID_SIGNATURE",
    "SIGNATURE_DOES_NOT_MATCH",
    "UNRECOGNIZED_CLIENT",
    "MISSING_AUTHENTICATION_TOKEN",
    "REQUEST_EXPIRED",
    "EXPIRED_TOKEN",
}
_CREDENTIALS = "check the permissions, and for S3 the options s3.access_key and s3.secret_key"


@contextmanager
def translated(action: str, name: str, *, parsing: bool = False) -> Iterator[None]:
    """Raise what goes wrong inside as a ``StorageError`` that names the file.

    ``parsing``: the file is being understood, so a failure that neither the operating system nor the
    object store explains is the content's fault.

    >>> with translated("read", "file:///lake/a.parquet"):
    ...     raise FileNotFoundError(2, "gone")
    Traceback (most recent call last):
    lakebed.core.errors.FileMissingError: file:///lake/a.parquet: cannot read it, there is no such file
    """
    try:
        yield
    except LakebedError:
        raise
    except (OSError, pa.ArrowException) as cause:
        error = storage_error(action, name, cause)
        if isinstance(cause, pa.ArrowInvalid) or (parsing and type(error) is StorageError and _unexplained(cause)):
            error = CorruptFileError(f"{name}: cannot {action} it, the content is not valid", found=_line(cause))
        raise error from cause


def storage_error(action: str, name: str, cause: Exception) -> StorageError:
    """The error that ``cause`` means for the file ``name``."""
    what = f"{name}: cannot {action} it"
    number = getattr(cause, "errno", None)
    code, status = _first(_AWS_CODE, cause), _first(_HTTP_STATUS, cause)
    if number in _NO_DIRECTORY and action == "write":
        return StorageError(f"{what}, a file is where a directory should be", fix="move the file, or use another place")
    if number in _MISSING or code in _AWS_MISSING:
        return FileMissingError(f"{what}, there is no such file")
    if number in _ACCESS or code in _AWS_ACCESS or status in ("401", "403"):
        return AccessError(f"{what}, access is denied", found=_line(cause), fix=_CREDENTIALS)
    if number in _SPACE:
        return NoSpaceError(f"{what}, the disk or the quota is full", fix="free space and try again")
    if code == "NO_SUCH_BUCKET":
        return StorageError(f"{what}, the bucket does not exist", fix="create it or correct the location")
    if status == "301":
        return StorageError(f"{what}, the bucket is in another region", fix="set the option s3.region")
    if code == "NETWORK_CONNECTION":
        return StorageError(
            f"{what}, the S3 endpoint cannot be reached",
            found=_line(cause),
            fix="check the option s3.endpoint",
        )
    return StorageError(what, found=_line(cause))


def _unexplained(cause: Exception) -> bool:
    return getattr(cause, "errno", None) is None and _first(_AWS_CODE, cause) is None


def _first(pattern: re.Pattern[str], cause: Exception) -> str | None:
    match = pattern.search(str(cause))
    return None if match is None else match[1]


def _line(cause: Exception) -> str:
    """The failure's first line: libraries append stacks and search paths."""
    text = str(cause).strip() or type(cause).__name__
    return text.splitlines()[0][:300]
