"""Names of the open log's files, and the URI encoding of data paths.

>>> commit_path(17)
'_delta_log/00000000000000000017.json'
>>> parse("00000000000000000017.checkpoint.parquet")
LogName(kind=<LogKind.CHECKPOINT: 'checkpoint'>, version=17, part=None, parts=None)
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from urllib.parse import quote, unquote

LOG = "_delta_log"
SIDECARS = f"{LOG}/_sidecars"
LAST_CHECKPOINT = f"{LOG}/_last_checkpoint"

# A colon in the first segment would read as a URI scheme, so it is not among the safe characters.
_SAFE = "/=!$&'()*+,;@"
_ABSOLUTE = re.compile(r"^(?:[A-Za-z][A-Za-z0-9+.-]*:|/)")


class LogKind(StrEnum):
    """What a file of the log directory holds."""

    COMMIT = "commit"
    CHECKPOINT = "checkpoint"
    MULTI_PART = "multi-part checkpoint"
    V2 = "V2 checkpoint"


@dataclass(frozen=True)
class LogName:
    """A file name of the log directory, understood."""

    kind: LogKind
    version: int
    part: int | None = None
    parts: int | None = None


_NAMES = (
    (LogKind.COMMIT, re.compile(r"^(\d{20})\.json$")),
    (LogKind.CHECKPOINT, re.compile(r"^(\d{20})\.checkpoint\.parquet$")),
    (LogKind.MULTI_PART, re.compile(r"^(\d{20})\.checkpoint\.(\d{10})\.(\d{10})\.parquet$")),
    (
        LogKind.V2,
        re.compile(r"^(\d{20})\.checkpoint\.[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\.(?:json|parquet)$"),
    ),
)


def parse(name: str) -> LogName | None:
    """What the file of that name (no directory) is; None for what a replay does not need."""
    for kind, pattern in _NAMES:
        match = pattern.match(name)
        if match is not None:
            numbers = [int(group) for group in match.groups()]
            return LogName(kind, *numbers)
    return None


def commit_path(version: int) -> str:
    """Where the commit of ``version`` is, below the table's root."""
    return f"{LOG}/{version:020d}.json"


def checkpoint_path(version: int) -> str:
    """Where the classic checkpoint of ``version`` is, below the table's root."""
    return f"{LOG}/{version:020d}.checkpoint.parquet"


def part_path(version: int, part: int, parts: int) -> str:
    """Where one part of a multi-part checkpoint is, below the table's root."""
    return f"{LOG}/{version:020d}.checkpoint.{part:010d}.{parts:010d}.parquet"


def sidecar_path(path: str) -> str:
    """Where a sidecar is that a V2 checkpoint names by its file name, or by its whole path."""
    return f"{SIDECARS}/{unquote(path).rpartition('/')[2]}"


def encode(path: str) -> str:
    """A data file's path as the log writes it.

    >>> encode("dt=2026-11-15 10%3A00/ä.parquet")
    'dt=2026-11-15%2010%253A00/%C3%A4.parquet'
    """
    return quote(path, safe=_SAFE)


def decode(path: str) -> str:
    """A path of the log as the file system knows it.

    >>> decode("dt=2026-11-15%2010%253A00/a.parquet")
    'dt=2026-11-15 10%3A00/a.parquet'
    """
    return unquote(path)


def is_absolute(path: str) -> bool:
    """Whether a path of the log leads out of the table's own directory, as in a shallow clone.

    >>> is_absolute("s3://bucket/other/a.parquet"), is_absolute("/data/a"), is_absolute("dt=1/a.parquet")
    (True, True, False)
    """
    return _ABSOLUTE.match(path) is not None
