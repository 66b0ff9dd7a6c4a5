"""Reading a statement from left to right: the grammar of all statements is written with these few steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn, TypeVar

from sqlglot import TokenType

from lakebed.core.errors import SqlError
from lakebed.core.suggest import did_you_mean
from lakebed.sql.source import Source, Word

Item = TypeVar("Item")

_OPEN = {TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE}
_CLOSE = {TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE}
_TEXTS = (TokenType.STRING, TokenType.RAW_STRING)


@dataclass(frozen=True)
class Span:
    """A part of a statement: its place, and the words in it."""

    start: int
    end: int
    first: int
    """The number of its first word."""
    last: int
    """The number of the first word behind it."""


@dataclass(frozen=True)
class Name:
    """A name in a statement, and its place."""

    parts: tuple[str, ...]
    start: int
    end: int

    def __str__(self) -> str:
        return ".".join(self.parts)


@dataclass
class Cursor:
    """A place in a statement, and what is bound to its parameters."""

    source: Source
    parameters: Mapping[str, Any] = field(default_factory=dict)
    at: int = 0
    until: int | None = None
    """The number of the word that it stops before."""

    @property
    def _stop(self) -> int:
        return len(self.source.words) if self.until is None else self.until

    @property
    def at_end(self) -> bool:
        """Whether there is no word left."""
        return self.at >= self._stop

    @property
    def word(self) -> Word | None:
        """The next word."""
        return None if self.at_end else self.source.words[self.at]

    def sees(self, *keywords: str, skip: int = 0) -> bool:
        """Whether the next words are these; ``A|B`` means one of both."""
        at = self.at + skip
        if at + len(keywords) > self._stop:
            return False
        words = self.source.words[at : at + len(keywords)]
        return all(word.upper in keyword.split("|") for word, keyword in zip(words, keywords, strict=True))

    def take(self, *keywords: str) -> bool:
        """Go past these words, if they come next."""
        if not self.sees(*keywords):
            return False
        self.at += len(keywords)
        return True

    def need(self, *keywords: str) -> None:
        """Go past these words. Raises SqlError if others come next."""
        for keyword in keywords:
            if not self.take(keyword):
                self.fail(expected=keyword.replace("|", " or "))

    def choice(self, *keywords: str) -> str:
        """Go past one of these words, and tell which. Raises SqlError."""
        found = next((keyword for keyword in keywords if self.take(keyword)), None)
        if found is None:
            self.fail(expected=" or ".join(keywords))
        return found

    def finish(self) -> None:
        """Raise SqlError unless the statement ends here."""
        if not self.at_end:
            self.fail(expected="the end of the statement")

    def fail(self, what: str | None = None, *, expected: str | None = None, fix: str | None = None) -> NoReturn:
        """Raise SqlError that points at the next word."""
        word = self.word
        if word is None:
            end = self.source.words[self._stop - 1].end
            raise self.source.error(end, end + 1, what or "the statement ends here", expected=expected, fix=fix)
        raise self.source.error(
            word.start, word.end, what or f"unexpected {word.spelled!r}", expected=expected, fix=fix
        )

    def error(self, place: Span | Name | Word, what: str, **more: str | None) -> SqlError:
        """The error about some place of the statement."""
        return self.source.error(place.start, place.end, what, **more)

    def name(self, what: str = "a name") -> str:
        """Go past one name. Raises SqlError."""
        word = self.word
        if word is None or not _is_name(word):
            self.fail(expected=what)
        self.at += 1
        return word.text if word.kind == TokenType.IDENTIFIER else word.spelled

    def dotted(self, what: str = "the name of a table") -> Name:
        """Go past a name of parts. Raises SqlError."""
        start = self.word
        parts = [self.name(what)]
        while self.take("."):
            parts.append(self.name(what))
        assert start is not None
        return Name(tuple(parts), start.start, self.source.words[self.at - 1].end)

    def text(self, what: str = "text in quotes") -> str:
        """Go past a text, or a parameter that is one. Raises SqlError."""
        value = self.constant(what)
        if not isinstance(value, str):
            self.at -= 1
            self.fail(expected=what)
        return value

    def constant(self, what: str = "a constant") -> Any:
        """Go past a constant or a parameter, and tell its value. Raises SqlError."""
        word = self.word
        if word is None:
            self.fail(expected=what)
        if self.sees(":"):
            return self.parameter()
        sign = -1 if self.take("-") else 1
        word = self.word
        if word is not None and word.kind == TokenType.NUMBER:
            self.at += 1
            if self.sees("::"):  # how sqlglot tells 5L
                self.at += 2
            return sign * _number(word.text)
        if word is None or sign < 0:
            self.fail(expected=what)
        known = {"TRUE": True, "FALSE": False, "NULL": None}
        if word.upper in known:
            self.at += 1
            return known[word.upper]
        if word.kind not in _TEXTS:
            self.fail(expected=what)
        self.at += 1
        return word.text

    def parameter(self) -> Any:
        """Go past a parameter like ``:name``, and tell what is bound to it. Raises SqlError if nothing is."""
        self.need(":")
        before = self.source.words[self.at - 1]
        name = self.name("the name of a parameter")
        if name not in self.parameters:
            behind = self.source.words[self.at - 1]
            raise self.source.error(
                before.start,
                behind.end,
                f"no value is given for the parameter :{name}",
                expected=f"sql(text, {name}=…)",
                fix=did_you_mean(name, self.parameters),
            )
        return self.parameters[name]

    def listed(self, item: Callable[[], Item]) -> list[Item]:
        """Go past a list of things in parentheses, separated by commas. Raises SqlError."""
        self.need("(")
        if self.take(")"):
            return []
        found = [item()]
        while self.take(","):
            found.append(item())
        self.need(")")
        return found

    def expression(self, *stops: str, what: str = "an expression") -> Span:
        """Go past everything up to one of these words, of this level, or the end. Raises SqlError if that is nothing.

        A stop of several words is written with blanks.
        """
        first, depth = self.at, 0
        while not self.at_end:
            word = self.source.words[self.at]
            if depth == 0 and (word.kind in _CLOSE or any(self.sees(*stop.split()) for stop in stops)):
                break
            depth += word.kind in _OPEN or word.upper == "CASE"
            depth -= word.kind in _CLOSE or (word.upper == "END" and depth > 0)
            self.at += 1
        if self.at == first:
            self.fail(expected=what)
        return self.span(first)

    def span(self, first: int) -> Span:
        """The part from a word on up to here."""
        words = self.source.words
        return Span(words[first].start, words[self.at - 1].end, first, self.at)

    def skip_group(self) -> Span:
        """Go past a group in parentheses. Raises SqlError."""
        first = self.at
        self.need("(")
        if not self.sees(")"):
            while True:
                self.expression(",")
                if not self.take(","):
                    break
        self.need(")")
        return self.span(first)

    def slice(self, span: Span | Name) -> str:
        """The text of a part."""
        return self.source.slice(span.start, span.end)

    def rest(self) -> Span:
        """Go past all that is left. Raises SqlError if that is nothing."""
        if self.at_end:
            self.fail(expected="a query")
        first, self.at = self.at, self._stop
        return self.span(first)


def _is_name(word: Word) -> bool:
    if word.kind == TokenType.IDENTIFIER:
        return True
    return word.kind not in _TEXTS and (word.spelled.isidentifier() or _digits_first(word))


def _digits_first(word: Word) -> bool:
    """Spark takes ``2024_orders`` for a name."""
    return word.kind == TokenType.VAR and word.spelled.replace("_", "a").isalnum()


def _number(text: str) -> int | float:
    return int(text) if text.isdecimal() else float(text)
