"""The text of a statement as words, each of which knows its place."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cached_property

from sqlglot import Token, TokenType
from sqlglot.dialects.spark import Spark
from sqlglot.errors import SqlglotError

from lakebed.core.errors import SqlError
from lakebed.core.sql_tokens import join_quotes
from lakebed.sql.place import pointed

# The parenthesis keeps a first word like SHOW or CALL from swallowing the rest of the text as one token.
_BEFORE = "("
_QUOTED = (
    TokenType.STRING,
    TokenType.IDENTIFIER,
    TokenType.RAW_STRING,
    TokenType.HEX_STRING,
    TokenType.NATIONAL_STRING,
)


@dataclass(frozen=True)
class Word:
    """A token of a statement."""

    kind: TokenType
    text: str
    """What it means: a quoted name without its quotes."""
    start: int
    end: int
    """Behind its last letter."""
    spelled: str
    """As it stands in the statement."""
    token: int
    """The number of its token; a token like PRIMARY KEY has several words."""

    @property
    def upper(self) -> str:
        """A keyword, if it is one; quoted text is none."""
        return "" if self.kind in (TokenType.STRING, TokenType.IDENTIFIER) else self.spelled.upper()


@dataclass(frozen=True)
class Piece:
    """A part of a composed text that was taken from a statement."""

    start: int
    end: int
    origin: int
    """Where it was."""


@dataclass(frozen=True)
class Source:
    """One statement, or a query that was composed of parts of one."""

    text: str
    words: tuple[Word, ...] = field(repr=False)
    tokens: tuple[Token, ...] = field(repr=False)
    """The same for sqlglot's parser; their places are in ``padded``."""
    statement: str | None = field(default=None, repr=False)
    """What the pieces are of; None for a statement itself."""
    pieces: tuple[Piece, ...] = ()

    @property
    def padded(self) -> str:
        """The text that the tokens were made of."""
        return _BEFORE + self.text

    @cached_property
    def shift(self) -> int:
        """By how much places of tokens, and of syntax trees, lie behind those of words."""
        return len(_BEFORE)

    @classmethod
    def of(cls, text: object) -> Source:
        """The statement. Raises SqlError for text that is none, or more than one."""
        if not isinstance(text, str):
            raise SqlError("a statement is text", expected="SQL", found=repr(text))
        tokens = _tokens(text)
        while tokens and tokens[-1].token_type == TokenType.SEMICOLON:
            tokens.pop()
        if not tokens:
            raise SqlError("the statement is empty", expected="SQL")
        between = next((i for i, token in enumerate(tokens) if token.token_type == TokenType.SEMICOLON), None)
        if between is not None:
            after = tokens[min(between + 1, len(tokens) - 1)]
            raise pointed(
                text,
                after.start - len(_BEFORE),
                after.end,
                "another statement begins here",
                expected="one statement at a time",
                fix="call sql() for each; lakebed.sql.source.split(text) takes a script apart",
            )
        words = (word for number, token in enumerate(tokens) for word in _words(token, number, text))
        return cls(text, tuple(words), tuple(tokens))

    @property
    def written(self) -> str:
        """What the user wrote."""
        return self.text if self.statement is None else self.statement

    def error(self, start: int, end: int, what: str, **more: str | None) -> SqlError:
        """The error about a place, which is shown where the user wrote it."""
        if self.statement is None:
            return pointed(self.text, start, end, what, **more)
        piece = next((piece for piece in self.pieces if piece.start <= start < piece.end), None)
        if piece is None:
            return SqlError(what, **more)
        shift = piece.origin - piece.start
        return pointed(self.statement, start + shift, min(end, piece.end) + shift, what, **more)

    def slice(self, start: int, end: int) -> str:
        """Some of the text."""
        return self.text[start:end]


def _words(token: Token, number: int, text: str) -> list[Word]:
    start, end = token.start - len(_BEFORE), token.end + 1 - len(_BEFORE)
    spelled = text[start:end]
    if token.token_type in _QUOTED or not spelled[:1].isalpha():
        return [Word(token.token_type, token.text, start, end, spelled, number)]
    parts = [(start + part.start(), part.group()) for part in re.finditer(r"\S+", spelled)]
    return [Word(token.token_type, part, at, at + len(part), part, number) for at, part in parts]


def _tokens(text: str) -> list[Token]:
    try:
        tokens = join_quotes(Spark().tokenize(_BEFORE + text), _BEFORE + text)
    except SqlglotError as error:
        raise SqlError(f"the statement cannot be read: {error}", fix="close every quote and comment") from error
    return _with_dollars(tokens[1:])


def _with_dollars(tokens: list[Token]) -> list[Token]:
    """``orders$files`` as one name."""
    joined: list[Token] = []
    at = 0
    while at < len(tokens):
        token = tokens[at]
        if token.text == "$" and joined and at + 1 < len(tokens):
            before, after = joined[-1], tokens[at + 1]
            touching = before.end + 1 == token.start and token.end + 1 == after.start
            if touching and before.token_type in (TokenType.VAR, TokenType.IDENTIFIER):
                name = f"{before.text}${after.text}"
                joined[-1] = Token(
                    TokenType.IDENTIFIER, name, line=after.line, col=after.col, start=before.start, end=after.end
                )
                at += 2
                continue
        joined.append(token)
        at += 1
    return joined


def split(script: str) -> list[str]:
    """The statements of a script, which semicolons separate. Raises SqlError for text that cannot be read.

    >>> split("SELECT ';'; -- nothing;\\nSHOW TABLES;")
    ["SELECT ';'", '-- nothing;\\nSHOW TABLES']
    """
    found: list[str] = []
    while script.strip():
        tokens = _tokens(script)
        ends = next((t.start - len(_BEFORE) for t in tokens if t.token_type == TokenType.SEMICOLON), len(script))
        if any(t.token_type != TokenType.SEMICOLON for t in tokens if t.start - len(_BEFORE) < ends):
            found.append(script[:ends].strip())
        script = script[ends + 1 :]
    return found
