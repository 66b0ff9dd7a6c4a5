"""Text that is used but never shown."""

from __future__ import annotations

MASK = "***"


class Secret:
    """A password or key. Every way of printing it gives ``***``; only ``reveal()`` gives the text.

    >>> key = Secret("hunter2")
    >>> key, f"{key}", key.reveal()
    (Secret('***'), '***', 'hunter2')
    """

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """The text itself, for the call that needs it."""
        return self._text

    def __repr__(self) -> str:
        return f"Secret('{MASK}')"

    def __str__(self) -> str:
        return MASK

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._text == self._text

    def __hash__(self) -> int:
        return hash((Secret, self._text))
