"""What every format of change messages comes down to."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from lakebed.core.cdc.encoding import Declared

INSERT, BEFORE, AFTER, DELETE = "+I", "-U", "+U", "-D"

Message = Mapping[str, Any]
Image = Mapping[str, Any]
"""The values of a row by column, as JSON has them; floating-point numbers are exact decimals."""


NOTHING: Mapping[str, Declared] = {}
"""A message that says nothing of its columns; always the same object, by which messages are grouped."""


class MalformedError(ValueError):
    """A message that cannot be understood; the text says why."""


class Change(NamedTuple):
    """A row that one message tells of."""

    kind: str
    image: Image
    position: str
    """Where the source has it: texts compare as places in the source's log do."""
    declared: Mapping[str, Declared]
    """What the message says of the columns."""


@dataclass(frozen=True)
class Wanted:
    """Which changes of a message are told."""

    key: tuple[str, ...] = ()
    """The columns of the primary key: a row whose key changes is deleted under the old one."""
    before_images: bool = False
    """Whether an update is told by the row that it replaces, too."""
    source: str | None = None
    """The table whose changes are told, like ``shop.orders``; those of others are passed over."""
    by_time: bool = False
    """Whether the time of a change counts before its place in the log."""
    folded_key: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "folded_key", frozenset(name.casefold() for name in self.key))

    def is_other(self, *names: object) -> bool:
        """Whether the change is of another table than the wanted one, whose name is given from the outside in."""
        if self.source is None:
            return False
        known = [str(name) for name in names if name not in (None, "")]
        return self.source not in {".".join(known[at:]) for at in range(len(known))}

    def update(
        self, before: Image | None, after: Image, position: str, declared: Mapping[str, Declared]
    ) -> list[Change]:
        """The changes that an update is."""
        made = [Change(AFTER, after, position + ".1", declared)]
        if before is not None and self._moves(before, after):
            return [Change(DELETE, before, position + ".0", declared), *made]
        if before is not None and self.before_images:
            return [Change(BEFORE, before, position + ".0", declared), *made]
        return made

    def _moves(self, before: Image, after: Image) -> bool:
        """Whether the key has changed, as far as the image before has it."""
        return any(
            before[name] != after[name] for name in before.keys() & after.keys() if name.casefold() in self.folded_key
        )


class Format(Protocol):
    """A format of change messages."""

    def changes(self, message: Message, wanted: Wanted) -> Iterator[Change] | Collection[Change]:
        """The changes that a message tells of; none if it is of something else. Raises MalformedError."""


def image_in(message: Message, name: str) -> Image:
    """The image of a row that a message must have. Raises MalformedError."""
    found = message.get(name)
    if not isinstance(found, dict):
        raise MalformedError(f"{name!r} is {_described(found)} where the columns of a row were expected")
    return found


def _described(value: object) -> str:
    return "missing" if value is None else f"a {type(value).__name__}"
