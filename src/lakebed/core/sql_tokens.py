"""Tokens of Spark's SQL, where sqlglot reads them otherwise than Spark does."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import Token


def join_quotes(tokens: Sequence[Token], text: str) -> list[Token]:
    """Make one string of ``'it''s'``, as Spark 4 and standard SQL do; sqlglot reads two."""
    joined: list[Token] = []
    for token in tokens:
        last = joined[-1] if joined else None
        if last is not None and _doubled(last, token, text):
            whole = last.text + text[last.end] + token.text
            joined[-1] = Token(last.token_type, whole, line=token.line, col=token.col, start=last.start, end=token.end)
        else:
            joined.append(token)
    return joined


def _doubled(last: Token, token: Token, text: str) -> bool:
    strings = token.token_type.name == last.token_type.name == "STRING"
    return strings and token.start == last.end + 1 and text[token.start] == text[last.end]
