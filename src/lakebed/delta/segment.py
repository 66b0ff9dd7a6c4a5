"""Which files of the log directory make up one version: a checkpoint, if any, and the commits after it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from lakebed.core.errors import FileMissingError, NotFoundError
from lakebed.delta.paths import LOG, LogKind, commit_path, parse, part_path

_PREFERENCE = (LogKind.V2, LogKind.CHECKPOINT, LogKind.MULTI_PART)


@dataclass(frozen=True)
class CheckpointFiles:
    """All top-level files of one whole checkpoint, in the order of their parts."""

    version: int
    kind: LogKind
    paths: tuple[str, ...]


@dataclass(frozen=True)
class LogListing:
    """The log directory at one moment."""

    commits: Mapping[int, int | None] = field(hash=False)
    """The versions of all commit files, with the time (ms) at which the file was written if it is known."""
    checkpoints: tuple[CheckpointFiles, ...] = ()
    """All whole checkpoints, the newest first."""
    missing_parts: tuple[tuple[int, str], ...] = ()
    """Version and path of what multi-part checkpoints lack; such a checkpoint is passed over."""

    @property
    def latest(self) -> int | None:
        """The newest version that any file speaks of."""
        newest = [max(self.commits)] if self.commits else []
        return max(newest + [c.version for c in self.checkpoints[:1]], default=None)

    @property
    def earliest(self) -> int | None:
        """The oldest version that can be rebuilt."""
        if 0 in self.commits:
            return 0
        return min((c.version for c in self.checkpoints), default=None)


@dataclass(frozen=True)
class LogSegment:
    """The files that make ``version``."""

    version: int
    checkpoint: CheckpointFiles | None
    commits: range


def listing(names: Iterable[tuple[str, int | None]]) -> LogListing:
    """The log directory from its file names (without the directory) and their times.

    >>> found = listing([(f"{0:020d}.json", None), (f"{1:020d}.json", None), ("notes.txt", None)])
    >>> found.earliest, found.latest
    (0, 1)
    """
    commits: dict[int, int | None] = {}
    groups: dict[tuple[int, LogKind, str | int], dict[int, str]] = defaultdict(dict)
    for name, written in names:
        known = parse(name)
        if known is None:
            continue
        if known.kind is LogKind.COMMIT:
            commits[known.version] = written
            continue
        # Every V2 file is a checkpoint of its own; the parts of one multi-part checkpoint belong together.
        group = known.parts if known.parts is not None else name
        groups[known.version, known.kind, group][known.part or 1] = f"{LOG}/{name}"
    whole: list[CheckpointFiles] = []
    missing: list[tuple[int, str]] = []
    for (version, kind, group), files in groups.items():
        parts = range(1, group + 1) if isinstance(group, int) else files.keys()
        absent = [part for part in parts if part not in files]
        missing += [(version, part_path(version, part, len(parts))) for part in absent]
        if not absent:
            whole.append(CheckpointFiles(version, kind, tuple(files[part] for part in sorted(files))))
    whole.sort(key=lambda c: (-c.version, _PREFERENCE.index(c.kind), c.paths))
    return LogListing(commits, tuple(whole), tuple(missing))


def segments(found: LogListing, version: int | None, table: str) -> list[LogSegment]:
    """Every way to build ``version`` (None: the newest), the cheapest first.

    Raises NotFoundError if there is no such version (any more), FileMissingError if a file of it is missing.
    """
    latest = found.latest
    if latest is None:
        raise NotFoundError(
            f"{table} is no Delta table",
            expected=f"commits in {LOG}",
            found="none",
            fix="check the path; it must be the table's own directory",
        )
    target = latest if version is None else version
    if target > latest or target < 0:
        raise NotFoundError(
            f"{table} has no version {target}",
            expected=f"{found.earliest or 0} to {latest}",
            found=str(target),
        )
    ways = [
        LogSegment(target, checkpoint, range(checkpoint.version + 1, target + 1))
        for checkpoint in found.checkpoints
        if checkpoint.version <= target
    ]
    if 0 in found.commits:
        ways.append(LogSegment(target, None, range(target + 1)))
    usable = [way for way in ways if _missing(way, found) is None]
    if usable:
        return usable
    raise _unbuildable(found, ways, target, table)


def _missing(way: LogSegment, found: LogListing) -> int | None:
    return next((version for version in way.commits if version not in found.commits), None)


def _unbuildable(
    found: LogListing, ways: list[LogSegment], target: int, table: str
) -> NotFoundError | FileMissingError:
    if ways:
        missing = _missing(ways[0], found)
        assert missing is not None
        return FileMissingError(
            f"{table}: version {target} cannot be rebuilt, since {commit_path(missing)} is missing",
            expected=f"every commit from {ways[0].commits.start} to {target}",
            fix=f"restore the file, or read version {missing - 1} or earlier",
        )
    absent = [path for version, path in found.missing_parts if version <= target]
    if absent:
        return FileMissingError(
            f"{table}: version {target} cannot be rebuilt, since {absent[0]} is missing",
            expected="every part of the checkpoint",
            fix="restore the file",
        )
    if found.earliest is not None:
        return NotFoundError(
            f"{table}: version {target} can no longer be rebuilt, since its commits were cleaned up",
            expected=f"{found.earliest} or later",
            found=str(target),
            fix=f"read version {found.earliest}, the earliest that is left",
        )
    return FileMissingError(
        f"{table}: no version can be rebuilt, since {commit_path(0)} is missing",
        expected="that file, or a whole checkpoint",
        fix="restore the missing files of the log",
    )
