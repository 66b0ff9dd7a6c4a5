"""What an examination has found."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Level(StrEnum):
    """How bad it is."""

    FINE = "fine"
    WARNING = "warning"
    """Works, but costs time or money, or will not work later."""
    ERROR = "error"
    """Does not work, or rows are missing."""


class Repair(StrEnum):
    """What can be put right without a risk."""

    PUBLISH = "publish"
    """Write the versions that the open log lacks."""
    CHECKPOINT = "checkpoint"
    """Write a checkpoint, with which other engines need no older part of the log."""


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at."""

    check: str
    """What was looked at, in a word, like ``java`` or ``files``."""
    subject: str
    """Of what: a package, a place, a table."""
    level: Level
    what: str
    fix: str = ""
    """What would help; empty if nothing is wrong."""
    repair: Repair | None = None
    repaired: bool = False

    @property
    def is_wrong(self) -> bool:
        """Whether there is something left to do."""
        return self.level is not Level.FINE and not self.repaired


def fine(check: str, subject: str, what: str) -> Finding:
    """All is well there."""
    return Finding(check, subject, Level.FINE, what)


def warning(check: str, subject: str, what: str, fix: str, repair: Repair | None = None) -> Finding:
    """Something should be done."""
    return Finding(check, subject, Level.WARNING, what, fix, repair)


def error(check: str, subject: str, what: str, fix: str, repair: Repair | None = None) -> Finding:
    """Something must be done."""
    return Finding(check, subject, Level.ERROR, what, fix, repair)
